"""Rows of packed words that a store leaves as they are have not been written by it, in any form."""

from __future__ import annotations

import re
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

from pallasite.diagnostics import KernelWarning  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax

FORMS = ("pallas", "mosaic", "dma", "tiles", "vreg")
PARTS = {
    "a row": (3, 4, 0, 128),
    "rows from the middle of a word": (3, 11, 0, 128),
    "rows and lanes of two registers": (5, 42, 10, 60),
    "rows across registers": (1, 62, 0, 256),
}
"""First row and end, first lane and end."""


def stores(element: Any, *parts: Any) -> Any:
    """Stores parts of an array to an output of 64 rows."""
    x = jnp.ones((64, 256), element)

    def body(x: Any, o: Any) -> None:
        for part in parts:
            o[part] = x[part]

    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, element))(x)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("element", [jnp.bfloat16, jnp.int8])
@pytest.mark.parametrize("name", PARTS)
def test_rows_that_nobody_writes(name: str, element: Any, form: str) -> None:
    top, end, left, right = PARTS[name]
    count = 64 * 256 - (end - top) * (right - left)
    told = re.escape(f"{count} of 16384 elements of output 0 (%o) were never written, the first at")
    with simulate(form=form, checks=("init",)), pytest.warns(KernelWarning, match=told):
        stores(element, (slice(top, end), slice(left, right)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("element", [jnp.bfloat16, jnp.int8])
@pytest.mark.filterwarnings("error")
def test_rows_that_are_written_one_by_one(element: Any, form: str) -> None:
    with simulate(form=form, checks=("init",)):
        assert jnp.all(stores(element, *((slice(n, n + 1), slice(None)) for n in range(64))) == 1)
