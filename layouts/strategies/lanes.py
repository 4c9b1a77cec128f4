"""Moves words to other lanes: rotates of whole registers, and gathers along lanes and sublanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.fields import Field, Mask
from pallasite.layouts.planner.lines import Array, any_along, distinct_values
from pallasite.layouts.planner.overlay import Overlay, apply_index
from pallasite.layouts.planner.program import Program
from pallasite.layouts.planner.ways import of_gathering_rows_apart
from pallasite.layouts.planner.words import WordMove, rows_of, unique_rows
from pallasite.layouts.registers import LANES, SUBLANES
from pallasite.layouts.strategies.rows import move_rows

MoveAligned = Callable[[Program, int, WordMove], int | None]
"""Plans a move in which no word changes its lane."""


def rotate_first(program: Program, x: int, move: WordMove, aligned: MoveAligned) -> int | None:
    """Rotates the sources once per displacement, then moves rows."""
    displacement = move.displacement
    amounts = distinct_values(displacement[displacement > 0]).tolist()
    pieces, at = [x], program.size(x)
    register = move.register.copy()
    for amount in amounts:
        here = displacement == amount
        sources = distinct_values(move.register[here])
        pieces.append(program.rotate_lanes(program.take(x, sources), amount))
        register[here] = np.searchsorted(sources, move.register[here]) + at
        at += sources.size
    lane = np.where(move.wanted, move.starts, -1)
    turned = WordMove(move.starts, register, move.sublane, lane, 1).merged()
    return aligned(program, program.concat(pieces), turned)


def rotate_last(program: Program, x: int, move: WordMove, aligned: MoveAligned) -> int | None:
    """Moves rows in the source's lanes, then rotates each result once per displacement."""
    displacement = move.displacement
    overlay = Overlay(program, len(move.register), move.starts)
    amounts = distinct_values(displacement[displacement >= 0]).tolist()
    parts = [np.nonzero(any_along(displacement == amount, 1, 2))[0] for amount in amounts]
    # Every part is rotated, and laid over the parts before.
    turned = sum(p.size for p, amount in zip(parts, amounts, strict=True) if amount)
    laid = sum(p.size for p in parts) - distinct_values(parts).size
    program.afford(program.costs.copies * (program.costs.cross_lane * turned + laid))
    for amount, members in zip(amounts, parts, strict=True):
        here = displacement == amount
        starts = distinct_values(np.append((move.starts - amount) % LANES, 0))
        segment = np.searchsorted(move.starts, (starts + amount) % LANES, side="right") - 1
        picked = move.where(here).only(members)
        lane = np.where(picked.wanted[..., segment], starts, -1)
        rows = WordMove(
            starts, picked.register[..., segment], picked.sublane[..., segment], lane, 1
        ).merged()
        made = aligned(program, x, rows)
        if made is None:
            return None
        overlay.add(program.rotate_lanes(made, amount), members, here[members])
    return overlay.value


_LOOKED = 1 << 14
"""Words of a layer that take as long to look at as a step takes to make."""


def gather_within_rows(
    program: Program, x: int, move: WordMove, costs: Costs, most: int
) -> int | None:
    """For every destination row, gathers along the lanes from one source row at a time.

    None if a row has more than `most` source rows.
    """
    rest = move.wanted
    source = rows_of(move)
    ordered = np.sort(source, 2)
    changes = (ordered[..., 1:] != ordered[..., :-1]) & (ordered[..., :-1] >= 0)
    if changes.sum(2).max(initial=0) >= most:
        return None
    layers: list[_GatherLayer] = []
    gathers = selects = 0
    for _ in range(most):
        if not rest.any():
            break
        chosen = np.take_along_axis(source, rest.argmax(2)[..., None], 2)
        chosen = np.where(any_along(rest, 2)[..., None], chosen, -1)
        here = rest & (source == chosen)
        rest = rest & ~here
        members = np.nonzero(any_along(here, 1, 2))[0]
        program.work(here.size / _LOOKED)
        layers.append(_GatherLayer.of(move, here, members, chosen[members]))
        # Before anything is made: what all layers cost at least.
        gathers += layers[-1].gathers
        selects += members.size if len(layers) > 1 else 0
        program.afford(costs.copies * (costs.cross_lane * gathers + selects))
    if rest.any():
        return None
    overlay = Overlay(program, len(rest), move.starts)
    for layer in layers:
        overlay.add(layer.make(program, x, costs), layer.members, layer.wanted)
    return overlay.value


@dataclass(frozen=True)
class _GatherLayer:
    """Rows of destination registers, each from one source row; equal registers are made once."""

    members: Array
    """The destination registers."""
    wanted: Array
    """What is taken of them, [members, 8, segments]."""
    move: WordMove
    """The different registers."""
    source: Array
    """Their source rows, [different, 8, 1]."""
    inverse: Array
    """Which of the different registers each member is."""

    @classmethod
    def of(cls, move: WordMove, here: Array, members: Array, source: Array) -> _GatherLayer:
        """The layer of the words `here` of `move`; `source` has the source rows of each member."""
        wanted, n = here[members], members.size
        lane = np.where(wanted, move.lane[members], -1)
        flat = np.concatenate([source.reshape(n, -1), lane.reshape(n, -1)], 1)
        _, first, inverse = unique_rows(flat)
        kept, some = wanted[first], members[first]
        register, sublane = (np.where(kept, f[some], -1) for f in (move.register, move.sublane))
        layer = WordMove(move.starts, register, sublane, lane[first], move.slope)
        return cls(members, wanted, layer, source[first], inverse)

    @property
    def gathers(self) -> int:
        """The number of distinct registers in which some word changes its lane."""
        return int(any_along(self.move.displaced, 1, 2).sum())

    def make(self, program: Program, x: int, costs: Costs) -> int:
        """The members, flat: shuffled, then gathered along the lanes."""
        source = self.source
        register, sublane = source // SUBLANES, np.where(source >= 0, source % SUBLANES, -1)
        rows = move_rows(program, x, register, sublane, np.zeros(1, np.int64), costs)
        patterns, which = self.move.lane_patterns()
        made = apply_index(program, rows, patterns, which, LANES, program.gather_lanes)
        return program.take(made, self.inverse)


def gather_columns(program: Program, x: int, move: WordMove, costs: Costs) -> int | None:
    """Gathers along the lanes first, then lets every lane pick its own sublane.

    None if two words of a destination register need the same place (source sublane, destination
    lane) from different sources. Turns columns into rows, and merges rows into lanes.
    """
    n, s, segment = np.nonzero(move.wanted)
    register, sublane, lane = (f[n, s, segment] for f in (move.register, move.sublane, move.lane))
    middle_register = np.full(move.register.shape, -1)
    middle_lane = middle_register.copy()
    middle_register[n, sublane, segment] = register
    middle_lane[n, sublane, segment] = lane
    if (middle_register[n, sublane, segment] != register).any():
        return None
    if (middle_lane[n, sublane, segment] != lane).any():
        return None
    keep = np.where(middle_register >= 0, np.arange(SUBLANES)[None, :, None], -1)
    middle = WordMove(move.starts, middle_register, keep, middle_lane, move.slope)
    # What the gathers along the sublanes will cost at least is not there for the others.
    turned = move.wanted & (move.sublane != np.arange(SUBLANES)[None, :, None])
    later = costs.copies * costs.gather(along_lanes=False) * int(any_along(turned, 1, 2).sum())
    with program.reserve(later):
        made = gather_within_rows(program, x, middle, costs, 40)
    if made is None:
        return None
    index = np.where(move.wanted, move.sublane, -1)
    _, first, which = unique_rows(index.reshape(len(index), -1))
    index = np.repeat(index[first], move.lengths, 2)
    step = program.gather_sublanes
    if not costs.sublane_gather:
        step = partial(_select_sublanes, program)
    return apply_index(program, made, index, which, SUBLANES, step)


def _select_sublanes(program: Program, value: int, index: Field) -> int:
    """A gather along sublanes for targets without one: every sublane is replicated over the
    register, and selects by the bits of the index choose between these."""
    spread = [program.shuffle(value, None, (s,) * SUBLANES) for s in range(SUBLANES)]
    for bit in range(3):
        mask = Mask((), index, bit)
        spread = [program.select(mask, spread[i + 1], spread[i]) for i in range(0, len(spread), 2)]
    return spread[0]


def gather_rows_apart(program: Program, x: int, move: WordMove, costs: Costs) -> int | None:
    """Gathers each destination row in a register of its own, then combines the rows.

    For rows whose columns come from different registers, as after a sum over lanes of a batch.
    """
    program.afford(costs.copies * of_gathering_rows_apart(move, costs))
    n = len(move.register)
    rows = np.arange(n * SUBLANES)
    apart = move.only(rows // SUBLANES)
    apart = apart.where((np.arange(SUBLANES) == rows[:, None] % SUBLANES)[..., None])
    wanted = any_along(apart.wanted, 1, 2)
    made = gather_columns(program, x, apart.only(np.nonzero(wanted)[0]), costs)
    if made is None:
        return None
    register = np.full((n, SUBLANES, 1), -1)
    register[wanted.reshape(n, SUBLANES), 0] = np.arange(int(wanted.sum()))
    sublane = np.where(register >= 0, np.arange(SUBLANES)[:, None], -1)
    return move_rows(program, made, register, sublane, np.zeros(1, np.int64), costs)
