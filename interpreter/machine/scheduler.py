"""The deterministic scheduler: one generator per core, resumed one at a time.

A program runs until it yields a `Wait`. If that is ready the program goes to the back of the queue,
else it sleeps on its semaphore, whose credit wakes it. The order depends on the seed and nothing
else. When everybody sleeps, transfers still in flight may land; if that helps nobody, the sleepers
are deadlocked: each of them is named, and the cycle in which they wait for each other.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pallasite.diagnostics import ExecutionError, Note, SourceLocation
from pallasite.interpreter.machine.semaphores import Count, Wait

if TYPE_CHECKING:
    from pallasite.interpreter.machine.core import Core

Program = Generator[Wait, None, Any]


@dataclass(eq=False)
class Task:
    """A core's program, what it waits for, and what it returned."""

    core: Core
    program: Program
    queue: deque[Task]
    wait: Wait | None = None
    result: Any = None

    def wake(self) -> None:
        """Puts the task back into the queue of those that can run."""
        self.wait = None
        self.queue.append(self)


def run(
    programs: Sequence[tuple[Core, Program]],
    land: Callable[[], bool],
    order: random.Random | None,
) -> list[Any]:
    """Runs `programs` to their ends and returns their values.

    `land` lets one transfer in flight land and says whether there was one. `order` picks the next
    program at random; without it the queue is first in, first out.
    """
    queue: deque[Task] = deque()
    tasks = [Task(core, program, queue) for core, program in programs]
    queue.extend(tasks)
    for task in tasks:
        task.core.begun = task.core.finished = False
    left = len(tasks)
    try:
        while left:
            if not queue:
                if land():
                    continue
                raise _deadlock(tasks)
            if order is not None:
                queue.rotate(-order.randrange(len(queue)))
            left -= _resume(queue.popleft())
    except BaseException:
        # Also after an interrupt: no program is left suspended.
        for task in tasks:
            task.program.close()
        raise
    return [task.result for task in tasks]


def _resume(task: Task) -> bool:
    """Runs `task` to its next wait; True if that was its end."""
    try:
        wait = next(task.program)
    except StopIteration as stop:
        task.core.begun = True
        task.result = stop.value
        task.core.finished = True
        return True
    task.core.begun = True
    if wait.ready():
        task.queue.append(task)
    else:
        task.wait = wait
        if isinstance(wait, Count):
            wait.semaphore.waiters.append(task)
    return False


_NAMED = 64
"""How many stuck cores a deadlock names."""
_FEW = 4
"""Of how many it says what came before, and how many semaphores that somebody forgot."""


def _deadlock(tasks: Sequence[Task]) -> ExecutionError:
    stuck = {task.core: task.wait for task in tasks if task.wait is not None}
    notes: list[Note] = []
    if len(stuck) > 1:
        notes = [Note(f"{core} {wait.describe()}", _location(wait)) for core, wait in stuck.items()]
    if len(stuck) > _NAMED:
        notes[_NAMED:] = [Note(f"and {len(stuck) - _NAMED} more cores")]
    core, wait = next(iter(stuck.items()))
    others = _others(len(stuck) - 1)
    return ExecutionError(
        "deadlock",
        f"deadlock: {core} {wait.describe()}{others}; no DMA in flight",
        _location(wait),
        [*_missing(tasks, stuck), *notes],
    )


def _others(count: int) -> str:
    if count < 2:
        return ", and 1 more core waits" if count else ""
    return f", and {count} more cores wait"


def _missing(tasks: Sequence[Task], stuck: dict[Core, Wait]) -> list[Note]:
    """Why nobody will ever signal: a cycle of waits, or everybody else has finished."""
    finished = [task.core for task in tasks if task.wait is None]
    notes: list[Note] = []
    if len(stuck) > 1:
        cycle = _cycle(stuck)
        chain = ", which waits for ".join(str(core) for core in (*cycle[1:], cycle[0])[:_NAMED])
        notes.append(Note(f"the cycle: {cycle[0]} waits for {chain}", _location(stuck[cycle[0]])))
    else:
        core, wait = next(iter(stuck.items()))
        if isinstance(wait, Count):
            what = "DMA" if wait.transfers else "signal"
            notes.append(Note(f"missing: a {what} that {core} could still receive"))
    for core, wait in list(stuck.items())[:_FEW]:
        if isinstance(wait, Count):
            notes += wait.semaphore.last_wait()
            others = [s for s in core.semaphores.values() if s.value and s is not wait.semaphore]
            notes += [other.left() for other in others[:_FEW]]
    advice = dict.fromkeys(w.advice() for w in stuck.values() if isinstance(w, Count))
    notes += map(Note, advice)
    if finished:
        more = f" and {len(finished) - 8} more" if len(finished) > 8 else ""
        names = ", ".join(map(str, finished[:8]))
        notes.append(Note(f"{names}{more} finished and will not signal any more"))
    return notes


def _cycle(stuck: dict[Core, Wait]) -> list[Core]:
    """Cores of which each waits for the next, and the last for the first.

    A core waits for the one that has signalled its semaphore before; if there was none, any that
    is stuck might have to, and the next one stands for them.
    """
    cores = list(stuck)
    place = {core: number for number, core in enumerate(cores)}
    path: list[Core] = []
    core = cores[0]
    while core not in path:
        path.append(core)
        wait = stuck[core]
        signaller = wait.semaphore.credited_by if isinstance(wait, Count) else None
        if signaller is None or signaller is core or signaller not in place:
            signaller = cores[(place[core] + 1) % len(cores)]
        core = signaller
    return path[path.index(core) :]


def _location(wait: Wait) -> SourceLocation | None:
    return wait.location if isinstance(wait, Count) else None
