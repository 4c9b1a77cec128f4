"""When a kernel that is run again and again is recorded, and when its script runs in its place."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

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
BEFORE_MORE = 1
"""The same, for a kernel whose scripts have saved what one costs: in each step of a decoder all
layers run with one table, which is another one in the next step."""
COST = 8
"""Runs that it takes to record and compile a script, of which each that runs saves one."""
MOST_SAVED = 8 * COST
"""What is remembered of that: a kernel may get other tables, which come only twice."""
MOST_SCRIPTS = 8
"""Scripts of one kernel, which does something else for each table that it gets."""
MOST_SCRIPT_LINES = 1 << 13
"""Lines of those, but one script may be longer."""
MOST_COUNTS = 64
"""Tables of which it is known how often a kernel has run with them: a model may run all its layers
with one, and never again."""
MOST_FAILURES = 4
"""Tables with which a kernel was recorded in vain, of which it is the kernel's doing."""
REPEATABLE = frozenset(
    (
        memref.AllocaOp,
        memref.AllocOp,
        memref.DeallocOp,
        memref.LoadOp,
        memref.StoreOp,
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
    """The runs of one prepared kernel, by one core and without observers.

    What decides what a kernel does are some operands of its call: the sizes of its grid, and the
    scalars that are there before it begins. Runs for which these have the same bytes are alike.
    """

    hopeless: bool = False
    """Whether no script can do what the kernel does."""
    counts: OrderedDict[Hashable, int] = field(default_factory=OrderedDict[Hashable, int])
    """How many runs were alike, by what decides it; those last that were last."""
    replays: OrderedDict[Hashable, Replay] = field(default_factory=OrderedDict[Hashable, Replay])
    """The scripts, by the same, in the same order."""
    failures: int = 0
    saved: int = 0
    """Runs that scripts have saved, without those that it has cost to make them."""

    def recorder(
        self, key: Hashable, program: Any, kernel: Kernel, plan: CallPlan
    ) -> Recorder | None:
        """Who is told of the run that begins, if it is worth it."""
        if self.hopeless or not isinstance(program, Program):
            return None
        count = self.counts[key] = self.counts.pop(key, 0) + 1
        if len(self.counts) > MOST_COUNTS:
            self.counts.popitem(last=False)
        paid = self.saved >= COST and count == BEFORE_MORE + 1
        if not paid and count != BEFORE + 1:
            return None
        self.saved -= COST
        self._failed()  # Unless it ends well.
        self.hopeless = self.hopeless or not plan.deciding
        if _is_repeatable(program, kernel, plan):
            return Recorder(program)
        self.hopeless = True
        return None

    def _failed(self) -> None:
        self.failures += 1
        self.hopeless = self.failures >= MOST_FAILURES

    def keep(self, key: Hashable, replay: Replay, effects: Set[Any]) -> None:
        """Has `replay` run in place of the kernel, a program with `effects` now that it has run: it
        is written as it runs for the first time."""
        if not effects <= REPEATABLE:
            self.hopeless = True
            return
        self.failures -= 1
        self.hopeless = False
        replays = self.replays
        replays[key] = replay
        while len(replays) > 1 and (
            len(replays) > MOST_SCRIPTS
            or sum(known.script.length for known in replays.values()) > MOST_SCRIPT_LINES
        ):
            dropped, _ = replays.popitem(last=False)
            # It is recorded again only if it comes again and again: tables may take turns.
            self.counts[dropped] = -8 * BEFORE

    def run(
        self,
        key: Hashable,
        arrays: Sequence[Array],
        limits: Limits,
        poison: int,
        spare: Spare | None,
        into: Sequence[Array] | None = None,
    ) -> tuple[Replay, list[Array], float] | None:
        """The results of a run within `limits`, and its seconds, if a script can do it.

        None if something goes wrong, too: the kernel's own run says what.
        """
        replay = self.replays.get(key)
        if replay is None or limits.steps < replay.limits.steps:
            return None
        if limits.memory != replay.limits.memory or poison != replay.poison:
            return None
        self.replays.move_to_end(key)
        try:
            found = replay.script.run(arrays, spare, into)
            self.saved = min(self.saved + 1, MOST_SAVED)
            return replay, *found
        except Exception:
            # Whatever a script raises, the ordinary run that follows either succeeds or reports it
            # with its location; so the script is dropped and nothing is reported here.
            del self.replays[key]
            self.hopeless = True
            return None


def key_of(plan: CallPlan, arrays: Sequence[Array]) -> Hashable:
    """What decides what a run does with `arrays`: a digest, for tables may be long, and the caller
    may change them later."""
    if not plan.deciding:
        return b""
    digest = blake2b(digest_size=32)
    for number in plan.deciding:
        # Their types are those of the call.
        digest.update(np.ascontiguousarray(arrays[number]).reshape(-1).view(np.uint8).data)
    return digest.digest()


def _is_repeatable(program: Program, kernel: Kernel, plan: CallPlan) -> bool:
    """Whether all that a kernel does with arrays is told to a recorder."""
    first = plan.bounds + len(kernel.prefetch)
    return program.effects <= REPEATABLE and all(
        memory_space(argument.type) in IN_PLACE or number in plan.deciding
        for number, argument in enumerate(kernel.operands, first)
    )
