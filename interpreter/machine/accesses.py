"""Descriptions of loads and stores for observers: a box of elements, or a grid of registers.

An access can tell which bits it touches (`region`) and which of the loaded elements were never
written (`unwritten`); both are only computed when a check asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from pallasite.interpreter.machine import boxes, rows
from pallasite.interpreter.machine.regions import (
    Mask,
    Region,
    box_region,
    rows_region,
    whole_region,
)
from pallasite.interpreter.machine.register_access import Access as RegisterAccess
from pallasite.interpreter.machine.views import Ref


class Unwritten(NamedTuple):
    """The elements, or registers, of a load that were never written."""

    amount: str
    """How many of how many."""
    first: list[int]
    """The index of the first one."""
    span: tuple[int, int]
    """First byte of the buffer, and one past the last, among which they are."""
    whole: bool = False
    """Whether it is all that is loaded."""


class Access(Protocol):
    """One access of a core to a ref."""

    ref: Ref

    def region(self) -> Region:
        """The bits that the access touches."""
        ...

    def unwritten(self) -> Unwritten | None:
        """The elements of a load that were never written; None if there are none."""
        ...


@dataclass(slots=True)
class Box:
    """Elements `index + k * strides` of a ref (the arguments of `Ref.load` and `Ref.store`)."""

    ref: Ref
    index: Sequence[int]
    shape: tuple[int, ...]
    strides: Sequence[int] | None = None
    mask: Mask = None

    def region(self) -> Region:
        ref = self.ref
        if self.shape == ref.shape and self.mask is None and not any(self.index):
            if self.strides is None or set(self.strides) <= {1}:
                return whole_region(ref)
        return box_region(ref, self.index, self.shape, self.strides, self.mask)

    def unwritten(self) -> Unwritten | None:
        ref, shape = self.ref, self.shape
        written = ref.initialised(self.index, shape, self.strides)
        if written is not None and self.mask is not None:
            written = written | ~np.broadcast_to(self.mask, shape)
        if written is None or written.all():
            return None
        first = np.argwhere(~written)[0]
        steps = tuple(self.strides or (1,) * len(shape))
        element = [int(i) + int(f) * s for i, f, s in zip(self.index, first, steps, strict=True)]
        starts = tuple(a + int(b) for a, b in zip(ref.starts, self.index, strict=True))
        offsets = boxes.gather(ref.digits, starts, shape, steps)[~written] + ref.base
        bits = ref.codec.bits
        span = int(offsets.min()) * bits // 8, -(-(int(offsets.max()) + 1) * bits // 8)
        count = int(written.size - np.count_nonzero(written))
        return Unwritten(
            f"{count} of {written.size} elements", element, span, count == written.size
        )


@dataclass(slots=True)
class Rows:
    """A grid of registers, placed by `access`.

    A load takes whole tiles, of which a kernel may need only a part; so a register counts as
    unwritten only if none of its elements was written.
    """

    ref: Ref
    access: RegisterAccess
    index: Sequence[int]
    mask: Mask = None

    def _register(self, index: Sequence[int], shape: tuple[int, ...]) -> rows.Registers:
        wanted = self.access.pattern
        one = rows.pattern(shape, (), wanted.sublanes, wanted.offsets, fixed=wanted.fixed)
        return rows.plan(self.ref, "load", index, one, None)

    def region(self) -> Region:
        if self.mask is None:
            return self.access.region(self.ref)
        plan = self.access.plan
        where = rows.word_mask(self.mask, self.access.pattern.shape).transpose(plan.order)
        return rows_region(self.ref, plan, where)

    def unwritten(self) -> Unwritten | None:
        ref = self.ref
        marks = self.access.marks(ref)
        if marks is not None and marks.all():
            return None
        shape, steps = self.access.pattern.shape, self.access.pattern.steps
        written = rows.initialised(ref, self.access.plan, shape)
        if written is None or written.all():
            return None
        empty = [[int(n) for n in register] for register in np.argwhere(~written)]
        places = [
            [int(i) + n * s for i, n, s in zip(self.index, register, steps, strict=True)]
            if steps else [int(i) for i in self.index]
            for register in empty
        ]  # fmt: skip
        single = shape[len(steps) :]
        regions = [
            rows_region(ref, self._register(place, single)) for place in (places[0], places[-1])
        ]
        span = min(r.low for r in regions), max(r.high for r in regions)
        count = int(written.size - np.count_nonzero(written))
        return Unwritten(f"{count} of {written.size} registers", places[0], span)
