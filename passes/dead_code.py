"""Removes operations whose results are unused and that have no other effect."""

from __future__ import annotations

from xdsl.ir import Block, Operation
from xdsl.traits import IsTerminator

from pallasite.passes.effects import only_reads

# pyright: reportPrivateUsage=false
_UNDECLARED = frozenset({"tpu.sublane_shuffle", "tpu.iteration_bound"})
"""Operations without effects that do not declare so, as in JAX's `tpu` dialect."""


def is_removable(op: Operation) -> bool:
    """Whether `op` may be removed if its results are unused: it computes, or only reads memory."""
    if op.has_trait(IsTerminator):
        return False
    return op.name in _UNDECLARED or only_reads(op)


def drop(op: Operation) -> None:
    """Removes `op`, whose results are unused, from its block.

    `Operation.erase` would first replace each result by an erased value, which takes longer.
    """
    op.detach()
    op.drop_all_references()


def remove_dead_code(block: Block) -> None:
    """Erases the dead operations of `block` and of the regions in it, in one backward sweep."""
    op = block._last_op
    while op is not None:
        before = op._prev_op
        if op.regions:
            for region in op.regions:
                for inner in region.blocks:
                    remove_dead_code(inner)
        for result in op.results:
            if result.first_use is not None:
                break
        else:
            if op.name == "arith.constant" or (op.results and is_removable(op)):
                drop(op)
        op = before
