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

from pallasite.diagnostics import KernelWarning  # noqa: E402
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
