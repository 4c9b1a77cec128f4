"""Distances in VMEM at which rows of a leading dimension lie in different banks of memory.

A transpose that puts a leading dimension on the sublanes costs nothing where a load or store takes
its rows from one distance each. Rows that are a multiple of a power of two apart share few banks of
memory, and are accessed one after the other. Buffers of such values are therefore tiled by single
rows of words, and their matrices begin an odd number of rows apart. Column tiles are outermost, so
that the rows of a matrix follow each other as in larger tiles:

    memref<16x32x256xf32, #tpu.tiled<(8,128),[8,2,1]>>
becomes
    memref<16x32x256xf32, #tpu.tiled<(1,128),[33,1,528]>>
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import func, memref, tpu, vector
from pallasite.dialects.arithmetic import is_arithmetic
from pallasite.dialects.types import bit_width, memory_space, shape_of
from pallasite.dialects.walking import of_kind
from pallasite.layouts.registers import LANES, packing
from pallasite.layouts.tiling import Tiling, word_tiles
from pallasite.passes.infer_memref_layout.single_rows import TRANSFERS, ref_type
from pallasite.passes.reference_tiles import block_bytes
from pallasite.targets import Target

_PITCHED_BITS = frozenset({8, 16, 32})
"""Types of which words of several rows are loaded and taken apart, if they are not words."""
_RESHAPES = (vector.ShapeCastOp, tpu.ReshapeOp)
_STEPS = 4
"""Operations between a transpose and the store of what is computed from it."""


def has_room(function: func.FuncOp, target: Target) -> bool:
    """Whether the buffers of `function` fill at most half of VMEM, so that distances may grow."""
    buffers = [op.memref.type for op in of_kind(function, memref.AllocaOp)]
    total = sum(block_bytes(kind, target) for kind in buffers if memory_space(kind) == "vmem")
    return 2 * total <= target.scoped_vmem_bytes


def pitched(buffer: SSAValue, plain: Tiling, target: Target) -> Tiling | None:
    """The tiling of the allocation `buffer` in which no rows of a leading dimension that is put on
    the sublanes share a bank.

    None if there is no such dimension, if `plain` is such a tiling, or if a view needs matrices
    that follow each other.
    """
    kind = ref_type(buffer)
    if kind is None or not isinstance(buffer.owner, memref.AllocaOp):
        return None
    shape, bits = kind.get_shape(), bit_width(kind.element_type)
    if len(shape) < 3 or bits not in _PITCHED_BITS or DYNAMIC_INDEX in shape:
        return None
    accesses = list(_accesses(buffer))
    if None in accesses:
        return None
    turned = {dim for op in accesses if op is not None for dim in _turned(op)}
    p = packing(bits)
    distances = [plain.strides[dim] * plain.first[0] // p for dim in turned]
    if all(target.row_accesses(rows) == 1 for rows in distances):
        return None
    strides, rows = [1], -(-shape[-2] // p)
    running = rows
    for dim in range(-3, -len(shape) - 1, -1):
        running |= dim in turned
        strides.insert(0, running)
        running *= shape[dim]
    one_column = shape[-1] <= LANES
    return Tiling(((p, LANES), *word_tiles(2, bits)), (*strides, 1 if one_column else running))


def _accesses(value: SSAValue) -> Iterator[Operation | None]:
    """The loads and stores of `value` and of its views that count dimensions from the end alike;
    None for a use that may need matrices that follow each other."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, vector.LoadOp | vector.StoreOp | tpu.VectorStoreOp):
            yield op
        elif isinstance(op, tpu.MemrefSliceOp | tpu.MemrefSqueezeOp):
            outer, inner = ref_type(value), ref_type(op.results[0])
            assert outer is not None and inner is not None
            old, new = outer.get_shape(), inner.get_shape()
            if isinstance(op, tpu.MemrefSliceOp) or old[len(old) - len(new) :] == new:
                yield from _accesses(op.results[0])
            else:
                yield None
        elif not isinstance(op, TRANSFERS):
            yield None


def _turned(op: Operation) -> Iterator[int]:
    """The leading dimensions of what `op` loads or stores that the result of a transpose or reshape
    has on the sublanes, or that its operand had there; counted from the end."""
    if isinstance(op, vector.LoadOp):
        rank = len(shape_of(op.results[0].type))
        for use in op.results[0].uses:
            user = use.operation
            if (order := _order(user)) is not None:
                yield order[-2] - rank
            elif isinstance(user, _RESHAPES):
                shapes = shape_of(user.results[0].type), shape_of(op.results[0].type)
                yield from _split(*shapes)
    elif bit_width(op.operands[0].type) == 32:
        yield from _held(op.operands[0], _STEPS)


def _held(value: SSAValue, steps: int) -> Iterator[int]:
    """The leading dimensions of `value`, computed in at most `steps` steps that move nothing, that
    lie on the sublanes; counted from the end."""
    op, shape = value.owner, shape_of(value.type)
    if not isinstance(op, Operation):
        return
    if (order := _order(op)) is not None:
        yield order.index(len(order) - 2) - len(order)
    elif isinstance(op, _RESHAPES):
        yield from _split(shape_of(op.operands[0].type), shape)
    elif isinstance(op, vector.BroadcastOp) and steps:
        yield from (dim for dim in _held(op.operands[0], steps - 1) if shape[dim] > 1)
    elif steps and is_arithmetic(op):
        for operand in op.operands:
            if shape_of(operand.type) == shape:
                yield from _held(operand, steps - 1)


def _split(rows: tuple[int, ...], parts: tuple[int, ...]) -> Iterator[int]:
    """The dimension of an array of shape `parts` that has the rows of one of shape `rows`, if each
    of these becomes several whole ones, or one between dimensions of size 1; counted from the
    end."""
    count = len(rows) - 1
    if count and rows[:-1] == parts[:count] and count < len(parts) - 1 and parts[-1] % LANES == 0:
        yield count - 1 - len(parts)


def _order(op: object) -> list[int] | None:
    """The order of dimensions that a transpose gives its operand, if it moves rows, not lanes."""
    if not isinstance(op, vector.TransposeOp | tpu.TransposeOp):
        return None
    order = [int(d) for d in op.permutation.get_values()]
    rank = len(order)
    return order if order[-1] == rank - 1 and order[-2] != rank - 2 else None
