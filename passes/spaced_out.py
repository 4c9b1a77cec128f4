"""JAX expressions that messages suggest in place of a strided slice that the TPU does not have."""

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
        """How many parts of `stride` elements the dimension has; the last one may be shorter."""
        return -(-self.size // self.stride)


def at_a_distance(name: str, dims: Sequence[Along]) -> str:
    """The JAX expression for the elements of the value `name` that are taken.

    Each dimension with a stride is split into parts of that many elements, and the same element of
    every part is taken: `x[1::4]` of 32 elements is `x.reshape(8, 4)[:, 1]`.
    """
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
    """The suggestions, best first, for the elements of the value `name` that are taken."""
    *rows, lanes = dims
    start, size, stride, last = lanes.start, lanes.size, lanes.stride, len(rows)
    # More than a register of a flat vector is not split, nor what is padded.
    is_split = target.sublane_gather and (rows or (size <= LANES and size % stride == 0))
    if stride == 1 or is_split:
        return [f"split the value: {at_a_distance(name, dims)}"]
    value = at_a_distance(name, [*rows, Along(size, 0, size)])
    chosen = (
        "multiply with a matrix that chooses columns: "
        f"{product_with_ones(value, places_of(lanes, 'i', 'j'), last)}, with i and j = "
        f"lax.broadcasted_iota(jnp.int32, ({size}, {lanes.count}), 0) and 1"
    )
    place = f"({start} + {stride} * k)" if start else f"{stride} * k"
    gathered = (
        f"gather 32-bit elements: jnp.take_along_axis({value}, {place} % {size}, {last}, "
        f"mode='promise_in_bounds')[..., :{lanes.count}], with k = "
        f"lax.broadcasted_iota(jnp.int32, (..., {size}), {last})"
    )
    return [gathered, f"or {chosen}"] if rows and size <= LANES else [chosen]


def places_of(dim: Along, element: str, number: str) -> str:
    """The JAX expression for whether index `element` is that of the taken element `number`."""
    place = f"{dim.stride} * {number}"
    return f"{element} == {place} + {dim.start}" if dim.start else f"{element} == {place}"


def product_with_ones(value: str, ones: str, rows: int) -> str:
    """The JAX expression for the product of `value` and the matrix of 0 and 1 that is 1 where the
    expression `ones` is true; `value` has `rows` dimensions besides the last."""
    row = value if rows else f"{value}.reshape(1, -1)"
    product = (
        f"jnp.dot({row}.astype(jnp.float32), ({ones}).astype(jnp.float32), "
        "precision=lax.Precision.HIGHEST)"
    )
    return product if rows else f"{product}[0]"
