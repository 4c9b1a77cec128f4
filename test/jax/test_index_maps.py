"""Index maps: numbers that wrap around, and the line of a map that asks for blocks outside."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

from .mistakes import X, call, scaled  # noqa: E402
from .support import equal, ramp, told  # noqa: E402

pytestmark = pytest.mark.jax


def blocks(index_map: Any) -> dict[str, Any]:
    inputs, output = pl.BlockSpec((8, 128), index_map), pl.BlockSpec((8, 128), lambda i: (i, 0))
    return {"grid": (2,), "in_specs": [inputs], "out_specs": [output]}


def kernel(index_map: Any) -> Any:
    return call(scaled, X, **{**blocks(index_map), "out_specs": blocks(index_map)["out_specs"][0]})


def pipeline(index_map: Any) -> Any:
    inner = pltpu.emit_pipeline(scaled, **blocks(index_map))
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return call(lambda x, o: inner(x, o), X, in_specs=[anywhere], out_specs=anywhere)


@pytest.mark.parametrize("form", ["mosaic", "dma", "vreg"])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_block_whose_first_element_has_no_number_is_outside(form: Any, sign: int) -> None:
    """8 times its number is 0 in 32 bits, where the first block is."""
    far = lambda i: (sign * i * 2**29, 0)  # noqa: E731
    with simulate(form=form), pytest.raises(Exception, match="outside the array") as caught:
        kernel(far)
    assert "block-out-of-bounds" in str(caught.value)


@pytest.mark.parametrize("form", ["pallas", "mosaic", "dma", "vreg"])
@pytest.mark.parametrize("factor", [2**30, 1 - 2**31, 2**31 - 1])
def test_a_block_whose_number_wraps_at_a_later_step_is_outside(form: Any, factor: int) -> None:
    """Its number leaves 32 bits at the third step, and is far outside at the second one."""
    options: dict[str, Any] = {**blocks(lambda i: (i * factor, 0)), "grid": (4,)}
    call = pl.pallas_call(scaled, out_shape=[ramp(32, 128)], **options)
    with simulate(form=form), pytest.raises(Exception, match="outside the array") as caught:
        call(ramp(32, 128))
    assert "block-out-of-bounds" in str(caught.value)


@pytest.mark.parametrize("form", ["dma", "vreg"])
@pytest.mark.parametrize("program", [kernel, pipeline])
def test_a_block_outside_has_the_line_of_its_map(program: Callable[[Any], Any], form: Any) -> None:
    behind = lambda i: (i + 1, 0)  # noqa: E731
    with simulate(form=form), pytest.raises(Exception, match="outside") as caught:
        program(behind)
    line = behind.__code__.co_firstlineno
    note = rf"{Path(__file__).name}:{line}:\d+: note: the index map of the operand asks for this"
    assert re.search(note, str(caught.value))


WRAPPED: dict[str, tuple[Callable[[Any], Any], list[int]]] = {
    "remainder of a negative number": (
        lambda i: ((i - 1).astype(jnp.uint32) % jnp.uint32(3)).astype(jnp.int32),
        [0, 0, 1, 2, 0, 1],
    ),
    "quotient of a negative number": (
        lambda i: ((i - 2).astype(jnp.uint32) // jnp.uint32(1 << 30)).astype(jnp.int32),
        [3, 3, 0, 0, 0, 0],
    ),
    "remainder that truncates": (
        lambda i: lax.rem((i - 1).astype(jnp.uint32), jnp.uint32(3)).astype(jnp.int32),
        [0, 0, 1, 2, 0, 1],
    ),
    "signed byte": (
        lambda i: ((i + 126).astype(jnp.int8).astype(jnp.int32) + 128) // 64,
        [3, 3, 0, 0, 0, 0],
    ),
    "byte": (lambda i: (i * 64).astype(jnp.uint8).astype(jnp.int32) // 64, [0, 1, 2, 3, 0, 1]),
    "product of words": (lambda i: (i * (1 << 30)) // (1 << 30) + 2, [2, 3, 0, 1, 2, 3]),
    "unsigned without wrapping": (
        lambda i: ((i + 1).astype(jnp.uint32) // jnp.uint32(2)).astype(jnp.int32),
        [0, 1, 1, 2, 2, 3],
    ),
}


@pytest.mark.parametrize("form", ["pallas", "dma", "vreg"])
@pytest.mark.parametrize("name", WRAPPED)
def test_numbers_of_a_map_wrap_around(name: str, form: Any) -> None:
    """A map is affine only where no value of it leaves its type."""
    number, wanted = WRAPPED[name]
    x = ramp(48, 128)
    options: dict[str, Any] = {**blocks(lambda i: (number(i), 0)), "grid": (6,)}
    doubled = pl.pallas_call(scaled, out_shape=[x], **options)
    with simulate(form=form):
        (found,) = doubled(x)
    equal(found, 2 * x.reshape(6, 8, 128)[jnp.asarray(wanted)].reshape(48, 128))


def test_a_number_of_another_type_is_told_what_to_write() -> None:
    with simulate(), pytest.raises(ValueError, match="must return integer scalars") as caught:
        kernel(lambda i: (i.astype(jnp.uint8), 0))
    text = told(caught.value)
    assert "an integer: an int32" in text and "(...).astype(jnp.int32) of other integers" in text


@pytest.mark.parametrize("form", ["pallas", "mosaic", "vreg"])
@pytest.mark.parametrize("mapped", [False, True])
def test_a_map_asks_how_long_a_dynamic_grid_is(form: Any, mapped: bool) -> None:
    from_the_end = pl.BlockSpec((8, 128), lambda i, j: (pl.num_programs(1) - 1 - j, 0))
    out = pl.BlockSpec((8, 128), lambda i, j: (j, 0))

    @jax.jit
    def turned(x: Any, n: Any) -> Any:
        program = pl.pallas_call(
            lambda x, o: o.__setitem__(..., x[...]),
            grid=(1, n),
            in_specs=[from_the_end],
            out_specs=out,
            out_shape=jax.ShapeDtypeStruct((32, 128), x.dtype),
        )
        return (jax.vmap(program) if mapped else program)(x)

    x = ramp(2, 32, 128) if mapped else ramp(32, 128)
    with simulate(form=form):
        found = turned(x, jnp.int32(4))
    equal(found, x.reshape(-1, 4, 8, 128)[:, ::-1].reshape(x.shape))


def test_a_map_is_given_its_place() -> None:
    with simulate(form="pallas"), pytest.raises(Exception, match="take it as a parameter"):
        kernel(lambda i: (pl.program_id(0), 0))
