"""Half words and bytes are compared as they are; sums of products of half words stay in words.

The TPU compiler's verdict is asked of our registers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

import pallasite  # noqa: E402
from pallasite.frontend.aot import compile_ahead_of_time  # noqa: E402
from pallasite.jax import trace  # noqa: E402
from pallasite.targets import get_target  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.aot]
SHAPE = (40, 200)
Choice = Callable[[Any, Any, Any], Any]


def rows(x: Any, y: Any, z: Any) -> Any:
    """Where equal in the first rows, which words tell."""
    return jnp.where((x == y) & (jax.lax.broadcasted_iota(jnp.int32, SHAPE, 0) < 7), z, x)


KERNELS: dict[str, Choice] = {
    "row": lambda x, y, z: jnp.where(x == y[:1], z, x),
    "masks": lambda x, y, z: jnp.where((x == y) & (y != z) | ~(x == z), z, x),
    "words": lambda x, y, z: jnp.where(x == y, z.astype(jnp.float32), 0.5).astype(x.dtype),
    "rows": rows,
    "order": lambda x, y, z: jnp.where((x <= y) & (x > z), z, x),
}
WORDS = ("words", "rows")
"""Whose masks govern words, or meet masks of them."""


def numbers(element: Any) -> list[Any]:
    """Small numbers, often equal, and some of the ends of the range."""
    draw, limits = np.random.default_rng(0), np.iinfo(element)
    ends = np.array([limits.min, limits.min + 1, limits.max - 1, limits.max])
    near = [draw.integers(max(limits.min, -2), 3, SHAPE) for _ in range(3)]
    return [np.where(draw.random(SHAPE) < 0.2, draw.choice(ends, SHAPE), n).astype(element)
            for n in near]  # fmt: skip


class Loaded:
    """A ref that is loaded anew wherever a function of arrays takes its value."""

    def __init__(self, ref: Any) -> None:
        self.ref = ref

    def __jax_array__(self) -> Any:
        return self.ref[...]

    def __gt__(self, other: Any) -> Any:
        return self.ref[...] > jnp.asarray(other)


def lowered(
    function: Choice,
    inputs: list[Any],
    target: str,
    compiler: Any,
    load: Callable[[Any], Any] = lambda ref: ref[...],
) -> Counter[str]:
    """The operations of the registers, by name and element type, whose numbers are right."""

    def body(x: Any, y: Any, z: Any, o: Any) -> None:
        o[...] = function(load(x), load(y), load(z))

    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(SHAPE, inputs[0].dtype))
    module = trace(call, *inputs, target=target)
    registers = pallasite.lower(module, "vreg", target)
    (result,) = pallasite.run(registers, inputs, form="vreg", target=target)
    np.testing.assert_array_equal(result, function(*map(jnp.asarray, inputs)))
    verdict = compile_ahead_of_time(
        registers, topology=get_target(target).topology, layout_passes=False, compiler=compiler
    )
    assert verdict.accepted, verdict.message
    return Counter(f"{op.name} {op.operands[0].type}" for op in registers.walk() if op.operands)


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("name", KERNELS)
def test_half_words(name: str, target: str, compiler: Any) -> None:
    found = lowered(KERNELS[name], numbers(np.int16), target, compiler)
    packed = found["arith.cmpi vector<8x128x2xi16>"]
    assert bool(packed) == (name not in WORDS)


@pytest.mark.parametrize("name", [n for n in KERNELS if n != "order"])
def test_bytes(name: str, compiler: Any) -> None:
    found = lowered(KERNELS[name], numbers(np.int8), "v5e", compiler)
    assert bool(found["arith.cmpi vector<8x128x4xi8>"]) == (name != "words")


def before(x: Any, y: Any, z: Any) -> Any:
    """The first rows of one value, the last ones of another, and their first lanes."""
    rows, lanes = (jax.lax.broadcasted_iota(jnp.int32, SHAPE, axis) for axis in (0, 1))
    return jnp.where(lanes < 150, jnp.where(rows < 21, x, y), z)


def larger(x: Any, y: Any, z: Any) -> Any:
    """Where words are larger."""
    return jnp.where(x.astype(jnp.int32) + 1 > y.astype(jnp.int32), z, x)


@pytest.mark.parametrize("element", [np.int8, np.int16])
def test_positions(element: Any, compiler: Any) -> None:
    """Masks of rows and lanes are made for packed data."""
    found = lowered(before, numbers(element), "v5e", compiler)
    assert not any("unpack" in kind or "pack_vmsk" in kind for kind in found)


def test_masks_of_words_for_bytes(compiler: Any) -> None:
    """They are packed once for all that they govern, which stays packed."""
    found = lowered(larger, numbers(np.int8), "v5e", compiler)
    # 40 rows are 5 x 2 tiles of words, 4 to a register of bytes.
    assert found["arith.cmpi vector<8x128x4xi8>"] == 3
    assert found["arith.select vector<8x128x4xi1>"] == 3


def test_sum_of_products(compiler: Any) -> None:
    def function(x: Any, y: Any, z: Any) -> Any:
        return (x * y + z) * x - (y << 3) * z

    found = lowered(function, numbers(np.int16), "v5e", compiler)
    # 40 rows are 5 x 2 tiles of words, two to a register of half words.
    assert found["tpu.pack_subelements vector<8x128xi32>"] == 5
    assert found["tpu.unpack_subelements vector<8x128x2xi16>"] == 5 * 2 * len("xyz")


@pytest.mark.parametrize("element", [np.int8, np.int16])
def test_the_larger_of_what_is_loaded_twice(element: Any, compiler: Any) -> None:
    """The TPU compiler makes a maximum of a choice between what is compared, also once equal
    values are one; words have it."""

    def function(x: Any, y: Any, z: Any) -> Any:
        return jnp.where(x > y, jnp.asarray(x), jnp.asarray(y))

    lowered(function, numbers(element), "v5e", compiler, Loaded)
