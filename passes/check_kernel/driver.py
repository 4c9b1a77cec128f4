"""The pass `check-kernel`: applies all rules to a kernel and raises for the first that it breaks.

Each rule is a fact about the hardware or the TPU compiler that does not depend on how we lower:
element types that registers cannot hold, memory that vectors cannot reach, accesses whose alignment
must be provable, memories that are too small (spec/vreg_lowering.md sections 4.2, 5.6 and 8). The
numbers come from the target's record (`targets/`). Rules of one operation are in `_RULES` (no pass
can lower it) and `_REFERENCE` (only the TPU compiler refuses it); `check_kernel` calls the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, cast

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, VectorType, i32, i64
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from pallasite.diagnostics import WITHOUT_X64, Note, VerifyError
from pallasite.dialects import scf, tpu, vector
from pallasite.dialects.func import FuncOp, ReturnOp
from pallasite.dialects.kernel import (
    Kernel,
    describe_kernel,
    form_of,
    functions_of,
    kernel_function,
)
from pallasite.dialects.locations import refusal, source_location
from pallasite.dialects.types import element_type
from pallasite.dialects.walking import operations
from pallasite.passes.check_kernel.absent import ABSENT_RULES
from pallasite.passes.check_kernel.accesses import ACCESS_REFERENCE_RULES, ACCESS_RULES
from pallasite.passes.check_kernel.carried_layouts import carried_layouts
from pallasite.passes.check_kernel.carried_offsets import carried_offsets
from pallasite.passes.check_kernel.carried_replication import check_carried_replication
from pallasite.passes.check_kernel.casts import CAST_RULES, ROUNDING_RULES
from pallasite.passes.check_kernel.columns import check_columns
from pallasite.passes.check_kernel.control import (
    CONTROL_REFERENCE_RULES,
    CONTROL_RULES,
    grid_dimensions,
)
from pallasite.passes.check_kernel.elements import check_element, check_held, check_size
from pallasite.passes.check_kernel.extrema import EXTREMUM_RULES
from pallasite.passes.check_kernel.grid import check_core_axes
from pallasite.passes.check_kernel.loops import loop_to_the_only_step, signed_counter
from pallasite.passes.check_kernel.masks import MASK_RULES
from pallasite.passes.check_kernel.memory import check_memory
from pallasite.passes.check_kernel.products import PRODUCT_REFERENCE_RULES, PRODUCT_RULES
from pallasite.passes.check_kernel.refs import REF_REFERENCE_RULES, REF_RULES, check_scratch
from pallasite.passes.check_kernel.renamed_registers import RepeatedByBranches, renamed_by_branches
from pallasite.passes.check_kernel.replicated_masks import replicated_masks
from pallasite.passes.check_kernel.replicated_reductions import replicated_reductions
from pallasite.passes.check_kernel.replication import Replications
from pallasite.passes.check_kernel.reshapes import reshape_rule
from pallasite.passes.check_kernel.rotations import rotation_along_lanes, strided_rotation
from pallasite.passes.check_kernel.rules import RuleTable
from pallasite.passes.check_kernel.scalars import SCALAR_RULES
from pallasite.passes.check_kernel.settings import check_settings
from pallasite.passes.check_kernel.slices import slice_offset_rule, slice_rule
from pallasite.passes.check_kernel.strides import stride_rule
from pallasite.passes.check_kernel.subcores import check_subcores
from pallasite.passes.check_kernel.transfers import TRANSFER_REFERENCE_RULES, TRANSFER_RULES
from pallasite.passes.check_kernel.units import UNIT_RULES
from pallasite.passes.check_kernel.vectors import COMPUTE_RULES, REFERENCE_RULES
from pallasite.passes.check_kernel.windows import check_operand_floats, check_windows
from pallasite.targets import DEFAULT_TARGET, Target, get_target


def check_kernel(module: ModuleOp, target: Target, *, allow_beyond_reference: bool = False) -> None:
    """Raises `Unsupported`, at the source line, for the first operation that breaks a rule.

    `allow_beyond_reference` accepts what only the TPU compiler refuses. In the forms `tiles` and
    `vreg` only memory, index maps and element types are checked.
    """
    if not allow_beyond_reference:
        check_settings(module)
    check_subcores(module, target, allow_beyond_reference=allow_beyond_reference)
    func = kernel_function(module)
    if func is None:
        return
    kernel = describe_kernel(func)
    check_memory(module, kernel, target, allow_beyond_reference=allow_beyond_reference)
    _check_index_maps(module, kernel)
    check_scratch(kernel)
    # Later forms hold register operations, which their own verifiers check.
    logical = form_of(module) in ("mosaic", "dma")
    if not logical or allow_beyond_reference:
        _check_operations(func, [*_own_rules(kernel)] if logical else [], target)
        return
    check_core_axes(kernel, target)
    check_windows(module, kernel)
    known = Replications(func, target)
    check_carried_replication(func, known)
    _check_operations(func, [*_own_rules(kernel), *_reference_rules(func, known, target)], target)
    check_operand_floats(module, func)
    # Last: a rule about the operation itself gives a better message than one about the layout of
    # its operand.
    check_columns(func, target, known)


def _own_rules(kernel: Kernel) -> list[RuleTable]:
    """The rules of the operations of `kernel` that no pass can make legal."""
    return [_RULES, {tpu.IterationBoundOp: (grid_dimensions(kernel),)}]


def _reference_rules(func: FuncOp, known: Replications, target: Target) -> list[RuleTable]:
    """The rules of the reference for the operations of `func`, whose replicated vectors are
    `known`."""
    branches = (partial(renamed_by_branches, known), RepeatedByBranches(func).check)
    return [
        _REFERENCE,
        replicated_reductions(known),
        replicated_masks(known, target),
        {scf.IfOp: branches},
    ]


def _check_operations(func: FuncOp, rules: Sequence[RuleTable], target: Target) -> None:
    """Applies `rules` to the operations of `func` in order, and refuses elements and vectors that
    registers cannot hold."""
    for op in operations(func):
        for result in op.results:
            if isinstance(result.type, VectorType):
                check_element(op, result.type.element_type)
                check_size(op, cast("VectorType[Attribute]", result.type))
        for table in rules:
            for rule in table.get(type(op), ()):
                rule(op, target)
    # After the operations: their messages about an element type name the operation.
    _check_operands(func)


def _check_operands(func: FuncOp) -> None:
    """Refuses refs of elements of over 32 bits among the arguments.

    libtpu: "not implemented: rewriting computation to not contain X{64|128} element types".
    """
    for argument in func.body.block.args:
        element = element_type(argument.type)
        if isinstance(argument.type, MemRefType):
            check_held(next((use.operation for use in argument.uses), func), element)


def _returned(op: ReturnOp, target: Target) -> None:
    """libtpu: "Vector-typed return values are not supported"; scalars it ignores."""
    if any(isinstance(value.type, VectorType) for value in op.operands):
        raise refusal(
            op, "returned-vector", "a kernel does not return vectors", "its results are refs",
            "store the value to a ref",
        )  # fmt: skip


def _check_index_maps(module: ModuleOp, kernel: Kernel) -> None:
    """Raises a `VerifyError` for a missing index map, or one of another type than
    (grid indices, prefetched refs) -> (one i32 per dimension of the block)."""
    expected = [a.type for a in (*kernel.indices, *kernel.prefetch)]
    maps = functions_of(module)
    for window in kernel.windows:
        if window.transform is None:
            continue
        found = maps.get(window.transform)
        if found is None:
            raise VerifyError(
                "index-map", f"index map @{window.transform} does not exist", kernel.location
            )
        indices = [i32] * len(window.bounds or ())
        given, returned = found.function_type.inputs.data, found.function_type.outputs.data
        if list(given) != expected or list(returned) != indices:
            wide = f"return jnp.int32(0), not 0, {WITHOUT_X64}"
            raise VerifyError(
                "index-map",
                f"index map @{window.transform} must take ({', '.join(map(str, expected))}) and "
                f"return ({', '.join(map(str, indices))}), got {found.function_type}",
                source_location(found) or kernel.location,
                [Note(wide)] if i64 in returned else [],
            )


def _merged(*tables: RuleTable) -> RuleTable:
    """The rules of all tables, for each operation in the order of the tables."""
    merged: RuleTable = {}
    for table in tables:
        for kind, rules in table.items():
            merged[kind] = (*merged.get(kind, ()), *rules)
    return merged


_RULES = _merged(
    COMPUTE_RULES,
    PRODUCT_RULES,
    UNIT_RULES,
    ACCESS_RULES,
    TRANSFER_RULES,
    ROUNDING_RULES,
    REF_RULES,
    CONTROL_RULES,
    {
        ReturnOp: (_returned,),
        tpu.DynamicRotateOp: (rotation_along_lanes,),
        tpu.MemrefSliceOp: (slice_offset_rule,),
    },
)
_REFERENCE = _merged(
    REFERENCE_RULES,
    EXTREMUM_RULES,
    ACCESS_REFERENCE_RULES,
    MASK_RULES,
    ABSENT_RULES,
    SCALAR_RULES,
    CAST_RULES,
    PRODUCT_REFERENCE_RULES,
    TRANSFER_REFERENCE_RULES,
    REF_REFERENCE_RULES,
    CONTROL_REFERENCE_RULES,
    {
        tpu.DynamicRotateOp: (strided_rotation,),
        scf.ForOp: (carried_layouts, carried_offsets, signed_counter, loop_to_the_only_step),
        scf.IfOp: (carried_layouts, carried_offsets),
        vector.ExtractStridedSliceOp: (stride_rule,),
        vector.ShapeCastOp: (reshape_rule,),
        tpu.MemrefSliceOp: (slice_rule,),
    },
)


@dataclass(frozen=True)
class CheckKernelPass(ModulePass):
    """`check-kernel{target=v5e}` refuses what the target cannot do; it changes nothing."""

    name: ClassVar[str] = "check-kernel"

    target: str = DEFAULT_TARGET
    allow_beyond_reference: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = get_target(self.target)
        check_kernel(op, target, allow_beyond_reference=self.allow_beyond_reference)
