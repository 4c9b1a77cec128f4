"""Records the sizes of blocks at copies, written by JAX's own pipelines, that fill a block in part.

Such a pipeline computes at run time how much of a block lies in its array, and copies that much to
the start of a slot. The body loads the whole slot, and the rest of it is undefined. The form of
that computation shows how large the block is (`dialects.promises.edges_of_copy`), but later passes
may simplify it until nothing shows, so the sizes are recorded before they run.
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
    """Gives those copies in `function` the attribute `tpu.block`, the sizes of their block."""
    for copy in of_kind(function, tpu.EnqueueDmaOp):
        edges = edges_of_copy(copy)
        if edges:
            sizes = [edges.get(d, n) for d, n in enumerate(shape_of(copy.target.type))]
            copy.attributes[BLOCK] = DenseArrayBase.from_list(i64, sizes)
