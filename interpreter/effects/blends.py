"""Which elements a store puts back as memory has them.

A packed word is written whole. Where a store of the kernel is of some rows of a word, the lowering
loads what the other rows hold and stores that again beside the new ones. Rows that were never
written are not written by this.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from pallasite.dialects import arith, grid, tpu
from pallasite.dialects.types import shape_of
from pallasite.interpreter.effects.observed import is_read
from pallasite.interpreter.meanings import Facts
from pallasite.interpreter.ops.movement import create_subelement_mask


def kept_elements(op: tpu.StoreOp | tpu.ShuffledStoreOp, facts: Facts) -> NDArray[np.bool_] | None:
    """Which elements `op` stores where it has loaded them; None if it has not, or if the text does
    not say which ones."""
    chosen = op.value.owner
    if not isinstance(chosen, arith.SelectOp):
        return None
    rows = _rows(chosen.cond)
    old = chosen.rhs.owner
    if rows is None or not isinstance(old, tpu.LoadOp) or is_read(old, old.base):
        return None
    new = create_subelement_mask(rows, facts)()
    return np.broadcast_to(~np.asarray(new), shape_of(op.value.type))


def _rows(mask: SSAValue) -> tpu.CreateSubelementMaskOp | None:
    owner = mask.owner
    if isinstance(owner, grid.BroadcastOp):
        owner = owner.value.owner
    return owner if isinstance(owner, tpu.CreateSubelementMaskOp) else None
