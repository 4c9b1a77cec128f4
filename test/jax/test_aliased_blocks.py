"""Inputs that share the memory of an output whose block stays for several steps, or comes again."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

import pallasite  # noqa: E402
import pallasite.jax  # noqa: E402
from pallasite.diagnostics import KernelWarning  # noqa: E402
from pallasite.interpreter.options import Options  # noqa: E402
from pallasite.interpreter.run import execute  # noqa: E402
from pallasite.jax import trace  # noqa: E402
from pallasite.targets import get_target  # noqa: E402

pytestmark = pytest.mark.jax
f32 = jnp.float32
Body = Callable[[Any, Any, Any], None]


def told(body: Body, *, stays: bool = True) -> list[Any]:
    """The codes of the warnings of a kernel with an aliased input, over three steps of each of two
    blocks."""
    block = pl.BlockSpec((8, 128), lambda i, k: (i, 0) if stays else (i, k))
    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((16, 384), f32),
        grid=(2, 3),
        in_specs=[block, pl.BlockSpec((8, 128), lambda i, k: (i, k))],
        out_specs=block,
        input_output_aliases={0: 0},
    )
    x = jax.ShapeDtypeStruct((16, 384), f32)
    module = trace(call, x, x)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", KernelWarning)
        pallasite.lower(module, "tiles")
    assert all(isinstance(w.message, KernelWarning) for w in found)
    return [str(w.message).rpartition("[")[2].split("]")[0] for w in found]


def test_a_sum_that_is_lost() -> None:
    def body(x: Any, y: Any, o: Any) -> None:
        o[...] = x[...] + y[...]

    assert told(body) == ["aliased-block-read-again"]
    assert told(body, stays=False) == []


def test_sums_that_are_kept() -> None:
    def first(x: Any, y: Any, o: Any) -> None:
        @pl.when(pl.program_id(1) == 0)
        def _() -> None:
            o[...] = x[...]

        o[...] += y[...]

    def again(x: Any, y: Any, o: Any) -> None:
        @pl.when(pl.program_id(1) == 2)
        def _() -> None:
            o[...] = x[...] + y[...]

    for body in (first, again):
        assert told(body) == []


def test_a_block_that_is_read_first() -> None:
    def of_output(x: Any, y: Any, o: Any) -> None:
        o[...] += y[...]

    def of_input(x: Any, y: Any, o: Any) -> None:
        o[...] = x[...] + y[...]

    def chosen(x: Any, y: Any, o: Any) -> None:
        o[...] = jnp.where(pl.program_id(1) == 0, x[...], o[...]) + y[...]

    assert told(of_output) == told(of_output, stays=False) == ["uninitialised-read"]
    assert told(of_input, stays=False) == told(chosen) == []


@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_blocks_do_not_begin_with_the_input(form: str) -> None:
    def nothing(_: Any, _2: Any, x: Any, y: Any) -> None:
        y[0:4] = jnp.ones((4, 128))

    def doubled(spec: Any, body: Any) -> Any:
        x = jnp.ones((8, 128))
        return pl.pallas_call(
            body,
            out_shape=(x, x),
            grid=(1,),
            in_specs=[spec] * 2,
            out_specs=[spec] * 2,
            input_output_aliases={0: 0, 1: 1},
        )(x, 2 * x)

    checked = pallasite.jax.simulate(form=form, checks="init")
    with checked, pytest.warns(KernelWarning) as warned:
        doubled(pl.BlockSpec((8, 128), lambda i: (0, 0)), nothing)
    counts = [str(w.message).partition("warning: ")[2].split()[0] for w in warned]
    assert counts == ["1024", "512"]
    assert all("out[...] = input[...]" in str(w.message) for w in warned)
    with checked:
        same, twice = doubled(pl.BlockSpec(memory_space=pl.ANY), lambda _, _2, x, y: None)
    assert (same == 1).all() and (twice == 2).all()


@pytest.mark.parametrize("form", ["pallas", "mosaic", "dma", "tiles", "vreg"])
@pytest.mark.parametrize("poison", [0, 1])
@pytest.mark.parametrize("aliased", [False, True])
def test_a_block_that_may_come_again_shows_its_array_from_the_start(
    form: str, poison: int, aliased: bool
) -> None:
    """At the first visit that is what an aliased input holds, or nobody has written."""

    def body(x: Any, o: Any, seen: Any) -> None:
        seen[...] = o[...]
        o[...] = jnp.where(pl.program_id(0) == 0, x[...], o[...]) + 1

    mode = pl.Buffered(1, revisit=pl.RevisitMode.ANY)
    rows = jax.ShapeDtypeStruct((16, 128), f32)
    call = pl.pallas_call(
        body,
        out_shape=(rows, jax.ShapeDtypeStruct((48, 128), f32)),
        grid=(3, 2),
        in_specs=[pl.BlockSpec((8, 128), lambda i, j: (j, 0))],
        out_specs=(
            pl.BlockSpec((8, 128), lambda i, j: (j, 0), pipeline_mode=mode),
            pl.BlockSpec((8, 128), lambda i, j: (2 * i + j, 0)),
        ),
        input_output_aliases={0: 0} if aliased else {},
    )
    x = np.arange(16 * 128, dtype=np.float32).reshape(16, 128)
    module = pallasite.lower(trace(call, rows), form)
    out, seen = execute(module, [[x]], Options(poison=poison), target=get_target("v5e")).outputs[0]
    np.testing.assert_array_equal(out, x + 3)
    np.testing.assert_array_equal(seen[16:], np.concatenate([x + 1, x + 2]))
    if aliased:
        np.testing.assert_array_equal(seen[:16], x)
    else:
        assert np.isnan(seen[:16]).all() if poison == 0 else len(np.unique(seen[:16])) == 1
