"""Register accesses that are repeated: plans, and views of memory, are kept by refs.

The register form accesses the same few registers in every step of a loop. Where an access goes is
computed once (`rows`); after that, a load is one copy of a NumPy view of the memory, and a store
one assignment to such a view. An access that is no single view takes the general way every time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from xdsl.ir import Attribute

from pallasite.diagnostics import SourceLocation
from pallasite.interpreter import values
from pallasite.interpreter.machine import rows
from pallasite.interpreter.machine.boxes import Piece, apart
from pallasite.interpreter.machine.codec import Codec, view
from pallasite.interpreter.machine.regions import Region, rows_region
from pallasite.interpreter.machine.rows import Pattern
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.meanings import stacking
from pallasite.interpreter.values import Array

_Order = tuple[int, ...]
_Bounds = tuple[tuple[int, int], ...]
"""The first position of a part along each dimension, and that behind it."""
MOST_KEPT = 1024
"""Accesses that a ref remembers."""


class Access:
    """The registers of one ref at one index.

    Methods are given the ref, which keeps the access. If the access knew the ref, that would be a
    cycle and hold the ref's memory until the next garbage collection.
    """

    __slots__ = (
        "_apart", "_load", "_look", "_marks", "_memory", "_partial", "_region", "_simple", "_store",
        "_target", "pattern", "plan",
    )  # fmt: skip

    def __init__(self, plan: rows.Registers, pattern: Pattern) -> None:
        self.plan = plan
        self.pattern = pattern
        self._region: Region | None = None
        self._apart: bool | None = None
        self._over(None)
        pieces = plan.pieces
        simple = plan.complete and len(pieces) == 1 and pieces[0].part is None
        self._simple: Piece | None = pieces[0] if simple else None
        """All of the access, if that is one view."""
        self._partial: Piece | None = pieces[0] if len(pieces) == 1 and not simple else None
        """What is accessed of the registers, if that is one view."""

    def _over(self, memory: Array | None) -> None:
        """Prepares an access to `memory`: a ref that is used in several runs gets new memory, or
        the same memory filled anew."""
        self._memory = memory
        self._load: Callable[[], Array] | None = None
        self._look: Array | None = None
        self._store: Callable[[Array], None] | None = None
        self._target: Array | None = None
        self._marks: Array | None = None

    def forget(self) -> None:
        """Releases the memory until it is prepared again."""
        self._over(None)

    def load(self, ref: Ref) -> Array:
        """Loads the grid of registers."""
        if ref.buffer.bytes is not self._memory:
            self._over(ref.buffer.bytes)
        if self._load is not None:
            return self._load()
        self._load = self.reader(ref.codec, ref.base, ref.buffer.bytes)
        if self._load is not None:
            return self._load()
        part = self.part(ref.codec, ref.base, ref.buffer.bytes)
        if part is None:
            return rows.read(ref, self.plan, self.pattern.shape)
        filled = self.filled(ref)
        self._load = lambda: filled(part)
        return self._load()

    def reader(self, codec: Codec, base: int, memory: Array) -> Callable[[], Array] | None:
        """The function that loads the grid from `memory`, of elements of `codec`; None if there is
        none."""
        found = None if self._simple is None else codec.reader(memory, base, self._simple)
        if found is None:
            return None
        order = self.plan.order
        inverse = rows.inverse(order)
        straight = inverse == order == tuple(range(len(order)))
        return found if straight else lambda: found().transpose(inverse)

    def look(self, ref: Ref) -> Array:
        """The grid of registers, if possible as a view of memory."""
        if ref.buffer.bytes is not self._memory:
            self._over(ref.buffer.bytes)
        if self._look is None:
            self._look = self.viewer(ref.codec, ref.base, ref.buffer.bytes)
            if self._look is None:
                return self.load(ref)
        # A new object each time: recorders tell values apart by these.
        return self._look.view()

    def stored(self, codec: Codec, base: int, memory: Array) -> Array | None:
        """The whole access as a view of what `memory` holds, with axes in the order of the plan;
        None if it is no single view."""
        return None if self._simple is None else codec.stored(memory, base, self._simple)

    @property
    def taken(self) -> Callable[[Array], Array]:
        """The function that makes the loaded grid from memory of a part that `viewer` could
        show."""
        return _taking(self.plan.order)

    def viewer(self, codec: Codec, base: int, memory: Array) -> Array | None:
        """The grid as a read-only view of `memory`; None if there is none."""
        found = None if self._simple is None else codec.viewer(memory, base, self._simple)
        return None if found is None else found.transpose(rows.inverse(self.plan.order))

    def part(self, codec: Codec, base: int, memory: Array) -> Array | None:
        """The accessed part as a view of `memory`, if it is less than all registers and memory
        holds elements as values do; else None."""
        piece = self._partial
        if piece is None or piece.part is None or codec.viewer(memory, base, piece) is None:
            return None
        return codec.target(memory, base, piece)

    def filled(self, ref: Ref) -> Callable[[Array], Array]:
        """The function that makes the loaded grid from the view `part`: all other places are
        poison."""
        assert self._partial is not None
        shape, poison = self.pattern.shape, ref.buffer.memory.poison
        return _filling(ref.element, shape, poison, self.plan.order, self._bounds)

    @property
    def cut(self) -> Callable[[Array], Array]:
        """The function that takes the places of `part` of an array of registers."""
        return _cutting(self.plan.order, self._bounds)

    @property
    def _bounds(self) -> _Bounds:
        """Of `part`."""
        assert self._partial is not None and self._partial.part is not None
        return tuple([(at.start, at.stop) for at in self._partial.part])

    @property
    def apart(self) -> bool:
        """Whether no two elements lie at the same place of memory.

        If some do, the last one stored has to stay, which `store` does not guarantee.
        """
        if self._apart is None:
            self._apart = apart(self.plan.pieces)
        return self._apart

    def target(self, ref: Ref) -> Array | None:
        """The view to which a grid of registers is assigned to store it; None if there is none."""
        if ref.buffer.bytes is not self._memory:
            self._over(ref.buffer.bytes)
        if self._target is None and self._store is None and self._simple is not None:
            where = ref.codec, ref.base, ref.buffer.bytes
            self._target = self.taker(*where)
            self._store = None if self._target is not None else self.writer(*where)
        return self._target

    def taker(self, codec: Codec, base: int, memory: Array) -> Array | None:
        """The view of `memory` to which a grid is assigned to store it; None if there is none."""
        found = None if self._simple is None else codec.target(memory, base, self._simple)
        return None if found is None else found.transpose(rows.inverse(self.plan.order))

    def writer(self, codec: Codec, base: int, memory: Array) -> Callable[[Array], None] | None:
        """The function that stores a grid in `memory` if it has no `taker`; None if there is
        none."""
        found = None if self._simple is None else codec.writer(memory, base, self._simple)
        order = self.plan.order
        return None if found is None else lambda array: found(array.transpose(order))

    def store(
        self, ref: Ref, array: Array, mask: Array | None = None, *, add: bool = False
    ) -> None:
        """Writes the grid of registers, or adds to it, where `mask` is true."""
        if self._simple is None or mask is not None or add:
            if mask is None and not add and self._store_part(ref, array):
                return
            rows.write(ref, self.plan, array, mask, add=add)
            return
        target = self.target(ref)
        if target is not None:
            target[...] = array
        elif self._store is not None:
            self._store(array)
        else:
            rows.write(ref, self.plan, array, mask, add=add)
            return
        marks = self.marks(ref)
        if marks is not None:
            marks[...] = (1 << ref.codec.bits) - 1

    def blend(self, ref: Ref, array: Array, mask: Array | None, kept: Array) -> None:
        """`store` of an array whose elements are what memory has where `kept` is true, so that
        these are not written."""
        shadow = ref.buffer.shadow
        assert shadow is not None
        place = ref, self.plan, self.pattern.shape, shadow
        before = rows.marks_of(*place)
        self.store(ref, array, mask)
        marks = np.where(kept, before, rows.marks_of(*place))
        rows.set_marks(ref, self.plan, marks, shadow)

    def _store_part(self, ref: Ref, array: Array) -> bool:
        """Stores the accessed part of the registers if it is a view; returns whether it was."""
        if self._partial is None or ref.buffer.shadow is not None:
            return False
        if ref.buffer.bytes is not self._memory:
            self._over(ref.buffer.bytes)
        if self._target is None:
            self._target = self.part(ref.codec, ref.base, ref.buffer.bytes)
            if self._target is None:
                return False
        self._target[...] = self.cut(array)
        return True

    def marks(self, ref: Ref) -> Array | None:
        """The marks of written elements, if they are tracked and form one view; else None."""
        shadow = ref.buffer.shadow
        if shadow is None or self._simple is None or ref.codec.bits < 8:
            return None
        if self._marks is None:
            self._marks = view(shadow, ref.codec.mark, ref.base, self._simple, ref.codec.bits)
        return self._marks

    def region(self, ref: Ref) -> Region:
        """The bits that are touched without a mask."""
        if self._region is None:
            self._region = rows_region(ref, self.plan)
        return self._region


@lru_cache(maxsize=1 << 6)
def _blank(type: Attribute, shape: tuple[int, ...], pattern: int) -> Array:
    """Registers of poison."""
    return np.broadcast_to(values.poison(type, (), pattern), shape).copy()


@lru_cache(maxsize=1 << 8)
def _taking(order: _Order) -> Callable[[Array], Array]:
    """A copy whose axes lie in memory in this `order`."""
    back = rows.inverse(order)
    many, many_back = _behind(order), _behind(back)

    def taking(view: Array) -> Array:
        return view.transpose(order).copy().transpose(back)

    def taking_many(views: Array) -> Array:
        return views.transpose(many).copy().transpose(many_back)

    return stacking(taking, taking_many)


@lru_cache(maxsize=1 << 8)
def _cutting(order: _Order, bounds: _Bounds) -> Callable[[Array], Array]:
    part, many = _part(bounds), _behind(order)

    def cutting(array: Array) -> Array:
        return array.transpose(order)[part]

    def cutting_many(arrays: Array) -> Array:
        return arrays.transpose(many)[(slice(None), *part)]

    return stacking(cutting, cutting_many)


@lru_cache(maxsize=1 << 8)
def _filling(
    type: Attribute, shape: tuple[int, ...], poison: int, order: _Order, bounds: _Bounds
) -> Callable[[Array], Array]:
    blank = _blank(type, tuple([shape[axis] for axis in order]), poison)
    part, back = _part(bounds), rows.inverse(order)
    many_back = _behind(back)

    def fill(view: Array) -> Array:
        out = blank.copy()
        out[part] = view
        return out.transpose(back)

    def many(views: Array) -> Array:
        out = np.empty((len(views), *blank.shape), blank.dtype)
        out[...] = blank
        out[(slice(None), *part)] = views
        return out.transpose(many_back)

    return stacking(fill, many)


def _part(bounds: _Bounds) -> tuple[slice, ...]:
    return tuple([slice(*ends) for ends in bounds])


def _behind(order: _Order) -> _Order:
    """The same order of axes that come behind another one."""
    return 0, *(axis + 1 for axis in order)


def access(
    ref: Ref, what: str, index: tuple[int, ...], wanted: Pattern, at: SourceLocation | None
) -> Access:
    """The access that a `what` (load or store) makes; raises if it is unaligned or outside."""
    kept = ref.registers
    if kept is None:
        kept = ref.registers = {}
    found = kept.get((wanted, index))
    if found is not None:
        if ref.buffer.freed:
            ref.alive(at)
        return found
    found = Access(rows.plan(ref, what, index, wanted, at), wanted)
    if len(kept) < MOST_KEPT:
        kept[wanted, index] = found
    return found
