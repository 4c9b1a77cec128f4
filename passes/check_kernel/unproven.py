"""The refusal of an access that is not proven to start at a tile, with what to write instead."""

from __future__ import annotations

from typing import cast

from xdsl.ir import Operation

from pallasite.diagnostics import Unsupported
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import AnyMemRef
from pallasite.passes.accesses import accessed_shape, base_of, stores

_SINGLE = (
    "single numbers of any place are read from SMEM: pl.BlockSpec(memory_space=pltpu.SMEM), or "
    "a part that is copied there with pltpu.sync_copy"
)


def unproven(op: Operation, dim: int, divisor: int) -> Unsupported:
    """The refusal of an access whose index in `dim` may be no multiple of `divisor`."""
    single = cast(AnyMemRef, base_of(op).type).get_shape()[dim] == 1
    return refusal(
        op, "unproven-alignment",
        f"cannot prove that the index in {_dimension(op, dim)} is a multiple of {divisor}",
        *(["write 0: the dimension has a single element"] if single else []),
        f"write pl.multiple_of(index, {divisor}) if it is one, or {_at_any_place(op, dim)}",
        *([_SINGLE] if not stores(op) and max(accessed_shape(op)) == 1 else []),
    )  # fmt: skip


def _dimension(op: Operation, dim: int) -> str:
    """The name of `dim`, counted from the end: the kernel's own ref may lack dimensions that its
    block has (`None` in its specification)."""
    rank = len(cast(AnyMemRef, base_of(op).type).get_shape())
    names = {1: "the last dimension", 2: "the second-to-last dimension"}
    return names.get(rank - dim, f"dimension {dim}")


def _at_any_place(op: Operation, dim: int) -> str:
    """JAX code that accesses `dim` of the ref of `op` at an index that starts no tile."""
    shape, accessed = cast(AnyMemRef, base_of(op).type).get_shape(), accessed_shape(op)
    size, count, flat = shape[dim], accessed[dim], len(shape) == 1
    if len(shape) > 2:
        return _at_any_place_of_many(stores(op), size, count, len(shape) - dim)
    # Flat vectors are not rotated.
    row = ".reshape(1, -1)" if flat else ""
    axis = dim + flat
    if not stores(op):
        part = ", ".join(["0"] * flat + [":"] * dim + [f":{count}"])
        return (
            "load an aligned block and rotate it: "
            f"pltpu.roll(ref[...]{row}, -index % {size}, {axis})[{part}]"
        )
    if count == 1:
        return (
            "choose where the value goes: ref[...] = jnp.where("
            f"lax.broadcasted_iota(jnp.int32, ref.shape, {dim}) == index, value, ref[...])"
        )
    pads = tuple((0, size - count if d == axis else 0) for d in range(len(shape) + flat))
    numbered = f"(1, {size})" if flat else "ref.shape"
    return (
        f"rotate the padded value into place: ref[...] = jnp.where((k >= index) & (k < index + "
        f"{count}), pltpu.roll(jnp.pad(value{row}, {pads}), index, {axis}), ref[...]{row})"
        f"{'[0]' * flat}, with k = lax.broadcasted_iota(jnp.int32, {numbered}, {axis})"
    )


def _at_any_place_of_many(stored: bool, size: int, count: int, end: int) -> str:
    """As `_at_any_place`, of refs and values whose ranks in the kernel are not known, in the
    dimension that is the `end`th from the end."""
    if not stored:
        part = ", ".join(["...", f":{count}", *[":"] * (end - 1)])
        return (
            "load an aligned block x and rotate it: "
            f"pltpu.roll(x, -index % {size}, x.ndim - {end})[{part}]"
        )
    numbered = f"lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - {end})"
    if count == 1:
        return (
            "load the aligned block x, choose where the value goes, and store that: "
            f"jnp.where({numbered} == index, value, x)"
        )
    return (
        f"load the aligned block x, rotate the value, padded to {size} in that dimension, into "
        f"place, and store that: jnp.where((k >= index) & (k < index + {count}), "
        f"pltpu.roll(padded, index, x.ndim - {end}), x), with k = {numbered}"
    )
