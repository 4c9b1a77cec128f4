"""The ref, vector and box of loads and stores of vectors, whose operands differ in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from xdsl.ir import Operation, SSAValue

from pallasite.dialects import tpu, vector
from pallasite.dialects.types import shape_of

Load = vector.LoadOp | tpu.VectorLoadOp | tpu.StridedLoadOp
Store = vector.StoreOp | tpu.VectorStoreOp | tpu.StridedStoreOp
Access = Load | Store
ACCESSES: tuple[type[Access], ...] = get_args(Access)


def stores(op: Operation) -> bool:
    """Whether an access writes memory."""
    return op.name.endswith("store")


def base_of(op: Operation) -> SSAValue:
    """The ref that an access is to."""
    return op.operands[1] if stores(op) else op.operands[0]


def indices_of(op: Operation) -> Sequence[SSAValue]:
    """Where in the ref an access begins, one index per dimension."""
    assert isinstance(op, ACCESSES)
    return op.indices


def value_of(op: Operation) -> SSAValue:
    """The vector that an access loads or stores."""
    return op.operands[0] if stores(op) else op.results[0]


def accessed_shape(op: Operation) -> tuple[int, ...]:
    """The sizes of the box that a load or store accesses, one per dimension of the ref: a vector of
    lower rank gets leading 1s."""
    shape = shape_of(value_of(op).type)
    return (*[1] * (len(shape_of(base_of(op).type)) - len(shape)), *shape)
