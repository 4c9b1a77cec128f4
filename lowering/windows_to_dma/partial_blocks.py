"""Copies that fill the first part of a block say how large the block is.

JAX's own pipelines find out how long that part is, at the edge of an array and of bounded slices.
Later passes may find that out, too, and leave nothing of how it was done.
"""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.dialects.func import FuncOp

from pallasite.dialects import tpu
from pallasite.dialects.kernel import BLOCK
from pallasite.dialects.promises import edges_of_copy
from pallasite.dialects.types import shape_of
from pallasite.dialects.walking import of_kind


def mark_partial_blocks(function: FuncOp) -> None:
    """Gives those copies the attribute `tpu.block`."""
    for copy in of_kind(function, tpu.EnqueueDmaOp):
        edges = edges_of_copy(copy)
        if edges:
            sizes = [edges.get(d, n) for d, n in enumerate(shape_of(copy.target.type))]
            copy.attributes[BLOCK] = DenseArrayBase.from_list(i64, sizes)
