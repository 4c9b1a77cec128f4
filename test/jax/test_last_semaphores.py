"""Kernels that use the last semaphore, or the last words of SMEM, and one more than these."""

from __future__ import annotations

import math
from typing import Any

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

TARGETS = ("v4", "v5e", "v5p", "v6e", "v7x")
SMALL, LARGE = (64, 128), (200_000, 128)
FREE = {"v4": 433, "v5e": 441, "v5p": 437, "v6e": 439, "v7x": 3681}


def module_of(call: Any, operands: list[Any], target: str) -> Any:
    """The module of `call` as JAX serialises it for `target`."""
    with simulate(target=target):
        traced = jax.jit(lambda *x: call(*x)).trace(*operands)
        text = traced.lower(lowering_platforms=("tpu",)).as_text(debug_info=True)
    return read(text, "kernel")


def refusal(module: Any, target: str) -> str:
    """The code of our refusal; empty if there is none."""
    try:
        pallasite.lower(module, "mosaic", target)
    except Unsupported as error:
        return error.code
    return ""


def block(buffers: int | None = None, *, moves: bool = True) -> pl.BlockSpec:
    mode = {} if buffers is None else {"pipeline_mode": pl.Buffered(buffers)}
    return pl.BlockSpec((8, 128), lambda i: (i if moves else 0, 0), **mode)


def semaphores(
    count: int, grid: tuple[int, ...], inputs: list[Any], output: Any, shape: tuple[int, int]
) -> tuple[Any, list[Any]]:
    """A kernel that allocates `count` semaphores, and its operands."""

    def body(*refs: Any) -> None:
        refs[-2][...] = jnp.zeros(refs[-2].shape, jnp.float32)

    call = pl.pallas_call(
        body, grid=grid, in_specs=inputs, out_specs=output,
        out_shape=jax.ShapeDtypeStruct(shape, jnp.float32),
        scratch_shapes=[pltpu.SemaphoreType.DMA((count,))],
    )  # fmt: skip
    return call, [jax.ShapeDtypeStruct(shape, jnp.float32) for _ in inputs]


VMEM = pl.BlockSpec(memory_space=pltpu.VMEM)
ANY = pl.BlockSpec(memory_space=pl.ANY)
KERNELS = {
    "moving": ((8,), [block()], block(), LARGE, {}, 4),
    "three": ((8,), [block(), block()], block(), LARGE, {}, 6),
    "once": ((8,), [block(1)], block(), LARGE, {}, 3),
    "standing": ((8,), [block()], block(moves=False), LARGE, {}, 3),
    "single step": ((1,), [block()], block(), LARGE, {}, 2),
    "whole": ((), [VMEM, VMEM], VMEM, SMALL, {"v7x": 2}, 3),
    "elsewhere": ((8,), [ANY], block(), LARGE, {}, 2),
    "staged": ((8,), [block(), block()], block(), SMALL, {"v7x": 3}, 6),
    "nothing": ((), [], VMEM, SMALL, {}, 1),
}


@pytest.mark.aot
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_the_last_semaphore(name: str, target: str, compiler: Any) -> None:
    """Each buffer of a window takes one."""
    grid, inputs, output, shape, others, usual = KERNELS[name]
    most = FREE[target] - others.get(target, usual)
    for count, code in ((most, ""), (most + 1, "semaphore-mem-exhausted")):
        module = module_of(*semaphores(count, grid, inputs, output, shape), target)
        assert refusal(module, target) == code
        assert accepted(module, target, compiler) == (not code)


@pytest.mark.aot
@pytest.mark.parametrize("prefetched", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_the_last_words_of_smem(target: str, prefetched: bool, compiler: Any) -> None:
    """Tables take whole multiples of 128 words, and the compiler keeps some for itself."""

    def body(table: Any, out: Any) -> None:
        out[...] = jnp.full((8, 128), table[5])

    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(2,), out_specs=pl.BlockSpec((8, 128), lambda i, _: (0, 0))
    )
    smem = {"in_specs": [pl.BlockSpec(memory_space=pltpu.SMEM)], "out_specs": VMEM}
    settings: dict[str, Any] = {"grid_spec": grid} if prefetched else smem
    shape = jax.ShapeDtypeStruct((8, 128), jnp.int32)
    model = get_target(target)
    kept = math.ceil(model.reserved_smem_bytes / 512)
    most = model.smem_bytes // 4 - kept * 128
    call = pl.pallas_call(body, out_shape=shape, **settings)
    for words, code in ((most, ""), (most + 1, "smem-exhausted")):
        module = module_of(call, [jax.ShapeDtypeStruct((words,), jnp.int32)], target)
        assert refusal(module, target) == code
        assert accepted(module, target, compiler) == (not code)


def accepted(module: Any, target: str, compiler: Any) -> bool:
    """Whether the compiler takes `module`."""
    topology = get_target(target).topology
    return compile_ahead_of_time(
        module, topology=topology, layout_passes=True, compiler=compiler
    ).accepted
