"""Whole operands in VMEM that are larger than what a kernel gets of it.

Arrays that another order of dimensions pads less are copied into VMEM outside of the kernel. The
TPU compiler's verdict is asked of the program as it is and of our registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.frontend.aot import compile_ahead_of_time  # noqa: E402
from pallasite.jax import trace  # noqa: E402
from pallasite.targets import get_target  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.aot]
f32 = jnp.float32


def first_rows(shape: tuple[int, ...], target: str) -> Any:
    """A kernel that adds 1 to the first rows of one operand."""

    def body(x: Any, o: Any) -> None:
        o[...] = x[:8] + 1

    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((8, *shape[1:]), f32))
    return trace(call, jax.ShapeDtypeStruct(shape, f32), target=target)


def accepted(module: Any, target: str, compiler: Any, *, layout_passes: bool) -> bool:
    topology = get_target(target).topology
    return compile_ahead_of_time(
        module, topology=topology, layout_passes=layout_passes, compiler=compiler
    ).accepted


@pytest.mark.parametrize(("shape", "target"), [
    ((65536, 1), "v5e"), ((40000, 129), "v5e"), ((20000, 3, 128), "v5e"), ((100000, 64), "v6e"),
])  # fmt: skip
def test_copied_outside(shape: tuple[int, ...], target: str, compiler: Any) -> None:
    module = first_rows(shape, target)
    for form in ("mosaic", "dma", "vreg"):
        lowered = pallasite.lower(module, form, target)
        assert accepted(lowered, target, compiler, layout_passes=form != "vreg")
    (result,) = pallasite.run(module, [np.ones(shape, np.float32)], form="vreg", target=target)
    np.testing.assert_array_equal(result, np.full((8, *shape[1:]), 2))


@pytest.mark.parametrize(("shape", "target"), [
    ((65536, 127), "v5e"), ((33000, 128), "v5e"), ((240000, 64), "v5e"), ((100000, 64), "v7x"),
])  # fmt: skip
def test_too_large(shape: tuple[int, ...], target: str, compiler: Any) -> None:
    module = first_rows(shape, target)
    with pytest.raises(Unsupported) as caught:
        pallasite.lower(module, "mosaic", target)
    assert caught.value.code == "vmem-exhausted"
    beyond = pallasite.lower(module, "mosaic", target, allow_beyond_reference=True)
    assert not accepted(beyond, target, compiler, layout_passes=True)
