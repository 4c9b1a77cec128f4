"""JAX's own errors about a kernel keep their words; our notes tell where, and what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import checkify  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from .support import line_of  # noqa: E402

pytestmark = pytest.mark.jax

HERE = Path(__file__).name


def test_jax_messages_stay() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...]

    block = pl.BlockSpec((1,), lambda i: (i,))
    x = jnp.ones(8)
    with simulate(), pytest.raises(ValueError, match="block shape"):
        pl.pallas_call(body, out_shape=x, grid=(8,), in_specs=[block], out_specs=block)(x)


def test_errors_of_jax_say_where_and_what_to_write_instead() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = jnp.sort(x[...], axis=-1)  # the sort

    x = jnp.ones((8, 128))
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))
    with simulate(), pytest.raises(NotImplementedError, match="sort") as caught:
        call(x)
    note = str(caught.value)
    assert f"{HERE}:{line_of(__file__, 'the sort')}:" in note
    assert "sorting networks" in note and "Unimplemented primitive" in note
    assert "Please file an issue" not in note


def test_an_error_of_jax_is_explained_before_what_else_is_refused() -> None:
    def body(x: Any, o: Any) -> None:
        first = x[:, ::2]
        o[...] = first * jnp.arange(64.0)  # the count

    x = jnp.ones((8, 128))
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((8, 64), x.dtype))
    with simulate(), pytest.raises(Exception, match="iota") as caught:
        call(x)
    note = str(caught.value)
    assert f"{HERE}:{line_of(__file__, 'the count')}:" in note
    assert "jnp.arange(n).astype(jnp.float32)" in note


def test_errors_of_jax_about_what_only_lowering_refuses() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...][::2]  # the stride

    x = jnp.ones((16, 128))
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype))
    with simulate(), pytest.raises(Exception, match="what its verifier refuses") as caught:
        call(x)
    note = str(caught.value)
    assert "file a bug" not in note
    assert f"{HERE}:{line_of(__file__, 'the stride')}:" in note
    assert "pl.ds(start, size, stride)" in note


@pytest.mark.parametrize(
    "left, right, dtype, told",
    [
        ("abij", "abkj", jnp.float32, "at most one batch dimension, got 1 and 2"),
        ("abij", "abkj", jnp.float32, "one contracted dimension"),
        ("ij", "kj", jnp.bfloat16, "preferred_element_type=jnp.float32"),
    ],
)
def test_errors_of_jax_about_products(left: str, right: str, dtype: Any, told: str) -> None:
    result = "abik" if "batch" in told else "ik"

    def product(x: Any) -> Any:
        return jnp.einsum(f"{left},{right}->{result}", x, x)

    def body(x: Any, o: Any) -> None:
        o[...] = product(x[...])  # the product

    x = jnp.ones((2, 3, 8, 128)[4 - len(left) :], dtype)
    expected = product(x)
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(expected.shape, dtype))
    with simulate(), pytest.raises(Exception, match="what its verifier refuses") as caught:
        call(x)
    note = str(caught.value)
    assert "file a bug" not in note
    assert f"{HERE}:" in note and told in note
    with simulate(form="pallas"):
        np.testing.assert_array_equal(call(x), expected)


def test_products_without_a_sum_are_told_as_such() -> None:
    def body(x: Any, y: Any, o: Any) -> None:
        o[...] = jnp.einsum("i,j->ij", x[...], y[...])

    x, y = jnp.arange(8.0), jnp.arange(128.0)
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype))
    with simulate(), pytest.raises(Exception, match="parse attribute") as caught:
        call(x, y)
    assert "x[:, None] * y[None, :]" in "\n".join(caught.value.__notes__)


def test_what_only_jax_lowers_wrong_is_taken_in_form_pallas() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + jax.lax.broadcasted_iota(x.dtype, x.shape, 1)

    x = jnp.zeros((8, 128))
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))
    with simulate(), pytest.raises(Exception, match="what its verifier refuses") as caught:
        call(x)
    assert any("simulate(form='pallas')" in note for note in caught.value.__notes__)
    with simulate(form="pallas"):
        np.testing.assert_array_equal(call(x)[0], np.arange(128))


@pytest.mark.parametrize("kind", [jnp.int32, int])
def test_advice_about_a_start_that_is_an_array(kind: Any) -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[pl.ds(kind(1), 1)][0]

    x = jnp.arange(2.0 * 1024).reshape(2, 8, 128)
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape[1:], x.dtype))
    with simulate():
        if kind is int:
            np.testing.assert_array_equal(call(x), x[1])
            return
        with pytest.raises(ValueError, match="leaves for PyTreeDef") as caught:
            call(x)
    told = "\n".join(caught.value.__notes__)
    assert f"{__file__}:" in told and "pl.ds(0, n), not pl.ds(jnp.int32(0), n)" in told


def test_what_jax_does_not_lower_is_taken_in_form_pallas() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = jax.checkpoint(jnp.tanh)(x[...])

    x = jnp.ones((8, 128))
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))
    with simulate(), pytest.raises(NotImplementedError, match="remat") as caught:
        call(x)
    assert any("simulate(form='pallas')" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda x: jnp.roll(x, 0, 0), "a vector of shape (0, 128) has no elements"),
        (lambda x: jnp.pad(x, ((1, 1), (0, 0)), "edge")[1:9], "concatenate the edges"),
        (lambda x: jax.lax.cummax(x, axis=0), "jnp.maximum"),
        (lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (3, 1), (1, 1), "SAME"), "slices"),
        (lambda x: jnp.linalg.solve(x[:, :8], x), "outside of the kernel"),
        (lambda x: jnp.select([x < 0, x < 1], [-x, 2 * x], x), "nest jnp.where"),
        (lambda x: jax.nn.gelu(x, approximate=False), "(1 + lax.erf(x * 0.5**0.5))"),
        (lambda x: jax.lax.associative_scan(jnp.add, x), "go through the rows"),
        (lambda x: jax.nn.elu(x), "jnp.where(x > 0, x, jnp.exp(x) - 1)"),
        (lambda x: (checkify.check(jnp.max(x) < 9, "large"), x)[1], "pl.debug_check(condition"),
    ],
)
def test_advice(function: Any, told: str) -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = function(x[...])

    x = jnp.ones((8, 128))
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))
    with simulate(form="pallas"), pytest.raises(Unsupported) as caught:
        call(x)
    assert told in str(caught.value)


@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_more_buffers_than_a_kernel_has(form: str) -> None:
    """A pipeline within the kernel has them, as the note says."""
    x, any_space = jnp.ones((32, 128)), pl.BlockSpec(memory_space=pl.ANY)
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    buffered = pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(3))

    def body(x: Any, o: Any) -> None:
        o[...] = x[...]

    def pipeline(x: Any, o: Any) -> None:
        pltpu.emit_pipeline(body, grid=(4,), in_specs=[buffered], out_specs=[block])(x, o)

    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    with simulate(form=form):
        with pytest.raises(Exception, match=r".") as caught:
            pl.pallas_call(body, out_shape=out, grid=(4,), in_specs=[buffered], out_specs=block)(x)
        said = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
        assert "take pl.Buffered(2)" in said and "have pl.Buffered(3)" in said
        call = pl.pallas_call(pipeline, out_shape=out, in_specs=[any_space], out_specs=any_space)
        np.testing.assert_array_equal(call(x), x)


@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_arrays_without_elements(form: str) -> None:
    """Blocks of a grid are none of them, as the note says."""
    x = jnp.ones((0, 128))
    call = pl.pallas_call(
        lambda x, o: o.__setitem__(..., x[...]), out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype)
    )
    with simulate(form=form):
        with pytest.raises(Exception, match="has no elements") as caught:
            jax.block_until_ready(call(x))
        said = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
        assert "grid=(x.shape[0] // 8,)" in said and "jnp.roll" not in said
        assert copied(x, (8, 128), (x.shape[0] // 8,)).shape == x.shape


def copied(x: Any, block: tuple[int, ...], grid: tuple[int, ...]) -> Any:
    """`x`, copied in blocks of the first two dimensions."""

    def body(x: Any, o: Any) -> None:
        o[...] = x[...]

    rest = (0,) * (x.ndim - len(grid))
    spec = pl.BlockSpec(block, lambda *at: (*at, *rest))
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=out, grid=grid, in_specs=[spec], out_specs=spec)(x)


@pytest.mark.parametrize(
    ("shape", "block", "grid", "told"),
    [
        ((12, 640), (4, 128), (3, 5), "take a multiple of 8, or all 12; blocks may reach over"),
        ((8, 300), (8, 100), (1, 3), "take a multiple of 128, or all 300; blocks may reach over"),
        ((4, 96), (2, 96), (2,), "take all 4"),
        ((4, 96), (1, 96), (4,), "reshape the array to (4, 1, 96), with blocks (1, 1, 96)"),
        ((1, 4), (1, 1), (1, 4), "reshape the array to (1, 4, 1, 1), with blocks (1, 1, 1, 1)"),
        ((16, 4), (16, 1), (1, 4), "jnp.swapaxes(x, -1, -2)[..., None, :], with blocks (1, 1, 16)"),
    ],
)
def test_advice_about_blocks_that_cut_tiles(
    shape: tuple[int, ...], block: tuple[int, ...], grid: tuple[int, ...], told: str
) -> None:
    with simulate(), pytest.raises(ValueError, match="block shape") as caught:
        copied(jnp.ones(shape), block, grid)
    assert told in "\n".join(caught.value.__notes__)


@pytest.mark.parametrize(
    ("shape", "block", "grid"),
    [
        ((12, 640), (8, 128), (2, 5)),
        ((8, 300), (8, 128), (1, 3)),
        ((4, 1, 96), (1, 1, 96), (4,)),
        ((1, 4, 1, 1), (1, 1, 1, 1), (1, 4)),
        ((4, 1, 16), (1, 1, 16), (4,)),
    ],
)
def test_blocks_that_are_advised(
    shape: tuple[int, ...], block: tuple[int, ...], grid: tuple[int, ...]
) -> None:
    x = jnp.arange(float(np.prod(shape))).reshape(shape)
    with simulate():
        np.testing.assert_array_equal(copied(x, block, grid), x)


@pytest.mark.parametrize("last", [128, pl.Element(128)])
def test_advice_about_windows_with_one_element_dimension(last: Any) -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[:8]

    x = jnp.arange(16.0 * 128).reshape(16, 128)
    spec = pl.BlockSpec((pl.Element(16, (0, 8)), last), lambda i: (i * 8, 0))
    out, to = jax.ShapeDtypeStruct((16, 128), x.dtype), pl.BlockSpec((8, 128), lambda i: (i, 0))
    call = pl.pallas_call(body, out_shape=out, grid=(2,), in_specs=[spec], out_specs=to)
    with simulate():
        if last != 128:
            np.testing.assert_array_equal(call(x), x)
            return
        with pytest.raises(NotImplementedError) as caught:
            call(x)
    assert "write pl.Element(128)" in "\n".join(caught.value.__notes__)


@pytest.mark.parametrize("form", ["tiles", "pallas"])
def test_advice_about_refs_that_are_indexed_by_arrays(form: str) -> None:
    def rows(x: Any, o: Any) -> None:
        o[...] = x[jnp.arange(8) // 2, :]

    def elements(x: Any, o: Any) -> None:
        o[...] = x[jnp.arange(8)[:, None], jnp.arange(128)[None, :] // 2]

    x = jnp.ones((8, 128))
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    for body in (rows, elements):
        with simulate(form=form), pytest.raises(Exception) as caught:
            pl.pallas_call(body, out_shape=out)(x)
        text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
        assert "read the rows one by one, ref[pl.ds(i, 1), :]" in text


def test_errors_of_jax_outside_of_simulations_have_no_notes() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = jnp.sort(x[...], axis=-1)

    x = jnp.ones((8, 128))
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))
    with pytest.raises(NotImplementedError, match="sort") as caught:
        jax.jit(call).trace(x).lower(lowering_platforms=("tpu",))
    assert not getattr(caught.value, "__notes__", [])
