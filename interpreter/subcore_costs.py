"""How many instructions an operation is on a subcore of a SparseCore, by the unit that takes them.

One of each register that it works on. How many of them a subcore issues in a cycle, and its clock,
are not published, so that these are counts and no times.
"""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, Operation

from pallasite.dialects import tpu
from pallasite.dialects.types import bit_width, shape_of
from pallasite.interpreter.cycles import FREE, Cost, cost

_ACROSS = (
    tpu.AllReduceOp, tpu.DynamicGatherOp, tpu.PackSubelementsOp, tpu.ScanCountOp, tpu.ScanOp,
    tpu.SortOp, tpu.UnpackSubelementsOp,
)  # fmt: skip
"""Operations in which lanes meet."""
_LOADS = (tpu.VectorLoadOp, tpu.VectorLoadIdxOp)
_STORES = (tpu.VectorStoreOp, tpu.VectorStoreIdxOp)


def subcore_instructions(op: Operation, lanes: int) -> Cost:
    """What one execution of `op` is on registers of `lanes` words."""
    registers = max((registers_of(v.type, lanes) for v in (*op.operands, *op.results)), default=0)
    if registers == 0:
        return cost(scalar=1)
    if isinstance(op, _LOADS):
        # A store of JAX loads what was there, which nobody wants.
        return cost(load=registers) if any(op.results[0].uses) else FREE
    if isinstance(op, _STORES):
        return cost(store=registers)
    if isinstance(op, _ACROSS):
        return cost(xlu=registers)
    if op.name.startswith("math.") and op.name not in ("math.absf", "math.absi"):
        return cost(eup=registers)
    return cost(vpu=registers)


def registers_of(type: Attribute, lanes: int) -> int:
    """Registers of a vector; 0 of anything else. A mask is one for the words that it is of."""
    if not isinstance(type, VectorType):
        return 0
    count = 1
    for size in shape_of(type):
        count *= size
    bits = bit_width(type)
    return -(-count * bits // (32 * lanes)) if bits > 1 else 1
