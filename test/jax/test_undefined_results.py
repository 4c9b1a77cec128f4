"""NaNs in the result of a kernel that was given none: a warning, with the check `init`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import Diagnostic, KernelWarning  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax
ROWS = 200


def summed(x: Any, masked: bool) -> Any:
    """Sums of columns, in blocks of 64 rows: the last one reaches over the end."""

    def body(x: Any, o: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o[...] = jnp.zeros_like(o)

        block = x[...]
        if masked:
            index = pl.program_id(0) * 64 + lax.broadcasted_iota(jnp.int32, block.shape, 0)
            block = jnp.where(index < ROWS, block, 0)
        o[...] += jnp.sum(jnp.exp(block), axis=0, keepdims=True)

    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((1, 128), jnp.float32),
        grid=(pl.cdiv(ROWS, 64),),
        in_specs=[pl.BlockSpec((64, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((1, 128), lambda i: (0, 0)),
    )(x)


@pytest.mark.parametrize("form", ["pallas", "mosaic", "tiles", "vreg"])
def test_what_lies_behind_the_end_is_summed(form: str) -> None:
    with (
        simulate(form=form, checks="init"),
        pytest.warns(KernelWarning, match="undefined-output") as told,
    ):
        summed(np.ones((ROWS, 128), np.float32), masked=False)
    (warning,) = told
    text = str(warning.message)
    assert "128 of 128 elements of output 0 (%o) are NaN, the first at [0, 0]" in text
    assert "jnp.where(index < n, x, 0)" in text and __file__ in text


def test_arithmetic_gives_nans() -> None:
    """Where no block reaches over the end, nothing is said."""

    def body(x: Any, o: Any) -> None:
        o[...] = lax.rsqrt(x[...])

    x = np.full((64, 128), -1.0, np.float32)
    with simulate(checks="init"), warnings.catch_warnings():
        warnings.simplefilter("error", KernelWarning)
        assert np.isnan(
            pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
        ).all()


@pytest.mark.parametrize(
    ("checks", "masked", "first"), [("init", True, 1.0), ((), False, 1.0), ("init", False, np.nan)]
)
def test_no_warning(checks: Any, masked: bool, first: float) -> None:
    """As the kernel leaves it out; without the check; of an operand that has one."""
    x = np.ones((ROWS, 128), np.float32)
    x[0, 0] = first
    with simulate(checks=checks), warnings.catch_warnings():
        warnings.simplefilter("error", KernelWarning)
        (result,) = np.asarray(summed(x, masked))
    if masked:
        np.testing.assert_allclose(result, 200 * np.e + 56, rtol=1e-5)


FORMS = ("pallas", "mosaic", "dma", "tiles", "vreg")


def piped(rows: int, block: int, masked: bool, buffers: int = 2) -> Any:
    """`x + 1`, by a pipeline in the kernel whose last block reaches over the end of its array."""

    def added(x: Any, o: Any) -> None:
        index = pl.program_id(0) * block + lax.broadcasted_iota(jnp.int32, x.shape, 0)
        value = x[...] + 1
        o[...] = jnp.where(index < rows, value, 0) if masked else value

    def body(x: Any, o: Any) -> None:
        mode = pl.Buffered(buffers)
        spec = pl.BlockSpec((block, 128), lambda i: (i, 0), pipeline_mode=mode)
        steps, result = pl.cdiv(rows, block), pl.BlockSpec((block, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(added, grid=(steps,), in_specs=[spec], out_specs=[result])(x, o)

    whole = jax.ShapeDtypeStruct((pl.cdiv(rows, block) * block, 128), jnp.float32)
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(body, out_shape=whole, in_specs=[anywhere], out_specs=anywhere)(
        np.ones((rows, 128), np.float32)
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("rows", "block", "buffers"), [(13, 8, 2), (21, 16, 1), (5, 8, 3)])
def test_a_pipeline_leaves_out_what_lies_behind(
    form: str, rows: int, block: int, buffers: int
) -> None:
    with simulate(form=form, checks="all"), warnings.catch_warnings():
        warnings.simplefilter("error", KernelWarning)
        result = np.asarray(piped(rows, block, True, buffers))
    np.testing.assert_array_equal(result[:rows], 2)
    np.testing.assert_array_equal(result[rows:], 0)


@pytest.mark.parametrize("form", FORMS)
def test_a_pipeline_uses_what_lies_behind(form: str) -> None:
    with (
        simulate(form=form, checks="init"),
        pytest.warns(KernelWarning, match="1408 of 4096 elements.*undefined-output"),
    ):
        piped(21, 16, False)


def test_copies_of_any_length_fill_no_block() -> None:
    """A kernel that copies as many rows as it is told, and loads more, is no pipeline."""

    def body(count: Any, x: Any, o: Any, part: Any) -> None:
        some = pl.ds(0, pl.multiple_of(count[0], 8))
        pltpu.sync_copy(x.at[some], part.at[some])
        o[...] = part[...]

    x = np.ones((32, 128), np.float32)
    with simulate(checks="init"), pytest.raises(Diagnostic) as raised:
        pl.pallas_call(
            body,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            in_specs=[
                pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pl.ANY),
            ],
            scratch_shapes=[pltpu.VMEM(x.shape, x.dtype)],
        )(np.array([16], np.int32), x)  # fmt: skip
    assert raised.value.code == "uninitialised-read"


def _rows(x: Any, o: Any) -> None:
    o[...] = jnp.broadcast_to(o[0:1], o.shape)


def _shifted(x: Any, o: Any) -> None:
    o[0:4] = o[4:8]
    o[4:] = x[4:]


def _apart(x: Any, o: Any) -> None:
    o[0:4] = o[pl.ds(0, 4, 2)]


@pytest.mark.parametrize("form", ["pallas", "mosaic", "dma", "tiles", "vreg"])
@pytest.mark.parametrize("body", [_rows, _shifted, _apart])
def test_outputs_made_of_themselves(body: Any, form: str) -> None:
    """A load of where nothing is stored afterwards is no part of a store."""
    x = np.ones((16, 128), np.float32)
    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))
    with simulate(form=form, checks="init"), pytest.raises(Diagnostic) as raised:
        call(x)
    assert raised.value.code == "uninitialised-read"
