"""What views of arrays show: followed back, from one to the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from xdsl.ir import Operation, SSAValue

from pallasite.dialects import tpu

_View = TypeVar("_View", bound=Operation)

PARTS = (tpu.MemrefSliceOp, tpu.MemrefSqueezeOp)
"""Views that show a part of an array, each element as what it is."""


def views_behind(ref: SSAValue, *kinds: type[_View]) -> Iterator[_View]:
    """The views of these kinds that `ref` is made by, one of the other, the last one first."""
    while isinstance(view := ref.owner, kinds):
        yield view
        ref = view.operands[0]


def viewed(ref: SSAValue, *kinds: type[Operation]) -> SSAValue:
    """What `ref` is, or is seen of by views of these kinds."""
    for view in views_behind(ref, *kinds):
        ref = view.operands[0]
    return ref
