"""JAX's paged attention rounds pages of float32 to bfloat16 by itself (`_maybe_dequantize`).

With logits of tens that shifts results by 0.05 against a reference that keeps the pages; against
one that rounds them, and the operands of products, only the order of sums is left.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention  # noqa: E402

import pallasite.jax  # noqa: E402

pytestmark = pytest.mark.jax

LENGTHS = [0, 3, 17, 64]
PAGES = 4
PAGE = 16


def rounded(array: np.ndarray) -> np.ndarray:
    return array.astype(ml_dtypes.bfloat16).astype(np.float64)


def attention(q: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`q` (heads, 128), `keys` and `values` (length, 128)."""
    logits = rounded(q) @ rounded(keys).T
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return rounded(weights) @ rounded(values) / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("form", ["tiles", "vreg"])
def test_pages_are_rounded_by_the_kernel_and_nothing_else_is_lost(form: str) -> None:
    random = np.random.default_rng(0)
    q = random.standard_normal((len(LENGTHS), 8, 128), np.float32)
    pages = random.standard_normal((2, 1, len(LENGTHS) * PAGES, PAGE, 128), np.float32)
    table = random.permutation(len(LENGTHS) * PAGES).astype(np.int32).reshape(-1, PAGES)
    with pallasite.jax.simulate(form=form, checks=("race", "init")):
        result = np.asarray(
            paged_attention(
                q, *pages, jnp.asarray(LENGTHS), jnp.asarray(table), pages_per_compute_block=PAGES
            )
        )
    for number, length in enumerate(LENGTHS):
        if length:
            keys, values = (x[0, table[number]].reshape(-1, 128)[:length] for x in pages)
            expected = attention(q[number], keys, values)
            np.testing.assert_allclose(result[number], expected, atol=1e-4)
