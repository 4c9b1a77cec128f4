"""Flat vectors that loops and branches carry begin at one lane, as the TPU compiler has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pallasite
from pallasite.diagnostics import Unsupported

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.frontend.aot import compile_ahead_of_time  # noqa: E402
from pallasite.jax import trace  # noqa: E402
from pallasite.targets import get_target  # noqa: E402

pytestmark = pytest.mark.jax
LENGTH = 512

BRANCHES = [
    ("int16", "v[128:640]", "z", False), ("int16", "v[128:640] | 1", "z | 1", False),
    ("int16", "v[256:768] | 1", "z | 1", True), ("int16", "v[128:640]", "v[128:640] | 1", True),
    ("int16", "v[1024:1536]", "z | 1", False), ("int16", "v[2048:2560]", "z | 1", True),
    ("int16", "z | v[128:640]", "z | 1", True), ("int16", "x[128:640]", "z | 1", False),
    ("int16", "x[256:768]", "z | 1", True), ("int16", "v[512:1024]", "v[512:1024]", False),
    ("int16", "jnp.where(v[128:640] > z, z, z + 1)", "z", False),
    ("int8", "v[512:1024] | 1", "z", True), ("int8", "v[256:768]", "z | 1", False),
    ("int32", "v[128:640]", "z | 1", False), ("int32", "v[128:640] | 1", "z | 1", True),
    ("int32", "v[5:517]", "z | 1", False), ("int32", "v[1024:1536]", "z | 1", True),
    ("int32", "x[128:640]", "z | 1", True),
]  # fmt: skip
LOOPS = [
    ("int16", "v[128:640]", "z", False), ("int16", "v[128:640]", "c | z", True),
    ("int16", "z", "v[128:640] | c", False), ("int16", "v[128:640]", "w[128:640]", True),
    ("int16", "v[256:768]", "c | 1", True), ("int16", "v[256:768]", "w[256:768]", False),
    ("int16", "z * 0", "v[128:640]", True), ("int32", "v[128:640]", "z", True),
    ("int32", "z", "v[128:640]", False), ("int32", "v[5:517]", "w[5:517]", True),
]  # fmt: skip


def _module(kind: str, first: str, second: str, loop: bool) -> tuple[Any, list[Any], Any]:
    def ways(number: Any, x: Any, y: Any, given: Any) -> Any:
        names = {"jnp": jnp, "x": x, "v": x[...], "w": y[...], "z": given[...]}
        if loop:

            def step(_: Any, c: Any) -> Any:
                return eval(second, {**names, "c": c})

            return lax.fori_loop(0, number, step, eval(first, names))
        return lax.cond(number > 0, lambda: eval(first, names), lambda: eval(second, names))

    def body(number: Any, x: Any, y: Any, given: Any, out: Any) -> None:
        out[...] = ways(number[0], x, y, given)

    rng = np.random.default_rng(1)
    arrays = [rng.integers(-99, 99, n).astype(kind) for n in (4096, 4096, LENGTH)]
    vmem, smem = (pl.BlockSpec(memory_space=space) for space in (pltpu.VMEM, pltpu.SMEM))
    call = pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct((LENGTH,), kind), in_specs=[smem, *[vmem] * 3]
    )
    number = np.array([1], np.int32)
    expected = ways(1, *(jnp.asarray(a) for a in arrays))
    return trace(call, number, *arrays, target="v6e"), [number, *arrays], expected


@pytest.mark.aot
@pytest.mark.parametrize(
    ("kind", "first", "second", "taken", "loop"),
    [*((*case, False) for case in BRANCHES), *((*case, True) for case in LOOPS)],
)
def test_as_the_compiler(
    kind: str, first: str, second: str, taken: bool, loop: bool, compiler: Any
) -> None:
    module, given, expected = _module(kind, first, second, loop)
    if not taken:
        with pytest.raises(Unsupported) as caught:
            pallasite.lower(module, "mosaic", "v6e")
        assert caught.value.code == "begun-lanes"
    lowered = pallasite.lower(module, "mosaic", "v6e", allow_beyond_reference=True)
    (answer,) = pallasite.run(module, given, form="vreg", target="v6e", allow_beyond_reference=True)
    np.testing.assert_array_equal(answer, expected)
    verdict = compile_ahead_of_time(
        lowered, topology=get_target("v6e").topology, layout_passes=True, compiler=compiler
    )
    assert verdict.accepted == taken, verdict.message


def test_flat_slices_of_bytes_are_renamed() -> None:
    module, _, _ = _module("int8", "v[64:576]", "w[64:576]", loop=False)
    with pytest.raises(Unsupported) as caught:
        pallasite.lower(module, "mosaic", "v6e")
    assert caught.value.code == "renamed-registers"
