"""What refusals of accesses at any place of a squeezed block, and of columns, say to write gives
the right numbers."""

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

from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from .support import equal, ramp, told  # noqa: E402
from .test_followed_rewrites import follow  # noqa: E402

pytestmark = pytest.mark.jax
START = 37


def squeezed(body: Callable[..., None], shape: tuple[int, ...], *operands: Any) -> Any:
    """What `body` makes of its operands' matrices, one after the other; it gets `START`, too."""
    spec = [pl.BlockSpec((None, *x.shape[1:]), lambda i, *_: (i, 0, 0)) for x in operands]
    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(2,), in_specs=spec,
        out_specs=pl.BlockSpec((None, *shape), lambda i, *_: (i, 0, 0)),
    )  # fmt: skip
    call = pl.pallas_call(
        body, grid_spec=grid, out_shape=jax.ShapeDtypeStruct((2, *shape), np.float32)
    )
    with simulate(form="vreg"):
        return call(np.array([START], np.int32), *operands)


@pytest.mark.parametrize("axis", [0, 1])
def test_parts_of_squeezed_blocks(axis: int) -> None:
    """The block has a dimension more than the kernel's ref and values."""
    x, size = ramp(2, 64, 128), (64, 128)[axis]
    count, named = (16, "second-to-last") if axis == 0 else (64, "last")
    shape = (16, 128) if axis == 0 else (64, 64)

    def wrong(i: Any, x: Any, o: Any) -> None:
        place = pl.ds(i[0], count)
        o[...] = x[place, :] if axis == 0 else x[:, place]

    def right(i: Any, x: Any, o: Any) -> None:
        x, index = x[...], i[0]
        if axis == 0:
            o[...] = pltpu.roll(x, -index % size, x.ndim - 2)[..., :count, :]
        else:
            o[...] = pltpu.roll(x, -index % size, x.ndim - 1)[..., :count]

    wide = jnp.concatenate([x, x], 2) if axis == 0 else x
    narrow = (16, 256) if axis == 0 else shape
    with pytest.raises(Unsupported) as caught:
        squeezed(wrong, narrow, wide)
    part = f"[..., :{count}, :]" if axis == 0 else f"[..., :{count}]"
    said = f"pltpu.roll(x, -index % {size}, x.ndim - {2 - axis}){part}"
    assert f"{named} dimension" in str(caught.value) and said in told(caught.value)
    expected = x[:, START : START + 16] if axis == 0 else x[:, :, START : START + 64]
    equal(squeezed(right, shape, x), expected)


@pytest.mark.parametrize("count", [1, 64])
def test_stores_to_squeezed_blocks(count: int) -> None:
    x, value = ramp(2, 8, 128), -ramp(2, 8, count)

    def wrong(i: Any, x: Any, value: Any, o: Any) -> None:
        o[...] = x[...]
        o[:, pl.ds(i[0], count)] = value[...]

    def right(i: Any, x: Any, value: Any, o: Any) -> None:
        o[...], value, index = x[...], value[...], i[0]
        x = o[...]
        k = lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - 1)
        if count == 1:
            o[...] = jnp.where(k == index, value, x)
        else:
            padded = jnp.pad(value, ((0, 0), (0, 128 - count)))
            rotated = pltpu.roll(padded, index, x.ndim - 1)
            o[...] = jnp.where((k >= index) & (k < index + count), rotated, x)

    with pytest.raises(Unsupported) as caught:
        squeezed(wrong, (8, 128), x, value)
    numbered = "lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - 1)"
    choose = f"store that: jnp.where({numbered} == index, value, x)"
    assert (choose if count == 1 else f"with k = {numbered}") in told(caught.value)
    expected = np.array(x)
    expected[:, :, START : START + count] = value
    equal(squeezed(right, (8, 128), x, value), expected)


def test_columns_of_v4() -> None:
    x = ramp(16, 128)
    follow(
        lambda x: jnp.concatenate([x[:, 5], x[:, 7]])[:, None],
        "take columns out as columns, x[:, i : i + 1], not x[:, i]",
        lambda x: jnp.concatenate([x[:, 5:6], x[:, 7:8]]),
        [x], np.concatenate([x[:, 5:6], x[:, 7:8]]), "v4",
    )  # fmt: skip


def test_masks_of_positions_on_v4() -> None:
    x = ramp(8, 16)
    follow(
        lambda x: jnp.where((lax.broadcasted_iota(jnp.int32, (16, 1), 0) < 5).reshape(1, 16), x, 0),
        "counted along lanes anew: lax.broadcasted_iota(jnp.int32, (1, n), 1)",
        lambda x: jnp.where(lax.broadcasted_iota(jnp.int32, (1, 16), 1) < 5, x, 0),
        [x], np.where(np.arange(16) < 5, x, 0), "v4",
    )  # fmt: skip
