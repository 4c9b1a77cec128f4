"""Runs all iterations of a loop of copies at once, if the copies of each iteration land within it.

Such a loop reads offsets from tables or computes them, and copies one part of an array for each of
them, for example one row per index of a table. Its offsets become arrays with one element per
iteration, and its copies become a few NumPy assignments with index arrays (`_copy`).

The order of the iterations does not matter if nothing that the loop writes is read in it, and if of
several copies to one place only the last one is made. `CopyLoop` examines all iterations before it
changes anything. If one would fail, or anything is unusual, it does nothing, and the loop runs
iteration by iteration. `compiled/copy_loops.py` finds the loops; `part_copies` explains moves,
sessions and views.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pallasite.diagnostics import SourceLocation
from pallasite.interpreter.machine.boxes import offsets_of
from pallasite.interpreter.machine.part_copies import Copier, Move, Session, Views
from pallasite.interpreter.machine.semaphores import Semaphore
from pallasite.interpreter.machine.view_paths import Cut, Path
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.meanings import Function
from pallasite.interpreter.values import Array

if TYPE_CHECKING:
    from pallasite.interpreter.driver import Budget
    from pallasite.interpreter.machine.core import Core

Places = NDArray[np.int64]
"""Numbers, one per copy: offsets, or indices of views."""
LEAST = 8
"""Iterations of the shortest loop for which this is faster."""
MOST_BYTES = 1 << 14
"""Bytes of the largest copy; of larger ones, the copying itself takes the time."""
AT_ONCE = 1 << 20
"""Bytes copied by one assignment, which NumPy holds in a temporary array."""


class Loaded(NamedTuple):
    """An element of a table that each iteration loads. `table` and `places` are the numbers of the
    values that are the table's ref and the indices."""

    table: int
    places: tuple[int, ...]


class Computed(NamedTuple):
    """A function of arrays that have one element per iteration, or a single one for all.

    `operands` are numbers of values. The function gives None where an iteration would fail.
    """

    function: Function
    operands: tuple[int, ...]


class Copies(NamedTuple):
    """A copy that every iteration makes.

    `ends` are the numbers of the values that are the refs of the semaphore, the source and the
    target, where the paths of `copier` begin; `starts` are those of the offsets that its paths
    take.
    """

    copier: Copier
    ends: tuple[int, int, int]
    starts: tuple[int, ...]
    at: SourceLocation | None


class Flight(NamedTuple):
    """Copies of one iteration that are all started before the first wait for one of them."""

    copies: tuple[Copies, ...]
    awaits: tuple[tuple[int, SourceLocation | None], ...]
    """For each wait, in order: the number of the copy in `copies`, and the location of the wait."""


class Bulk(NamedTuple):
    """One copy of a flight in all iterations, or several between the same two arrays.

    `starts`, `read` and `write` have an element per copy: iteration by iteration, and within one
    the newest copy first. `read` and `write` are indices into `views`.
    """

    starts: list[Places]
    session: Session
    move: Move
    views: Views
    read: Places
    write: Places
    semaphores: list[tuple[int, Semaphore]]
    """The semaphores that are used, each with the last iteration that uses it."""
    members: list[int]
    """The numbers, in the flight, of the copies that it holds."""


class CopyLoop:
    """A loop that only copies; called with a core, it runs all iterations or does nothing."""

    def __init__(
        self, index: Any, steps: Sequence[Loaded | Computed], flights: Sequence[Flight],
        given: Sequence[Any], cost: int,
    ) -> None:  # fmt: skip
        """`index` and `given` are the array types of the loop index and of the values from outside
        (None for refs). Each iteration costs `cost` steps of the budget.

        Values are numbered: 0 is the index, then come the results of `steps`, then the given
        values.
        """
        self._index = index
        self._steps = tuple(steps)
        self._flights = tuple(flights)
        self._given = tuple(given)
        self._cost = cost

    def __call__(
        self, core: Core, budget: Budget, low: int, high: int, step: int, *given: Any
    ) -> bool:
        """Runs the iterations of `range(low, high, step)`; False if it did nothing.

        `given` are the values from outside, scalars and refs. It does nothing for short loops, for
        budgets that would be exhausted, and under checks or recording.
        """
        count = len(range(low, high, step)) if step > 0 else 0
        if count < LEAST or budget.left < count * self._cost:
            return False
        if core.observer is not None or core.recorder is not None:
            return False
        values: list[Any] = [None] * (1 + len(self._steps))
        values[0] = np.arange(low, high, step).astype(self._index)
        for value, type in zip(given, self._given, strict=True):
            values.append(value if type is None else np.array([value], type))
        for place, made in enumerate(self._steps, 1):
            if isinstance(made, Loaded):
                value = _loaded(values[made.table], [values[i] for i in made.places])
            else:
                value = made.function(*[values[i] for i in made.operands])
            if value is None:
                return False
            values[place] = value
        found: list[tuple[Flight, list[Bulk]]] = []
        for flight in self._flights:
            bulks = _bulks(core, flight, values, count)
            if bulks is None:
                return False
            found.append((flight, bulks))
        if not _are_apart([bulk for _, bulks in found for bulk in bulks]):
            return False
        for _, bulks in found:
            for bulk in bulks:
                _copy(bulk)
        _note(core, found, count)
        budget.left -= count * self._cost
        return True


def _note(core: Core, flights: Sequence[tuple[Flight, Sequence[Bulk]]], count: int) -> None:
    """Records what the copies change besides elements: counts of the DMA engine, and which core and
    source lines used each semaphore last."""
    engine = core.machine.engine
    credited: list[tuple[tuple[int, int, int], Semaphore, SourceLocation | None]] = []
    taken: list[tuple[tuple[int, int, int], Semaphore, SourceLocation | None]] = []
    for number, (flight, bulks) in enumerate(flights):
        engine.started += count * len(flight.copies)
        for bulk in bulks:
            engine.bits += count * len(bulk.members) * bulk.move.bits
            waits = [n for n, (one, _) in enumerate(flight.awaits) if one in bulk.members]
            first, last = bulk.members[0], waits[-1]
            at, awaited_at = flight.copies[first].at, flight.awaits[last][1]
            for turn, semaphore in bulk.semaphores:
                # Those of one semaphore land the newest first.
                credited.append(((turn, number, -first), semaphore, at))
                taken.append(((turn, number, last), semaphore, awaited_at))
    for _, semaphore, at in sorted(credited, key=lambda use: use[0]):
        semaphore.credited_by, semaphore.credited_at = core, at
    for _, semaphore, at in sorted(taken, key=lambda use: use[0]):
        semaphore.taken_at = at


def _loaded(table: Ref, index: Sequence[Array]) -> Array | None:
    """The elements of `table` at the indices `index`, an array per dimension.

    None if an index is out of bounds, or if the table does not hold i32 elements.
    """
    storage = table.codec.storage
    if not table.codec.integral or storage != np.int32 or table.buffer.freed:
        return None
    offset: Any = table.base
    for digits, first, extent, i in zip(
        table.digits, table.starts, table.shape, index, strict=True
    ):
        if ((i < 0) | (i >= extent)).any():
            return None
        offset = offset + offsets_of(digits, first + i.astype(np.int64))
    return table.buffer.bytes.view(storage)[np.reshape(offset, -1)]


def _bulks(core: Core, flight: Flight, values: Sequence[Any], count: int) -> list[Bulk] | None:
    """The copies of `flight` in all iterations; None if one is unusual, or would fail."""
    engine = core.machine.engine
    if len(engine.flying) + len(flight.copies) > engine.limit:
        return None
    alike: dict[int, list[int]] = {}
    """The numbers of copies, by the number of the value that is their target."""
    for number, copies in enumerate(flight.copies):
        alike.setdefault(copies.ends[2], []).append(number)
    found: list[Bulk] = []
    for members in alike.values():
        bulk = _bulk(core, flight, members, values, count)
        if bulk is None:
            return None
        found.append(bulk)
    return found


def _bulk(
    core: Core, flight: Flight, members: list[int], values: Sequence[Any], count: int
) -> Bulk | None:
    """Some copies of `flight`, those of numbers `members` to one array, in all iterations.

    None if one is unusual, or would fail. All of them must lie alike, so that they share views, and
    targets that are not the same must be disjoint.
    """
    all_copies = [flight.copies[number] for number in members]
    copier, ends = all_copies[0].copier, all_copies[0].ends
    semaphore, source, target = (values[place] for place in ends)
    move = copier.move(semaphore, source, target)
    if move is None or move.bits > 8 * MOST_BYTES or source.buffer is target.buffer:
        return None
    if any(
        other.ends != ends or not move.is_like(other.copier.move(semaphore, source, target))
        for other in all_copies[1:]
    ):
        return None
    # Within one iteration the newest copy lands first.
    given = [[values[place] for place in copies.starts] for copies in reversed(all_copies)]
    each = len(members)
    starts = [_in_turn(numbers, count) for numbers in zip(*given, strict=True)]
    for start, last in zip(starts, move.lasts, strict=True):
        if ((start < 0) | (start > last)).any():
            return None
    cuts = [_cuts(copies.copier.paths[2]) for copies in all_copies]
    if any(other != cuts[0] for other in cuts) or not _meet_or_are_same(cuts[0], starts):
        return None
    if target.buffer.is_adopted or move.bits == target.buffer.size * 8:
        return None
    # Asking for the bytes makes sure that both buffers have memory, as a first iteration would.
    _ = source.buffer.bytes, target.buffer.bytes
    session = copier.session(core, semaphore, source, target)
    if session.engine is None or source.buffer.freed or target.buffer.freed:
        return None
    if session.move is None or session.boxes is not None:
        return None
    every = np.zeros(count * each, np.int64)
    read, write, number = every.copy(), every.copy(), every + session.first
    for start, (_, one, other, step) in zip(starts, session.steps, strict=True):
        read += start * one
        write += start * other
        number += start * step
    residues: list[int] = []
    for turn, (one, other) in zip(move.turns, session.turned, strict=True):
        first = sum([starts[place] for place in turn.places], every + turn.start)
        blocks, rest = np.divmod(first, turn.block)
        if (rest != rest[0]).any():
            return None
        read += blocks * one
        write += blocks * other
        residues.append(int(rest[0]))
    views = copier.views(session, tuple(residues))
    numbers = number.reshape(count, each)
    # Copies of one iteration with different semaphores land in the order of their waits instead.
    if views is None or views.parts or (numbers != numbers[:, :1]).any():
        return None
    semaphores = _semaphores(core, numbers[:, 0])
    if semaphores is None:
        return None
    return Bulk(starts, session, move, views, read, write, semaphores, members)


def _in_turn(numbers: Sequence[Array], count: int) -> Places:
    """Interleaves values, each an array with one element per iteration: all of iteration 0, then
    all of iteration 1, and so on."""
    found = np.empty((count, len(numbers)), np.int64)
    for place, number in enumerate(numbers):
        found[:, place] = number
    return found.reshape(-1)


def _cuts(path: Path) -> list[Cut]:
    """The slices of a path whose offsets are not all constants."""
    return [
        step for step in path if isinstance(step, Cut) and any(p is not None for p in step.places)
    ]


def _meet_or_are_same(cuts: Sequence[Cut], starts: Sequence[Places]) -> bool:
    """Whether any two parts that a path with these `cuts` leads to are equal or disjoint.

    That holds if there is one slice at most, and all its offsets `starts` are multiples of its
    sizes.
    """
    if len(cuts) > 1:
        return False
    return not any(
        place is not None and size > 1 and (starts[place] % size).any()
        for cut in cuts
        for size, place in zip(cut.sizes, cut.places, strict=True)
    )


def _semaphores(core: Core, numbers: Places) -> list[tuple[int, Semaphore]] | None:
    """The semaphores of these numbers, each with the last iteration that uses it; None if one is in
    use."""
    found: list[tuple[int, Semaphore]] = []
    last = {number: turn for turn, number in enumerate(numbers.tolist())}
    for number, turn in last.items():
        semaphore = core.semaphores.get(number)
        if semaphore is None or semaphore.value or semaphore.pending or semaphore.waiters:
            return None
        found.append((turn, semaphore))
    return found


def _are_apart(bulks: Sequence[Bulk]) -> bool:
    """Whether no buffer that one of `bulks` writes is read or written by another, or is a table in
    SMEM."""
    pairs = [bulk.session.ends for bulk in bulks]
    ends = [pair for pair in pairs if pair is not None]
    read = {id(source.buffer) for source, _ in ends}
    written = {id(target.buffer) for _, target in ends}
    numbers = any(target.buffer.memory.kind == "smem" for _, target in ends)
    return len(written) == len(bulks) and not read & written and not numbers


def _copy(bulk: Bulk) -> None:
    """Copies all parts of a bulk, and notes which parts of the target have landed.

    Of several copies to one part only the last one is made.
    """
    read, write, (sources, targets, _) = bulk.read, bulk.write, bulk.views
    order = np.arange(len(write))
    if not (write[1:] > write[:-1]).all():
        # Keep the last copy to each part.
        _, kept = np.unique(write[::-1], return_index=True)
        order = len(write) - 1 - kept
    at_once = max(AT_ONCE * 8 // bulk.move.bits, 1)
    for first in range(0, len(order), at_once):
        part = order[first : first + at_once]
        targets[write[part]] = sources[read[part]]
    landed, ends = bulk.session.landed, bulk.session.ends
    if landed is None or ends is None:
        return
    whole = ends[1]
    if len(order) * bulk.move.bits == 8 * whole.byte_count == 8 * whole.buffer.size:
        # The parts are disjoint, so together they are the whole buffer.
        landed.add((whole.base, whole.starts, whole.shape, whole.digits))
        return
    target = bulk.move.target
    for given in _turns(bulk.starts, order):
        landed.add((*target.box(given), target.digits))


def _turns(starts: Sequence[Places], order: Places) -> Iterator[tuple[int, ...]]:
    """The offsets `starts` of each copy, for the copies in `order`."""
    if not starts:
        return iter([()])
    return zip(*[start[order].tolist() for start in starts], strict=True)
