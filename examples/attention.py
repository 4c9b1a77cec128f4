"""K11: flash attention of one sequence: maxima, sums and the weighted values are kept per row while
blocks of keys go by, and divided once at the end."""

import functools
import math

import jax
import jax.numpy as jnp
from harness import agree, normal
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK = 128


def body(q_ref, k_ref, v_ref, o_ref, m_ref, l_ref, acc_ref, *, scale):
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
        functools.partial(body, scale=1 / math.sqrt(depth)),
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


if __name__ == "__main__":
    q, k, v = (normal(256, 128, seed=seed) for seed in range(3))
    agree("attention of one head", attention, (q, k, v), reference(q, k, v), tolerance=1e-2)
