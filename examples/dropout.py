"""K30: dropout with random bits made in the kernel: JAX's own generator gives the same bits as
outside it; the hardware's generator is seeded per block (its sequence is ours, not the chip's)."""

import jax
import jax.numpy as jnp
import numpy as np
from harness import FORMS, agree, normal
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasite.jax

RATE = 0.25
ROWS = 64


def threefry(key_ref, x_ref, o_ref):
    key = jax.random.wrap_key_data(key_ref[...], impl="threefry2x32")
    kept = jax.random.bernoulli(key, 1 - RATE, x_ref.shape)
    o_ref[...] = jnp.where(kept, x_ref[...] / (1 - RATE), 0.0)


def dropout(key, x):
    return pl.pallas_call(threefry, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(key, x)


def hardware(seed_ref, x_ref, o_ref):
    pltpu.prng_seed(seed_ref[0], pl.program_id(0))
    bits = pltpu.bitcast(pltpu.prng_random_bits(x_ref.shape), jnp.uint32)
    o_ref[...] = jnp.where(bits >= jnp.uint32(RATE * 2**32), x_ref[...] / (1 - RATE), 0.0)


def hardware_dropout(seed, x):
    block = pl.BlockSpec((ROWS, x.shape[1]), lambda i, seed: (i, 0))
    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(x.shape[0] // ROWS,), in_specs=[block], out_specs=block
    )
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(hardware, grid_spec=grid, out_shape=shape)(seed, x)


if __name__ == "__main__":
    x, key = normal(64, 128), jax.random.key(7)
    kept = jax.random.bernoulli(key, 1 - RATE, x.shape)
    expected = jnp.where(kept, x / (1 - RATE), 0.0)
    agree("threefry", dropout, (jax.random.key_data(key), x), expected, tolerance=1e-6)
    x, seed = normal(256, 256), jnp.array([3], jnp.int32)
    results = []
    for form in FORMS:
        with pallasite.jax.simulate(form=form):
            results.append(np.asarray(jax.jit(hardware_dropout)(seed, x)))
    assert all(np.array_equal(results[0], other) for other in results)
    dropped = float(np.mean(results[0] == 0))
    assert abs(dropped - RATE) < 0.02
    print(f"hardware bits: all forms agree, {dropped:.3f} of the elements are dropped")
