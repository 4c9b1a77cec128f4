"""Which loads an observer is told of, and which views name no memory.

Every store of the Pallas language is a swap, so Mosaic modules are full of loads of the destination
that nobody uses (spec/tpu_dialect.md section 5); and where hardware cannot mask a store finely
enough, a lowering loads the old contents only to blend them with the new. Neither means that the
kernel reads that memory. What is stored elsewhere in the same memory was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from pallasite.dialects import arith, pallas, scf, tpu, vector
from pallasite.dialects.kernel import DYNAMIC
from pallasite.dialects.pallas.base import integers_of
from pallasite.dialects.types import bit_width, shape_of
from pallasite.interpreter.effects.distances import distance

_BLENDS = ("arith.select", "arith.andi", "arith.ori", "tpu.bitcast_vreg", "tpu.bitcast")
_AND, _XOR = "arith.andi", "arith.xori"
_STORES = (
    "pallas.store",
    "tpu.shuffled_store",
    "tpu.store",
    "tpu.vector_store",
    "vector.store",
)
_PLACED = (
    tpu.LoadOp, tpu.StoreOp, tpu.StridedLoadOp, tpu.VectorLoadOp, tpu.VectorStoreOp,
    vector.LoadOp, vector.StoreOp,
)  # fmt: skip
_WAITS = ("tpu.wait_dma", "tpu.wait_dma2")
_PARTS = (
    "memref.cast",
    "pallas.at",
    "tpu.erase_memref_layout",
    "tpu.memref_slice",
    "tpu.memref_squeeze",
)
"""Views of fewer elements or none less, from which a wait takes nothing but their number."""
_VIEWS = ("tpu.memref_bitcast", "tpu.reinterpret_cast")
"""The same memory under another type."""
_DEPTH = 8
"""How many ops a value is followed through before it counts as used."""


def is_read(op: Operation, base: SSAValue) -> bool:
    """Whether the result of the load `op` of `base` means anything to the kernel."""
    return any(_matters(result, _Load(op, base), _DEPTH) for result in op.results)


def part_read(loaded: SSAValue, box: tuple[int, ...]) -> tuple[int, tuple[int, ...]] | None:
    """Of a vector of one dimension that is loaded from `box`, the first lane that the kernel takes
    out and the box of those that it does; None if that is all, or a vector of another rank."""
    shape = shape_of(loaded.type)
    if len(shape) != 1 or box[-1:] != shape:
        return None
    first, end = _lanes_read(loaded)
    return None if (first, end) == (0, *shape) else (first, (*box[:-1], end - first))


def _lanes_read(loaded: SSAValue) -> tuple[int, int]:
    """First lane and end of those that the kernel takes out of a vector of one dimension.

    Where a vector subcore wants a scalar of VMEM, it loads a register and takes one lane of it.
    """
    shape = shape_of(loaded.type)
    low, high = shape[-1], 0
    for use in loaded.uses:
        user = use.operation
        if isinstance(user, vector.ShapeCastOp) and shape_of(user.result.type) == shape:
            first, end = _lanes_read(user.result)
        elif isinstance(user, vector.ExtractStridedSliceOp):
            first = user.offsets.data[0].value.data
            end = first + user.sizes.data[0].value.data
        elif isinstance(user, vector.ExtractOp) and not user.dynamic_position:
            first = int(user.static_position.get_values()[0])
            end = first + 1
        else:
            return 0, shape[-1]
        low, high = min(low, first), max(high, end)
    return min(low, high), high


def is_repeated(op: Operation) -> bool:
    """Whether `op` is done until a condition holds: a loop that asks until something has come."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, scf.WhileOp):
        parent = parent.parent_op()
    return parent is not None


def is_counted(view: SSAValue) -> bool:
    """Whether `view` serves waits only, which count its bytes and do not look at its memory.

    Kernels wait for many transfers at once through a view as large as all of them, which may be
    larger than the buffer that it is taken of.
    """
    users = [use.operation for use in view.uses]
    return bool(users) and all(
        user.name in _WAITS or (user.name in _PARTS and is_counted(user.results[0]))
        for user in users
    )


class _Load(NamedTuple):
    """A load whose contents may be blended into a store to the same place."""

    op: Operation
    base: SSAValue


def _matters(value: SSAValue, load: _Load | None, depth: int) -> bool:
    """Whether `value` ends up anywhere; blends into a store to where `load` reads do not count."""
    return any(_use_matters(use.operation, value, load, depth) for use in value.uses)


def _use_matters(user: Operation, value: SSAValue, load: _Load | None, depth: int) -> bool:
    if user.name in _STORES:
        if value is not user.operands[0] or load is None:
            return True
        memory = _memory(load.base)
        base = next((to for to in user.operands[1:] if _memory(to) is memory), None)
        return base is None or (_are_alike(base, load.base) and _is_elsewhere(user, load.op))
    if not depth or user.regions or not user.results or not is_side_effect_free(user):
        return True
    if _begins_mix(user, value):
        return False  # `_ends_mix` is another use of the value
    kept = load if user.name in _BLENDS or _ends_mix(user, value) else None
    return any(_matters(result, kept, depth - 1) for result in user.results)


def _is_elsewhere(store: Operation, load: Operation) -> bool:
    """Whether `store` does not certainly write elements of the same array where `load` has them
    from: what blends loads and stores at one place, and the text says so."""
    places = list(zip(_indices(load), _indices(store), strict=False))
    apart = [distance(*pair) for pair in places]
    if isinstance(store, tpu.StoreOp) and isinstance(load, tpu.LoadOp) and len(apart) > 1:
        # One after the other, sublanes may be of the same rows though the first ones are not.
        row = apart.pop(-2)
        stride, other = (int(op.sublane_stride.value.data) for op in (load, store))
        sublanes = [s for s, stored in enumerate(store.sublane_mask.get_values()) if stored]
        if row is None or any(row + s * (other - stride) for s in sublanes):
            return True
    return any(step != 0 for step in apart) or _steps(load) != _steps(store)


def _are_alike(one: SSAValue, other: SSAValue) -> bool:
    """Whether two refs have the same elements at the same indices, of whatever types."""
    types = [cast("MemRefType[Attribute]", ref.type) for ref in (one, other)]
    return types[0] == types[1] or (
        types[0].get_shape() == types[1].get_shape()
        and types[0].layout == types[1].layout
        and bit_width(types[0]) == bit_width(types[1])
    )


def _steps(op: Operation) -> dict[int, int]:
    """How far apart elements of a box are, by dimension, where they do not follow each other."""
    if isinstance(op, pallas.LoadOp | pallas.StoreOp):
        sizes, strides = integers_of(op.sizes), integers_of(op.strides)
    elif isinstance(op, tpu.StridedLoadOp):
        sizes, strides = shape_of(op.result.type), op.strides.get_values()
    else:
        return {}
    # A box of the Pallas language that names no strides has elements that follow each other.
    steps = enumerate(zip(sizes, strides, strict=False))
    return {d: int(step) for d, (size, step) in steps if size > 1 and step != 1}


def _indices(op: Operation) -> list[SSAValue | int]:
    """Where an access begins, by dimension: numbers that the text knows, and others; none of an op
    that does not say it so."""
    if isinstance(op, pallas.LoadOp | pallas.StoreOp):
        given = iter(op.dynamic_starts)
        starts = [next(given) if n == DYNAMIC else n for n in integers_of(op.starts)]
    elif isinstance(op, _PLACED):
        starts = list(op.indices)
    else:
        return []
    known = [start if isinstance(start, int) else arith.known_integer(start) for start in starts]
    return [s if k is None else k for s, k in zip(starts, known, strict=True)]


def _ends_mix(op: Operation, kept: SSAValue) -> bool:
    """Whether `op` is the last operation of `kept ^ ((new ^ kept) & chosen)`, which takes the bits
    of `new` that are `chosen`, and all others of `kept`."""
    return (
        op.name == _XOR
        and kept in op.operands
        and any(
            kept in _operands(part, _XOR)
            for changed in op.operands
            for part in _operands(changed, _AND)
        )
    )


def _begins_mix(op: Operation, kept: SSAValue) -> bool:
    """Whether `op` is `new ^ kept`, and serves such choices of bits only."""
    return op.name == _XOR and all(
        use.operation.name == _AND
        and all(_ends_mix(end.operation, kept) for end in use.operation.results[0].uses)
        for use in op.results[0].uses
    )


def _operands(value: SSAValue, name: str) -> Sequence[SSAValue]:
    """The operands of the operation called `name` that makes `value`; none if another does."""
    owner = value.owner
    return owner.operands if isinstance(owner, Operation) and owner.name == name else ()


def _memory(base: SSAValue) -> SSAValue:
    """What `base` views from its start as elements of another type."""
    owner = base.owner
    while isinstance(owner, Operation) and owner.name in _VIEWS and len(owner.operands) == 1:
        base = owner.operands[0]
        owner = base.owner
    return base
