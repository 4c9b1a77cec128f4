"""What loads and stores of vectors access, whatever their order of operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from xdsl.ir import Operation, SSAValue

from pallasite.dialects import tpu, vector
from pallasite.dialects.types import shape_of
from pallasite.layouts.registers import LANES
from pallasite.targets import Target

Load = vector.LoadOp | tpu.VectorLoadOp | tpu.StridedLoadOp
Store = vector.StoreOp | tpu.VectorStoreOp | tpu.StridedStoreOp
Access = Load | Store
ACCESSES: tuple[type[Access], ...] = get_args(Access)


def stores(op: Operation) -> bool:
    """Whether an access writes memory."""
    return op.name.endswith("store")


def base_of(op: Operation) -> Any:
    """The ref that an access is to."""
    return op.operands[1] if stores(op) else op.operands[0]


def value_of(op: Operation) -> SSAValue:
    """The vector that an access loads or stores."""
    return op.operands[0] if stores(op) else op.results[0]


def accessed_shape(op: Operation) -> tuple[int, ...]:
    """The box of memory that a load or store accesses: vectors of lower rank lack leading 1s."""
    shape = shape_of(value_of(op).type)
    return (*[1] * (len(shape_of(base_of(op).type)) - len(shape)), *shape)


def at_a_distance(name: str, shape: Sequence[int], strides: Sequence[int]) -> str:
    """JAX for every element of the value `name` that strides reach from its first: each dimension
    is split, and the first of its parts taken."""
    if all(stride == 1 for stride in strides):
        return name
    split: list[int] = []
    taken: list[str] = []
    for size, stride in zip(shape, strides, strict=True):
        split += [size] if stride == 1 else [-(-size // stride), stride]
        taken += [":"] if stride == 1 else [":", "0"]
    while taken[-1] == ":":
        taken.pop()
    if any(size % stride for size, stride in zip(shape, strides, strict=True)):
        name = f"jnp.pad({name}, ...)"
    return f"{name}.reshape({', '.join(map(str, split))})[{', '.join(taken)}]"


def spaced_out(
    name: str, shape: Sequence[int], strides: Sequence[int], target: Target
) -> list[str]:
    """What to write for every element of the value `name` that strides reach from its first."""
    *rows, stride = strides
    if stride == 1 or target.sublane_gather:
        return [f"split the value: {at_a_distance(name, shape, strides)}"]
    value, size, last = at_a_distance(name, shape, [*rows, 1]), shape[-1], len(shape) - 1
    taken = -(-size // stride)
    chosen = (
        f"multiply with a matrix that chooses columns: jnp.dot({value}, (i == {stride} * j)"
        ".astype(jnp.float32), precision=lax.Precision.HIGHEST), with i and j = "
        f"lax.broadcasted_iota(jnp.int32, ({size}, {taken}), 0) and 1"
    )
    gathered = (
        f"gather 32-bit elements: jnp.take_along_axis({value}, {stride} * k % {size}, {last}, "
        f"mode='promise_in_bounds')[..., :{taken}], with k = lax.broadcasted_iota(jnp.int32, "
        f"(..., {size}), {last})"
    )
    return [gathered, f"or {chosen}"] if size <= LANES else [chosen]
