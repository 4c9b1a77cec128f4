"""Old names of Pallas, as the seed tutorials spell them, inside a simulation."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

Tpu: Any = pltpu
Pallas: Any = pl


def test_old_names_work_and_say_so() -> None:
    def body(x: Any, o: Any) -> None:
        def scoped(buffer: Any, semaphore: Any) -> None:
            copy = pltpu.make_async_copy(x, buffer, semaphore)
            copy.start()
            copy.wait()
            rows = Pallas.load(buffer, (pl.ds(0, 8), slice(None)))
            doubled = Tpu.reciprocal(Tpu.repeat(rows, 2, 0) + 1.0)
            Pallas.store(o, (slice(None), slice(None)), doubled)

        pl.run_scoped(scoped, pltpu.VMEM((16, 128), jnp.float32), pltpu.SemaphoreType.DMA)

    x = jnp.arange(16 * 128, dtype=jnp.float32).reshape(16, 128)
    with simulate():
        with pytest.warns(DeprecationWarning, match="write pltpu.CompilerParams"):
            parameters = Tpu.TPUCompilerParams(dimension_semantics=("arbitrary",))
        out = pl.pallas_call(
            body,
            out_shape=x,
            grid=(1,),
            in_specs=[pl.BlockSpec(memory_space=Tpu.TPUMemorySpace.ANY)],
            compiler_params=parameters,
        )(x)
    expected = 1 / (np.tile(np.asarray(x)[:8], (2, 1)) + 1)
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_old_parameters_by_name() -> None:
    def body(x: Any, o: Any) -> None:
        everything = (slice(None), slice(None))
        low = jax.lax.broadcasted_iota(jnp.int32, x.shape, 0) < 3
        kept = jnp.where(low, -1.0, Pallas.load(x_ref_or_view=x, idx=everything))
        Pallas.store(o, idx=everything, val=jnp.zeros_like(kept))
        Pallas.store(x_ref_or_view=o, idx=everything, val=kept + 2.0, mask=~low)

    x = jnp.arange(8 * 128, dtype=jnp.float32).reshape(8, 128)
    with simulate():
        out = pl.pallas_call(body, out_shape=x)(x)
    expected = np.zeros((8, 128), np.float32)
    expected[3:] = np.asarray(x)[3:] + 2.0
    np.testing.assert_array_equal(out, expected)


def test_out_shape_of_kernel() -> None:
    def body(x: Any, o: Any) -> None:
        pltpu.sync_copy(x, o)

    x = jnp.ones((8, 128))
    kernel: Any = pl.kernel
    with simulate():
        with pytest.warns(DeprecationWarning, match="write out_type="):
            f = kernel(body, out_shape=x, mesh=pltpu.create_tensorcore_mesh("core"))
        np.testing.assert_array_equal(f(x), x)


def test_old_blocks_and_parameters_of_calls() -> None:
    """Index maps first, and a dict of dicts: so were kernels written until 2024."""

    def body(x: Any, o: Any) -> None:
        o[...] = jnp.zeros_like(o)
        old = Pallas.swap(o, (slice(None), slice(None)), x[...] + 1.0)
        o[...] += old

    x = jnp.arange(16 * 256, dtype=jnp.float32).reshape(16, 256)
    block: Any = pl.BlockSpec
    call: Any = pl.pallas_call
    with simulate():
        with pytest.warns(DeprecationWarning, match="write pl.BlockSpec") as told:
            turned = block(lambda i, j: (j, i), (8, 128))
        assert told[0].filename == __file__
        straight = block((8, 128), lambda i, j: (i, j))
        with pytest.warns(DeprecationWarning, match="write pltpu.CompilerParams"):
            out = call(
                body,
                out_shape=x,
                grid=(2, 2),
                in_specs=[straight],
                out_specs=turned,
                compiler_params={"mosaic": {"dimension_semantics": ("parallel", "arbitrary")}},
            )(x)
    expected = np.asarray(x).reshape(2, 8, 2, 128).transpose(2, 1, 0, 3).reshape(16, 256) + 1
    np.testing.assert_array_equal(out, expected)


def test_old_blocks_at_elements() -> None:
    """Windows of 16 rows, 8 apart."""

    def body(x: Any, o: Any) -> None:
        o[...] = x[:8] - x[8:]

    x = jnp.arange(24 * 128, dtype=jnp.float32).reshape(24, 128)
    block: Any = pl.BlockSpec
    with simulate():
        mode = Pallas.Unblocked(((0, 8), (0, 0)))
        window = block(lambda i: (i * 8, 0), (16, 128), indexing_mode=mode)
        out = pl.pallas_call(
            body,
            out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32),
            grid=(2,),
            in_specs=[window],
            out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        )(x)
    np.testing.assert_array_equal(out, x[:16] - x[8:])


def test_outside_they_stay_unknown() -> None:
    with simulate():
        pass
    with pytest.raises(AttributeError):
        _ = Tpu.TPUCompilerParams
    with pytest.raises(AttributeError):
        _ = Pallas.load
    with pytest.raises(TypeError):
        cast(Any, pl.BlockSpec)((8, 128), lambda i: (i, 0), indexing_mode=None)
    with pytest.raises(TypeError):
        kernel: Any = pl.kernel
        kernel(lambda x, o: None, out_shape=None, mesh=None)
