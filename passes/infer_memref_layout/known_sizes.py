"""Slices whose dynamic sizes are constants become slices of static sizes.

    %r = tpu.memref_slice %x[%i, %j] <%c8> : memref<64x128xf32> -> memref<?x128xf32>
becomes
    %r = tpu.memref_slice %x[%i, %j] : memref<64x128xf32> -> memref<8x128xf32>

The TPU compiler would do it by a `memref.cast`, through which it cannot follow memory spaces (asked
of libtpu 0.0.51). Both ends of a transfer must have one type, so either both change or neither
does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefLayoutAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from pallasite.dialects import tpu
from pallasite.dialects.func import FuncOp
from pallasite.dialects.tpu.views import squeezed_dimensions
from pallasite.dialects.types import AnyMemRef, memref_of, shape_of
from pallasite.dialects.viewed import viewed
from pallasite.dialects.walking import of_kind
from pallasite.passes.divisibility import constant_of

_WAITS = tpu.WaitDma2Op | tpu.WaitDmaOp
Shape = tuple[int, ...]


def know_sizes(function: FuncOp) -> None:
    """Gives slices, and squeezes of them, those sizes that are constants."""
    slices = of_kind(function, tpu.MemrefSliceOp)
    known: dict[SSAValue, Shape] = {}
    for op in slices:
        sizes = _known_shape(op)
        found = dict(_views(op.result, sizes)) if sizes is not None else {}
        if None not in found.values():
            known |= {view: shape for view, shape in found.items() if shape is not None}
    _keep_equal_ends(function, known)
    for op in slices:
        if (sizes := known.get(op.result)) is not None:
            _slice_known(op, sizes)
    for view, shape in known.items():
        if not isinstance(view.owner, tpu.MemrefSliceOp):
            Rewriter.replace_value_with_new_type(view, _typed(view, shape))


def _known_shape(op: tpu.MemrefSliceOp) -> Shape | None:
    """The shape of the result with constants for dynamic sizes; None if none is constant."""
    shape, amounts = list(shape_of(op.result.type)), iter(op.dynamic_sizes)
    for dim, size in enumerate(shape):
        if size == DYNAMIC_INDEX:
            shape[dim] = _constant_size(next(amounts))
    return tuple(shape) if tuple(shape) != shape_of(op.result.type) else None


def _constant_size(amount: SSAValue) -> int:
    """The constant that `amount` is, else `DYNAMIC_INDEX`.

    A negative number is no size. A number that breaks a promise (`tpu.assume_multiple`) is left
    alone, as transfers round it up.
    """
    number = constant_of(amount)
    if number is None or number < 0:
        return DYNAMIC_INDEX
    owner = amount.owner
    promised = owner.multiple.value.data if isinstance(owner, tpu.AssumeMultipleOp) else 1
    return number if number % promised == 0 else DYNAMIC_INDEX


def _views(view: SSAValue, shape: Shape) -> Iterator[tuple[SSAValue, Shape | None]]:
    """`view` and the views of it with their new shapes; None for one that cannot have another
    shape."""
    yield view, shape
    for use in view.uses:
        user = use.operation
        if isinstance(user, tpu.MemrefSqueezeOp):
            dropped = squeezed_dimensions(shape_of(view.type), shape_of(user.result.type)) or ()
            kept = tuple(n for dim, n in enumerate(shape) if dim not in dropped)
            yield from _views(user.result, kept)
        elif not isinstance(user, tpu.EnqueueDmaOp | _WAITS):
            yield view, None


def _keep_equal_ends(function: FuncOp, known: dict[SSAValue, Shape]) -> None:
    """Removes from `known` the views with which a transfer would have ends of different shapes."""
    transfers = of_kind(function, tpu.EnqueueDmaOp)
    changed = True
    while changed:
        changed = False
        for op in transfers:
            ends = op.source, op.target
            if len({known.get(end, shape_of(end.type)) for end in ends}) > 1:
                forgotten = {root for end in ends if (root := _root(end)) is not None}
                lost = [view for view in known if _root(view) in forgotten]
                changed |= bool(lost)
                for view in lost:
                    del known[view]


def _root(view: SSAValue) -> Operation | None:
    """The slice that `view` is, or is a squeeze of."""
    owner = viewed(view, tpu.MemrefSqueezeOp).owner
    return owner if isinstance(owner, tpu.MemrefSliceOp) else None


def _typed(view: SSAValue, shape: Shape) -> AnyMemRef:
    """The type of `view` with another shape."""
    kind = cast(AnyMemRef, view.type)
    layout = kind.layout if isinstance(kind.layout, MemRefLayoutAttr) else None
    return memref_of(kind.element_type, shape, kind.memory_space, layout)


def _slice_known(op: tpu.MemrefSliceOp, shape: Shape) -> None:
    """Replaces `op` by a slice of the known `shape`, whose remaining unknown sizes stay
    operands."""
    unknown = [dim for dim, size in enumerate(shape_of(op.result.type)) if size == DYNAMIC_INDEX]
    amounts = [
        amount
        for dim, amount in zip(unknown, op.dynamic_sizes, strict=True)
        if shape[dim] == DYNAMIC_INDEX
    ]
    made = tpu.MemrefSliceOp(
        operands=[op.mem_ref, list(op.base_idx), amounts],
        result_types=[_typed(op.result, shape)],
    )
    made.location = op.location
    Rewriter.replace_op(op, made)
