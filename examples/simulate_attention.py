"""Multi-head and multi-query flash attention by nested `vmap`, and its gradient, without a TPU.

Run `python examples/simulate_attention.py`. The kernel is what a TPU would get; only the line
`with pallasite.jax.simulate(...)` is ours.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasite.jax

BLOCK = 128


def flash_body(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref, *, scale):
    """One block of queries meets one block of keys; maxima and sums are kept per row."""
    step = pl.program_id(1)

    @pl.when(step == 0)
    def _():
        m_ref[...] = jnp.full_like(m_ref, -jnp.inf)
        l_ref[...] = jnp.zeros_like(l_ref)
        acc_ref[...] = jnp.zeros_like(acc_ref)

    scores = scale * jax.lax.dot_general(
        q_ref[...], k_ref[...], (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32
    )
    m_new = jnp.maximum(m_ref[...], scores.max(axis=1, keepdims=True))
    p = jnp.exp(scores - m_new)
    correction = jnp.exp(m_ref[...] - m_new)
    l_ref[...] = correction * l_ref[...] + p.sum(axis=1, keepdims=True)
    acc_ref[...] = correction * acc_ref[...] + jnp.dot(
        p.astype(v_ref.dtype), v_ref[...], preferred_element_type=jnp.float32
    )
    m_ref[...] = m_new

    @pl.when(step == pl.num_programs(1) - 1)
    def _():
        o_ref[...] = (acc_ref[...] / l_ref[...]).astype(o_ref.dtype)


def attention(q, k, v):
    """One head: q (T, D), k and v (S, D)."""
    rows, depth = q.shape
    queries = pl.BlockSpec((BLOCK, depth), lambda i, j: (i, 0))
    keys = pl.BlockSpec((BLOCK, depth), lambda i, j: (j, 0))
    return pl.pallas_call(
        functools.partial(flash_body, scale=1 / math.sqrt(depth)),
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        grid=(rows // BLOCK, k.shape[0] // BLOCK),
        in_specs=[queries, keys, keys],
        out_specs=queries,
        scratch_shapes=[
            pltpu.VMEM((BLOCK, 1), jnp.float32),
            pltpu.VMEM((BLOCK, 1), jnp.float32),
            pltpu.VMEM((BLOCK, depth), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(q, k, v)


def reference(q, k, v):
    """The definition, for one head."""
    scores = q.astype(jnp.float32) @ k.astype(jnp.float32).T / math.sqrt(q.shape[-1])
    return jax.nn.softmax(scores, axis=-1) @ v.astype(jnp.float32)


@jax.custom_vjp
def trainable(q, k, v):
    """`attention` whose gradient is that of its definition."""
    return attention(q, k, v)


trainable.defvjp(
    lambda q, k, v: (attention(q, k, v), (q, k, v)),
    lambda saved, g: jax.vjp(lambda *x: reference(*x).astype(g.dtype), *saved)[1](g),
)

heads = jax.vmap(attention)
multi_head = jax.jit(jax.vmap(heads))
multi_query = jax.jit(jax.vmap(jax.vmap(attention, in_axes=(0, None, None))))


def main() -> None:
    rng = np.random.default_rng(0)
    batch, count, length, depth = 2, 3, 256, 128

    def noise(*shape):
        return jnp.asarray(rng.standard_normal(shape), jnp.bfloat16)

    q = noise(batch, count, length, depth)
    k, v = noise(2, batch, count, length, depth)
    with pallasite.jax.simulate(target="v5e"):
        print("running on", pltpu.get_tpu_info().chip_version)
        mha = multi_head(q, k, v)
        mqa = multi_query(q, k[:, 0], v[:, 0])
        gradient = jax.grad(lambda q: trainable(q, k[0, 0], v[0, 0]).astype(jnp.float32).sum())(
            q[0, 0]
        )
    close = functools.partial(np.testing.assert_allclose, atol=2e-2, rtol=2e-2)
    close(mha.astype(jnp.float32), jax.vmap(jax.vmap(reference))(q, k, v))
    shared = jax.vmap(jax.vmap(reference, in_axes=(0, None, None)))
    close(mqa.astype(jnp.float32), shared(q, k[:, 0], v[:, 0]))
    assert gradient.shape == (length, depth)
    print(f"attention of {batch}x{count} heads and multi-query attention agree with JAX")


if __name__ == "__main__":
    main()
