"""Refuses loops and branches that carry vectors of rank 1 with different lane offsets.

Where values with different offsets (`lane_offsets.py`) meet in a result of `scf.for` or `scf.if`,
the TPU compiler moves them to offset 0, but then finds no layout for a vector of rank 1 and fails
(`Invalid input layout`, or an abort). The same happens if all have one offset beyond the first
tile; a value that enters a loop is moved from there. Asked of libtpu 0.0.51 for v4 to v7x.
"""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType

from pallasite.dialects import scf
from pallasite.dialects.in_words import in_words
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import bit_width, shape_of
from pallasite.passes.check_kernel.arriving_values import values_arriving
from pallasite.passes.check_kernel.lane_offsets import LaneOffsets, in_first_tile, tile_lanes
from pallasite.targets import Target

_WIDTHS = (8, 16, 32)


def carried_offsets(op: scf.ForOp | scf.IfOp, target: Target) -> None:
    """Refuses a loop or branch of which a result of rank 1 gets values with different offsets, or
    with one beyond the first tile."""
    known = LaneOffsets(target)
    for result in op.results:
        kind = result.type
        if not isinstance(kind, VectorType) or len(shape_of(kind)) != 1:
            continue
        if bit_width(kind) not in _WIDTHS:
            continue
        tile = tile_lanes(kind)
        found = [known.of(value) for value in values_arriving(op, result.index)]
        if isinstance(op, scf.ForOp) and found[0] is not None:
            found[0] = in_first_tile(found[0], tile)
        offsets = {offset for offset in found if offset is not None}
        if len(offsets) > 1 or max(offsets, default=0) >= tile:
            met = " and at ".join(f"element {lane}" for lane in sorted(offsets))
            raise refusal(
                op, "begun-lanes",
                f"{in_words(op)} carries a one-dimensional {kind} that begins at {met} of a "
                "register",
                "a slice stays where it was cut, and no loop or branch moves vectors of one "
                f"dimension, or has one that begins behind {tile} elements",
                "carry it in two dimensions, x.reshape(1, n), or slice behind the loop or branch",
                "the TPU compiler says: Invalid input layout",
            )  # fmt: skip
