"""K12: attention of many heads of many sequences by nested `vmap`, and its gradient."""

import jax
import jax.numpy as jnp
from attention import attention, reference
from harness import agree, normal


@jax.custom_vjp
def trainable(q, k, v):
    """`attention` whose gradient is that of its definition."""
    return attention(q, k, v)


trainable.defvjp(
    lambda q, k, v: (attention(q, k, v), (q, k, v)),
    lambda saved, g: jax.vjp(lambda *x: reference(*x).astype(g.dtype), *saved)[1](g),
)


def gradient(q, k, v):
    return jax.grad(lambda q: trainable(q, k, v).astype(jnp.float32).sum())(q)


if __name__ == "__main__":
    q, k, v = (normal(2, 3, 256, 128, dtype=jnp.bfloat16, seed=seed) for seed in range(3))
    heads = jax.vmap(jax.vmap(reference))(q, k, v)
    agree("2 sequences of 3 heads", jax.vmap(jax.vmap(attention)), (q, k, v), heads, tolerance=1e-2)
    one = (q[0, 0], k[0, 0], v[0, 0])
    slope = jax.grad(lambda q: reference(q, *one[1:]).sum())(one[0])
    agree("gradient of one head", gradient, one, slope, tolerance=1e-2)
