"""Copies of parts of one array to parts of another, as assignments between NumPy views that are
made once.

    for i: copy a[idx[i], :] to b[i, :]

takes other parts of the same two arrays in each iteration. `view_paths` computes where the parts
lie. The views of all parts that differ by a constant number of bytes are elements of one array of
views, so that a copy is `targets[n] = sources[m]`.

A `Copier` is one copy operation of a kernel. A `Move` is what it does between refs of certain
layouts, for any offsets; it outlives runs. A `Session` is a move between certain refs in one run,
with their memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pallasite.diagnostics import SourceLocation
from pallasite.interpreter.machine.copies import End, Route, route_of
from pallasite.interpreter.machine.dma import Engine
from pallasite.interpreter.machine.memory import Buffer, Landed
from pallasite.interpreter.machine.semaphores import Semaphore
from pallasite.interpreter.machine.view_paths import Path, Way, lies, way_of
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.values import Array

if TYPE_CHECKING:
    from pallasite.interpreter.machine.core import Core

WORD = 32
MOST_WAYS = 16
"""Moves that one copy operation remembers."""
MOST_SESSIONS = 8
"""Sessions of one copy operation in a run."""
Residues = tuple[int, ...]


Layout = tuple[list[tuple[int, int, int, int]], list[tuple[int, int]], tuple[int, int]]
"""The `steps`, `turned` and `units` of a `Session`."""


class Move:
    """The copies of a part of one array to a part of another, for any offsets of both."""

    def __init__(self, semaphore: Way, source: Way, target: Way, count: int) -> None:
        """`count` is the number of offsets of all three paths together."""
        self.semaphore = semaphore
        self.source = source
        self.target = target
        lasts = dict(semaphore.lasts + source.lasts + target.lasts)
        self.lasts = tuple([lasts[n] for n in range(count)])
        """The largest legal offset, by the number of the offset."""
        self.turns = (*source.turns, *target.turns)
        self._steps = [source.steps, target.steps]
        self.bits = source.element_bits
        self.routes: dict[Residues, Route | None] = {}

    @property
    def is_regular(self) -> bool:
        """Whether every offset moves the parts by whole words, not downwards; views then are
        regular."""
        ways = zip((self.source, self.target), self._steps, strict=True)
        steps = [(s, way.bits) for way, found in ways for s in found.values()]
        steps += [(t.stride, way.bits) for way in (self.source, self.target) for t in way.turns]
        alike = self.source.shape == self.target.shape and self.source.bits == self.target.bits
        if not alike or self.semaphore.shape or self.semaphore.turns:
            return False
        return all(step >= 0 and step * bits % WORD == 0 for step, bits in steps)

    def is_like(self, other: Move | None) -> bool:
        """Whether `other` copies the same parts for the same offsets, with the same semaphore."""
        if other is None or other.lasts != self.lasts:
            return False
        one, two = ((m.semaphore, m.source, m.target) for m in (self, other))
        return one == two

    def route(self, residues: Residues) -> Route | None:
        """How a part is copied whose turns (`view_paths.Turn`) leave `residues`, with other offsets
        0."""
        if residues not in self.routes:
            count = len(self.source.turns)
            (first, begin), (second, end) = (
                self.source.first(residues[:count]), self.target.first(residues[count:])
            )  # fmt: skip
            source, target = self.source, self.target
            self.routes[residues] = route_of(
                source.digits, first, begin, target.digits, second, end, source.shape, source.bits
            )
        return self.routes[residues]

    @cached_property
    def layout(self) -> Layout:
        """What all sessions of this move have in common: `steps`, `turned` and `units` of a
        `Session`."""
        numbers = self.semaphore.steps
        (reads, read_turns), (writes, write_turns) = (self.strides(side) for side in (0, 1))
        one, other = gcd(*reads, *read_turns) or 1, gcd(*writes, *write_turns) or 1
        steps = [
            (last, reads[n] // one, writes[n] // other, numbers.get(n, 0))
            for n, last in enumerate(self.lasts)
        ]
        turns = zip(read_turns, write_turns, strict=True)
        return steps, [(read // one, write // other) for read, write in turns], (one, other)

    def strides(self, side: int) -> tuple[list[int], list[int]]:
        """By how many bytes each offset, and each whole block of a turn, moves a part.

        `side` 0 is the source, 1 the target.
        """
        way = (self.source, self.target)[side]
        of_starts = [self._steps[side].get(n, 0) * way.bits // 8 for n in range(len(self.lasts))]
        of_turns = [turn.stride * way.bits // 8 for turn in way.turns]
        others = [0] * (len(self.turns) - len(of_turns))
        return of_starts, others + of_turns if side else of_turns + others


class Views(NamedTuple):
    """Views of all parts of the source and of the target, and the pieces that must be copied
    separately."""

    sources: Array
    targets: Array
    parts: tuple[Any, ...]

    def copy(self, read: int, write: int) -> None:
        """Copies one part of the source to one of the target."""
        sources, targets, parts = self
        if not parts:
            targets[write] = sources[read]
        for part in parts:
            targets[write][part] = sources[read][part]


@dataclass(eq=False, slots=True)
class Session:
    """What a run knows of one copy operation between certain refs."""

    semaphore: Ref | None = None
    ends: tuple[Ref, Ref] | None = None
    """The refs at which the paths to the source and the target begin."""
    move: Move | None = None
    """None if the views and transfers themselves must make the copies."""
    engine: Engine | None = None
    landed: Landed | None = None
    boxes: dict[Any, SourceLocation | None] | None = None
    """The boxes of the target that were written, if each may be written once only."""
    units: tuple[int, int] = (1, 1)
    """Bytes from one view to the next, in `Views.sources` and `Views.targets`."""
    semaphore_lies: Any = None
    first: int = 0
    """The number of the semaphore for offsets of 0."""
    steps: list[tuple[int, int, int, int]] = field(default_factory=list[tuple[int, int, int, int]])
    """For each offset: its largest legal value, and by how many views it moves source and target,
    and by how many numbers the semaphore."""
    turned: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """For each turn: by how many views a whole block moves source and target."""
    views: dict[Residues, Views | None] = field(default_factory=dict[Residues, "Views | None"])


Found = tuple[Session, Move, Engine, Semaphore, Views, int, int]
"""A usual copy; the last two are the numbers of the views that it reads and writes."""
_NONE = Session()
"""The session of copies that must be made by the views and transfers themselves."""


class Copier:
    """A copy operation of a kernel, of a part of an array within a core."""

    def __init__(self, paths: Sequence[Path], count: int, at: SourceLocation | None) -> None:
        """`paths` lead to the semaphore, the source and the target; they take `count` offsets
        together."""
        self.paths = tuple(paths)
        self.at = at
        self._count = count
        self._moves: dict[Any, Move | None] = {}

    def find(
        self, core: Core, semaphore: Ref, source: Ref, target: Ref, starts: Sequence[int]
    ) -> Found | None:
        """The copy of the parts at the offsets `starts`; None if anything is unusual or illegal."""
        if core.observer is not None or core.recorder is not None:
            return None
        sessions = core.sessions.get(self)
        session: Session | None = None if sessions is None else sessions.get((source, target))
        if session is None or session.semaphore is not semaphore:
            session = self.session(core, semaphore, source, target)
        move, engine = session.move, session.engine
        if move is None or engine is None or source.buffer.freed or target.buffer.freed:
            return None
        read = write = 0
        number = session.first
        for start, (last, step, other, count) in zip(starts, session.steps, strict=False):
            if not 0 <= start <= last:
                return None
            read += start * step
            write += start * other
            number += start * count
        credited = core.semaphores.get(number)
        if credited is None or credited.waiters or len(engine.flying) >= engine.limit:
            return None
        residues: Residues = ()
        if move.turns:
            for turn, (step, other) in zip(move.turns, session.turned, strict=True):
                first = turn.start
                for place in turn.places:
                    first += starts[place]
                blocks, rest = divmod(first, turn.block)
                read += blocks * step
                write += blocks * other
                residues = (*residues, rest)
        views = session.views.get(residues) or self.views(session, residues)
        if views is None:
            return None
        return session, move, engine, credited, views, read, write

    def is_first(self, found: Found, starts: Sequence[int]) -> bool:
        """Notes that the target's box was written, if each may be written once; whether it was the
        first time."""
        session, move, *_ = found
        boxes, box = session.boxes, move.target.box(starts)
        if boxes is None or box in boxes:
            return False
        boxes[box] = self.at
        return True

    def session(self, core: Core, semaphore: Ref, source: Ref, target: Ref) -> Session:
        """The session of this run for copies between these refs."""
        sessions: dict[Any, Session] | None = core.sessions.get(self)
        if sessions is None:
            sessions = core.sessions[self] = {}
        session = sessions.get((source, target))
        if session is None:
            if len(sessions) >= MOST_SESSIONS:
                return _NONE
            return self._begin(core, semaphore, source, target, sessions)
        if session.semaphore is not semaphore:
            self._go_on(session, semaphore)
        return session

    def _begin(
        self, core: Core, semaphore: Ref, source: Ref, target: Ref, sessions: dict[Any, Session]
    ) -> Session:
        """Makes the session for copies between these refs."""
        engine = core.machine.engine
        if not (source.buffer.touched and target.buffer.touched):
            return _NONE  # The next copy finds them touched.
        session = sessions[source, target] = Session(semaphore, (source, target))
        if engine.order.policy != "on_wait" or engine.passes:
            return session
        if not (_is_plain(source.buffer) and _is_plain(target.buffer)):
            return session
        move = self.move(semaphore, source, target)
        if move is None or target.buffer.is_adopted:
            return session
        session.move, session.engine = move, engine
        session.landed, session.boxes = target.buffer.landed, target.buffer.boxes
        session.first = semaphore.buffer.address // 4 + move.semaphore.base
        session.semaphore_lies = lies(semaphore)
        session.steps, session.turned, session.units = move.layout
        return session

    def _go_on(self, session: Session, semaphore: Ref) -> None:
        """Continues a session with another semaphore, such as one of a new scope."""
        session.semaphore = semaphore
        if session.move is None or lies(semaphore) != session.semaphore_lies:
            session.move = None
        else:
            session.first = semaphore.buffer.address // 4 + session.move.semaphore.base

    def move(self, *ends: Ref) -> Move | None:
        """The move between refs with the layouts of `ends`.

        None if there are too many, or if arithmetic on offsets is not enough.
        """
        key = tuple(map(lies, ends))
        if key not in self._moves and len(self._moves) < MOST_WAYS:
            self._moves[key] = self._new_move(*ends)
        return self._moves.get(key)

    def _new_move(self, *ends: Ref) -> Move | None:
        semaphore, source, target = map(way_of, ends, self.paths)
        if semaphore is None or source is None or target is None:
            return None
        move = Move(semaphore, source, target, self._count)
        return move if move.is_regular else None

    def views(self, session: Session, residues: Residues) -> Views | None:
        """The views of a session for the given residues of turns; None if there are none."""
        move = session.move
        if residues in session.views or session.ends is None or move is None:
            return None
        source, target = session.ends
        route = move.route(residues)
        found = None
        if route is not None:
            read = _all(source.buffer, route.read, session.units[0])
            write = _all(target.buffer, route.write, session.units[1])
            found = Views(read, write, route.parts)
        session.views[residues] = found
        return found


def _is_plain(buffer: Buffer) -> bool:
    """Whether writes to a buffer are not tracked."""
    watched = buffer.shadow is not None or buffer.complete or buffer.aliased
    return not watched and not buffer.freed


def _all(buffer: Buffer, end: End, unit: int) -> Array:
    """Views at `end` and at every further `unit` bytes, as far as the memory of `buffer` goes."""
    memory, dtype = buffer.bytes, np.dtype(end.unit)
    reach = sum((n - 1) * s for n, s in zip(end.shape, end.strides, strict=True))
    count = max((len(memory) - end.first - reach - dtype.itemsize) // unit, 0) + 1
    return np.ndarray((count, *end.shape), dtype, memory, end.first, (unit, *end.strides))
