"""Which grid axes the index map of a window depends on."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue


def axes_used(index_map: FuncOp, axes: int) -> set[int]:
    """The grid axes on which the results of an index map depend."""
    block = index_map.body.block
    waiting: list[SSAValue] = list(block.last_op.operands) if block.last_op is not None else []
    seen: set[SSAValue] = set()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value.owner, Operation):
            for op in value.owner.walk():
                waiting += op.operands
    return {axis for axis, argument in enumerate(block.args[:axes]) if argument in seen}
