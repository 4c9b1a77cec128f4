"""Refuses loops and branches that carry vectors of rank 1 in different layouts.

A vector of rank 1 may be packed as memory holds it (each register filled row by row), or be a row
or a column of a vector of higher rank (`row_layouts.py`). The TPU compiler gives a result of
`scf.for` or `scf.if` one layout and fails (`Invalid input layout`, or an abort) where a value in
another one arrives (asked of libtpu 0.0.51); `scf.while` moves such values, as our own lowering
does. Rows also have to lie in tiles with the same number of rows, and in the same row of the tile.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import VectorType

from pallasite.dialects import scf
from pallasite.dialects.in_words import in_words
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import AnyVector, bit_width
from pallasite.passes.check_kernel.arriving_values import values_arriving
from pallasite.passes.check_kernel.flat_layouts import COLUMN, PACKED, Row
from pallasite.passes.check_kernel.row_layouts import RowLayouts
from pallasite.targets import Target


def carried_layouts(op: scf.ForOp | scf.IfOp, target: Target) -> None:
    """Refuses a loop or branch of which a result of rank 1 gets values in different layouts."""
    known = RowLayouts(target)
    for result in op.results:
        kind = result.type
        if not isinstance(kind, VectorType):
            continue
        bits = bit_width(cast(AnyVector, kind))
        if len(kind.get_shape()) != 1 or bits == 1:
            continue
        found = (known.of(value) for value in values_arriving(op, result.index))
        layouts = list(dict.fromkeys(layout for layout in found if layout is not None))
        if bits == 32 and kind.get_shape() == (1,):
            # A single word in a column begins where all others do.
            layouts = [layout for layout in layouts if layout != COLUMN]
        said = list(dict.fromkeys("row" if isinstance(p, Row) else p for p in layouts))
        if len(said) > 1:
            raise refusal(
                op, "carried-flat", f"{in_words(op)} carries a one-dimensional {kind} that is "
                f"{_SAID[said[0]]} on one way and {_SAID[said[1]]} on another",
                "arrays of one dimension fill registers row by row as memory holds them, a row or "
                "column of more dimensions, or what was computed as words of 32 bits, only part of "
                "each, and a carried vector has one place",
                _ADVICE,
            )  # fmt: skip
        rows = [layout for layout in layouts if isinstance(layout, Row)]
        if not all(a.meets(b) for a in rows for b in rows):
            raise refusal(
                op, "carried-flat", f"{in_words(op)} carries a one-dimensional {kind} that lies in "
                "another row of registers on one way than on another",
                "rows of packed elements lie where they do in the tiles of their array, what was "
                "computed as words of 32 bits in tiles of registers, and a carried vector has one "
                "place",
                _ADVICE,
            )  # fmt: skip


_ADVICE = "carry it in two dimensions, x.reshape(1, n)"
_SAID = {
    PACKED: "laid out as memory holds it",
    "row": "a row of more dimensions or computed as words",
    COLUMN: "a column of more dimensions",
}
