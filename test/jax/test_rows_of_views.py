"""Rows at places known at run time, of buffers seen as elements of another width.

The tiles of a view are those of its buffer: of the rows that have `least` proven as a divisor, and
of none with less, libtpu 0.0.51 finds the beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.frontend import read  # noqa: E402
from pallasite.frontend.aot import compile_ahead_of_time  # noqa: E402
from pallasite.jax import simulate  # noqa: E402
from pallasite.targets import get_target  # noqa: E402

pytestmark = pytest.mark.jax

CASES = (
    ("int32", "bfloat16", 128, 2), ("int32", "int8", 128, 4), ("int32", "uint4", 128, 8),
    ("bfloat16", "int8", 128, 16), ("int8", "bfloat16", 128, 16), ("int32", "bfloat16", 256, 16),
    ("bfloat16", "int32", 256, 4), ("bfloat16", "int8", 256, 16), ("uint4", "bfloat16", 256, 16),
)  # fmt: skip


def rows_of_view(held: str, seen: str, columns: int, unit: int) -> Callable[..., Any]:
    """Eight rows of a buffer of `held` seen as `seen`, at a multiple of `unit`."""
    kind = jnp.dtype(seen)

    def body(place: Any, x: Any, out: Any, buffer: Any) -> None:
        pltpu.sync_copy(x, buffer)
        start = pl.multiple_of(place[0] * unit, unit)
        out[...] = buffer.bitcast(kind)[pl.ds(start, 8), :]

    smem, hbm = pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((8, columns), kind),
        in_specs=[smem, hbm],
        scratch_shapes=[pltpu.VMEM((128, columns), jnp.dtype(held))],
    )


def operands(held: str, columns: int) -> tuple[Any, Any]:
    numbers = np.arange(128 * columns).reshape(128, columns) % 8
    return np.array([1], np.int32), jnp.asarray(numbers, jnp.dtype(held))


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("held, seen, columns, least", CASES)
def test_rows(target: str, held: str, seen: str, columns: int, least: int) -> None:
    place, x = operands(held, columns)
    found = []
    for form in ("mosaic", "vreg"):
        with simulate(target, form, checks=("init", "bounds")):
            result = rows_of_view(held, seen, columns, least)(place, x)
        found.append(np.asarray(result, np.float32))
    np.testing.assert_array_equal(*found)
    if least > 2:
        with simulate(target), pytest.raises(Unsupported, match="cannot prove"):
            rows_of_view(held, seen, columns, least // 2)(place, x)


@pytest.mark.aot
@pytest.mark.parametrize("held, seen, columns, least", CASES)
def test_verdicts(held: str, seen: str, columns: int, least: int, compiler: Any) -> None:
    for unit in (least // 2, least):
        call = rows_of_view(held, seen, columns, unit)
        with simulate("v6e"):
            lowered = jax.jit(call).trace(*operands(held, columns))
            module = read(lowered.lower(lowering_platforms=("tpu",)).as_text(), "rows")
        texts = [(module, True)]
        if unit == least:
            texts.append((pallasite.lower(module, "vreg", "v6e"), False))
        for text, layouts in texts:
            verdict = compile_ahead_of_time(
                text, topology=get_target("v6e").topology, layout_passes=layouts, compiler=compiler
            )
            assert verdict.accepted == (unit == least), (unit, verdict.message)
