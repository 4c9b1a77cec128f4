"""Views of memory: slices, squeezes, reshapes and the other ops from ref to ref. All are pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Attribute, Operation

from pallasite.diagnostics import ExecutionError, Note, SourceLocation
from pallasite.dialects import memref, tpu
from pallasite.dialects.locations import reaches_block, source_location
from pallasite.dialects.promises import kept_dimensions, multiples
from pallasite.dialects.types import shape_of, tiling_of
from pallasite.interpreter.effects.observed import is_counted
from pallasite.interpreter.in_order import cast_in_order
from pallasite.interpreter.machine import recast
from pallasite.interpreter.machine.boxes import blocks_of
from pallasite.interpreter.machine.codec import is_semaphore, memory_bits
from pallasite.interpreter.machine.faults import block_outside, negative
from pallasite.interpreter.machine.rounding import check_rounded
from pallasite.interpreter.machine.views import Part, Ref
from pallasite.interpreter.meanings import Facts, meaning
from pallasite.layouts.tiling import Tiling, contiguous_strides, infer_tiling


@meaning(tpu.MemrefSliceOp)
def memref_slice(op: tpu.MemrefSliceOp, facts: Facts) -> Callable[..., Ref]:
    """The box at some element offsets; dynamic sizes fill the unknown dimensions in order."""
    at = source_location(op)
    rank = len(op.base_idx)
    shape = shape_of(op.result.type)
    unknown = [d for d, n in enumerate(shape) if n == DYNAMIC_INDEX]
    counted = is_counted(op.result)
    rounded = multiples(op)

    def dynamic(ref: Ref, *operands: int) -> Ref:
        sizes = list(shape)
        for d, size in zip(unknown, operands[rank:], strict=True):
            sizes[d] = size
        if rounded and not counted:
            check_rounded(ref, operands[:rank], sizes, rounded, at)
        return ref.slice(operands[:rank], sizes, at, counted)

    found = dynamic if unknown else Part(tuple(shape), tuple(range(rank)), at).of
    return _of_a_block(found, shape, _line_of_map(op)) if reaches_block(op) else found


def key_of_view(op: Operation, names: Sequence[str], bind: Callable[[Any], str]) -> str | None:
    """Under which key a ref remembers the view that `op` takes of it, as an expression.

    `names` are the operands of `op`, and `bind` names a constant; None if that is not known.
    """
    if isinstance(op, tpu.MemrefSqueezeOp):
        return bind(kept_dimensions(op))
    if isinstance(op, tpu.MemrefSliceOp):
        shape = shape_of(op.result.type)
        if DYNAMIC_INDEX not in shape:
            starts = "".join(f"{name}, " for name in names[1 : len(op.base_idx) + 1])
            return f"(({starts}), {bind(shape)})"
    if isinstance(op, tpu.ReinterpretCastOp) and len(op.operands) == 1:
        return bind(_key_of_cast(op))
    return None


def _key_of_cast(op: tpu.ReinterpretCastOp) -> str:
    """What a ref remembers its view of another type by: a text, whose hash Python keeps."""
    return str(op.result.type)


def squeezed(op: Operation) -> tuple[tpu.MemrefSqueezeOp, Part] | None:
    """What squeezes a slice and alone uses it, right behind it, and what the two make."""
    if not isinstance(op, tpu.MemrefSliceOp) or reaches_block(op):
        return None
    after, shape = op.next_op, shape_of(op.result.type)
    if not isinstance(after, tpu.MemrefSqueezeOp) or DYNAMIC_INDEX in shape:
        return None
    if [use.operation for use in op.result.uses] != [after]:
        return None
    return after, Part(tuple(shape), kept_dimensions(after), source_location(op))


def _line_of_map(op: tpu.MemrefSliceOp) -> SourceLocation | None:
    """The line of the index map that gave where `op` begins, if the map computes anything."""
    here = source_location(op)
    for index in op.base_idx:
        sources = [index, *(index.owner.operands if isinstance(index.owner, Operation) else ())]
        for source in sources:
            place = source_location(source.owner) if isinstance(source.owner, Operation) else None
            if place is not None and place != here:
                return place
    return None


def _of_a_block(
    slice: Callable[..., Ref], shape: Sequence[int], line: SourceLocation | None
) -> Callable[..., Ref]:
    """`slice` of an array at a block of the grid of `shape`, whose index the index map at `line`
    gave."""

    def fn(ref: Ref, *operands: int) -> Ref:
        try:
            return slice(ref, *operands)
        except ExecutionError as error:
            if error.code == "broken-promise":
                error.notes.append(Note("the index map of the operand asks for this slice", line))
                raise
            # A block cannot be guarded or made smaller, as other accesses can.
            if error.code == "out-of-bounds":
                error.code, error.message = "block-out-of-bounds", _outside(ref, shape, operands)
            error.notes = [
                *negative(operands[: len(shape)]),
                Note("the index map of the operand asks for this block", line),
                *block_outside(operands[: len(shape)], shape, ref.shape),
            ]
            raise

    return fn


def _outside(ref: Ref, shape: Sequence[int], operands: Sequence[int]) -> str:
    sizes = iter(operands[len(shape) :])
    block = [next(sizes) if n == DYNAMIC_INDEX else n for n in shape]
    where = f"{[int(i) for i in operands[: len(shape)]]} of {ref.buffer.name or 'an operand'}"
    whole = "buffer" if ref.buffer.memory.kind == "vmem" else "array"
    return (
        f"the block of shape {block} at {where} lies outside the {whole} of shape {list(ref.shape)}"
    )


@meaning(tpu.MemrefSqueezeOp)
def memref_squeeze(op: tpu.MemrefSqueezeOp, facts: Facts) -> Callable[[Ref], Ref]:
    """Without dimensions of size 1, which are told apart by the types."""
    kept = kept_dimensions(op)
    return lambda ref: ref.keep(kept)


@meaning(tpu.MemrefReshapeOp)
def memref_reshape(op: tpu.MemrefReshapeOp, facts: Facts) -> Callable[[Ref], Ref]:
    """The same elements in another shape."""
    if op.result.first_use is None:
        # The compiler drops what nobody looks at, also where it would not be a view.
        return lambda ref: ref
    at = source_location(op)
    shape = shape_of(op.result.type)
    return lambda ref: recast.reshape(ref, shape, at)


@meaning(tpu.MemrefBitcastOp)
def memref_bitcast(op: tpu.MemrefBitcastOp, facts: Facts) -> Callable[[Ref], Ref]:
    """The same bytes as another element type."""
    at = source_location(op)
    result = op.result.type
    shape, element = result.get_shape(), result.element_type
    known = DYNAMIC_INDEX not in shape
    new = memory_bits(element)

    def fn(ref: Ref) -> Ref:
        if known:
            return recast.bitcast(ref, shape, element, at)
        # Dynamic sizes follow the source's; only the second minor one changes with the width.
        sizes = list(ref.shape)
        sizes[-2], rest = divmod(sizes[-2] * ref.codec.bits, new)
        if rest:
            raise ExecutionError(
                "no-such-view",
                f"{ref.shape[-2]} rows of {ref.element} are no whole number of rows of {element}",
                at,
                [Note(f"take a multiple of {new // ref.codec.bits} rows")],
            )
        return recast.bitcast(ref, sizes, element, at)

    return fn


@meaning(tpu.ReinterpretCastOp)
def reinterpret_cast(op: tpu.ReinterpretCastOp, facts: Facts) -> Callable[..., Ref]:
    """The same memory under any other type."""
    at = source_location(op)
    result: Attribute = op.result.type
    shape, element = result.get_shape(), result.element_type
    unknown = [d for d, n in enumerate(shape) if n == DYNAMIC_INDEX]
    offset_given = op.dynamic_offset is not None
    declared = tiling_of(result)
    key = _key_of_cast(op) if len(op.operands) == 1 else None
    ordered = cast_in_order(op)

    def fn(ref: Ref, *operands: int) -> Ref:
        offset = operands[0] if offset_given else 0
        sizes = list(shape)
        for d, size in zip(unknown, operands[1 if offset_given else 0 :], strict=True):
            sizes[d] = size
        if declared is None and not offset and tuple(sizes) == ref.shape:
            if element == ref.element:
                return ref
        tiling = declared or inferred(sizes)
        if ordered is not None and ref.digits == ordered.given:
            # The array is not laid out as its type says (`in_order`).
            view = Ref(ref.buffer, element, shape, ordered.seen, blocks=blocks_of(tiling))
        else:
            view = recast.reinterpret(ref, sizes, element, tiling, offset, at)
        return view if key is None else ref.remember(key, view)

    def inferred(sizes: list[int]) -> Tiling:
        if is_semaphore(element):
            return Tiling((), contiguous_strides(sizes, ()))
        return infer_tiling(sizes, memory_bits(element))

    return fn


@meaning(tpu.EraseMemrefLayoutOp, memref.CastOp, memref.MemorySpaceCastOp)
def same(op: Any, facts: Facts) -> Callable[[Ref], Ref]:
    """The ref itself, which knows its layout and sizes whatever a type says."""
    return lambda ref: ref


@meaning(memref.DimOp)
def dim(op: memref.DimOp, facts: Facts) -> Callable[[Ref, int], int]:
    """The size of one dimension."""
    at = source_location(op)

    def fn(ref: Ref, index: int) -> int:
        if not 0 <= index < len(ref.shape):
            raise ExecutionError(
                "out-of-bounds", f"dimension {index} of a memref of rank {len(ref.shape)}", at
            )
        return ref.shape[index]

    return fn


@meaning(memref.RankOp)
def rank(op: memref.RankOp, facts: Facts) -> Callable[[Ref], int]:
    """The number of dimensions."""
    return lambda ref: len(ref.shape)
