"""When a kernel that is run again and again is recorded, and when its script runs in its place."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from pallasite.dialects import memref, tpu
from pallasite.dialects.kernel import IN_PLACE, Kernel
from pallasite.dialects.types import memory_space
from pallasite.interpreter.call_plan import CallPlan
from pallasite.interpreter.compiled import Program
from pallasite.interpreter.machine.spare import Spare
from pallasite.interpreter.options import Limits
from pallasite.interpreter.replay.recorder import Recorder
from pallasite.interpreter.replay.script import Script
from pallasite.interpreter.values import Array

BEFORE = 7
"""Runs before the one that is recorded: most programs run a kernel once, and to record and compile
takes two to eight runs."""
REPEATABLE = frozenset(
    (
        memref.AllocaOp,
        memref.AllocOp,
        memref.DeallocOp,
        tpu.EnqueueDmaOp,
        tpu.InternalScratchOp,
        tpu.IterationBoundOp,
        tpu.LoadOp,
        tpu.SemAllocOp,
        tpu.SemReadOp,
        tpu.SemSignalOp,
        tpu.SemWaitOp,
        tpu.ShuffledLoadOp,
        tpu.ShuffledStoreOp,
        tpu.StoreOp,
        tpu.TraceStartOp,
        tpu.TraceStopOp,
        tpu.WaitDma2Op,
        tpu.WaitDmaOp,
    )
)
"""Effects that tell a recorder all that they do with arrays, or do nothing with them."""


@dataclass(frozen=True)
class Replay:
    """A script, and what its runs tell."""

    script: Script
    limits: Limits
    """Of the run that was recorded, with the steps that it took."""
    poison: int
    memory: dict[str, int]
    transfers: dict[str, int]


@dataclass
class Repeats:
    """The runs of one prepared kernel, by one core and without observers."""

    runs: int = 0
    hopeless: bool = False
    """Whether no script can do what the kernel does."""
    replay: Replay | None = None

    def recorder(self, program: Any, kernel: Kernel, plan: CallPlan) -> Recorder | None:
        """Who is told of the run that begins, if it is worth it."""
        self.runs += 1
        if self.runs <= BEFORE or self.hopeless or not isinstance(program, Program):
            return None
        self.hopeless = True  # Unless it ends well.
        return Recorder(program) if _is_repeatable(program, kernel, plan) else None

    def keep(self, replay: Replay, effects: Set[Any]) -> None:
        """Has `replay` run in place of the kernel, a program with `effects` now that it has run: it
        is written as it runs for the first time."""
        if effects <= REPEATABLE:
            self.replay, self.hopeless = replay, False

    def run(
        self, arrays: Sequence[Array], limits: Limits, poison: int, spare: Spare | None
    ) -> tuple[Replay, list[Array], float] | None:
        """The results of a run within `limits`, and its seconds, if a script can do it.

        None if something goes wrong, too: the kernel's own run says what.
        """
        replay = self.replay
        if replay is None or limits.steps < replay.limits.steps:
            return None
        if limits.memory != replay.limits.memory or poison != replay.poison:
            return None
        try:
            return replay, *replay.script.run(arrays, spare)
        except Exception:
            self.replay, self.hopeless = None, True
            return None


def _is_repeatable(program: Program, kernel: Kernel, plan: CallPlan) -> bool:
    """Whether all that a kernel does with arrays is told to a recorder."""
    return (
        program.effects <= REPEATABLE
        and not kernel.prefetch
        and not plan.bounds
        and all(place.source is None for place in plan.places)
        and all(memory_space(argument.type) in IN_PLACE for argument in kernel.operands)
    )
