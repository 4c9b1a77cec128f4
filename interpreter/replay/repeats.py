"""Decides when a kernel that runs repeatedly is recorded, and when its script replaces it.

A *table* below is the contents of the operands that decide what a kernel does (`Repeats`);
each table needs a script of its own.
"""

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
"""Runs with a table before one is recorded: most programs run a kernel once, and recording and
compiling takes as long as two to eight runs."""
BEFORE_MORE = 1
"""The same for a kernel whose scripts have saved enough to pay for another one: in each step of a
decoder all layers run with one table, and the next step has another."""
COST = 8
"""What recording and compiling a script costs, in runs; each run of a script saves one run."""
MOST_SAVED = 8 * COST
"""The most saved runs that are credited: later tables of the kernel may occur only twice."""
MOST_SCRIPTS = 8
"""The most scripts kept per kernel, one for each table."""
MOST_SCRIPT_LINES = 1 << 13
"""The most lines of all scripts of a kernel together; a single script may be longer."""
MOST_COUNTS = 64
"""The most tables per kernel whose runs are counted: a model may run all its layers with one table
and never use it again."""
MOST_FAILURES = 4
"""After so many failed recordings, a kernel is not recorded again."""
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
"""Operations whose effects on arrays are all reported to a recorder, or that have none."""


@dataclass(frozen=True)
class Replay:
    """A script, and what is reported of every run of it."""

    script: Script
    limits: Limits
    """The limits of the recorded run, `steps` being those that it took."""
    poison: int
    memory: dict[str, int]
    transfers: dict[str, int]


@dataclass
class Repeats:
    """The runs of one prepared kernel, by one core and without observers.

    What a kernel does is decided by some operands of its call: the sizes of its grid, and the
    scalars that are there before it begins. Runs in which these have the same bytes are alike; the
    `key` of a run is a digest of them.
    """

    hopeless: bool = False
    """Whether it is known that no script can replace the kernel."""
    counts: OrderedDict[Hashable, int] = field(default_factory=OrderedDict[Hashable, int])
    """Per key the number of runs; the most recent last."""
    replays: OrderedDict[Hashable, Replay] = field(default_factory=OrderedDict[Hashable, Replay])
    """Per key the script; the most recently used last."""
    failures: int = 0
    saved: int = 0
    """Runs that scripts have saved, minus what making them has cost."""

    def recorder(
        self, key: Hashable, program: Any, kernel: Kernel, plan: CallPlan
    ) -> Recorder | None:
        """A recorder for the run that begins, if recording it is worth it; else None."""
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
        """Keeps `replay`, the script of the run that has just ended, for later runs with `key`.

        `effects` are those of the program, complete only now: it is compiled while it first runs.
        """
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
        """Runs the script for `key`: (what it reports, results, seconds); None if there is none.

        None, too, if it does not fit `limits` and `poison`, or if it fails: the ordinary run that
        follows reports the error.
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
    """A digest of the arrays that decide what a run does.

    Not these themselves: tables may be long, and the caller may change them later.
    """
    if not plan.deciding:
        return b""
    digest = blake2b(digest_size=32)
    for number in plan.deciding:
        # Their types are those of the call.
        digest.update(np.ascontiguousarray(arrays[number]).reshape(-1).view(np.uint8).data)
    return digest.digest()


def _is_repeatable(program: Program, kernel: Kernel, plan: CallPlan) -> bool:
    """Whether a recorder is told of everything that the kernel does with arrays."""
    first = plan.bounds + len(kernel.prefetch)
    return program.effects <= REPEATABLE and all(
        memory_space(argument.type) in IN_PLACE or number in plan.deciding
        for number, argument in enumerate(kernel.operands, first)
    )
