"""Rows that become flat vectors, on the ways of loops and branches: as the TPU compiler has it."""

from __future__ import annotations

from typing import Any

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

pytestmark = [pytest.mark.jax, pytest.mark.aot]

_TWICE = "x[...].reshape(1, 256).reshape(256)"
WAYS = [
    # Rows of 128 that fill words are rows of registers, if loaded, whatever is between.
    ("float32", 2, _TWICE, "z[...]", False), ("float32", 2, "z[...]", _TWICE, False),
    ("float32", 2, _TWICE, "x[...].reshape(256)", True), ("bfloat16", 2, _TWICE, "z[...]", False),
    ("float32", 2, f"(x[...] * 2).{_TWICE[7:]}", "z[...]", True),
    ("int8", 2, "x[...].reshape(256)", "z[...]", True), ("int8", 2, _TWICE, "z[...]", True),
    ("int8", 2, _TWICE, "r[0]", False), ("int8", 2, "x[...].reshape(256)", "y[0]", False),
    ("int8", 2, "x[...].reshape(256)", "(z[...].astype(jnp.int32) + 1).astype(jnp.int8)", False),
    ("int8", 4, "x[...].reshape(512)", "z[...]", False),
    ("int4", 8, "x[...].reshape(1024)", "z[...]", False),
    # What is widened from tiles of few rows stays in such.
    ("int8", 2, "y[0].astype(jnp.int32)", "z[...].astype(jnp.int32)", False),
    ("int8", 2, "y[0].astype(jnp.int32)", "r[0].astype(jnp.int32)", False),
    ("int8", 2, "r[0].astype(jnp.int32)", "z[...].astype(jnp.int32)", True),
    # A part of a packed vector stays packed, an element of it is repeated in any layout.
    ("bfloat16", 2, "jnp.tile(z[...], 2)[:256] * 2", "r[3]", False),
    ("float32", 2, "jnp.broadcast_to(z[...][5:6], (256,))", "r[0] + 1", True),
]  # fmt: skip


def _module(kind: str, rows: int, first: str, second: str, loop: bool) -> Any:
    length = rows * 128

    def body(number: Any, x: Any, y: Any, r: Any, z: Any, out: Any) -> None:
        names = {"jnp": jnp, "x": x, "y": y, "r": r, "z": z}
        if loop:

            def step(_: Any, __: Any) -> Any:
                return eval(second, names)

            value = lax.fori_loop(0, number[0], step, eval(first, names))
        else:
            value = lax.cond(number[0] > 0, lambda: eval(first, names), lambda: eval(second, names))
        out[...] = value

    shapes = [(rows, 128), (1, length), (8, length), (length,)]
    arrays = [jax.ShapeDtypeStruct(shape, kind) for shape in shapes]
    result = jax.ShapeDtypeStruct((length,), "int32" if "int32)" in first else kind)
    specs = [pl.BlockSpec(memory_space=pltpu.SMEM), *[pl.BlockSpec()] * 4]
    call = pl.pallas_call(body, out_shape=result, in_specs=specs)
    return trace(call, jax.ShapeDtypeStruct((1,), "int32"), *arrays, target="v5e")


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize(("kind", "rows", "first", "second", "taken"), WAYS)
def test_as_the_compiler(
    kind: str, rows: int, first: str, second: str, taken: bool, loop: bool, compiler: Any
) -> None:
    module = _module(kind, rows, first, second, loop)
    if not taken:
        with pytest.raises(Unsupported) as caught:
            pallasite.lower(module, "mosaic", "v5e")
        assert caught.value.code == "carried-flat"
    lowered = pallasite.lower(module, "mosaic", "v5e", allow_beyond_reference=True)
    verdict = compile_ahead_of_time(
        lowered, topology=get_target("v5e").topology, layout_passes=True, compiler=compiler
    )
    assert verdict.accepted == taken, verdict.message


def test_single_words_in_a_column_meet_all_others(compiler: Any) -> None:
    def body(number: Any, y: Any, z: Any, out: Any) -> None:
        def step(_: Any, __: Any) -> Any:
            return -z[...]

        out[...] = lax.fori_loop(0, number[0], step, jnp.max(y[...], axis=1))

    shapes = [((1,), "int32"), ((1, 8), "float32"), ((1,), "float32")]
    specs = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(), pl.BlockSpec()]
    result = jax.ShapeDtypeStruct((1,), jnp.float32)
    call = pl.pallas_call(body, out_shape=result, in_specs=specs)
    module = trace(call, *(jax.ShapeDtypeStruct(*shape) for shape in shapes), target="v5e")
    lowered = pallasite.lower(module, "mosaic", "v5e")
    assert compile_ahead_of_time(
        lowered, topology=get_target("v5e").topology, layout_passes=True, compiler=compiler
    ).accepted


@pytest.mark.parametrize(
    ("kind", "other", "target", "taken"),
    [
        ("float32", "z[...] * 3", "v5e", False),
        ("float32", "r[...][3] * 3", "v6e", False),
        ("float32", "r[0] * 3", "v5e", True),
        ("float32", "jnp.max(r[...], axis=0)", "v7x", True),
        ("float32", "jnp.max(r[...].T, axis=1)", "v6e", False),
        ("float32", "x[...].reshape(32) + 1", "v6e", True),
        ("bfloat16", "z[...] * 3", "v6e", False),
        ("bfloat16", "r[0] * 3", "v6e", False),
        ("bfloat16", "r[0] * 3", "v5e", True),
    ],
)
def test_lanes_that_are_folded_into_few_are_a_row(
    kind: str, other: str, target: str, taken: bool, compiler: Any
) -> None:
    def body(number: Any, x: Any, r: Any, z: Any, out: Any) -> None:
        names = {"jnp": jnp, "x": x, "r": r, "z": z}
        flat = x[...].reshape(32)
        out[...] = lax.cond(number[0] > 0, lambda: flat * 2, lambda: eval(other, names))

    arrays = [jax.ShapeDtypeStruct(shape, kind) for shape in ((4, 8), (8, 32), (32,))]
    specs = [pl.BlockSpec(memory_space=pltpu.SMEM), *[pl.BlockSpec()] * 3]
    result = jax.ShapeDtypeStruct((32,), kind)
    call = pl.pallas_call(body, out_shape=result, in_specs=specs)
    module = trace(call, jax.ShapeDtypeStruct((1,), "int32"), *arrays, target=target)
    if not taken:
        with pytest.raises(Unsupported) as caught:
            pallasite.lower(module, "mosaic", target)
        assert caught.value.code == "carried-flat"
    lowered = pallasite.lower(module, "mosaic", target, allow_beyond_reference=not taken)
    verdict = compile_ahead_of_time(
        lowered, topology=get_target(target).topology, layout_passes=True, compiler=compiler
    )
    assert verdict.accepted == taken, verdict.message
