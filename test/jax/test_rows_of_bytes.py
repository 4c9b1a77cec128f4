"""Parts of arrays of narrow types that cut tiles of 8 rows, and blocks of less than a register.

The TPU compiler's verdict is asked of the program as it is, of our transfers and registers.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite  # noqa: E402
from pallasite.frontend.aot import compile_ahead_of_time  # noqa: E402
from pallasite.jax import trace  # noqa: E402
from pallasite.targets import get_target  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.aot]
ANY = pl.BlockSpec(memory_space=pl.ANY)


def agrees(call: Any, arguments: list[Any], expected: Any, target: str, compiler: Any) -> None:
    """All forms give `expected`, and the TPU compiler takes kernel and registers."""
    module = trace(call, *arguments, target=target)
    for form in ("pallas", "mosaic", "tiles", "vreg"):
        (result,) = pallasite.run(module, list(arguments), form=form, target=target)
        np.testing.assert_array_equal(result, expected)
    for form in ("mosaic", "dma", "vreg"):
        verdict = compile_ahead_of_time(
            pallasite.lower(module, form, target),
            topology=get_target(target).topology,
            layout_passes=form != "vreg",
            compiler=compiler,
        )
        assert verdict.accepted, (form, verdict.message)


def numbers(shape: tuple[int, ...], element: Any) -> Any:
    return np.random.default_rng(0).integers(-8, 8, shape).astype(element)


@pytest.mark.parametrize(("start", "rows"), [(0, 12), (4, 12), (20, 12), (4, 24), (16, 32)])
@pytest.mark.parametrize("element", [np.int8, ml_dtypes.float8_e4m3fn])
def test_parts_of_tiles(start: int, rows: int, element: Any, compiler: Any) -> None:
    def body(x: Any, o: Any, buffer: Any) -> None:
        pltpu.sync_copy(x.at[1, pl.ds(start, rows)], buffer)
        pltpu.sync_copy(buffer, o)

    x = numbers((3, 64, 256), element)
    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((rows, 256), element),
        in_specs=[ANY],
        out_specs=ANY,
        scratch_shapes=[pltpu.VMEM((rows, 256), element)],
    )
    agrees(call, [x], x[1, start : start + rows], "v5e", compiler)


@pytest.mark.parametrize(("start", "rows"), [(1, 3), (8, 3), (2, 1)])
def test_odd_rows_of_words(start: int, rows: int, compiler: Any) -> None:
    def body(x: Any, o: Any, buffer: Any) -> None:
        pltpu.sync_copy(x.bitcast(jnp.int32).at[pl.ds(start, rows)], buffer)
        pltpu.sync_copy(buffer, o)

    x = numbers((64, 256), np.int8)
    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((rows, 256), jnp.int32),
        in_specs=[ANY],
        out_specs=ANY,
        scratch_shapes=[pltpu.VMEM((rows, 256), jnp.int32)],
    )
    words = x.reshape(16, 4, 256).swapaxes(1, 2).copy().view(np.int32)[..., 0]
    agrees(call, [x], words[start : start + rows], "v6e", compiler)


@pytest.mark.parametrize(("shape", "rows"), [((72, 256), 16), ((72, 256), 32), ((20, 256), 16)])
@pytest.mark.parametrize("element", [np.int8, ml_dtypes.int4])
def test_blocks_of_less_than_a_register_at_the_edge(
    shape: tuple[int, int], rows: int, element: Any, compiler: Any
) -> None:
    """How many rows the last block has is known at run time only."""

    def body(x: Any, o: Any) -> None:
        o[...] = x[...]

    x = numbers(shape, element)
    spec = pl.BlockSpec((rows, 128), lambda i, j: (i, j))
    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(shape, element),
        grid=(pl.cdiv(shape[0], rows), 2),
        in_specs=[spec],
        out_specs=spec,
    )
    agrees(call, [x], x, "v5e", compiler)


@pytest.mark.parametrize("target", ["v4", "v5e", "v7x"])
@pytest.mark.parametrize(
    ("shape", "rows", "element"),
    [
        ((96, 256), 48, np.int8), ((64, 200), 40, np.uint8), ((128, 384), 24, ml_dtypes.int4),
        ((2, 160, 256), 24, ml_dtypes.float8_e5m2),
    ],
)  # fmt: skip
def test_blocks_that_cut_registers(
    shape: tuple[int, ...], rows: int, element: Any, target: str, compiler: Any
) -> None:
    """The compiler tiles these arrays by whole registers; blocks are copied in parts of tiles."""

    def body(x: Any, o: Any) -> None:
        o[...] = x[...]

    x = numbers(shape, element)
    outer = shape[:-2]
    spec = pl.BlockSpec((*[1] * len(outer), rows, 128), lambda *step: step)
    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(shape, element),
        grid=(*outer, pl.cdiv(shape[-2], rows), pl.cdiv(shape[-1], 128)),
        in_specs=[spec],
        out_specs=spec,
    )
    agrees(call, [x], x, target, compiler)
