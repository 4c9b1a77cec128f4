"""`jax_pallas_poison_buffers` fills what a kernel allocates, in every form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax

if not hasattr(jax.config, "jax_pallas_poison_buffers"):
    pytest.skip("this JAX fills no buffers", allow_module_level=True)

FILLS = {jnp.float32: np.nan, jnp.bfloat16: np.nan, jnp.int32: -(2**31), jnp.int8: -128}
OUT = [jax.ShapeDtypeStruct((8, 128), dtype) for dtype in FILLS]


def allocated(*outs: Any) -> None:
    for o in outs:
        o[...] = jax.empty_ref(jax.ShapeDtypeStruct(o.shape, o.dtype), pltpu.VMEM)[...]


def scoped(*outs: Any) -> None:
    for o in outs:
        pl.run_scoped(lambda s, o=o: o.__setitem__(..., s[...]), pltpu.VMEM(o.shape, o.dtype))


@pytest.mark.parametrize("form", ["pallas", "tiles"])
@pytest.mark.parametrize("body", [allocated, scoped])
def test_buffers_are_filled(body: Any, form: Any) -> None:
    jax.config.update("jax_pallas_poison_buffers", True)
    try:
        with simulate(form=form, checks="init"):
            outs = pl.pallas_call(body, out_shape=OUT)()
    finally:
        jax.config.update("jax_pallas_poison_buffers", False)
    for found, fill in zip(outs, FILLS.values(), strict=True):
        np.testing.assert_array_equal(np.asarray(found.astype(jnp.float32)), np.float32(fill))
