"""Plans a movement in stages: through native tiles, one step of the index map after the other.

    %b = transpose, reshape %a : 64x16x515 (4 rows a tile) to 160x3296 (lanes along dimension 0)
becomes
    %n = relayout %a                     native tiles, rows and lanes along the last dimensions
    %t = transpose %n                    the same of 16x515x64
    %r = reshape %t                      the same of 160x3296
    %b = relayout %r

Single stages often consist of copies where the whole movement does not. So they are tried where a
plan of the whole movement costs much, or is not found within some steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pallasite.diagnostics import Unsupported
from pallasite.layouts.move import IndexStep, Laid, Move, Reshape, Shape, Transpose
from pallasite.layouts.plan import Plan, Value
from pallasite.layouts.planner.batch import batch
from pallasite.layouts.planner.budget import TooDear
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.judge import cuts_rows_anew
from pallasite.layouts.planner.program import Program
from pallasite.layouts.planner.search import SHORT
from pallasite.layouts.strategies.flat import comes_everywhere
from pallasite.layouts.strategies.transpose import Planner, append
from pallasite.layouts.vector_layout import VectorLayout

AT_ONCE, SOON, STEPS, _MORE_STEPS = 1000, 250, 2000, 400
"""Steps that a search takes at most: for all stages at once; for those, where a plan in stages is
known; for one of them; and for one of them where a plan is known."""
_WORTH = 5
"""Plans that cost so many times what stages cost at least are seldom dearer than these."""


@dataclass(frozen=True)
class Stages:
    """A movement as a sequence of movements, each of which begins where the previous one ends."""

    move: Move
    before: tuple[Move | None, ...]
    """Per source, how it comes to native tiles, if it does not lie there."""
    between: tuple[Move, ...]
    """What is moved in native tiles: a concatenation, the steps."""
    after: Move | None
    """How the result comes to its own tiles, if those are others."""

    @classmethod
    def of(cls, move: Move) -> Stages:
        """The stages of a movement, possibly only one."""
        before: list[Move | None] = []
        values: list[Laid] = []
        apart = _apart(move.steps)
        turned = bool(apart) and _turns_short_rows(move, apart[0])
        for layout, shape in move.sources:
            # Transposes of lanes begin with other tiles, which short rows fill better than these.
            wanted = layout if turned else _native(layout, len(shape))
            before.append(None if wanted == layout else Move.relayout(layout, shape, wanted))
            values.append((wanted, shape))
        between: list[Move] = []
        if len(values) > 1:
            shape = move.concatenated
            joined = VectorLayout.native(len(shape), move.bits), shape
            between.append(Move(tuple(values), joined, (), move.concat_dim))
            values = [joined]
        for steps in apart:
            shape = steps[-1].shape
            made = VectorLayout.native(len(shape), move.bits), shape
            between.append(Move(tuple(values), made, steps))
            values = [made]
        layout, shape = move.destination
        held = _native(layout, len(shape))
        if between:
            between[-1] = replace(between[-1], destination=(held, shape))
        else:
            held = values[0][0]
        after = None if held == layout else Move.relayout(held, shape, layout)
        return cls(move, tuple(before), tuple(between), after)

    @classmethod
    def placed(cls, move: Move) -> Stages:
        """The stages after replicated sources are restricted to one place, which is free.

        This leaves fewer plans to choose from, and a simpler search.
        """
        before: list[Move | None] = []
        values: list[Laid] = []
        for layout, shape in move.sources:
            named = layout.with_offsets(layout.row or 0, layout.column or 0)
            before.append(None if named == layout else Move.relayout(layout, shape, named))
            values.append((named, shape))
        return cls(move, tuple(before), (replace(move, sources=tuple(values)),), None)

    @classmethod
    def named(cls, move: Move) -> Stages | None:
        """For reshapes of words with a replicated result: first to one place, then to all; else
        None.

        There are more methods for one place, and replicating takes one instruction per register.
        Narrower elements are unpacked before.
        """
        (layout, shape), steps = move.destination, _apart(move.steps)
        if move.bits < 32 or None not in (layout.row, layout.column):
            return None
        if len(steps) != 1 or not cuts_rows_anew(move) or comes_everywhere(move):
            return None  # Chunks come to all places as soon as to one.
        native = VectorLayout.native(len(shape), layout.bits)
        between = (replace(move, destination=(native, shape)),)
        after = Move.relayout(native, shape, layout)
        return cls(move, (None,) * len(move.sources), between, after)

    @property
    def several(self) -> bool:
        """Whether some source or result has more than one stage."""
        return len(self.between) + any(self.before) + (self.after is not None) > 1

    @property
    def come_first(self) -> bool:
        """Whether planning in stages is faster than finding out that nothing in the movement
        repeats.

        Columns become rows by a transpose, whose parts do repeat.
        """
        return cuts_rows_anew(self.move) and not self._of_columns

    @property
    def _of_columns(self) -> bool:
        return any(shape[-1:] == (1,) for _, shape in self.move.sources)

    def are_all(self, costs: Costs) -> bool:
        """Whether any other plan passes through native tiles, too, because the transpose unit does
        not take the elements and they are unpacked there."""
        ends = (*self.move.sources, self.move.destination)
        if self.move.bits in costs.transpose_bits or all(la.is_native for la, _ in ends):
            return False
        return any(_turns_lanes(s) for s in self.move.steps)

    @property
    def steps(self) -> int:
        """The number of steps of the index map that are stages of their own."""
        return len(_apart(self.move.steps))

    def better(self, plan: Planner, costs: Costs, known: Plan) -> Plan | None:
        """A plan in stages that costs less than `known`, if one is to be expected; else None.

        Not if columns become rows that are then reshaped: these are transposed in any case, and
        would not be reshaped differently in native tiles.
        """
        if not self.several or known.cost <= _WORTH * costs.copies * self._least():
            return None
        if self._of_columns and cuts_rows_anew(self.move):
            return None
        return self.best(plan, costs.below(known.cost), _MORE_STEPS)

    def best(self, plan: Planner, costs: Costs, steps: int = STEPS) -> Plan | None:
        """The plan in several stages within `costs.most`; None if there is none."""
        if not self.several or not costs.stages:
            return None
        costs = replace(costs, steps=steps, stages=False)
        retiling = replace(costs, steps=STEPS)
        sources = [Value(la.grid_shape(shape), la.packing) for la, shape in self.move.sources]
        program = Program(sources, self.move.bits, costs, costs.most)
        hows: list[str] = []

        def moved(stage: Move | None, operands: list[int]) -> list[int]:
            if stage is None:
                return operands
            allowed = costs if stage in self.between else retiling
            made = plan(stage, allowed.below(program.limit - program.spent))
            hows.append(made.how)
            return [append(program, made, operands)]

        try:
            values = [v for n, stage in enumerate(self.before) for v in moved(stage, [n])]
            for stage in self.between:
                values = moved(stage, values)
            values = moved(self.after, values)
        except (Unsupported, TooDear):
            return None
        return program.plan(values[0], f"stages: {', '.join(hows)}")

    def _least(self) -> int:
        """An estimate of the least cost of all stages: one instruction per register made."""
        made = (stage.destination for stage in self._all)
        return sum(layout.register_count(shape) for layout, shape in made)

    @property
    def _all(self) -> list[Move]:
        return [m for m in (*self.before, *self.between, self.after) if m is not None]

    def repeat(self, other: Stages) -> bool:
        """Whether each stage consists of copies of the same movement as that of `other`."""
        if len(self._all) != len(other._all):
            return False
        return all(_core(a) == _core(b) for a, b in zip(self._all, other._all, strict=True))


def _apart(steps: Sequence[IndexStep]) -> list[tuple[IndexStep, ...]]:
    """The steps grouped into stages; steps that only insert or drop unit dimensions join others."""
    found: list[tuple[IndexStep, ...]] = []
    moves = True
    for step in steps:
        free = isinstance(step, Reshape) and _sides(step.shape) == _sides(step.source_shape)
        if found and (free or not moves):
            found[-1] = (*found[-1], step)
            moves = moves or not free
        else:
            found.append((step,))
            moves = not free
    return found


def _turns_short_rows(move: Move, steps: Sequence[IndexStep]) -> bool:
    """Whether rows that fill little of a register become columns, of elements that the transpose
    unit takes on every target."""
    shape = move.concatenated
    if len(move.sources) > 1 or move.bits < 16 or not shape or shape[-1] > SHORT:
        return False
    return any(_turns_lanes(step) for step in steps)


def _turns_lanes(step: IndexStep) -> bool:
    """Whether the last dimension becomes another one."""
    return isinstance(step, Transpose) and step.permutation[-1] != len(step.shape) - 1


def _sides(shape: Shape) -> list[int]:
    return [n for n in shape if n > 1]


def _core(move: Move) -> Move:
    """The movement of one copy if `move` consists of copies, else `move`."""
    while (found := batch(move)) is not None:
        move = found.core
    return move


def _native(layout: VectorLayout, rank: int) -> VectorLayout:
    """Native tiles along the last dimensions, at row 0 and lane 0.

    Replicated axes stay replicated; a replicated layout along other dimensions is kept as it is.
    """
    native = VectorLayout.native(rank, layout.bits)
    if None not in (layout.row, layout.column):
        return native
    if (layout.sublane_dim, layout.lane_dim) != (native.sublane_dim, native.lane_dim):
        return layout
    row, column = (None if place is None else 0 for place in (layout.row, layout.column))
    return native.with_offsets(row, column)
