"""Bytes of arrays that XLA lays out in tiles of 8 rows: of fewer than 16 columns, or of a number of
rows that larger tiles do not divide, whatever their blocks.

The TPU compiler's verdict is asked of the program as it is, of the `dma` text and of our registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.frontend.aot import compile_ahead_of_time  # noqa: E402
from pallasite.jax import trace  # noqa: E402
from pallasite.targets import get_target  # noqa: E402

pytestmark = pytest.mark.jax
TAKEN = [((64, 8), 32), ((48, 256), 32), ((64, 15), 64)]
REFUSED = [((64, 16), 32), ((64, 256), 32)]
NUMBER = 2


def reshaped(n: Any, x: Any, o: Any) -> None:
    o[...] = x.reshape(x.shape[0] // 8, 8, x.shape[1])[NUMBER]


def loaded(n: Any, x: Any, o: Any) -> None:
    o[...] = x[pl.ds(pl.multiple_of(n[0] * 8, 8), 8), :]


def call(body: Any, shape: tuple[int, int], rows: int) -> tuple[Any, tuple[Any, ...], Any]:
    """Takes rows 16 to 23 of each block of `rows` rows."""
    steps, columns = -(-shape[0] // rows), shape[1]
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(steps,),
        in_specs=[pl.BlockSpec((rows, columns), lambda i, n: (i, 0))],
        out_specs=pl.BlockSpec((8, columns), lambda i, n: (i, 0)),
    )
    result = jax.ShapeDtypeStruct((8 * steps, columns), jnp.int8)
    x = (np.arange(np.prod(shape)) % 127).reshape(shape).astype(np.int8)
    starts = [i * rows + 8 * NUMBER for i in range(steps)]
    parts = [x[start : start + 8] for start in starts if start < shape[0]]
    taken = pl.pallas_call(body, grid_spec=spec, out_shape=result)
    return taken, (jnp.array([NUMBER]), jnp.asarray(x)), np.concatenate(parts)


@pytest.mark.aot
@pytest.mark.parametrize(("body", "target"), [(reshaped, "v5e"), (loaded, "v7x")])
@pytest.mark.parametrize(("shape", "rows"), TAKEN)
def test_tiles_of_eight_rows(
    body: Any, target: str, shape: tuple[int, int], rows: int, compiler: Any
) -> None:
    taken, arguments, expected = call(body, shape, rows)
    module = trace(taken, *arguments, target=target)
    for form in ("mosaic", "dma", "tiles", "vreg"):
        (result,) = pallasite.run(module, list(arguments), form=form, target=target)
        # Of the last block, what lies behind the end of the array is not defined.
        np.testing.assert_array_equal(np.asarray(result)[: len(expected)], expected)
        if form != "tiles":
            verdict = compile_ahead_of_time(
                pallasite.lower(module, form, target), topology=get_target(target).topology,
                layout_passes=form != "vreg", compiler=compiler,
            )  # fmt: skip
            assert verdict.accepted, verdict.message


@pytest.mark.aot
@pytest.mark.parametrize("body", [reshaped, loaded])
@pytest.mark.parametrize(("shape", "rows"), REFUSED)
def test_larger_tiles(body: Any, shape: tuple[int, int], rows: int, compiler: Any) -> None:
    taken, arguments, _ = call(body, shape, rows)
    module = trace(taken, *arguments, target="v5e")
    with pytest.raises(Unsupported) as caught:
        pallasite.lower(module, "mosaic", "v5e")
    assert caught.value.code in ("view-layout", "unproven-alignment") and caught.value.notes
    verdict = compile_ahead_of_time(
        module, topology=get_target("v5e").topology, layout_passes=True, compiler=compiler
    )
    assert not verdict.accepted
