"""Indirect transfers: gathers and scatters of rows that a list of numbers names.

One side is an array in HBM, or in the memory that the subcores of a SparseCore share, the other one
holds a row per number in VMEM. For the checks each row is a transfer of its own; rows are moved in
the order of the numbers, so that of two that are written to one place the later one stays (or both
are added).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pallasite.diagnostics import ExecutionError, Note, SourceLocation
from pallasite.interpreter.machine.copies import copy_elements, snapshot
from pallasite.interpreter.machine.dma import Transfer
from pallasite.interpreter.machine.semaphores import amount_of
from pallasite.interpreter.machine.views import Ref

if TYPE_CHECKING:
    from pallasite.interpreter.machine.core import Core


@dataclass(frozen=True)
class Rows:
    """The rows that an indirect transfer moves."""

    numbers: NDArray[np.int32]
    rank: int
    """Dimensions of the list of numbers: 1, or 2 for arrays with a first dimension of size 1."""
    ignored: int | None = None
    """The number that stands for no row."""
    place: Ref | None = None
    """Where the numbers lie, if the engine goes on reading them while it moves rows."""

    def kept(self) -> list[tuple[int, int]]:
        """Place in the list, and number, of each row that is moved."""
        numbers = [int(n) for n in self.numbers]
        return [(place, n) for place, n in enumerate(numbers) if n != self.ignored]


@dataclass(eq=False, slots=True)
class Indirect(Transfer):
    """A gather or scatter in flight; `parts` are its rows."""

    rows: tuple[Transfer, ...] = ()
    offsets: Ref | None = None
    """Where the numbers lie, as in `Rows`."""
    numbers: NDArray[Any] | None = None
    """What was there when the transfer was started."""
    held: list[Ref] | None = None

    @property
    def parts(self) -> Sequence[Transfer]:
        return self.rows

    @property
    def bits(self) -> int:
        return sum(part.bits for part in self.rows)

    @property
    def extent(self) -> str:
        return f"{len(self.rows)} times {self.rows[0].extent}" if self.rows else "no rows"

    def take(self) -> None:
        """Reads the rows."""
        self.held = [snapshot(part.source) for part in self.rows]

    def put(self, target: Ref) -> None:
        """Writes, or adds, the rows."""
        self._check_offsets()
        for place, part in enumerate(self.rows):
            source = part.source if self.held is None else self.held[place]
            if self.add:
                _add(source, part.target)
            else:
                copy_elements(source, part.target)

    def drop_data(self) -> None:
        """Forgets what was read."""
        for ref in self.held or ():
            ref.buffer.forget()
        self.held = None

    def _check_offsets(self) -> None:
        if self.offsets is None or self.numbers is None:
            return
        if self.offsets.buffer.freed or not np.array_equal(self.offsets.read(), self.numbers):
            raise ExecutionError(
                "broken-promise",
                f"the indices of {self.describe()} have changed while it was in flight",
                self.location,
                [Note("wait for an indirect copy before its indices are written again")],
            )


def _add(source: Ref, target: Ref) -> None:
    """Adds the elements of `source` to `target`. A sum was written if both of its terms were."""
    given, total = snapshot(source), snapshot(target)
    marks, before = given.buffer.shadow, total.buffer.shadow
    before = None if before is None else before.copy()
    total.store((0,) * len(total.shape), given.read(), add=True)
    if marks is not None:
        total.buffer.shadow = marks if before is None else marks & before
    else:
        total.buffer.shadow = before
    copy_elements(total, target)
    given.buffer.forget()
    total.buffer.forget()


def start(
    core: Core,
    source: Ref,
    target: Ref,
    semaphore: Ref,
    rows: Rows,
    *,
    gathers: bool,
    adds: bool,
    at: SourceLocation | None,
) -> None:
    """Starts a gather from `source`, or a scatter to `target`; raises for a missing row."""
    credited = core.semaphore(semaphore, at)
    array, dense = (source, target) if gathers else (target, source)
    parts: list[Transfer] = []
    for place, number in rows.kept():
        if not 0 <= number < array.shape[rows.rank - 1]:
            raise ExecutionError(
                "out-of-bounds",
                f"index {number}, at place {place} of {len(rows.numbers)}, of an indirect copy is "
                f"outside the array of shape {list(array.shape)} in {array.buffer.title}",
                at,
                [
                    Note(f"indices are from 0 to {array.shape[rows.rank - 1] - 1}"),
                    Note("rows may be left out: plsc.Indices(indices, ignored_value=-1)"),
                ],
            )
        ends = [_row(array, number, rows.rank), _row(dense, place, rows.rank)]
        first, second = ends if gathers else reversed(ends)
        parts.append(
            Transfer(core, core, first, second, None, credited, 0, amount_of(semaphore, second), at)
        )
        parts[-1].add = adds
    core.machine.engine.enqueue(
        Indirect(
            core, core, source, target, None, credited, 0, amount_of(semaphore, dense), at,
            add=adds, rows=tuple(parts), offsets=rows.place,
            numbers=None if rows.place is None else rows.place.read(at),
        )
    )  # fmt: skip


def _row(ref: Ref, number: int, rank: int) -> Ref:
    """Row `number` of `ref`, along its dimension `rank - 1`."""
    start = [0] * len(ref.shape)
    start[rank - 1] = number
    return ref.slice(start, (1,) * rank + ref.shape[rank:])
