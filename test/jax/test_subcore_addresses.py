"""Addresses of subcores that the JAX which is installed does not write."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax")

from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jax.experimental.pallas import tpu_sc as plsc  # noqa: E402

from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.jax import simulate  # noqa: E402
from pallasite.jax.subcore_addresses import LOWERED, check_addresses  # noqa: E402

from .sparse_kernels import CHECKS, TARGET, typed  # noqa: E402

pytestmark = pytest.mark.jax


def mesh() -> Any:
    return plsc.VectorSubcoreMesh(core_axis_name="c", subcore_axis_name="s")


def kernel(o: Any, ready: Any) -> None:
    pl.semaphore_signal(ready, 1, device_id={"s": 0})


def call() -> Any:
    ready = pltpu.SemaphoreType.REGULAR
    return pl.kernel(kernel, out_type=typed(16, 16), mesh=mesh(), scratch_types=[ready])()


def jaxprs() -> Any:
    params = jax.make_jaxpr(call)().eqns[-1].params
    while "jaxprs" not in params:
        params = params["jaxpr"].eqns[-1].params
    return params["jaxprs"]


def test_where_jax_does_not_lower_them() -> None:
    told = r"addressed, which JAX lowers from 0\.10\.2"
    with simulate(target=TARGET):
        with pytest.raises(Unsupported, match=told) as raised:
            check_addresses([mesh()], jaxprs(), lowered=False)
        check_addresses([mesh()], jaxprs(), lowered=True)
    assert raised.value.location is not None


@pytest.mark.skipif(LOWERED, reason="this JAX lowers them")
def test_in_a_simulation() -> None:
    with simulate(target=TARGET, checks=CHECKS), pytest.raises(Unsupported, match="addressed"):
        jax.block_until_ready(call())
