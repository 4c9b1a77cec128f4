"""The deterministic scheduler: one generator per core, resumed one at a time.

A program runs until it yields a `Wait`. If that is ready the program goes to the back of the queue,
else it sleeps on its semaphore, whose credit wakes it. The order depends on the seed and nothing
else. When everybody sleeps, transfers still in flight may land; if that helps nobody, the sleepers
are deadlocked and every one of them is named.
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
        for task in tasks:
            task.program.close()
        raise
    return [task.result for task in tasks]


def _resume(task: Task) -> bool:
    """Runs `task` to its next wait; True if that was its end."""
    try:
        wait = next(task.program)
    except StopIteration as stop:
        task.result = stop.value
        return True
    if wait.ready():
        task.queue.append(task)
    else:
        task.wait = wait
        if isinstance(wait, Count):
            wait.semaphore.waiters.append(task)
    return False


def _deadlock(tasks: Sequence[Task]) -> ExecutionError:
    stuck = [(task.core, task.wait) for task in tasks if task.wait is not None]
    notes = [Note(f"{core} {wait.describe()}", _location(wait)) for core, wait in stuck[:64]]
    if len(stuck) > 64:
        notes.append(Note(f"and {len(stuck) - 64} more cores"))
    core, wait = stuck[0]
    others = f", and {len(stuck) - 1} more cores wait" if len(stuck) > 1 else ""
    return ExecutionError(
        "deadlock",
        f"deadlock: {core} {wait.describe()}{others}; no DMA in flight",
        _location(wait),
        notes,
    )


def _location(wait: Wait) -> SourceLocation | None:
    return wait.location if isinstance(wait, Count) else None
