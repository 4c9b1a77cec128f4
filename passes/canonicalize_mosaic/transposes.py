"""Joins transposes of transposes that have no other use."""

from __future__ import annotations

from xdsl.ir import SSAValue

from pallasite.dialects import tpu, vector
from pallasite.passes.canonicalize_mosaic.driver import Legalizer, rule

Transpose = tpu.TransposeOp | vector.TransposeOp


@rule(tpu.TransposeOp, vector.TransposeOp)
def join_transpositions(op: Transpose, r: Legalizer) -> SSAValue | None:
    """A chain of transposes that together keep the lanes is one transpose, or none.

    If they move the lanes, the last one may only reorder the registers that the others make, so
    they stay.
    """
    chain: list[Transpose] = []
    order = [int(d) for d in op.permutation.get_values()]
    value, joined, found = op.operands[0], 0, order
    while isinstance(value.owner, Transpose) and value.has_one_use():
        chain.append(value.owner)
        before = value.owner.permutation.get_values()
        order, value = [int(before[d]) for d in order], value.owner.operands[0]
        if order[-1] == len(order) - 1:
            joined, found = len(chain), order
    if not joined:
        return None
    op.operands[0] = source = chain[joined - 1].operands[0]
    for needless in chain[:joined]:
        needless.detach()
        needless.erase()
    if found == sorted(found):
        return source
    return r.emit(tpu.TransposeOp.of(source, found))
