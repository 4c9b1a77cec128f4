"""Which loads an observer is told of.

Every store of the Pallas language is a swap, so Mosaic modules are full of loads of the destination
that nobody uses (spec/tpu_dialect.md section 5); and where hardware cannot mask a store finely
enough, a lowering loads the old contents only to blend them with the new. Neither means that the
kernel reads that memory.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

_BLENDS = ("arith.select", "arith.andi", "arith.ori", "tpu.bitcast_vreg", "tpu.bitcast")
_STORES = ("tpu.store", "tpu.vector_store", "vector.store", "tpu.shuffled_store")


def is_read(op: Operation, base: SSAValue) -> bool:
    """Whether the result of the load `op` of `base` means anything to the kernel."""
    return any(_matters(result, base, 4) for result in op.results)


def _matters(value: SSAValue, base: SSAValue, depth: int) -> bool:
    return any(_use_matters(use.operation, value, base, depth) for use in value.uses)


def _use_matters(user: Operation, value: SSAValue, base: SSAValue, depth: int) -> bool:
    if user.name in _STORES:
        return value is not user.operands[0] or base not in user.operands
    if user.name == "arith.cmpi":
        # Loads of booleans compare with zero before they are dropped.
        return bool(user.results[0].uses.get_length())
    if user.name in _BLENDS and depth:
        return _matters(user.results[0], base, depth - 1)
    return True
