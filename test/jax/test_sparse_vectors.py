"""Errors about the vectors of subcores say where and what to write instead, which runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from .since import require_jax  # noqa: E402

require_jax("0.10.1", "needs_layout_passes=")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jax.experimental.pallas import tpu_sc as plsc  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

from .sparse_kernels import LANES, TARGET, one_subcore, typed  # noqa: E402
from .support import equal, told  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.feature("Y14")]

f32, i32 = jnp.float32, jnp.int32
FLAT = pltpu.CompilerParams(needs_layout_passes=False)
X = np.arange(4 * LANES, dtype=np.int32)[::-1].reshape(4, LANES).copy()


def lanes() -> Any:
    return jax.lax.iota(i32, LANES)


def run(function: Any) -> Any:
    """What `function` makes of a matrix in VMEM: a row, or None where it stores it itself."""

    def body(x: Any, o: Any, held: Any, made: Any) -> None:
        pltpu.sync_copy(x, held)
        made[...] = jnp.zeros((LANES,), i32)
        row = function(held, made)
        if row is not None:
            made[...] = row
        pltpu.sync_copy(made, o)

    scratch = [pltpu.VMEM(X.shape, i32), pltpu.VMEM((LANES,), i32)]
    call = one_subcore(body, typed(LANES, dtype=i32), scratch, compiler_params=FLAT)
    return jax.jit(call)(X)


@pytest.mark.parametrize(
    ("wrong", "advice", "right", "expected"),
    [
        (
            lambda x, o: plsc.sort_key_val(jnp.full((8,), 1), lanes())[0],
            "take a register at a time",
            lambda x, o: plsc.sort_key_val(x[1], lanes())[0],
            X[1][::-1],
        ),
        (
            lambda x, o: plsc.sort_key_val(x[1], lanes().astype(jnp.int16))[0],
            "take int32 or float32",
            lambda x, o: plsc.sort_key_val(x[1], lanes().astype(i32))[0],
            X[1][::-1],
        ),
        (
            lambda x, o: plsc.sort_key_val(x[1], lanes(), mask=lanes() % 2)[0],
            "compare: x != 0",
            lambda x, o: plsc.sort_key_val(x[1], lanes(), mask=lanes() != LANES)[0],
            X[1][::-1],
        ),
        (
            lambda x, o: plsc.store_compressed(o.at[...], x[0], mask=lanes() % 2),
            "compare: x != 0",
            lambda x, o: plsc.store_compressed(o.at[...], x[0], mask=lanes() % 2 != 0),
            np.append(X[0][1::2], np.zeros(LANES // 2, np.int32)),
        ),
        (
            lambda x, o: plsc.load_gather(x, [lanes() % 4]),
            "[rows, columns]) for two dimensions",
            lambda x, o: plsc.load_gather(x, [jnp.full((LANES,), 2, i32), lanes()]),
            X[2],
        ),
        (
            lambda x, o: plsc.load_gather(x, [lanes() % 4, lanes()], mask=jnp.full((8,), True)),
            "give them the shape of the indices",
            lambda x, o: plsc.load_gather(x, [lanes() % 4, lanes()], mask=lanes() < LANES),
            X[np.arange(LANES) % 4, np.arange(LANES)],
        ),
        (
            lambda x, o: plsc.addupdate_scatter(o, [lanes()], x[0].astype(f32)),
            "x.astype(ref.dtype)",
            lambda x, o: plsc.addupdate_scatter(o, [lanes()], x[0].astype(f32).astype(o.dtype)),
            X[0],
        ),
    ],
)
def test_what_to_write_instead(wrong: Any, advice: str, right: Any, expected: Any) -> None:
    with simulate(target=TARGET):
        with pytest.raises((ValueError, TypeError, NotImplementedError)) as raised:
            run(wrong)
        text = told(raised.value)
        assert advice in text
        assert f"test_sparse_vectors.py:{wrong.__code__.co_firstlineno}:" in text
        equal(run(right), expected)


def test_a_gather_for_the_lanes_of_another_target() -> None:
    """Rows of 16 on a target of 8 lanes."""

    def call(size: int) -> Any:
        def body(x: Any, o: Any, held: Any, made: Any) -> None:
            pltpu.sync_copy(x, held)
            for start in range(0, LANES, size):
                columns = start + jax.lax.broadcasted_iota(i32, (size,), 0)
                made[pl.ds(start, size)] = plsc.load_gather(held, [columns * 0 + 3, columns])
            pltpu.sync_copy(made, o)

        scratch = [pltpu.VMEM(X.shape, i32), pltpu.VMEM((LANES,), i32)]
        kernel = one_subcore(body, typed(LANES, dtype=i32), scratch, compiler_params=FLAT)
        return jax.jit(kernel)(X)

    with simulate(target="v6e"):
        with pytest.raises(NotImplementedError) as raised:
            call(LANES)
        text = told(raised.value)
        assert "plsc.get_sparse_core_info().num_lanes" in text and "test_sparse_vectors.py:" in text
        equal(call(plsc.get_sparse_core_info().num_lanes), X[3])
