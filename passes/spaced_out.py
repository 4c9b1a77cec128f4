"""What to write instead of a stride that the TPU lacks: expressions of JAX that take the same
elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pallasite.layouts.registers import LANES
from pallasite.targets import Target


@dataclass(frozen=True)
class Along:
    """What is taken along a dimension of `size`: `count` elements, `stride` apart, from `start`."""

    size: int
    start: int
    count: int
    stride: int = 1

    @property
    def groups(self) -> int:
        """How many parts of `stride` elements the dimension has, the last of which may be cut."""
        return -(-self.size // self.stride)


def at_a_distance(name: str, dims: Sequence[Along]) -> str:
    """The JAX expression for the elements of the value `name` that are taken: each dimension with a
    stride is split by it, and the same element of every part is taken."""
    split: list[int] = []
    taken: list[str] = []
    for dim in dims:
        group, place = divmod(dim.start, dim.stride)
        every = group == 0 and dim.count == dim.groups
        split += [dim.groups] if dim.stride == 1 else [dim.groups, dim.stride]
        taken += [":" if every else f"{group}:{group + dim.count}"]
        taken += [] if dim.stride == 1 else [str(place)]
    while taken and taken[-1] == ":":
        taken.pop()
    if any(dim.size % dim.stride for dim in dims):
        name = f"jnp.pad({name}, ...)"
    if len(split) > len(dims):
        name = f"{name}.reshape({', '.join(map(str, split))})"
    return f"{name}[{', '.join(taken)}]" if taken else name


def spaced_out(name: str, dims: Sequence[Along], target: Target) -> list[str]:
    """What to write for the elements of the value `name` that are taken."""
    *rows, lanes = dims
    start, size, stride, last = lanes.start, lanes.size, lanes.stride, len(rows)
    if stride == 1 or target.sublane_gather:
        return [f"split the value: {at_a_distance(name, dims)}"]
    value = at_a_distance(name, [*rows, Along(size, 0, size)])
    column = f"{stride} * j + {start}" if start else f"{stride} * j"
    place = f"({start} + {stride} * k)" if start else f"{stride} * k"
    chosen = (
        f"multiply with a matrix that chooses columns: jnp.dot({value}, (i == {column})"
        ".astype(jnp.float32), precision=lax.Precision.HIGHEST), with i and j = "
        f"lax.broadcasted_iota(jnp.int32, ({size}, {lanes.count}), 0) and 1"
    )
    gathered = (
        f"gather 32-bit elements: jnp.take_along_axis({value}, {place} % {size}, {last}, "
        f"mode='promise_in_bounds')[..., :{lanes.count}], with k = "
        f"lax.broadcasted_iota(jnp.int32, (..., {size}), {last})"
    )
    return [gathered, f"or {chosen}"] if size <= LANES else [chosen]
