"""The table of contents of the lowering: importing a family registers its rules."""

from __future__ import annotations

from pallasite.lowering.vectors_to_tiles import (
    broadcast,
    casts,
    concatenate,
    constants,
    control,
    elementwise,
    gather,
    matmul,
    memory,
    reduce,
    reduce_index,
    rotate,
    shape,
    stores,
    strided,
    units,
    words,
)

FAMILIES = (
    broadcast,
    casts,
    concatenate,
    constants,
    control,
    elementwise,
    gather,
    matmul,
    memory,
    reduce,
    reduce_index,
    rotate,
    shape,
    stores,
    strided,
    units,
    words,
)


def load() -> None:
    """Makes sure that all rules are registered; importing this module does it."""
