"""Faster copies in loops without observers.

A loop that copies rows starts and awaits the same copy again and again, each time with other
offsets (`part_copies`). `Prompt` is for a copy that is awaited right after it is started: nobody
can see whether it has landed in between, so both together are a plain copy, and a note of who
credited and who took from the semaphore. `Start` and `Await` are for copies with other operations
in between. All three handle only the usual case; they do nothing for unusual or faulty copies,
which the general code then handles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pallasite.diagnostics import SourceLocation
from pallasite.interpreter.machine.dma import Transfer
from pallasite.interpreter.machine.part_copies import MOST_SESSIONS, Copier, Found
from pallasite.interpreter.machine.view_paths import Path, Way, follow, lies, way_of
from pallasite.interpreter.machine.views import Ref

if TYPE_CHECKING:
    from pallasite.interpreter.machine.core import Core


class Prompt(Copier):
    """Starts and awaits a copy in one step."""

    def __init__(
        self,
        paths: Sequence[Path],
        count: int,
        at: SourceLocation | None,
        awaited_at: SourceLocation | None,
    ) -> None:
        """See `Copier`."""
        super().__init__(paths, count, at)
        self._awaited_at = awaited_at

    def __call__(self, core: Core, semaphore: Ref, source: Ref, target: Ref, *starts: int) -> bool:
        """Copies; False if it did nothing."""
        found = self.find(core, semaphore, source, target, starts)
        if found is None:
            return False
        session, move, engine, credited, views, read, write = found
        if credited.value or credited.pending:
            return False
        if session.boxes is not None and not self.is_first(found, starts):
            return False
        views.copy(read, write)
        if session.landed is not None:
            session.landed.add((*move.target.box(starts), move.target.digits))
        engine.started += 1
        engine.bits += move.bits
        credited.credited_by, credited.credited_at = core, self.at
        credited.taken_at = self._awaited_at
        return True


class Later(Transfer):
    """A copy started by `Start`, whose source and target refs are only made when somebody asks."""

    __slots__ = ("_copy", "_paths", "_starts")

    # What a copy within a core, of which nobody is told, certainly is not.
    remote = edge = add = False
    plain = True
    reach = rival = source_semaphore = None
    source_amount = 0

    def __init__(
        self, core: Core, paths: Sequence[Path], starts: Sequence[int], copy: Found,
        amount: int, at: SourceLocation | None,
    ) -> None:  # fmt: skip
        """The `copy` between the ends of `paths` with the offsets `starts`."""
        self.sender = self.receiver = core
        self.target_semaphore = copy[3]
        self.target_amount = amount
        self.location = at
        self.read = self.done = False
        self.data = None
        self._copy = copy
        self._paths = paths
        self._starts = starts

    def __getattr__(self, name: str) -> Ref:
        """Makes source and target at their first use."""
        if name not in ("source", "target"):
            raise AttributeError(name)
        roots = self._copy[0].ends
        assert roots is not None
        pairs = zip(roots, self._paths[1:], strict=True)
        self.source, self.target = [follow(ref, path, self._starts) for ref, path in pairs]
        return self.source if name == "source" else self.target

    @property
    def bits(self) -> int:
        return self._copy[1].bits

    def land(self) -> bool:
        session, move, _, _, views, read, write = self._copy
        if session.ends is None:
            return False
        source, target = session.ends
        if source.buffer.freed or target.buffer.freed:
            return False
        views.copy(read, write)
        if session.landed is not None:
            session.landed.add((*move.target.box(self._starts), move.target.digits))
        return True


class Start(Copier):
    """Starts a copy that is awaited elsewhere."""

    def __init__(
        self, paths: Sequence[Path], count: int, counts_bytes: bool, at: SourceLocation | None
    ) -> None:
        """See `Copier`; the semaphore counts bytes, or copies."""
        super().__init__(paths, count, at)
        self._counts_bytes = counts_bytes

    def __call__(self, core: Core, semaphore: Ref, source: Ref, target: Ref, *starts: int) -> bool:
        """Starts the copy; False if it did nothing."""
        found = self.find(core, semaphore, source, target, starts)
        if found is None:
            return False
        session, move, engine, credited, *_ = found
        if session.boxes is not None and not self.is_first(found, starts):
            return False
        bits = move.bits
        amount = (bits + 7) >> 3 if self._counts_bytes else 1
        later = Later(core, self.paths, starts, found, amount, self.at)
        engine.flying[later] = None
        engine.started += 1
        engine.bits += bits
        credited.pending.append(later)
        return True


class Await:
    """Waits for a copy of which only the number of bytes matters; the part that it names must
    exist."""

    def __init__(
        self, paths: Sequence[Path], count: int, amount: int, at: SourceLocation | None
    ) -> None:
        """The paths are those of `Copier`, and the semaphore counts `amount`."""
        self._paths = tuple(paths)
        self._count = count
        self._amount = amount
        self._at = at
        self._ways: dict[Any, Sequence[Way] | None] = {}

    def __call__(self, core: Core, *ends_and_starts: Any) -> bool:
        """Waits; False if it did nothing, because something is unusual or it would have to block.

        The refs at the beginning of paths that lead nowhere are not looked at, except for the
        semaphore.
        """
        engine = core.machine.engine
        if core.observer is not None or core.recorder is not None or engine.random is not None:
            return False
        ends, starts = ends_and_starts[:3], ends_and_starts[3:]
        session = core.sessions.get(self)
        if session is None or session[0] != ends:
            session = core.sessions[self] = self._begin(ends, session)
        _, _, first, steps = session
        if steps is None:
            return False
        number = first
        for start, (last, count) in zip(starts, steps, strict=True):
            if not 0 <= start <= last:
                return False
            number += start * count
        semaphore, amount = core.semaphores.get(number), self._amount
        if semaphore is None:
            return False
        if semaphore.value < amount:
            engine.hurry(semaphore, amount)
            if semaphore.value < amount:
                return False
        semaphore.take(amount, core, self._at)
        return True

    def _begin(self, ends: tuple[Ref, ...], before: Any) -> Any:
        """The ends, how often in a row they were others than before, the number of the semaphore
        for starts of 0, and of each start the largest and by how much it moves that number."""
        # Scopes have semaphores of their own.
        same = before is None or before[0][1:] == ends[1:]
        misses = 0 if before is None else before[1] + (not same)
        ways = self._ways_of(ends) if misses <= MOST_SESSIONS else None
        if ways is None:
            return ends, misses, 0, None
        semaphore = ways[0]
        lasts = {place: last for way in ways for place, last in way.lasts}
        steps = [(lasts[n], semaphore.steps.get(n, 0)) for n in range(self._count)]
        return ends, misses, ends[0].buffer.address // 4 + semaphore.base, steps

    def _ways_of(self, ends: Sequence[Ref]) -> Sequence[Way] | None:
        taken = [(ref, path) for ref, path in zip(ends, self._paths, strict=True)]
        taken = taken[:1] + [pair for pair in taken[1:] if pair[1]]
        key = tuple([lies(ref) for ref, _ in taken])
        if key not in self._ways:
            found = [way_of(ref, path) for ref, path in taken]
            ways = [way for way in found if way is not None]
            usual = len(ways) == len(found) and not ways[0].shape and not ways[0].turns
            self._ways[key] = ways if usual else None
        return self._ways[key]
