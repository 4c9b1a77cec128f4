"""K13: heads that share keys and values: `vmap` over the queries alone, nested over sequences.

Operands that are not mapped keep their index maps, so they are not fetched again for every head.
"""

import jax
import jax.numpy as jnp
from attention import attention, reference
from harness import agree, normal


def shared(kernel):
    """`kernel` for queries (batch, head, T, D), keys and values (batch, S, D)."""
    return jax.vmap(jax.vmap(kernel, in_axes=(0, None, None)))


if __name__ == "__main__":
    q = normal(2, 3, 256, 128, dtype=jnp.bfloat16)
    k, v = (normal(2, 256, 128, dtype=jnp.bfloat16, seed=seed) for seed in (1, 2))
    expected = shared(reference)(q, k, v)
    agree(
        "2 sequences, 3 heads, shared keys", shared(attention), (q, k, v), expected, tolerance=1e-2
    )
