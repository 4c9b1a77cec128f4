"""Control flow and random numbers (spec/pallas_semantics.md section 8.6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .support import S, apply, call, equal, jax, jnp, noise, pl, pltpu, ramp, run

pytestmark = pytest.mark.jax
feature = pytest.mark.feature
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)


@feature("F01")
def test_when() -> None:
    def body(o: Any) -> None:
        step = pl.program_id(0)
        o[...] = jnp.zeros_like(o)

        @pl.when(step % 2 == 1)
        def _() -> None:
            o[...] = jnp.full(o.shape, step)

    out = pl.BlockSpec((8, 128), lambda i: (i, 0))
    result = run(call(body, S(32, 128, dtype=jnp.int32), grid=(4,), out_specs=out))
    equal(result[::8, 0], [0, 1, 0, 3])


@feature("F02")
@pytest.mark.parametrize("choice", [0, 1, 2])
def test_branches_with_vectors(choice: int) -> None:
    branches = [lambda x: x + 1, lambda x: x * 2, lambda x: -x]

    def body(c: Any, x: Any, o: Any) -> None:
        value = jax.lax.switch(c[0], branches, x[...])
        o[...] = jax.lax.cond(c[0] == 1, lambda v: v + 100, lambda v: v, value)

    x = ramp(8, 128)
    specs = [SMEM, pl.BlockSpec(memory_space=pltpu.VMEM)]
    result = run(call(body, S(8, 128), in_specs=specs), jnp.array([choice], jnp.int32), x)
    equal(result, branches[choice](x) + (100 if choice == 1 else 0))


@feature("F03")
@pytest.mark.parametrize("unroll", [1, 2, 3, True])
def test_counted_loops(unroll: Any) -> None:
    def function(x: Any) -> Any:
        return jax.lax.fori_loop(0, 6, lambda i, total: total * 2 + i, x, unroll=unroll)

    x = ramp(8, 128, dtype=jnp.int32)
    equal(apply(function, x), function(x))


@feature("F03")
def test_loops_with_dynamic_bounds() -> None:
    def body(n: Any, x: Any, o: Any) -> None:
        o[...] = jax.lax.fori_loop(n[0], n[1], lambda i, total: total + i, x[...])

    specs = [SMEM, pl.BlockSpec(memory_space=pltpu.VMEM)]
    program = call(body, S(8, 128, dtype=jnp.int32), in_specs=specs)
    x = ramp(8, 128, dtype=jnp.int32)
    equal(run(program, jnp.array([2, 7], jnp.int32), x), x + sum(range(2, 7)))


@feature("F04")
def test_general_loops() -> None:
    def function(x: Any) -> Any:
        return jax.lax.while_loop(lambda v: jnp.sum(v) < 1e6, lambda v: v * 3, x)

    x = jnp.ones((8, 128))
    equal(apply(function, x), function(x))


@feature("F06")
def test_loops_with_steps_and_carries() -> None:
    def body(o: Any, total: Any) -> None:
        total[0] = 0

        @pl.loop(2, 12, step=3)
        def _(i: Any) -> None:
            total[0] += i

        @pl.loop(0, 4, init_carry=jnp.int32(1))
        def carried(_: Any, carry: Any) -> Any:
            return carry * 2

        o[0] = total[0]
        o[1] = carried

    out = S(2, dtype=jnp.int32)
    scratch = [pltpu.SMEM((1,), jnp.int32)]
    equal(run(call(body, out, out_specs=SMEM, scratch_shapes=scratch)), [2 + 5 + 8 + 11, 16])


@feature("G01")
def test_hardware_bits_depend_on_the_seed() -> None:
    def program(seed: int) -> Any:
        def body(o: Any) -> None:
            pltpu.prng_seed(seed)
            o[...] = pltpu.prng_random_bits(o.shape)

        return call(body, S(16, 256, dtype=jnp.int32))

    first, again, other = run(program(3)), run(program(3)), run(program(4))
    equal(first, again)
    assert (first != other).mean() > 0.99 and len(np.unique(first)) > 4000


@feature("G03")
@pytest.mark.parametrize("name", ["bits", "uniform", "normal"])
def test_jax_keys_give_the_same_bits(name: str) -> None:
    key = jax.random.key_data(jax.random.key(11))

    def draw(data: Any) -> Any:
        wrapped = jax.random.wrap_key_data(data, impl="threefry2x32")
        return getattr(jax.random, name)(wrapped, (16, 128))

    result = apply(draw, key)
    expected = np.asarray(draw(key))
    if name == "normal":
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    else:
        equal(result, expected)


@feature("G05")
def test_samples_do_not_depend_on_the_block() -> None:
    key = jax.random.key_data(jax.random.key(5))
    total, tile = (64, 256), (16, 128)

    def program(block: tuple[int, int]) -> Any:
        def body(key_ref: Any, o: Any) -> None:
            data = jax.random.wrap_key_data(key_ref[...], impl="threefry2x32")
            place = (pl.program_id(0), pl.program_id(1))
            o[...] = pltpu.sample_block(
                jax.random.uniform, data, block_size=block, tile_size=tile, total_size=total,
                block_index=place, minval=0.0, maxval=1.0,
            )  # fmt: skip

        grid = tuple(n // b for n, b in zip(total, block, strict=True))
        spec = pl.BlockSpec(block, lambda i, j: (i, j))
        whole = pl.BlockSpec(memory_space=pltpu.VMEM)
        return call(body, S(*total), grid=grid, in_specs=[whole], out_specs=spec)

    equal(run(program((16, 128)), key), run(program((32, 256)), key))


def test_noise_is_seeded() -> None:
    equal(noise(4), noise(4))
