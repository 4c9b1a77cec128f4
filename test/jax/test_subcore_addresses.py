"""Addresses of subcores that the JAX which is installed does not write."""

from __future__ import annotations

from collections.abc import Sequence
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


def call(body: Any = kernel, scratch: Sequence[Any] = (pltpu.SemaphoreType.REGULAR,)) -> Any:
    return pl.kernel(body, out_type=typed(16, 16), mesh=mesh(), scratch_types=[*scratch])()


def jaxprs(*how: Any) -> Any:
    params = jax.make_jaxpr(lambda: call(*how))().eqns[-1].params
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


def copied(address: Any) -> Any:
    """A kernel that sends a row in a loop to a subcore, or to its own memory."""

    def body(o: Any, x: Any, sent: Any, landed: Any) -> None:
        @pl.loop(0, 2)
        def _(i: Any) -> None:
            if address is None:
                pltpu.sync_copy(x, o.at[i])
            else:
                pltpu.make_async_remote_copy(x, x, sent, landed, device_id=address).start()

    return body


@pytest.mark.parametrize("address", [{"s": 1}, {"c": 0}, {"x": 0}, None])
def test_transfers_within_loops(address: Any) -> None:
    """Those to a subcore of the mesh are refused, those to another device or within one are not."""
    dma = pltpu.SemaphoreType.DMA
    scratch = [pltpu.VMEM((16,), jax.numpy.float32), dma, dma]
    with simulate(target=TARGET):
        found = jaxprs(copied(address), scratch)
        if address is None or "x" in address:
            check_addresses([mesh()], found, lowered=False)
            return
        with pytest.raises(Unsupported, match="a core of a SparseCore is addressed"):
            check_addresses([mesh()], found, lowered=False)


def test_signals_that_stay_are_no_addresses() -> None:
    with simulate(target=TARGET):
        found = jaxprs(lambda o, ready: pl.semaphore_signal(ready, 1))
        check_addresses([mesh()], found, lowered=False)
        cores = pltpu.create_tensorcore_mesh("c", num_cores=1)
        check_addresses([cores], jaxprs(), lowered=False)


@pytest.mark.skipif(LOWERED, reason="this JAX lowers them")
def test_in_a_simulation() -> None:
    with simulate(target=TARGET, checks=CHECKS), pytest.raises(Unsupported, match="addressed"):
        jax.block_until_ready(call())
