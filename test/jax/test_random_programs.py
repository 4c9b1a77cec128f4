"""Random expressions of JAX functions give in kernels what they give outside.

    PALLASITE_EXAMPLES=20 pytest -n0 test/jax/test_random_programs.py

takes twenty times as many.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import pallasite  # noqa: E402
from pallasite.jax import trace  # noqa: E402
from pallasite.jax.simulation import kernels  # noqa: E402

from .random_programs import program  # noqa: E402

pytestmark = pytest.mark.jax

EXAMPLES = 16 * int(os.environ.get("PALLASITE_EXAMPLES", "1"))


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_inside_as_outside(seed: int) -> None:
    """Traced by us in form `pallas`, lowered by JAX in a later one, for targets in turn."""
    made = program(seed)
    form, target = ("tiles", "vreg")[seed % 2], ("v5e", "v6e", "v4", "v7x")[seed % 4]
    (by_jax,) = kernels(made.call, *made.arguments, form="mosaic", target=target)
    traced = trace(made.call, *made.arguments, target=target)
    for module, run_in in ((by_jax, form), (traced, "pallas")):
        (result,) = pallasite.run(module, made.arguments, form=run_in, target=target)
        assert result.dtype == made.expected.dtype
        _close(result, made.expected)


def _close(result: np.ndarray, expected: np.ndarray) -> None:
    """But for the rounding of functions, which may carry an element over a step of `floor`, a
    comparison, or the choice of a position: of those elements there are few."""
    wide, exact = np.asarray(result, np.float64), np.asarray(expected, np.float64)
    tolerance = 2.0**-6 if result.dtype.itemsize == 2 else 1e-3
    near = np.isclose(wide, exact, rtol=tolerance, atol=tolerance, equal_nan=True)
    if result.dtype.kind == "i":
        near |= np.abs(wide - exact) <= 1
    assert near.mean() > 0.99, f"{(~near).sum()} of {near.size} elements differ"
