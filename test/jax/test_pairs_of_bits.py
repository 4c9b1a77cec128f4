"""Blocks and whole arrays of 2-bit integers, as the TPU compiler takes and refuses them."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.frontend import read  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from ..asking import asked  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.aot]

Shape = tuple[int, int]
TAKEN: list[tuple[Shape, Shape]] = [
    ((64, 128), (16, 128)), ((64, 128), (32, 128)), ((48, 128), (48, 128)), ((144, 128), (48, 128)),
    ((256, 128), (128, 128)), ((64, 256), (16, 128)), ((40, 128), (40, 128)), ((2, 128), (2, 128)),
    ((64, 64), (64, 64)), ((64, 200), (64, 200)), ((16, 100), (16, 100)),
    ((12, 9), (12, 9)), ((8, 4), (8, 4)),
]  # fmt: skip
REFUSED: list[tuple[Shape, Shape]] = [
    ((64, 128), (8, 128)), ((48, 128), (24, 128)), ((40, 128), (8, 128)), ((128, 128), (16, 128)),
    ((256, 128), (64, 128)), ((128, 64), (128, 64)),
    ((16, 8), (16, 8)),
]  # fmt: skip


@pytest.mark.parametrize("target", ["v5e", "v7x"])
@pytest.mark.parametrize(
    ("array", "block", "taken"),
    [*((*case, True) for case in TAKEN), *((*case, False) for case in REFUSED)],
)
def test_blocks(array: Shape, block: Shape, taken: bool, target: str, compiler: Any) -> None:
    def body(x: Any, out: Any) -> None:
        out[...] = x[...].astype(jnp.int32)

    spec = pl.BlockSpec(block, lambda i, j: (i, j))
    call = pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct(array, jnp.int32), in_specs=[spec], out_specs=spec,
        grid=(array[0] // block[0], array[1] // block[1]),
    )  # fmt: skip
    with simulate(target=target):
        lowered = jax.jit(call).trace(jax.ShapeDtypeStruct(array, jnp.int2))
        module = read(lowered.lower(lowering_platforms=("tpu",)).as_text(), "bits")
    code = ""
    try:
        pallasite.lower(module, "mosaic", target)
    except Unsupported as error:
        code = error.code
    assert code == ("" if taken else "pairs-of-bits")
    assert asked(module, target, compiler, layout_passes=True).accepted == taken
