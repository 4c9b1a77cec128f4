"""Words change their lanes: rotates of whole registers, and gathers along lanes and sublanes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from pallasite.layouts.planner_costs import Costs
from pallasite.layouts.planner_fields import Field, Mask
from pallasite.layouts.planner_lines import Array, any_along, distinct_values
from pallasite.layouts.planner_overlay import Overlay, apply_index
from pallasite.layouts.planner_program import Program
from pallasite.layouts.planner_words import WordMove, rows_of, unique_rows
from pallasite.layouts.registers import LANES, SUBLANES
from pallasite.layouts.strategies_rows import move_rows

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
    for amount in distinct_values(displacement[displacement >= 0]).tolist():
        here = displacement == amount
        members = np.nonzero(here.any((1, 2)))[0]
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


def gather_within_rows(
    program: Program, x: int, move: WordMove, costs: Costs, most: int
) -> int | None:
    """Brings each destination row one source row at a time, then gathers along the lanes.

    Declines when a row has more than `most` source rows.
    """
    rest = move.wanted
    source = rows_of(move)
    ordered = np.sort(source, 2)
    changes = (ordered[..., 1:] != ordered[..., :-1]) & (ordered[..., :-1] >= 0)
    if changes.sum(2).max(initial=0) >= most:
        return None
    overlay = Overlay(program, len(rest), move.starts)
    for _ in range(most):
        if not rest.any():
            return overlay.value
        chosen = np.take_along_axis(source, rest.argmax(2)[..., None], 2)
        chosen = np.where(any_along(rest, 2)[..., None], chosen, -1)
        here = rest & (source == chosen)
        rest = rest & ~here
        members = np.nonzero(here.any((1, 2)))[0]
        made = _gather_layer(program, x, move.where(here).only(members), chosen[members], costs)
        overlay.add(made, members, here[members])
    return overlay.value if not rest.any() else None


def _gather_layer(program: Program, x: int, layer: WordMove, source: Array, costs: Costs) -> int:
    """Each row from one source row: shuffle, then gather; equal registers are made once."""
    n = len(source)
    lanes = np.where(layer.wanted, layer.lane, -1).reshape(n, -1)
    _, first, inverse = unique_rows(np.concatenate([source.reshape(n, -1), lanes], 1))
    layer, source = layer.only(first), source[first]
    turned = any_along(layer.displaced, 1, 2)
    program.afford(costs.cross_lane * int(turned.sum()))
    register, sublane = source // SUBLANES, np.where(source >= 0, source % SUBLANES, -1)
    rows = move_rows(program, x, register, sublane, np.zeros(1, np.int64), costs)
    patterns, which = layer.lane_patterns()
    made = apply_index(program, rows, patterns, which, LANES, program.gather_lanes)
    return program.take(made, inverse)


def gather_columns(program: Program, x: int, move: WordMove, costs: Costs) -> int | None:
    """Gathers along the lanes first, then lets every lane pick its own sublane.

    Applies if no two words of a destination register want the same place (source sublane,
    destination lane) from different sources: columns to rows, and merging rows into lanes.
    """
    move = move.words()
    n, s, lane = np.nonzero(move.wanted)
    register, sublane, source = (f[n, s, lane] for f in (move.register, move.sublane, move.lane))
    middle_register = np.full(move.register.shape, -1)
    middle_lane = middle_register.copy()
    middle_register[n, sublane, lane] = register
    middle_lane[n, sublane, lane] = source
    if (middle_register[n, sublane, lane] != register).any():
        return None
    if (middle_lane[n, sublane, lane] != source).any():
        return None
    keep = np.where(middle_register >= 0, np.arange(SUBLANES)[None, :, None], -1)
    middle = WordMove(move.starts, middle_register, keep, middle_lane, 1)
    made = gather_within_rows(program, x, middle, costs, 40)
    if made is None:
        return None
    index = np.where(move.wanted, move.sublane, -1)
    _, first, which = unique_rows(index.reshape(len(index), -1))
    index = index[first]
    step = program.gather_sublanes
    if not costs.sublane_gather:
        step = partial(_select_sublanes, program)
    return apply_index(program, made, index, which, SUBLANES, step)


def _select_sublanes(program: Program, value: int, index: Field) -> int:
    """A gather along sublanes, of targets that have none: every sublane spread over the register,
    then selects by the bits of the index."""
    spread = [program.shuffle(value, None, (s,) * SUBLANES) for s in range(SUBLANES)]
    for bit in range(3):
        mask = Mask((), index, bit)
        spread = [program.select(mask, spread[i + 1], spread[i]) for i in range(0, len(spread), 2)]
    return spread[0]


def gather_rows_apart(program: Program, x: int, move: WordMove, costs: Costs) -> int | None:
    """Gathers each destination row in a register of its own, then puts the rows together.

    For rows whose columns lie in different registers, as after a sum over the lanes of a batch.
    """
    n = len(move.register)
    fields = (move.register, move.sublane, move.lane)
    flat = np.concatenate([f.reshape(n * SUBLANES, -1) for f in fields], 1)
    turned = any_along(move.displaced.reshape(n * SUBLANES, -1), 1)
    # Every row that changes lanes is gathered once.
    program.afford(costs.cross_lane * len(unique_rows(flat[turned])[1]))
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
