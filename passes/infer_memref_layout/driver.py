"""`infer-memref-layout`: gives every memref the tiled layout it has on the chip.

    %b = memref.alloca() : memref<2x32x256xbf16, #tpu.memory_space<vmem>>
becomes
    %b = memref.alloca() : memref<2x32x256xbf16, #tpu.tiled<(16,128)(2,1),[4,2,1]>, ...>

The pass needs the `dma` form. Arrays in HBM and SMEM have the layouts that the TPU compiler gives a
kernel's operands (spec/vreg_lowering.md section 3). VMEM buffers are the kernel's own, and DMAs
change the tiling on the way, so a tile there is exactly one register, or has as many rows as the
array if these are fewer. A buffer of 32-bit elements that is accessed at rows which are not
multiples of a register's rows is tiled by single rows, where any row can begin a register. A buffer
of packed elements is tiled by rows of words if such a row is not a constant. Shapes stay as they
are; padding is implied.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp, i64
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects import func, memref, tpu, vector
from pallasite.dialects.kernel import EXTENT
from pallasite.dialects.locations import refusal
from pallasite.dialects.subcores import lowered_functions
from pallasite.dialects.tpu import TiledLayoutAttr
from pallasite.dialects.tpu.views import check_tiled_reshape, is_contiguous
from pallasite.dialects.types import bit_width, memory_space, memref_of, tiling_of
from pallasite.dialects.walking import of_kind, operations_in
from pallasite.layouts.registers import LANES, packing
from pallasite.layouts.tiling import (
    Tiling,
    contiguous_strides,
    infer_tiling,
    packed_tiling,
    refolded,
    squeezed,
)
from pallasite.passes.divisibility import remainder
from pallasite.passes.infer_memref_layout.known_sizes import know_sizes
from pallasite.passes.infer_memref_layout.parts_of_tiles import (
    rows_of_column,
    slice_part_of_tiles,
    take_from_whole,
)
from pallasite.passes.infer_memref_layout.pitches import has_room, pitched
from pallasite.passes.infer_memref_layout.single_rows import (
    LAYOUT_VIEWS,
    needs_single_rows,
    ref_type,
    refolded_tiles,
    register_rows,
    small_tile,
)
from pallasite.passes.infer_memref_layout.tiles_of_bytes import for_parts
from pallasite.passes.infer_memref_layout.vectors_of_parts import look_through_parts
from pallasite.passes.laid_out import laid_out, see_operand
from pallasite.passes.reference_tiles import smem_tiling
from pallasite.passes.scalars_of_views import look_through_views
from pallasite.targets import DEFAULT_TARGET, Target, get_target

_SEMAPHORES = (tpu.SemaphoreType, tpu.DMASemaphoreType)
_CASTS = (memref.CastOp, memref.MemorySpaceCastOp, tpu.AssumeLayoutOp)
"""Views that leave every element where it is."""
_ACCESSES = (vector.LoadOp, vector.StoreOp, tpu.VectorLoadOp, tpu.VectorStoreOp)


def flat_tiling(shape: tuple[int, ...], bits: int) -> Tiling:
    """The tiling of a one-dimensional array outside SMEM: rows of 128 words.

    The TPU compiler's own tiles are several such rows one after the other, so the physical order is
    the same. But with these tiles, slices of any number of rows are whole tiles.
    """
    return packed_tiling(shape, (LANES * packing(bits),), bits)


def vmem_tiling(shape: tuple[int, ...], bits: int, single_rows: bool) -> Tiling:
    """The tiling of a VMEM buffer of `bits` wide elements: one register per tile, fewer rows if the
    array has fewer.

    With `single_rows`, a tile is one row of words.
    """
    if len(shape) < 2:
        return flat_tiling(shape, bits) if shape else Tiling((), ())
    p = packing(bits)
    rows = p if single_rows else register_rows(shape[-2], p)
    return packed_tiling(shape, (rows, LANES), bits)


def _pad(buffer: SSAValue) -> None:
    """Pads a flat buffer to whole tiles, from which registers are loaded; other users see the old
    size."""
    kind = cast(MemRefType[Attribute], buffer.type)
    tiling, shape = tiling_of(kind), kind.get_shape()
    if tiling is None or len(shape) != 1 or tiling.padded(shape) == tuple(shape):
        return
    padded = memref_of(
        kind.element_type, tiling.padded(shape), kind.memory_space, TiledLayoutAttr.of(tiling)
    )
    others = [use for use in buffer.uses if not isinstance(use.operation, _ACCESSES)]
    whole = Rewriter.replace_value_with_new_type(buffer, padded)
    owner = cast(Operation, whole.owner)
    owner.attributes[EXTENT] = IntegerAttr(shape[0], i64)
    if not others:
        return
    view = tpu.ReinterpretCastOp(operands=[whole, [], []], result_types=[kind])
    view.location = owner.location
    Rewriter.insert_op(view, InsertPoint.after(owner))
    for use in others:
        use.operation.operands[use.index] = view.result


@lru_cache(maxsize=4096)
def with_tiling(kind: MemRefType[Attribute], tiling: Tiling) -> MemRefType[Attribute]:
    """`kind` laid out by `tiling`."""
    return memref_of(
        kind.element_type, kind.get_shape(), kind.memory_space, TiledLayoutAttr.of(tiling)
    )


def _in_vmem(kind: MemRefType[Attribute]) -> bool:
    """Whether a ref is in VMEM, the space of refs without one."""
    return memory_space(kind) in ("vmem", None)


def infer_layouts(function: func.FuncOp, target: Target) -> None:
    """Gives every ref of one function a layout: roots first, then views, in program order."""
    _forget_casts(function)
    look_through_views(function)
    look_through_parts(function)
    know_sizes(function)
    _forget_erased(function)
    apart = target if has_room(function, target) else None
    for argument in function.body.block.args:
        _lay_out_root(argument)
    for op in operations_in(function.body):
        if type(op) in LAYOUT_VIEWS:
            _lay_out_view(op)
        else:
            for result in op.results:
                _lay_out_root(result, apart)
    function.update_function_type()


def _forget_casts(function: func.FuncOp) -> None:
    """Removes casts of a ref to its own type."""
    for op in of_kind(function, *_CASTS):
        before, after = op.operands[0], op.results[0]
        if ref_type(before) is not None and before.type == after.type:
            Rewriter.replace_op(op, (), (before,))


def _forget_erased(function: func.FuncOp) -> None:
    """Removes the layout of buffers whose users all erase it (`tpu.erase_memref_layout`), so that a
    better one can be chosen."""
    for op in of_kind(function, memref.AllocaOp):
        users = {use.operation for use in op.memref.uses}
        if users and all(isinstance(user, tpu.EraseMemrefLayoutOp) for user in users):
            for user in users:
                Rewriter.replace_op(user, (), (op.memref,))
            kind = op.memref.type
            plain = memref_of(kind.element_type, kind.get_shape(), kind.memory_space)
            Rewriter.replace_value_with_new_type(op.memref, plain)


def _lay_out_root(value: SSAValue, apart: Target | None = None) -> None:
    """Gives `value`, if it is a ref without a layout and no view, the layout of its memory space.

    Rows may be put into other banks of the memory of `apart`."""
    kind = ref_type(value)
    if kind is None or tiling_of(kind) is not None:
        return
    shape = tuple(kind.get_shape())
    if isinstance(kind.element_type, _SEMAPHORES):
        tiling = Tiling((), contiguous_strides(shape, ()))
    elif _in_vmem(kind):
        bits = bit_width(kind.element_type)
        tiling = vmem_tiling(shape, bits, needs_single_rows(value, bits))
        if (rows := small_tile(value, bits)) is not None:
            tiling = packed_tiling(shape, (rows, LANES), bits)
        if apart is not None:
            tiling = pitched(value, tiling, apart) or tiling
    elif len(shape) == 1 and memory_space(kind) != "smem":
        tiling = flat_tiling(shape, bit_width(kind.element_type))
    else:
        bits = bit_width(kind.element_type)
        if memory_space(kind) == "smem":
            tiling = smem_tiling(kind, argument=isinstance(value, BlockArgument))
        else:
            tiling = infer_tiling(shape, bits)
        tiling = for_parts(value, tiling)
        if _is_own_column(value, kind, tiling):
            tiling = vmem_tiling(shape, bits, single_rows=True)
    made = Rewriter.replace_value_with_new_type(value, with_tiling(kind, tiling))
    if isinstance(made.owner, memref.AllocaOp) and memory_space(kind) == "vmem":
        _pad(made)


def _lay_out_view(op: Operation) -> None:
    """Gives the view `op` the layout that follows from its source's; raises `Unsupported` if there
    is none."""
    if isinstance(op, tpu.MemrefSliceOp):
        take_from_whole(op)
    source, result = ref_type(op.operands[0]), ref_type(op.results[0])
    tiling = tiling_of(op.operands[0].type)
    if source is None or result is None or tiling is None:
        return
    if isinstance(op, tpu.EraseMemrefLayoutOp):
        op.results[0].replace_all_uses_with(op.operands[0])
        op.detach()
        op.erase()
        return
    if tiling_of(result) is not None:
        return
    if isinstance(op, tpu.MemrefSliceOp) and _cut_tiles(op, source, tiling):
        return
    made = _viewed(op, source, result, tiling)
    if made is None and isinstance(op, tpu.MemrefReshapeOp):
        if (rows := rows_of_column(source, tiling)) is not None:
            see_operand(op, with_tiling(source, rows))
            made = _viewed(op, source, result, rows)
        elif is_contiguous(tiling, source.get_shape()) and not _in_vmem(source):
            made = refolded(tiling, source.get_shape(), result.get_shape())
    if made is None:
        raise refusal(
            op,
            "view-layout",
            f"{op.name} from {source} to {result} does not keep whole tiles together",
            "memory is not moved: what lies in one tile must stay in one",
            "load the whole array and reshape its value",
        )
    Rewriter.replace_value_with_new_type(op.results[0], with_tiling(result, made))


def _cut_tiles(op: tpu.MemrefSliceOp, source: MemRefType[Attribute], tiling: Tiling) -> bool:
    """Lays `op` out if it takes rows, or other parts, of tiles; whether it does."""
    if _some_rows(op, source, tiling):
        _slice_rows(op, tiling)
        return True
    return slice_part_of_tiles(op, tiling)


def _is_own_column(value: SSAValue, kind: MemRefType[Attribute], tiling: Tiling) -> bool:
    """Whether `value` is an allocation of words in one column of tiles, which a reshape regroups
    across tiles.

    Tiles of single rows, which follow each other without padding, then serve better.
    """
    shape = kind.get_shape()
    return (
        isinstance(value.owner, memref.AllocaOp)
        and len(shape) > 1
        and shape[-1] <= LANES
        and bit_width(kind) == 32
        and refolded_tiles(value, tiling.tile_of(len(shape) - 2))
    )


def _some_rows(op: tpu.MemrefSliceOp, source: MemRefType[Attribute], tiling: Tiling) -> bool:
    """Whether `op` slices the first rows of a tile in VMEM, but not all that the array has of it.

    Slices must otherwise consist of whole tiles.
    """
    result = cast(MemRefType[Attribute], op.results[0].type)
    shape = result.get_shape()
    if not _in_vmem(source) or len(tiling.first) != 2 or len(shape) < 2:
        return False
    rows, held = tiling.tile_of(len(shape) - 2), source.get_shape()[-2]
    return remainder(op.base_idx[-2], rows) == 0 and 0 < shape[-2] < min(rows, held)


def _slice_rows(op: tpu.MemrefSliceOp, tiling: Tiling) -> None:
    """Slices whole tiles, and views them as smaller tiles: the first rows of a tile lie as in a
    smaller one."""
    kind = cast(MemRefType[Attribute], op.results[0].type)
    shape, rows, p = kind.get_shape(), tiling.first[0], packing(bit_width(kind.element_type))
    small = p
    while small < shape[-2]:
        small *= 2
    source = op.mem_ref.type
    *outer, held, columns = source.get_shape()
    if held % rows:
        see_operand(op, laid_out(source, (*outer, held + -held % rows, columns), tiling))
    whole = memref_of(
        kind.element_type, (*shape[:-2], rows, shape[-1]), kind.memory_space,
        TiledLayoutAttr.of(tiling),
    )  # fmt: skip
    strides = tuple(stride * rows // small for stride in tiling.strides)
    part = with_tiling(kind, Tiling(((small, LANES), *tiling.tiles[1:]), strides))
    uses = list(op.results[0].uses)
    sliced = Rewriter.replace_value_with_new_type(op.results[0], whole)
    view = tpu.ReinterpretCastOp(operands=[sliced, [], list(op.dynamic_sizes)], result_types=[part])
    view.location = op.location
    Rewriter.insert_op(view, InsertPoint.after(op))
    for use in uses:
        use.operation.operands[use.index] = view.result


def _viewed(
    op: Operation, source: MemRefType[Attribute], result: MemRefType[Attribute], tiling: Tiling
) -> Tiling | None:
    """The tiling of the view `op` of a memref tiled by `tiling`; None if there is none."""
    if isinstance(op, (tpu.MemrefSliceOp, *_CASTS)):
        return tiling
    if isinstance(op, tpu.MemrefSqueezeOp):
        return squeezed(tiling, source.get_shape(), result.get_shape())
    if isinstance(op, tpu.MemrefBitcastOp):
        old, new = bit_width(source.element_type), bit_width(result.element_type)
        rows, columns = tiling.first
        p = packing(new)
        tiles: tuple[tuple[int, ...], ...] = ((rows * old // new, columns),)
        return Tiling(tiles + (((p, 1),) if p > 1 else ()), tiling.strides)
    return _reshaped(tiling, tuple(source.get_shape()), tuple(result.get_shape()))


def _reshaped(tiling: Tiling, old: tuple[int, ...], new: tuple[int, ...]) -> Tiling | None:
    """The tiling of a reshape from `old` to `new`; None if elements would have to leave their
    tiles."""
    if len(tiling.first) == 2 and len(new) < 2:
        return None
    made = Tiling(tiling.tiles, contiguous_strides(new, tiling.first))
    try:
        check_tiled_reshape(tiling, made, old, new)
    except VerifyException:
        return None
    return made


@dataclass(frozen=True)
class InferMemrefLayoutPass(ModulePass):
    """Gives memrefs their tiled layouts."""

    name = "infer-memref-layout"

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = get_target(self.target)
        for function in lowered_functions(op):
            if function.body.blocks:
                infer_layouts(function, target)
