"""Calls that are refused, and what is said (spec/pallas_semantics.md section 8.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .support import S, call, jax, jnp, pl, pltpu, ramp, refusal

pytestmark = pytest.mark.jax
feature = pytest.mark.feature
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
INT = jnp.int32


def copy(x: Any, o: Any) -> None:
    o[...] = x[...]


def blocks(spec: Any, *shape: int, grid: Any = (2,), **options: Any) -> str:
    """What is said of a kernel that reads blocks `spec` of an array of `shape`."""
    shape = shape or (16, 128)
    options = {"grid": grid, "in_specs": [spec], **options}
    return refusal(call(lambda x, o: None, S(8, 128), **options), ramp(*shape), form="mosaic")


@feature("C17")
def test_rank_of_a_block() -> None:
    assert "same number of dimensions" in blocks(pl.BlockSpec((8,), lambda i: (i,)))


@feature("C18")
@pytest.mark.parametrize(
    ("index_map", "said"),
    [
        (lambda i: (i,), "must return 2 values"),
        (lambda i: (1.5, 0), "must return integer scalars"),
        (lambda i: (jnp.zeros(2, INT), 0), "must return integer scalars"),
    ],
)
def test_results_of_an_index_map(index_map: Any, said: str) -> None:
    assert said in blocks(pl.BlockSpec((8, 128), index_map))


@feature("C19")
def test_constants_of_an_index_map() -> None:
    table = jnp.array([1, 0])
    assert "constants" in blocks(pl.BlockSpec((8, 128), lambda i: (table[i], 0)))


@feature("C20")
def test_grid_spec_and_its_parts() -> None:
    spec = pl.GridSpec(grid=(2,), in_specs=[ROWS], out_specs=ROWS)
    for more in ({"grid": (2,)}, {"in_specs": [ROWS]}, {"out_specs": ROWS}):
        with pytest.raises(ValueError, match="grid_spec"):
            call(copy, S(16, 128), grid_spec=spec, **more)(ramp(16, 128))


@feature("C27")
def test_elements_beside_blocks() -> None:
    assert "Element" in blocks(pl.BlockSpec((pl.Element(8), 128), lambda i: (8 * i, 0)))


@feature("C28")
def test_bounded_slices_of_a_call() -> None:
    spec = pl.BlockSpec((pl.BoundedSlice(8), 128), lambda i: (pl.ds(8 * i, 8), 0))
    assert "BoundedSlice" in blocks(spec)
    assert "pl.Slice" in blocks(pl.BlockSpec((pl.BoundedSlice(8), 128), lambda i: (i, 0)))


@feature("C31")
def test_rank_zero() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = jnp.full(o.shape, x[...])

    assert "blocks of rank >= 1" in refusal(call(body, S(8, 128)), jnp.float32(1))


@feature("C37")
def test_a_block_outside_of_its_array() -> None:
    program = call(copy, S(16, 128), grid=(2,), in_specs=[
        pl.BlockSpec((8, 128), lambda i: (i + 1, 0))], out_specs=ROWS)  # fmt: skip
    said = refusal(program, ramp(16, 128), checks=())
    assert "block of shape [8, 128] at [16, 0] of input 0" in said and "lies outside" in said


@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_the_place_of_a_block_is_not_its_number(form: str) -> None:
    program = call(copy, S(32, 128), grid=(4,), in_specs=[
        pl.BlockSpec((8, 128), lambda i: (i * 8, 0))], out_specs=ROWS)  # fmt: skip
    said = refusal(program, ramp(32, 128), checks=(), form=form)
    assert "gives the number of a block" in said and "not 8, but 1" in said


@feature("C44")
@pytest.mark.parametrize(
    ("aliases", "out"),
    [({1: 0}, S(8, 128)), ({0: 1}, S(8, 128)), ({0: 0}, S(8, 256)), ({0: 0}, S(8, 128, dtype=INT))],
)
def test_aliases_that_do_not_fit(aliases: Any, out: Any) -> None:
    program = call(lambda x, o: None, out, input_output_aliases=aliases)
    assert "input_output_aliases" in refusal(program, ramp(8, 128))


@feature("D02")
def test_semantics_of_another_number_of_axes() -> None:
    params = pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary"))
    assert "semantics" in blocks(ROWS, compiler_params=params).lower()


@feature("L06")
@pytest.mark.parametrize(
    ("mode", "said"),
    [(pl.Buffered(3), "buffer"), (pl.Buffered(2, use_lookahead=True), "Lookahead")],
)
def test_buffers_of_a_call(mode: Any, said: str) -> None:
    assert said in blocks(pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=mode))


@feature("P03")
def test_specs_of_prefetched_operands() -> None:
    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(2,), in_specs=[ROWS, ROWS], out_specs=ROWS
    )
    program = call(lambda n, x, o: None, S(16, 128), grid_spec=grid)
    assert "in_specs" in refusal(program, np.array([1], np.int32), ramp(16, 128))


@feature("T13")
@pytest.mark.parametrize("dtype", ["float16", "float64", "int64"])
def test_types_without_registers(dtype: str) -> None:
    with jax.enable_x64(dtype.endswith("64")):
        x = jnp.ones((8, 128), dtype)
        text = refusal(call(copy, S(8, 128, dtype=x.dtype)), x)
    assert f"vectors of {dtype[0]}{dtype[-2:]} are not supported" in text
