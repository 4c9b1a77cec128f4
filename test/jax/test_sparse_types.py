"""The element types that registers of vector subcores have, as the TPU compiler knows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from .since import require_jax  # noqa: E402

require_jax("0.10.1", "needs_layout_passes=")

import jax.numpy as jnp  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jax.experimental.pallas import tpu_sc as plsc  # noqa: E402

from pallasite.api import parse  # noqa: E402
from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.frontend import aot  # noqa: E402
from pallasite.jax import kernels, simulate  # noqa: E402
from pallasite.targets import TARGETS  # noqa: E402

from .sparse_kernels import LANES, TARGET, one_subcore  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.feature("Y17")]

f32, f16, bf16 = jnp.float32, jnp.float16, jnp.bfloat16
i32, i16, i8, u16, u8 = jnp.int32, jnp.int16, jnp.int8, jnp.uint16, jnp.uint8


@dataclass(frozen=True)
class Case:
    """A function of one register of a type."""

    name: str
    function: Callable[[Any], Any]
    type: Any
    message: str = ""
    """Of the refusal; empty if it is accepted."""
    layouts: bool = False
    """Whether the layout passes of the compiler run."""
    shape: tuple[int, ...] = ()

    def inputs(self) -> Any:
        size = 4 // jnp.dtype(self.type).itemsize * LANES
        values = np.random.default_rng(3).integers(1, 60, self.shape or (size,))
        return jnp.asarray(values, self.type)

    def call(self) -> Callable[..., Any]:
        x = self.inputs()
        out = jax.eval_shape(self.function, x)

        def body(x: Any, o: Any, taken: Any, made: Any) -> None:
            pltpu.sync_copy(x, taken)
            made[...] = self.function(taken[...])
            pltpu.sync_copy(made, o)

        params = pltpu.CompilerParams(needs_layout_passes=self.layouts, use_tc_tiling_on_sc=False)
        scratch = [pltpu.VMEM(x.shape, x.dtype), pltpu.VMEM(out.shape, out.dtype)]
        return one_subcore(body, out, scratch, compiler_params=params)


CASES = [
    Case("f16", lambda x: jnp.where(x > 9, x * x + x, -x), f16),
    Case("f16-div", lambda x: x / x, f16, r"\(arith.divf\) of vector<32xf16>"),
    Case("f16-exp", jnp.exp, f16, "of vector<32xf16>"),
    Case("bf16-div", lambda x: x / x, bf16),
    Case("bf16-rem", lambda x: jax.lax.rem(x, x), bf16, r"\(arith.remf\) of vector<32xbf16>"),
    Case("i16", lambda x: jnp.maximum(x * x - 3, x ^ 5), i16),
    Case("i16-shift", lambda x: x << 2, i16, r"\(arith.shli\) of vector<32xi16>"),
    Case("u8-div", lambda x: jax.lax.div(x, x + 1), u8, r"\(arith.divui\) of vector<64xi8>"),
    Case("i8-abs", jnp.abs, i8, r"\(math.absi\) of vector<64xi8>"),
    Case("i32-div", lambda x: jnp.abs(x // 3) << 2, i32),
    Case("i8-sign", jnp.sign, i8, "a mask does not become vector<64xi8>"),
    Case("i16-sign", jnp.sign, i16),
    Case("i16-max", lambda x: jnp.full(x.shape, jnp.max(x)), i16, "a scan of vector<32xi16>"),
    Case("i16-flip", lambda x: jnp.flip(x, 0), i16, "lanes of vector<32xi16>"),
    Case("i32-flip", lambda x: jnp.flip(x, 0), i32),
    Case("bf16-sum", lambda x: jnp.full(x.shape, jnp.sum(x)), bf16, "a register has 16 words"),
    Case("widen", lambda x: x.astype(f32) * 2, bf16, layouts=True),
    Case("kind", lambda x: x.astype(bf16), i32, "do not become", layouts=True, shape=(32,)),
    Case("by-i16", lambda x: x.astype(i16).astype(bf16), i32, layouts=True, shape=(32,)),
    Case("by-f32", lambda x: x.astype(f32).astype(bf16), i32, "do not become", layouts=True,
         shape=(32,)),
    Case("by-i32", lambda x: x.astype(i32).astype(f32), i8, "do not become", layouts=True),
    Case("back", lambda x: x.astype(f32).astype(i32), bf16, layouts=True),
    Case("f8", lambda x: x.astype(jnp.float8_e5m2), f32, "do not become", layouts=True,
         shape=(64,)),
    Case("f8-by-bf16", lambda x: x.astype(bf16).astype(jnp.float8_e5m2), f32, layouts=True,
         shape=(64,)),
    Case("unsigned", lambda x: x.astype(i32), u16, "are not widened", layouts=True),
    Case("signed", lambda x: x.astype(i32), i16, layouts=True),
    Case("rows", lambda x: jnp.concatenate([x[2:], x[:2]], 0), i32, layouts=True,
         shape=(4, LANES)),
    Case("lanes", lambda x: jnp.concatenate([x, x], 1), i32, "together along lanes", layouts=True,
         shape=(4, LANES)),
]  # fmt: skip
NAMES = [case.name for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_computed_or_refused(case: Case) -> None:
    x = case.inputs()
    if case.message:
        with pytest.raises(Unsupported, match=case.message) as raised:
            kernels(case.call(), x, target=TARGET, form="mosaic")
        assert raised.value.location is not None and raised.value.notes
        return
    with simulate(target=TARGET, checks=("race", "init")):
        found = np.asarray(jax.jit(case.call())(x))
    np.testing.assert_array_equal(found, np.asarray(case.function(x)))


@pytest.mark.parametrize("dtype", [i8, i16])
def test_stores_that_add(dtype: Any) -> None:
    """Not of bytes."""

    def body(x: Any, o: Any, row: Any) -> None:
        pltpu.sync_copy(x, row)
        plsc.addupdate(row.at[...], row[...])
        pltpu.sync_copy(row, o)

    x = jnp.arange(4 // jnp.dtype(dtype).itemsize * LANES, dtype=dtype)
    params = pltpu.CompilerParams(needs_layout_passes=False, use_tc_tiling_on_sc=False)
    out = jax.ShapeDtypeStruct(x.shape, dtype)
    call = one_subcore(body, out, [pltpu.VMEM(x.shape, dtype)], compiler_params=params)
    if dtype == i8:
        with pytest.raises(Unsupported, match="are not added to VMEM by a store"):
            kernels(call, x, target=TARGET, form="mosaic")
        return
    with simulate(target=TARGET):
        np.testing.assert_array_equal(jax.jit(call)(x), 2 * x)


@pytest.mark.aot
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_compiler_agrees(case: Case, compiler: aot.Compiler) -> None:
    with simulate(target=TARGET):
        lowered = jax.jit(case.call()).trace(case.inputs()).lower(lowering_platforms=("tpu",))
    verdict = aot.compile_ahead_of_time(
        parse(lowered.as_text()), topology=TARGETS[TARGET].topology,
        layout_passes=True, compiler=compiler,
    )  # fmt: skip
    assert verdict.accepted == (not case.message), verdict.message
