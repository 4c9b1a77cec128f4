"""Refuses kernels that no step can make legal for the target, before any step touches them.

Each rule is a fact about the hardware or the TPU compiler that does not depend on how we lower:
element types without registers, memory that vectors cannot reach, accesses whose alignment must be
provable, memories that are too small (spec/vreg_lowering.md sections 4.2, 5.6 and 8). The numbers
come from the target's record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, cast

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, VectorType, i32, i64
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from pallasite.diagnostics import Note, Unsupported, VerifyError
from pallasite.dialects import scf, tpu, vector
from pallasite.dialects.func import FuncOp, ReturnOp
from pallasite.dialects.kernel import describe_kernel, form_of, kernel_function
from pallasite.dialects.locations import source_location
from pallasite.dialects.types import bit_width, memory_space, tiling_of
from pallasite.layouts.registers import LANES, packing
from pallasite.passes.check_absent import ABSENT_RULES
from pallasite.passes.check_carried import carried_flat
from pallasite.passes.check_carried_splats import check_carried_splats
from pallasite.passes.check_casts import CAST_RULES, ROUNDING_RULES
from pallasite.passes.check_columns import check_columns
from pallasite.passes.check_index_reductions import index_reduction
from pallasite.passes.check_loops import signed_counter
from pallasite.passes.check_masks import MASK_RULES
from pallasite.passes.check_memory import check_memory
from pallasite.passes.check_products import PRODUCT_REFERENCE_RULES, PRODUCT_RULES
from pallasite.passes.check_reshapes import reshape_rule
from pallasite.passes.check_rotations import strided_rotation
from pallasite.passes.check_scalars import SCALAR_RULES
from pallasite.passes.check_slices import (
    load_rule,
    part_of_tile_rule,
    slice_rule,
    stride_rule,
)
from pallasite.passes.check_stores import no_addition, rank_rule
from pallasite.passes.check_transfers import TRANSFER_REFERENCE_RULES, TRANSFER_RULES
from pallasite.passes.check_units import UNIT_RULES
from pallasite.passes.check_vectors import (
    COMPUTE_RULES,
    REFERENCE_RULES,
    Rule,
    accessed_shape,
    check_element,
    check_size,
    refusal,
)
from pallasite.passes.check_windows import check_windows
from pallasite.passes.divisibility import constant_of, remainder
from pallasite.passes.reference_tiles import has_large_halves, tile_rows
from pallasite.targets import TARGETS, Target

_MEMREF = MemRefType[Attribute]
_Rules = dict[type[Operation], tuple[Rule, ...]]


def check_kernel(module: ModuleOp, target: Target, *, allow_beyond_reference: bool = False) -> None:
    """Raises `Unsupported`, at the source line, for the first operation that breaks a rule.

    `allow_beyond_reference` lets pass what the TPU compiler refuses although it could be done.
    """
    func = kernel_function(module)
    if func is None:
        return
    check_memory(module, target, allow_beyond_reference=allow_beyond_reference)
    check_index_maps(module)
    # Later forms hold register operations, which their own verifiers check.
    if form_of(module) not in ("mosaic", "dma"):
        rules: list[_Rules] = []
    elif allow_beyond_reference:
        rules = [_RULES]
    else:
        rules = [_RULES, _REFERENCE]
        check_windows(module, describe_kernel(func))
        check_columns(func, target)
        check_carried_splats(func)
    for op in func.walk():
        for result in op.results:
            if isinstance(result.type, VectorType):
                check_element(op, result.type.element_type)
                check_size(op, cast("VectorType[Attribute]", result.type))
        for table in rules:
            for rule in table.get(type(op), ()):
                rule(op, target)


# Memory


def _vector_access(op: Operation, target: Target) -> None:
    """Vectors move between registers and VMEM only."""
    base = _base_of(op)
    space = memory_space(base.type)
    if space not in (None, "vmem"):
        verb = "stored to" if op.name.endswith("store") else "loaded from"
        raise refusal(
            op, "memory-space", f"vectors cannot be {verb} {space}, only VMEM",
            "access SMEM one scalar at a time" if space == "smem" else "copy it to VMEM with a DMA",
        )  # fmt: skip


def _returned(op: ReturnOp, target: Target) -> None:
    """libtpu: "Vector-typed return values are not supported"; scalars it ignores."""
    if any(isinstance(value.type, VectorType) for value in op.operands):
        raise refusal(
            op, "returned-vector", "a kernel does not return vectors", "its results are refs",
            "store the value to a ref",
        )  # fmt: skip


def _strided(op: tpu.StridedLoadOp | tpu.StridedStoreOp, target: Target) -> None:
    """Strided accesses step over the rows of an array of one column of tiles, never over lanes."""
    strides = [int(s) for s in op.strides.get_values()]
    shape = cast(_MEMREF, _base_of(op).type).get_shape()
    if not strides or all(s == 1 for s in strides):
        return
    columns = max(shape[-1:])
    if len(shape) < 2 or strides[-1] != 1 or columns > LANES:
        raise refusal(
            op, "strided-access",
            f"strides {strides} of an array whose rows have {columns} elements are not "
            "supported",
            f"a strided access needs rows of at most {LANES} elements and a stride of 1 along them",
            "load the whole block and slice its value, or reshape the ref to 128 columns",
        )  # fmt: skip
    if constant_of(op.indices[-1]) != 0:
        raise refusal(
            op, "strided-access", "a strided access that does not begin at the first element of "
            "the rows is not supported", "whole registers are loaded and stored at a distance",
            "begin at element 0 and slice the value, or select what is stored",
        )  # fmt: skip
    _packed_strides(op, shape)


def _packed_strides(op: tpu.StridedLoadOp | tpu.StridedStoreOp, shape: Sequence[int]) -> None:
    """Rows of packed types are only loaded at a distance, by whole words, from known places."""
    loading = isinstance(op, tpu.StridedLoadOp)
    value = cast("VectorType[Attribute]", (op.results[0] if loading else op.operands[0]).type)
    p = packing(bit_width(value))
    known = all(constant_of(index) is not None for index in op.indices)
    if p == 1 or (loading and known and value.get_shape()[-2] % p == 0 and shape[-2] % p == 0):
        return
    raise refusal(
        op, "strided-access",
        f"a strided {'load' if loading else 'store'} of {value} is not supported",
        f"{p} rows share the words of a register: packed types are only loaded at a distance, at "
        f"constant indices, {p} rows at a time",
        "access the whole block and slice or select its value, or use a 32-bit type",
    )  # fmt: skip


def _reshape_view(op: tpu.MemrefReshapeOp, target: Target) -> None:
    """A ref is reshaped where it lies: rows of one column of tiles, or whole tiles of rows.

    A block of 32-bit words in one column of tiles may be tiled by single rows; one that is seen as
    another type keeps the tiles of its own.
    """
    kinds, block = (op.input.type, op.result.type), op.input
    while isinstance(block.owner, tpu.MemrefBitcastOp):
        block = block.owner.input
    if not isinstance(block, BlockArgument) or tiling_of(kinds[0]) is not None:
        return
    old, new = (kind.get_shape() for kind in kinds)
    if min(len(old), len(new)) < 2 or -1 in (*old, *new):
        return
    bits, rows = bit_width(kinds[0]), block.type.get_shape()[-2]
    own = tile_rows(rows, bit_width(block.type), large_halves=has_large_halves(block, target))
    by_rows = bit_width(block.type) == 32 and old[-1] <= LANES
    tile = packing(bits) if by_rows else own * bit_width(block.type) // bits
    if by_rows and rows % own and prod(old[:-2]) > 1:
        reason = f"rows of 32-bit words are padded to tiles of {own} rows"
    elif bits == 32 and tile == 1:
        if old[-1] == new[-1] or (old[-1] % LANES == 0 and new[-1] % LANES == 0):
            return
        reason = "rows of 32-bit words are padded to 128 columns"
    else:
        same_rows = old[-2] == new[-2] or (old[-2] % tile == 0 and new[-2] % tile == 0)
        if old[-1] == new[-1] and same_rows:
            return
        reason = f"its tiles have {tile} rows and {LANES} columns, and none may be cut"
    raise refusal(
        op, "view-layout", f"a ref of {kinds[0].element_type} of shape {list(old)} cannot be "
        f"reshaped to {list(new)}", f"memory is not moved: {reason}",
        "load the whole ref and reshape its value",
    )  # fmt: skip


def _byte_masks(op: Operation, target: Target) -> None:
    """A store of part of the rows of a one-dimensional register of bytes masks within words."""
    type = cast("VectorType[Attribute]", op.operands[0].type)
    bits, shape = bit_width(type), type.get_shape()
    if len(shape) != 1 or bits > 8 or 32 // bits <= target.max_mask_subelements:
        return
    whole = LANES * packing(bits)
    (start,) = cast(Any, op).indices
    if shape[0] % whole or remainder(start, whole) != 0:
        raise refusal(
            op, "byte-mask", f"{target.name} cannot store part of the words that hold {whole} "
            f"elements of {type.element_type} of a one-dimensional array",
            f"that masks single elements of words, which {target.name} does not have of so few "
            "bits",
            f"store multiples of {whole} elements at multiples of {whole}, or use a "
            "two-dimensional array",
        )  # fmt: skip


def _alignment(op: Operation, target: Target) -> None:
    """A dynamic index along lanes or rows needs a proof of where in a tile it starts."""
    for dim, index, divisor in _dynamic_indices(op, large_halves=False):
        if remainder(index, divisor) is None:
            raise _unproven(op, dim, divisor)


def _whole_alignment(op: Operation, target: Target) -> None:
    """The compiler wants it to start a tile: a multiple and something more is no proof.

    Rows of half words lie in larger tiles in some buffers.
    """
    base = _base_of(op)
    large_halves = bit_width(base.type) == 16 and has_large_halves(base, target)
    for dim, index, divisor in _dynamic_indices(op, large_halves=large_halves):
        if constant_of(index) is None and remainder(index, divisor) != 0:
            raise _unproven(op, dim, divisor)


def _dynamic_indices(op: Operation, *, large_halves: bool) -> Iterator[tuple[int, SSAValue, int]]:
    """The dimensions in which `op` must start a tile, with its index and the tile's extent."""
    memref = cast(_MEMREF, _base_of(op).type)
    indices = cast(Any, op).indices
    shape = memref.get_shape()
    if not shape or len(indices) != len(shape) or -1 in shape:
        return
    loaded = accessed_shape(op)
    for dim, index in enumerate(indices):
        divisor = _divisor(memref, dim, loaded, large_halves)
        if shape[dim] > 1 and divisor > 1:
            yield dim, index, divisor


def _unproven(op: Operation, dim: int, divisor: int) -> Unsupported:
    return refusal(
        op, "unproven-alignment",
        f"cannot prove that the index in dimension {dim} is a multiple of {divisor}",
        f"write pl.multiple_of(index, {divisor}) if it is one, or load an aligned block "
        "and rotate",
    )  # fmt: skip


def _short_rows(op: Operation, target: Target) -> None:
    """A row at a place known at run time is reached in a wide array if it fills several tiles.

    Asked of libtpu 0.0.51: one row of more than 128 columns may start anywhere, one that fits a
    single register must start a tile, as several rows must.
    """
    memref = cast(_MEMREF, _base_of(op).type)
    shape, index = memref.get_shape(), cast(Any, op).indices
    accessed = accessed_shape(op)
    if len(shape) < 2 or len(index) != len(shape) or bit_width(memref) != 32:
        return
    rows = tile_rows(shape[-2], 32)
    if shape[-1] <= LANES or accessed[-1] > LANES:
        return
    if shape[-2] > 1 and accessed[-2] == 1 and remainder(index[-2], rows) is None:
        raise refusal(
            op, "unproven-alignment",
            f"{accessed[-1]} columns of a row that is known at run time cannot be accessed in an "
            f"array of {shape[-1]} columns",
            f"the compiler finds single rows in arrays of one column of tiles, or more than {LANES}"
            " columns of a row",
            "access the whole row, ref[pl.ds(i, 1), :], and slice or extend its value",
        )  # fmt: skip


def _divisor(memref: _MEMREF, dim: int, loaded: Sequence[int], large_halves: bool) -> int:
    """What a dynamic index of dimension `dim` must be a multiple of.

    Lanes always start a tile. Rows of 32-bit types may start anywhere if one row, or an array of
    one column of tiles, is accessed.
    """
    shape, bits = memref.get_shape(), bit_width(memref)
    back = len(shape) - dim
    if back > 2:
        return 1
    if back == 1:
        return LANES if len(shape) > 1 else LANES * packing(bits)
    if bits == 32 and (shape[-1] <= LANES or loaded[dim] == 1):
        return 1
    tiling = tiling_of(memref)
    if tiling is not None:
        return tiling.tile_of(dim)
    return tile_rows(shape[dim], bits, large_halves=large_halves)


def _base_of(op: Operation) -> Any:
    return op.operands[1] if op.name.endswith("store") else op.operands[0]


def check_index_maps(module: ModuleOp) -> None:
    """Every index map takes the grid point and the prefetched refs, and returns i32 indices."""
    func = kernel_function(module)
    if func is None:
        return
    kernel = describe_kernel(func)
    expected = [a.type for a in (*kernel.indices, *kernel.prefetch)]
    maps = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}
    for window in kernel.windows:
        if window.transform is None:
            continue
        found = maps.get(window.transform)
        if found is None:
            raise VerifyError(
                "index-map", f"index map @{window.transform} does not exist", source_location(func)
            )
        indices = [i32] * len(window.bounds or ())
        given, returned = found.function_type.inputs.data, found.function_type.outputs.data
        if list(given) != expected or list(returned) != indices:
            wide = "jax_enable_x64 makes Python's integers 64 bits wide: return jnp.int32(0), not 0"
            raise VerifyError(
                "index-map",
                f"index map @{window.transform} must take ({', '.join(map(str, expected))}) and "
                f"return ({', '.join(map(str, indices))}), got {found.function_type}",
                source_location(found),
                [Note(wide)] if i64 in returned else [],
            )


_ACCESSES: dict[type[Operation], tuple[Rule, ...]] = dict.fromkeys(
    (
        tpu.StridedLoadOp,
        tpu.StridedStoreOp,
        tpu.VectorLoadOp,
        tpu.VectorStoreOp,
        vector.LoadOp,
        vector.StoreOp,
    ),
    (_vector_access, _alignment),
)
_ACCESSES[tpu.VectorStoreOp] = (no_addition, *_ACCESSES[tpu.VectorStoreOp])


def _merged(*tables: _Rules) -> _Rules:
    """The rules of all tables, for each operation in the order of the tables."""
    merged: _Rules = {}
    for table in tables:
        for kind, rules in table.items():
            merged[kind] = (*merged.get(kind, ()), *rules)
    return merged


_RULES = _merged(
    COMPUTE_RULES, PRODUCT_RULES, UNIT_RULES, _ACCESSES, TRANSFER_RULES, ROUNDING_RULES,
    {ReturnOp: (_returned,)},
)
_REFERENCE = _merged(
    REFERENCE_RULES,
    MASK_RULES,
    ABSENT_RULES,
    SCALAR_RULES,
    CAST_RULES,
    PRODUCT_REFERENCE_RULES,
    TRANSFER_REFERENCE_RULES,
    {
        tpu.DynamicRotateOp: (strided_rotation,),
        tpu.ReduceIndexOp: (index_reduction,),
        scf.ForOp: (carried_flat, signed_counter),
        scf.IfOp: (carried_flat,),
        vector.ExtractStridedSliceOp: (stride_rule,),
        vector.ShapeCastOp: (reshape_rule,),
        tpu.StridedLoadOp: (_strided,),
        tpu.StridedStoreOp: (_strided,),
        tpu.MemrefReshapeOp: (_reshape_view,),
        tpu.MemrefSliceOp: (slice_rule,),
        tpu.VectorLoadOp: (_short_rows, load_rule, part_of_tile_rule, _whole_alignment),
        vector.LoadOp: (_short_rows, load_rule, part_of_tile_rule, _whole_alignment),
        tpu.VectorStoreOp: (
            rank_rule,
            _byte_masks,
            _short_rows,
            part_of_tile_rule,
            _whole_alignment,
        ),
        vector.StoreOp: (_byte_masks, _short_rows, part_of_tile_rule, _whole_alignment),
    },
)


@dataclass(frozen=True)
class CheckKernelPass(ModulePass):
    """`check-kernel{target=v5e}` refuses what the target cannot do; it changes nothing."""

    name: ClassVar[str] = "check-kernel"

    target: str = "v5e"
    allow_beyond_reference: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_kernel(op, TARGETS[self.target], allow_beyond_reference=self.allow_beyond_reference)
