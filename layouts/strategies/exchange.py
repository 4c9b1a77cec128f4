"""Row permutations that exchange bits of register numbers with bits of sublane numbers.

Transposes and reshapes of leading dimensions move row number r of the source to a row number whose
bits are a permutation of r's, those of the register number with weights of any size. Each exchange
of one register bit with one sublane bit is a pair of two-source shuffles for every pair of
registers, so a whole permutation takes at most three stages, whatever the size (design note "Form
4", section 2.1, strategy d). Groups of registers are padded to powers of two; registers that hold
only padding are undefined, and outputs that nothing needs are left out.
"""

from __future__ import annotations

import numpy as np

from pallasite.layouts.planner.bit_networks import VIRTUAL, Network, best_network, find_bits
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.lines import Array
from pallasite.layouts.planner.program import Program
from pallasite.layouts.planner.words import WordMove, rows_of
from pallasite.layouts.registers import SUBLANES

_LARGEST_GROUP = 64
_ROUNDS = 8


def exchange(program: Program, x: int, move: WordMove, costs: Costs) -> int | None:
    """The value that performs `move` by bit exchanges; None if that is not possible."""
    if (move.displacement > 0).any() or not move.wanted.any():
        return None
    # Rows move whole, also where some of their lanes do not matter.
    every = rows_of(move)
    rows = every.max(2)
    if (move.wanted & (every != rows[..., None])).any():
        return None
    groups = _groups(rows)
    if groups is None:
        return None
    placed = _placed(groups, rows)
    if placed is None:
        return None
    groups, base = placed
    padded = np.where(groups[..., None] >= 0, rows[groups], -1)
    bits = find_bits(padded.reshape(len(groups), -1), base)
    if bits is None:
        return None
    found = best_network(bits, program, costs)
    if found is None:
        return None
    made = _emit(program, x, found, costs)
    # Each destination register is in one group.
    position = np.full(len(rows), -1)
    position[groups[groups >= 0]] = np.nonzero(groups.reshape(-1) >= 0)[0]
    return program.take(made, position)


def _groups(rows: Array) -> Array | None:
    """Destination registers connected by common source registers: [groups, 2^n], -1 pads.

    None if a group has more than 64 registers: then no short sequence of exchanges does it.
    """
    n = len(rows)
    source = np.where(rows >= 0, rows // SUBLANES, -1)
    count = int(source.max()) + 1
    label = np.arange(n)
    wanted = rows >= 0
    for _ in range(_ROUNDS):
        lowest = np.full(count, n)
        spread = np.broadcast_to(label[:, None], source.shape)
        np.minimum.at(lowest, source[wanted], spread[wanted])
        reached = np.where(wanted, lowest[np.maximum(source, 0)], n).min(1)
        reached = np.minimum(label, reached)
        if (reached == label).all():
            break
        label = reached
    else:
        return None
    sizes = np.bincount(label, minlength=n)
    if sizes.max() > _LARGEST_GROUP:
        return None
    size = 1 << int(sizes.max() - 1).bit_length()
    order = np.argsort(label, kind="stable")
    first = np.cumsum(sizes)[label[order]] - sizes[label[order]]
    number = np.cumsum(np.diff(label[order], prepend=label[order[0]]) > 0)
    groups = np.full((int(number[-1]) + 1, size), -1)
    groups[number, np.arange(n) - first] = order
    return groups


def _placed(groups: Array, rows: Array) -> tuple[Array, Array] | None:
    """The groups, registers in their places, and the source row that the first row comes from.

    A group that lacks its first register is filled as the one is that lacks least.
    """
    padded = np.where(groups[..., None] >= 0, rows[groups], -1)
    base = padded[:, 0, 0].copy()
    whole = (base >= 0) & (base % SUBLANES == 0)
    if whole.all():
        return groups, base
    if not whole.any():
        return None
    model = int(np.where(whole, (padded >= 0).sum((1, 2)), 0).argmax())
    pattern = np.where(padded[model] >= 0, padded[model] - base[model], -1)
    groups = groups.copy()
    for number in np.nonzero(~whole)[0].tolist():
        members = groups[number][groups[number] >= 0]
        found = _places(pattern, rows[members])
        if found is None:
            return None
        base[number], places = found
        groups[number] = -1
        groups[number, places] = members
    return groups, base


def _places(pattern: Array, rows: Array) -> tuple[int, list[int]] | None:
    """Which registers of `pattern` [registers, 8] the `rows` are, if those are moved on.

    And the row that they are moved to.
    """
    first = int((rows[0] >= 0).argmax())
    for place in np.nonzero(pattern[:, first] >= 0)[0].tolist():
        base = int(rows[0, first] - pattern[place, first])
        if base < 0 or base % SUBLANES:
            continue
        alike = ((rows - base)[:, None] == pattern) | (rows < 0)[:, None]
        fitting = alike.all(2)
        places = fitting.argmax(1).tolist()
        if fitting.any(1).all() and len(set(places)) == len(places):
            return base, places
    return None


def _emit(program: Program, x: int, network: Network, costs: Costs) -> int:
    """The registers of all groups, padding included."""
    bits = network.bits
    weights = bits.register_weights
    number = np.arange(1 << len(weights))
    offset, padding = np.zeros_like(number), np.zeros(number.shape, np.bool_)
    for j, weight in enumerate(weights):
        chosen = (number >> j) & 1 == 1
        if weight >= VIRTUAL:
            padding |= chosen
        else:
            offset += chosen * (weight // SUBLANES)
    table = bits.base[:, None] // SUBLANES + offset
    table = np.where(padding | (table >= program.size(x)), -1, table)
    value = x
    for stage, kinds in zip(network.stages, network.copies, strict=True):
        first, second = stage.pairs(table)
        halves: list[Array] = []
        pieces, at = [value], program.size(value)
        for (active, same, other), pattern in zip(kinds, (stage.low, stage.high), strict=True):
            half = np.where(same, first, np.where(other, second, -1))
            if active.any():
                operands = [program.take(value, t[active]) for t in (first, second)]
                pieces.append(program.merge(operands[0], operands[1], pattern, costs))
                half[active] = at + np.arange(int(active.sum()))
                at += int(active.sum())
            halves.append(half)
        value = program.concat(pieces)
        table = np.stack(halves, 2).reshape(table.shape)
    return program.take(value, table[:, network.order].reshape(-1))
