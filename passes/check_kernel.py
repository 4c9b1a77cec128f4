"""Refuses kernels that no step can make legal for the target, before any step touches them.

Each rule is a fact about the hardware or the TPU compiler that does not depend on how we lower:
element types without registers, memory that vectors cannot reach, accesses whose alignment must be
provable, memories that are too small (spec/vreg_lowering.md sections 4.2, 5.6 and 8). The numbers
come from the target's record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from xdsl.context import Context
from xdsl.dialects.builtin import Float16Type, IntegerType, MemRefType, ModuleOp, VectorType
from xdsl.ir import Attribute, BlockArgument, Operation
from xdsl.passes import ModulePass

from pallasite.diagnostics import Note, Unsupported
from pallasite.dialects import arith, tpu, vector
from pallasite.dialects.kernel import Window, describe_kernel, form_of, kernel_function
from pallasite.dialects.locations import source_location
from pallasite.dialects.types import bit_width, memory_space, tiling_of
from pallasite.layouts.tiling import Tiling, infer_tiling
from pallasite.passes.divisibility import remainder
from pallasite.targets import TARGETS, Target

LANES = 128
_MEMREF = MemRefType[Attribute]
Rule = Callable[[Any, Target], None]


def check_kernel(module: ModuleOp, target: Target) -> None:
    """Raises `Unsupported`, at the source line, for the first operation that breaks a rule."""
    func = kernel_function(module)
    if func is None:
        return
    check_memory(module, target)
    rules = _MOSAIC_RULES if form_of(module) in ("mosaic", "dma") else _RULES
    for op in func.walk():
        for result in op.results:
            if isinstance(result.type, VectorType):
                _element(op, result.type.element_type)
        for rule in rules.get(type(op), ()):
            rule(op, target)


def _refuse(op: Operation, code: str, message: str, *notes: str) -> Unsupported:
    return Unsupported(code, message, source_location(op), [Note(note) for note in notes])


def _element(op: Operation, element: Attribute) -> None:
    """Registers hold 32-bit words, and narrower types that divide them; no f16, nothing wider."""
    if isinstance(element, Float16Type):
        raise _refuse(
            op, "element-type", f"vectors of f16 are not supported, got them in {op.name}",
            "the vector unit has no f16; convert to bfloat16 or float32 outside the kernel",
        )  # fmt: skip
    wide = isinstance(element, IntegerType) and element.width.data > 32
    if wide or element.name in ("f64", "complex"):
        raise _refuse(
            op, "element-type", f"vectors of {element} are not supported, got them in {op.name}",
            "a register holds 32-bit words; use a 32-bit type",
        )  # fmt: skip


# Arithmetic


def _addition(op: arith.AddiOp, target: Target) -> None:
    type = op.result.type
    if isinstance(type, VectorType) and bit_width(type) not in (16, 32):
        element = cast("VectorType[Attribute]", type).element_type
        raise _refuse(
            op, "narrow-integer", f"only vectors of i16 and i32 can be added, got {element}",
            "cast the operands to int32 first",
        )  # fmt: skip


def _matmul(op: tpu.MatmulOp, target: Target) -> None:
    """Pairs the MXU takes, and those that widening makes so (spec section 4.3, steps 5 and 6)."""
    left, right = (cast("VectorType[Attribute]", v.type).element_type for v in op.operands[:2])
    pair = (str(left), str(right))
    if pair in target.matmul_pairs:
        return
    integers = [isinstance(element, IntegerType) for element in (left, right)]
    if all(integers):
        widened = left == right and target.generation >= 5
    else:
        narrow_floats = [
            bit_width(element) < 16
            for element, integer in zip((left, right), integers, strict=True)
            if not integer
        ]
        widened = target.generation >= 5 or not any(narrow_floats)
    if widened:
        return
    raise _refuse(
        op, "matmul-type", f"{target.name} has no matmul of {left} by {right}",
        "cast the operands to bfloat16 or float32",
    )  # fmt: skip


def _gather(op: tpu.DynamicGatherOp, target: Target) -> None:
    rank = len(cast(Any, op.source.type).get_shape())
    if (rank - 2) in op.dimensions.get_values() and not target.sublane_gather:
        raise _refuse(
            op, "sublane-gather", f"{target.name} has no gather along sublanes",
            "gather along the last dimension, or index a ref row by row",
        )  # fmt: skip


def _reshape(op: Operation, target: Target) -> None:
    """Spec section 5.6: rows may fold, whole lanes may fold, ones come and go; nothing else."""
    source = cast("VectorType[Attribute]", op.operands[0].type).get_shape()
    result = cast("VectorType[Attribute]", op.results[0].type).get_shape()
    if not source or not result or source[-1] == result[-1]:
        return
    if [n for n in source if n != 1] == [n for n in result if n != 1]:
        return
    if result[-1] == 1 or (source[-1] % LANES == 0 and result[-1] % LANES == 0):
        return
    raise _refuse(
        op, "reshape", f"cannot reshape {list(source)} to {list(result)} in registers",
        "the last dimension may change only between multiples of 128",
    )  # fmt: skip


# Memory


def _vector_access(op: Operation, target: Target) -> None:
    """Vectors move between registers and VMEM only."""
    base = _base_of(op)
    space = memory_space(base.type)
    if space not in (None, "vmem"):
        verb = "stored to" if op.name.endswith("store") else "loaded from"
        raise _refuse(
            op, "memory-space", f"vectors cannot be {verb} {space}, only VMEM",
            "access SMEM one scalar at a time" if space == "smem" else "copy it to VMEM with a DMA",
        )  # fmt: skip


def _alignment(op: Operation, target: Target) -> None:
    """A dynamic index needs a proof: whole lanes always, whole packed tiles for narrow types."""
    base = _base_of(op)
    memref = cast(_MEMREF, base.type)
    indices = cast(Any, op).indices
    shape, bits = memref.get_shape(), bit_width(memref)
    if not shape or len(indices) != len(shape) or -1 in shape:
        return
    tiling = tiling_of(memref) or infer_tiling(shape, bits, target.generation, argument=True)
    for dim, index in enumerate(indices):
        back = len(shape) - dim
        if back == 1:
            divisor = LANES
        elif back == 2 and bits < 32:
            divisor = tiling.tile_of(dim)
        else:
            continue
        if shape[dim] > 1 and _unproven(index, divisor):
            raise _refuse(
                op, "unproven-alignment",
                f"cannot prove that the index in dimension {dim} is a multiple of {divisor}",
                f"write pl.multiple_of(index, {divisor}) if it is one, or load an aligned block "
                "and rotate",
            )  # fmt: skip


def _unproven(index: Any, divisor: int) -> bool:
    # A remainder known at compile time is as good as zero: it becomes a static offset.
    return remainder(index, divisor) is None


def _base_of(op: Operation) -> Any:
    return op.operands[1] if op.name.endswith("store") else op.operands[0]


def block_bytes(type: Attribute, target: Target) -> int:
    """Bytes that a buffer of memref type `type` occupies, padding included."""
    memref = cast(_MEMREF, type)
    shape, bits = memref.get_shape(), bit_width(memref)
    tiling: Tiling = tiling_of(memref) or infer_tiling(
        shape, bits, target.generation, argument=False
    )
    return -(-tiling.elements(shape) * bits // 8)


def check_memory(module: ModuleOp, target: Target) -> None:
    """The blocks (times their buffers) and scratch of the kernel fit into VMEM and SMEM."""
    func = kernel_function(module)
    if func is None:
        return
    kernel = describe_kernel(func)
    sizes: dict[str, int] = {"vmem": 0, "smem": 0}
    largest: dict[str, tuple[int, BlockArgument]] = {}

    def add(argument: BlockArgument, copies: int) -> None:
        space = memory_space(argument.type) or "vmem"
        if space in sizes and isinstance(argument.type, MemRefType):
            size = block_bytes(argument.type, target) * copies
            sizes[space] += size
            if size > largest.get(space, (0, argument))[0]:
                largest[space] = (size, argument)

    for argument, window in zip(kernel.operands, kernel.windows, strict=True):
        add(argument, _copies(window))
    for argument in (*kernel.prefetch, *kernel.scratch):
        add(argument, 1)
    for space, capacity in (("vmem", target.vmem_bytes), ("smem", target.smem_bytes)):
        if sizes[space] > capacity:
            size, argument = largest[space]
            raise _refuse(
                func, f"{space}-exhausted",
                f"the kernel's blocks and scratch take {sizes[space]} bytes of {space.upper()}, "
                f"{target.name} has {capacity}",
                f"the largest is {argument.type} with {size} bytes; use smaller blocks",
            )  # fmt: skip


def _copies(window: Window) -> int:
    return (window.buffers or 2) if window.windowed else 1


_RULES: dict[type[Operation], tuple[Rule, ...]] = {
    arith.AddiOp: (_addition,),
    tpu.MatmulOp: (_matmul,),
}
_MOSAIC_RULES: dict[type[Operation], tuple[Rule, ...]] = {
    **_RULES,
    tpu.DynamicGatherOp: (_gather,),
    tpu.StridedLoadOp: (_vector_access, _alignment),
    tpu.StridedStoreOp: (_vector_access, _alignment),
    tpu.VectorLoadOp: (_vector_access, _alignment),
    tpu.VectorStoreOp: (_vector_access, _alignment),
    vector.LoadOp: (_vector_access, _alignment),
    vector.ShapeCastOp: (_reshape,),
    vector.StoreOp: (_vector_access, _alignment),
}


@dataclass(frozen=True)
class CheckKernelPass(ModulePass):
    """`check-kernel{target=v5e}` refuses what the target cannot do; it changes nothing."""

    name: ClassVar[str] = "check-kernel"

    target: str = "v5e"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_kernel(op, TARGETS[self.target])
