"""Keeps bounds checks when an access becomes loads and stores of registers.

Loads and stores of registers move whole tiles. A load of rows 8 to 15 of a ref of 12 rows would
read padding without an error, and if later passes drop registers, the ones beyond the end may be
gone. So where an index may leave its ref, each register access has the attribute `tpu.box`
(`dialects.registers.Box`): the box that the kernel's access covers, relative to the indices of the
register access, and the extents of the ref. Whoever executes it checks the box:

    %v = vector.load %x[%i, %c0] : memref<12x128xf32, ...>, vector<8x128xf32>
becomes
    %v = tpu.load %x[%i, %c0] ... {grid.steps = array<i64: 8, 128>,
                                   tpu.box = array<i64: 0, 0, 8, 128, 12, 128>}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith
from pallasite.dialects.registers import BOX, Box, box_of
from pallasite.passes.divisibility import constant_of
from pallasite.passes.ranges import range_of


@dataclass(frozen=True)
class Accessed:
    """A box of the kernel's access, at `indices`, that may leave its ref."""

    indices: tuple[SSAValue, ...]
    box: Box

    def seen_from(self, base: Sequence[SSAValue]) -> dict[str, Attribute]:
        """The attribute for a register access of the same ref at `base`.

        `base` must be the indices of this access plus constants.
        """
        moved = [_distance(b, i) for b, i in zip(base, self.indices, strict=True)]
        return {BOX: self.box.moved(moved).attribute}


def accessed(
    op: Operation, indices: Sequence[SSAValue], sizes: Sequence[int], extents: Sequence[int]
) -> Accessed | None:
    """What `op` accesses of a ref with the sizes `extents`; None if that certainly lies inside.

    The box has `sizes` elements from `indices`, unless `op` has the box of a larger access of the
    kernel.
    """
    box = box_of(op)
    if box is None or len(box.sizes) != len(sizes):
        box = Box((0,) * len(sizes), tuple(sizes), tuple(extents))
    if DYNAMIC_INDEX in box.extents or all(
        _inside(index, *place) for index, *place in zip(indices, *box, strict=True)
    ):
        return None
    return Accessed(tuple(indices), box)


def _inside(index: SSAValue, offset: int, size: int, extent: int) -> bool:
    """Whether `size` elements from `index + offset` certainly lie in `0 .. extent - 1`."""
    found = range_of(index)
    if found.low is None or found.high is None:
        return False
    return found.low + offset >= 0 and found.high + offset + size <= extent


def _distance(later: SSAValue, earlier: SSAValue) -> int:
    """`later - earlier`, a constant."""
    (root, end), (same, start) = _split(later), _split(earlier)
    assert root is same, "an access begins at its indices plus constants"
    return end - start


def _split(index: SSAValue) -> tuple[SSAValue | None, int]:
    """`index` as a value and the constant added to it; the value is None for a constant index."""
    total = 0
    while (known := constant_of(index)) is None:
        op = index.owner
        if not isinstance(op, arith.AddiOp | arith.SubiOp):
            return index, total
        amount = constant_of(op.operands[1])
        if amount is None:
            return index, total
        total += amount if isinstance(op, arith.AddiOp) else -amount
        index = op.operands[0]
    return None, total + known
