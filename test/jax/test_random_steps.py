"""Random kernels whose steps are small: scripts, which join steps, leave what first runs leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite import api  # noqa: E402
from pallasite.interpreter.replay import repeats  # noqa: E402
from pallasite.interpreter.run import Prepared, execute, prepare  # noqa: E402
from pallasite.targets import get_target  # noqa: E402

pytestmark = pytest.mark.jax
V5E = get_target("v5e")
i32 = jnp.int32


def wide(x: Any) -> Any:
    return x if x.dtype == i32 else x.astype(jnp.float32)


def lanes(x: Any) -> Any:
    return jax.lax.broadcasted_iota(i32, x.shape, 1)


def rows(x: Any) -> Any:
    return jax.lax.broadcasted_iota(i32, x.shape, 0)


def spread(x: Any, fold: Any, axis: int) -> Any:
    return jnp.broadcast_to(fold(wide(x), axis=axis, keepdims=True), x.shape).astype(x.dtype)


def turned(x: Any, amount: int, axis: int) -> Any:
    return pltpu.roll(wide(x), amount % x.shape[axis], axis).astype(x.dtype)


OPERATIONS: list[Callable[[Any, Any, Any, int], Any]] = [
    lambda x, y, i, n: x + y,
    lambda x, y, i, n: x * y,
    lambda x, y, i, n: -x,
    lambda x, y, i, n: jnp.abs(x),
    lambda x, y, i, n: jnp.maximum(jnp.minimum(x, y), jnp.asarray(-2, x.dtype)),
    lambda x, y, i, n: turned(x, n, 1),
    lambda x, y, i, n: turned(x, n, 0),
    lambda x, y, i, n: jnp.where((lanes(x) & (1 << n % 7)) == 0, x, y),
    lambda x, y, i, n: jnp.where(x < y, x, y),
    lambda x, y, i, n: jnp.where(lanes(x) == (i + n) % x.shape[1], x, y),
    lambda x, y, i, n: jnp.where(rows(x) == (i + n) % x.shape[0], x, y),
    lambda x, y, i, n: spread(x, jnp.max, n % 2),
    lambda x, y, i, n: spread(x, jnp.sum, n % 2),
    lambda x, y, i, n: jnp.concatenate([x[: x.shape[0] // 2], y[x.shape[0] // 2 :]], 0),
    lambda x, y, i, n: jnp.exp(-jnp.abs(wide(x))).astype(x.dtype),
]


class Drawn:
    """A kernel on blocks of two operands, which perhaps keeps something for the next step."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.dtype = (jnp.float32, jnp.float32, i32, jnp.bfloat16)[seed % 4]
        self.block = int(random.choice([16, 32])), int(random.choice([128, 256]))
        self.grid = int(random.integers(2, 6)), int(random.choice([1, 1, 2, 4]))
        self.keeps, self.turns = random.random() < 0.3, int(random.choice([0, 3, 5]))
        self.steps = random.integers(0, 1 << 16, (int(random.integers(3, 9)), 4)).tolist()
        self.again = int(random.integers(len(self.steps)))

    def apply(self, values: list[Any], step: list[int], number: Any) -> Any:
        which, first, second, n = step
        x, y = (values[place % len(values)] for place in (first, second))
        return OPERATIONS[which % len(OPERATIONS)](x, y, number, n)

    def body(self, x: Any, y: Any, o: Any, *kept: Any) -> None:
        values = [x[...], y[...]]
        for ref in kept:

            @pl.when((pl.program_id(0) == 0) & (pl.program_id(1) == 0))
            def _(ref: Any = ref) -> None:
                ref[...] = jnp.zeros_like(ref)

            values.append(ref[...])
        for step in self.steps:
            values.append(self.apply(values, step, 0))

        def turn(number: Any, carried: Any) -> Any:
            return self.apply([*values, carried], self.steps[self.again], number)

        if self.turns:
            values.append(jax.lax.fori_loop(0, self.turns, turn, values[-1]))
        for ref in kept:
            ref[...] = values[-1]
        o[...] = values[-1]

    def call(self, x: Any, y: Any) -> Any:
        block = pl.BlockSpec(self.block, lambda i, j: (i, j))
        scratch = [pltpu.VMEM(self.block, self.dtype)] if self.keeps else []
        return pl.pallas_call(
            self.body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=self.grid,
            in_specs=[block, pl.BlockSpec(self.block, lambda i, j: (0, j))], out_specs=block,
            scratch_shapes=scratch,
        )(x, y)  # fmt: skip

    def operands(self, seed: int) -> list[np.ndarray]:
        """Numbers, with NaNs of any bits, zeros of both signs and infinities among them."""
        random = np.random.default_rng(seed)
        shape = tuple(n * size for n, size in zip(self.grid, self.block, strict=True))
        if self.dtype == i32:
            return [random.integers(-9, 9, shape).astype(np.int32) for _ in range(2)]
        found: list[np.ndarray] = []
        for _ in range(2):
            x = random.standard_normal(shape).astype(np.float32)
            nans = random.integers(0, 1 << 22, shape).astype(np.uint32) | 0x7FC00000
            for odd in (nans.view(np.float32), np.float32(-0.0), np.float32(np.inf)):
                x = np.where(random.random(shape) < 0.03, odd, x)
            found.append(x.astype(self.dtype))
        return found


def run(prepared: Prepared, operands: list[np.ndarray]) -> bytes:
    module = prepared.described.module
    outcome = execute(module, [operands], target=V5E, prepared=prepared)
    return np.asarray(outcome.outputs[0][0]).tobytes()


@pytest.mark.parametrize("seed", range(24))
def test_scripts_leave_what_first_runs_leave(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Drawn(seed)
    traced = jax.jit(kernel.call).trace(*kernel.operands(0))
    text = traced.lower(lowering_platforms=("tpu",)).as_text()
    module = api.lower(api.parse(text), "tiles", "v5e")
    monkeypatch.setattr(repeats, "BEFORE", 1)
    replayed = prepare(module, target=V5E)
    for _ in range(2):
        run(replayed, kernel.operands(0))
    assert replayed.repeats.replays
    for number in (1, 2):
        expected = run(prepare(module, target=V5E), kernel.operands(number))
        assert run(replayed, kernel.operands(number)) == expected
    assert replayed.repeats.replays, "the script failed"
