"""What a loop begins with and goes on with two turns later: replicated or not, as libtpu has it.

Vectors stay as replicated as they were when they are sliced, reshaped or bitcast, and a sum of
several rows is replicated over them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.jax import trace  # noqa: E402

from ...asking import asked  # noqa: E402

pytestmark = pytest.mark.jax
Made = Callable[[Any], Any]
SHAPE, ROW, WIDE = (8, 128), (1, 128), (1, 256)


def counted(shape: tuple[int, int], dimension: int) -> Any:
    return lax.broadcasted_iota(jnp.int32, shape, dimension).astype(jnp.float32)


def recast(x: Any) -> Any:
    words = lax.bitcast_convert_type(counted(SHAPE, 1), jnp.int32)
    return lax.bitcast_convert_type(words, jnp.float32)


MADE: dict[str, Made] = {
    "zeros": jnp.zeros_like,
    "loaded": lambda x: x,
    "column": lambda x: jnp.broadcast_to(x[:, :1], x.shape),
    "sums of columns": lambda x: jnp.broadcast_to(jnp.sum(x, 0, keepdims=True), x.shape),
    "sliced rows": lambda x: jnp.broadcast_to(x[:1], (16, 128))[8:],
    "sliced lanes": lambda x: counted((8, 256), 0)[:, 128:],
    "counted": lambda x: counted((16, 128), 1)[:8],
    "reshaped": lambda x: jnp.broadcast_to(x[:1][None], (2, 4, 128)).reshape(8, 128),
    "recast": recast,
    "maximum's index": lambda x: jnp.broadcast_to(
        jnp.argmax(x, 1, keepdims=True).astype(x.dtype), x.shape
    ),
    "row of a broadcast": lambda x: jnp.broadcast_to(x, (9, 256))[8:],
    "row of counts": lambda x: counted((9, x.shape[1]), 1)[:1],
}
LOOPS = [
    ("zeros", "sliced rows", SHAPE, False),
    ("zeros", "sliced lanes", SHAPE, False),
    ("zeros", "recast", SHAPE, False),
    ("zeros", "zeros", SHAPE, True),
    ("column", "reshaped", SHAPE, False),
    ("sliced lanes", "loaded", SHAPE, False),
    ("sliced lanes", "column", SHAPE, True),
    ("counted", "loaded", SHAPE, False),
    ("counted", "sums of columns", SHAPE, True),
    ("reshaped", "column", SHAPE, True),
    ("recast", "loaded", SHAPE, False),
    ("sums of columns", "loaded", WIDE, True),
    ("row of counts", "sums of columns", ROW, True),
    ("zeros", "sums of columns", WIDE, False),
    ("zeros", "maximum's index", ROW, False),
    ("row of a broadcast", "maximum's index", WIDE, True),
    ("row of counts", "maximum's index", WIDE, False),
]


@pytest.mark.aot
@pytest.mark.parametrize(("first", "later", "shape", "taken"), LOOPS)
def test_two_turns_later(
    first: str, later: str, shape: tuple[int, int], taken: bool, compiler: Any
) -> None:
    def body(turns: Any, x: Any, out: Any) -> None:
        start = MADE[first](x[...])

        def turn(_: Any, carried: Any) -> Any:
            return carried[1], MADE[later](x[...])

        out[...] = sum(lax.fori_loop(0, turns[0], turn, (start, start)))

    vmem, smem = (pl.BlockSpec(memory_space=space) for space in (pltpu.VMEM, pltpu.SMEM))
    call = pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct(shape, jnp.float32), in_specs=[smem, vmem]
    )
    module = trace(call, np.ones(1, np.int32), np.ones(shape, np.float32), target="v5e")
    if not taken:
        with pytest.raises(Unsupported) as caught:
            pallasite.lower(module, "mosaic", "v5e")
        assert caught.value.code == "carried-splat"
    mosaic = pallasite.lower(module, "mosaic", "v5e", allow_beyond_reference=True)
    assert asked(mosaic, "v5e", compiler, layout_passes=True).accepted == taken
