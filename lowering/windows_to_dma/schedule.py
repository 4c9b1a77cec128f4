"""The pipeline schedule: when blocks are fetched, awaited, stored and released.

Events and their order are those of spec/pallas_semantics.md section 2.3, for inputs of any number
of buffers and outputs of one or two. For an input and an output of two buffers each, whose blocks
change with every step, the phases of one step are (k>slot is a transfer of block k into a slot):

    start fetch s+1 > 1-slot;  wait for fetch of block s;  body;
    start store s < slot;      wait for store of block s-1

A buffer holds `buffers` blocks, its slots. The loop carries one slot number for each operand with
several: the slot that the body sees. Of two slots, the other one receives the next block of an
input, and still holds the previous block of an output. (The counters of section 2.3 stay in step:
`ci = wi + 1` when a fetch starts, `wo = co - 1` when a store is awaited; so one number per operand
replaces both.) For an input with more than two slots the loop also carries the slot of its next
fetch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import i32
from xdsl.ir import Block, SSAValue

from pallasite.dialects import scf
from pallasite.lowering.windows_to_dma.grid import Grid, Index, Point
from pallasite.lowering.windows_to_dma.maps import evaluate
from pallasite.lowering.windows_to_dma.scalars import Scalar, ScalarBuilder, known
from pallasite.lowering.windows_to_dma.transfers import Pipelined


@dataclass(frozen=True)
class _Turn:
    """What one operand does in one step."""

    operand: Pipelined
    slot: Scalar
    """The slot that the body sees."""
    other: Scalar
    """The slot after this one; of two, the other one."""
    previous: Index
    """The block index of the previous step."""
    current: Index
    """The block index of this step."""
    following: Index
    """The block index of the next step."""
    came: Scalar
    """Whether the block differs from the previous step's (meaningless at the first step)."""
    leaves: Scalar
    """Whether the next step's block differs from this one (meaningless at the last step)."""


@dataclass(frozen=True)
class _Step:
    """A step of the grid, as the loop counts it."""

    number: Scalar
    steps: Scalar
    """How many steps there are."""
    point: Point
    not_first: Scalar
    not_last: Scalar
    first: Scalar
    last: Scalar

    @staticmethod
    def of(build: ScalarBuilder, number: Scalar, steps: Scalar, point: Point) -> _Step:
        """Step `number`, from 0, of `steps`, at `point` of the grid."""
        return _Step(
            number,
            steps,
            point,
            not_first=build.differ(number, 0, "not_first"),
            not_last=build.differ(number, build.sub(steps, 1), "not_last"),
            first=build.equal(number, 0, "first"),
            last=build.equal(number, build.sub(steps, 1), "last"),
        )


class Pipeline:
    """Writes prologue, loop and epilogue of a pipelined kernel, or of a `pallas.emit_pipeline`."""

    def __init__(
        self,
        build: ScalarBuilder,
        grid: Grid,
        operands: Sequence[Pipelined],
        prefetch: Sequence[SSAValue],
        body: Callable[[Point], None],
        *,
        every_step: bool = False,
    ):
        """A pipeline over `grid`, written through `build`.

        `prefetch` are the arguments of index maps after the grid indices. `body` writes the
        kernel's body for a point of the kernel's grid; the blocks that it uses have been replaced
        by views of slots before. With `every_step` each step copies the blocks of operands of one
        buffer, also those that are the previous step's; else only blocks that change are copied.
        """
        self.build = build
        self.grid = grid
        self.operands = operands
        self.prefetch = prefetch
        self.body = body
        self.every_step = every_step

    def write(self, steps: Scalar) -> None:
        """Writes the pipeline for `steps` steps, at least one."""
        build, grid = self.build, self.grid
        fetch_slots = self._prologue(steps)
        if known(steps) == 1:
            origin = (0,) * len(grid.bounds)
            slots: list[Scalar] = [0] * len(self.operands)
            only = _Step.of(build, 0, steps, origin)
            last_slots, _ = self._step(only, slots, fetch_slots)
        else:
            last_slots = self._loop(steps, fetch_slots)
        final = tuple(build.sub(bound, 1) for bound in grid.bounds)
        for operand, slot in zip(self.operands, last_slots, strict=True):
            if operand.stored and operand.buffers == 2:
                with build.at(operand.location):
                    operand.wait_store(build, self._index(operand, final), build.sub(1, slot))

    def _index(self, operand: Pipelined, point: Point) -> Index:
        arguments = (*self.grid.program_ids(self.build, point), *self.prefetch)
        return evaluate(self.build, operand.index_map, arguments, self.grid.totals)

    def _prologue(self, steps: Scalar) -> dict[int, Scalar]:
        """Starts the fetches for the first steps: an input of N buffers fetches for N - 1 of them.

        Returns the slot of the next fetch of each input with more than two buffers, by the number
        of the operand.
        """
        build, slots = self.build, dict[int, Scalar]()
        point: Point = (0,) * len(self.grid.bounds)
        before = point
        for ahead in range(max((o.buffers for o in self.operands), default=1) - 1):
            for n, operand in enumerate(self.operands):
                if not operand.fetched or operand.buffers < ahead + 2:
                    continue
                with build.at(operand.location):
                    slot = slots.get(n, 0)
                    fetches: Scalar = 1
                    if ahead:
                        fetches = build.both(
                            build.less(ahead, steps), self._moves(operand, before, point)
                        )
                    slots[n] = self._fetch_into(operand, fetches, point, slot)
            before, point = point, self.grid.after(build, point)
        return {n: slot for n, slot in slots.items() if self.operands[n].buffers > 2}

    def _fetch_into(
        self, operand: Pipelined, fetches: Scalar, point: Point, slot: Scalar
    ) -> Scalar:
        """Starts the fetch of the block at `point` into `slot`, under the condition `fetches`.

        Returns the slot of the next fetch.
        """
        build = self.build
        index = operand.within(build, self._index(operand, point))
        slot = build.below(slot, operand.buffers)
        build.when(fetches, lambda: operand.fetch(build, index, slot))
        return build.select(fetches, self._slot_after(operand, slot), slot)

    def _slot_after(self, operand: Pipelined, slot: Scalar) -> Scalar:
        build, count = self.build, operand.buffers
        if count <= 2:
            return build.sub(1, slot) if count == 2 else 0
        moved = build.add(slot, 1)
        return build.select(build.equal(moved, count), 0, moved)

    def _moves(self, operand: Pipelined, before: Point, after: Point) -> Scalar:
        """Whether the operand's blocks at `before` and at `after`, the next point, differ."""
        index = self._index(operand, after)
        running = all(known(after[axis]) is None for axis in self.grid.varying)
        if running and self.grid.advances(index, self.grid.program_ids(self.build, after)):
            return 1
        return self._differ(self._index(operand, before), index)

    def _loop(self, steps: Scalar, fetch_slots: dict[int, Scalar]) -> list[Scalar]:
        """Writes the loop over all steps; returns each operand's slot after the last step."""
        build, grid = self.build, self.grid
        # With a single varying axis, its index is the step.
        carried = grid.varying if len(grid.varying) > 1 else []
        slotted = [n for n, operand in enumerate(self.operands) if operand.buffers > 1]
        count = len(carried) + len(slotted)
        block = Block(arg_types=[i32] * (1 + count + len(fetch_slots)))
        step, *values = block.args
        step.name_hint = "step"
        for axis, value in zip(carried, values, strict=False):
            value.name_hint = f"index{axis}"
        point: list[Scalar] = [0] * len(grid.bounds)
        for axis, value in zip(
            carried or grid.varying, values if carried else [step], strict=False
        ):
            point[axis] = value
        slots: list[Scalar] = [0] * len(self.operands)
        for n, value in zip(slotted, values[len(carried) : count], strict=True):
            slots[n] = value
            value.name_hint = "slot"
        ahead: dict[int, Scalar] = {}
        for n, value in zip(fetch_slots, values[count:], strict=True):
            ahead[n] = value
            value.name_hint = "fetch_slot"
        with build.within(block):
            one = _Step.of(build, step, steps, tuple(point))
            slots, ahead = self._step(one, slots, ahead)
            following = grid.after(build, tuple(point)) if carried else ()
            yielded = [following[axis] for axis in carried] + [slots[n] for n in slotted]
            yielded += [ahead[n] for n in fetch_slots]
            build.emit(scf.YieldOp(*(build.value(v) for v in yielded)))
        initial = [build.value(0)] * count + [build.value(v) for v in fetch_slots.values()]
        loop = scf.ForOp(build.value(0), build.value(steps), build.value(1), initial, block)
        build.emit(loop)
        for n, result in zip(slotted, loop.results[len(carried) : count], strict=True):
            slots[n] = result
        return slots

    def _turn(self, operand: Pipelined, point: Point, slot: Scalar) -> _Turn:
        build, grid = self.build, self.grid
        with build.at(operand.location):
            previous, current, following = (
                self._index(operand, p)
                for p in (grid.before(build, point), point, grid.after(build, point))
            )
            if self.every_step or grid.advances(current, grid.program_ids(build, point)):
                came = leaves = 1
            else:
                came = self._differ(previous, current)
                leaves = self._differ(current, following)
            current, following = (operand.within(build, i) for i in (current, following))
            slot = build.below(slot, operand.buffers)
            other = self._slot_after(operand, slot)
        return _Turn(operand, slot, other, previous, current, following, came, leaves)

    def _differ(self, a: Index, b: Index) -> Scalar:
        return self.build.any_of(self.build.differ(x, y) for x, y in zip(a, b, strict=True))

    def _step(
        self, step: _Step, slots: Sequence[Scalar], fetch_slots: dict[int, Scalar]
    ) -> tuple[list[Scalar], dict[int, Scalar]]:
        """Writes one step: phases A to F of section 2.3.

        Returns each operand's slot in the next step, and the slot of the next fetch of inputs with
        more than two buffers, by the number of the operand.
        """
        build = self.build
        turns = [self._turn(o, step.point, s) for o, s in zip(self.operands, slots, strict=True)]
        ahead = self._fetch(step, turns, fetch_slots)
        for t in turns:
            with build.at(t.operand.location):
                view = t.operand.body_view(build, t.slot)
            t.operand.argument.replace_all_uses_with(view)
        self.body(self.grid.program_ids(build, step.point))
        departs = [build.either(step.last, t.leaves) for t in turns]
        self._store(step, turns, departs)
        following = [build.select(d, t.other, t.slot) for t, d in zip(turns, departs, strict=True)]
        return following, ahead

    def _fetch(
        self, step: _Step, turns: Sequence[_Turn], fetch_slots: dict[int, Scalar]
    ) -> dict[int, Scalar]:
        """What comes before the body: starts fetches, then waits for the blocks of this step.

        Returns the slot of the next fetch of inputs with more than two buffers.
        """
        build = self.build
        fetched = [(n, t) for n, t in enumerate(turns) if t.operand.fetched]
        ahead: dict[int, Scalar] = {}
        for n, t in fetched:
            if t.operand.buffers == 2:
                self._when(t, build.both(step.not_last, t.leaves), self._fetch_next)
            elif t.operand.buffers == 1:
                self._when(t, build.either(step.first, t.came), self._fetch_here)
            else:
                ahead[n] = self._fetch_ahead(t, step, fetch_slots[n])
        for _, t in fetched:
            self._when(t, build.either(step.first, t.came), self._wait_here)
        return ahead

    def _store(self, step: _Step, turns: Sequence[_Turn], departs: Sequence[Scalar]) -> None:
        """What comes after the body: starts the stores of the blocks that leave their slots (of
        which `departs` says so), then waits for those of the previous step."""
        build = self.build
        stored = [(t, d) for t, d in zip(turns, departs, strict=True) if t.operand.stored]
        for t, departing in stored:
            self._when(t, departing, self._store_here)
        for t, _ in stored:
            if t.operand.buffers == 2:
                self._when(t, build.both(step.not_first, t.came), self._wait_previous)

    def _fetch_ahead(self, turn: _Turn, step: _Step, slot: Scalar) -> Scalar:
        """For an input of N > 2 buffers: fetches for the step N - 1 steps ahead, if there is one
        and its block is new. Returns the slot of the next fetch."""
        build, operand = self.build, turn.operand
        distance = operand.buffers - 1
        with build.at(operand.location):
            before = point = step.point
            for _ in range(distance):
                before, point = point, self.grid.after(build, point)
            exists = build.less(build.add(step.number, distance), step.steps)
            fetches = build.both(exists, self._moves(operand, before, point))
            return self._fetch_into(operand, fetches, point, slot)

    def _when(self, turn: _Turn, condition: Scalar, write: Callable[[_Turn], None]) -> None:
        with self.build.at(turn.operand.location):
            self.build.when(condition, lambda: write(turn))

    def _fetch_next(self, t: _Turn) -> None:
        t.operand.fetch(self.build, t.following, t.other)

    def _fetch_here(self, t: _Turn) -> None:
        t.operand.fetch(self.build, t.current, t.slot)

    def _wait_here(self, t: _Turn) -> None:
        t.operand.wait_fetch(self.build, t.current, t.slot)

    def _store_here(self, t: _Turn) -> None:
        t.operand.store(self.build, t.current, t.slot)

    def _wait_previous(self, t: _Turn) -> None:
        t.operand.wait_store(self.build, t.previous, t.other)
