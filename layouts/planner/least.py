"""What moving words costs at least, whatever strategy moves them.

A strategy whose least cost exceeds that of the best plan so far need not be tried. The
bounds count what instructions have room for:

* A word that changes its lane is last moved by a rotation or a gather, whose result holds it in
  the new lane. Such a result has 1024 places, one for each word in one lane.
* Different registers of words in the same places are different results, but for those that are
  source registers.
* A register of 1024 different words of several source registers comes from an instruction that
  has two operands, and whose result holds all of these words, and therefore no others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pallasite.layouts.planner.budget import TooDear
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.lines import Array, any_along, distinct_values, first_places
from pallasite.layouts.planner.program import Program
from pallasite.layouts.planner.ways import is_too_dear
from pallasite.layouts.planner.words import WordMove, hash_weights, rows_of, unique_rows
from pallasite.layouts.registers import LANES, SUBLANES

_WORDS = SUBLANES * LANES
_LENGTHS = 2 * LANES
"""Numbers above the lengths of all segments."""


def afford(program: Program, moves: Sequence[WordMove], costs: Costs) -> None:
    """Raises `TooDear` if the budget of `program` is less than what all `moves` cost at least, or
    much less than what they are estimated to cost.

    The moves have the same segments and sources, nothing of which has been moved yet.
    """
    if program.limit == np.inf:
        return
    if is_too_dear(program, moves, costs):
        raise TooDear
    turned = -(-_displaced(moves) // _WORDS)
    program.afford(costs.copies * costs.cross_lane * turned)
    joined = _joined(moves)
    rest = max(0, _made(moves) - turned - joined)
    program.afford(costs.copies * (costs.cross_lane * turned + joined + rest))


def _made(moves: Sequence[WordMove]) -> int:
    """The number of different registers that are no source registers, for the places in which most
    such registers have words."""
    hashes: list[Array] = []
    places: list[Array] = []
    for move in moves:
        n, wanted = len(move.register), move.wanted
        first = move.register.max((1, 2), keepdims=True)
        kept = (move.register == first) & (move.sublane == np.arange(SUBLANES)[:, None])
        new = np.nonzero(any_along(wanted & ~(kept & ~move.displaced), 1, 2))[0]
        if new.size:
            words = np.where(wanted, rows_of(move) * LANES + move.lane, -1).reshape(n, -1)
            weights = hash_weights(words.shape[1])
            hashes.append(words[new] @ weights)
            places.append(wanted.reshape(n, -1)[new] @ weights)
    if not hashes:
        return 0
    _, first, _ = unique_rows(np.stack([np.concatenate(hashes), np.concatenate(places)], 1))
    alike = np.concatenate(places)[first]
    return int(np.bincount(first_places(alike)[1]).max())


def _displaced(moves: Sequence[WordMove]) -> int:
    """The number of different words in lanes other than their own."""
    first = moves[0]
    keys: list[Array] = []
    segment = np.arange(first.starts.size)
    for move in moves:
        key = (rows_of(move) * LANES + move.lane) * LANES + segment
        keys.append(key[move.displaced])
    different = distinct_values(keys)
    length = first.lengths
    if first.slope == 1:
        return int(length[different % LANES].sum())
    # One of the words of a segment may be in its own lane.
    return int((length - 1)[different % LANES].sum())


def _joined(moves: Sequence[WordMove]) -> int:
    """The number of different registers of 1024 different words from several registers."""
    hashes: list[Array] = []
    for move in moves:
        if move.slope != 1:
            return 0
        register = move.register.reshape(len(move.register), -1)
        least = register.min(1)
        several = np.nonzero((least >= 0) & (least < register.max(1)))[0]
        if several.size:
            hashes.append(_hashes(move, several))
    return distinct_values(hashes).size if hashes else 0


def _hashes(move: WordMove, members: Array) -> Array:
    """Hashes of the words in the registers `members`, if those are different words."""
    place = (rows_of(move)[members] * LANES + move.lane[members]).reshape(members.size, -1)
    length = np.broadcast_to(move.lengths, move.register.shape[1:]).reshape(-1)
    ordered = np.sort(place * _LENGTHS + length, axis=1)
    begin, held = ordered // _LENGTHS, ordered % _LENGTHS
    different = (begin[:, 1:] >= begin[:, :-1] + held[:, :-1]).all(1)
    place, row = place[different], place[different] // LANES
    # Sums of hashes of consecutive lanes, so that it does not matter where segments begin.
    sums = np.cumsum(np.append(0, hash_weights(LANES)))
    lane = place % LANES
    of_row = (row + 1) * hash_weights(1)
    of_row ^= of_row >> 29
    return ((sums[lane + length] - sums[lane]) * (of_row | 1)).sum(1)
