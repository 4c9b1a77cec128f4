"""K31: kernels that JAX ships run as they are: three kinds of attention and a grouped matmul."""

import jax
import jax.numpy as jnp
import numpy as np
from attention import reference
from harness import agree, integers, normal
from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention
from jax.experimental.pallas.ops.tpu.megablox import gmm
from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

SEQUENCE, DEPTH, HEADS = 256, 128, 2


def causal(q, k, v):
    scores = q @ k.T
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape, bool)), scores, -jnp.inf)
    return jax.nn.softmax(scores, axis=-1) @ v


def splash_attention(q, k, v):
    mask = masks.MultiHeadMask([masks.CausalMask((SEQUENCE, SEQUENCE))] * HEADS)
    return splash.make_splash_mha(mask=mask, head_shards=1, q_seq_shards=1)(q, k, v)


def grouped(x, weights, sizes):
    """Rows of x in groups of those sizes, each times its own matrix."""
    return gmm(x, weights, sizes, preferred_element_type=jnp.float32, tiling=(128, 128, 128))


def paged(q, k_pages, v_pages, lengths, table):
    return paged_attention(q, k_pages, v_pages, lengths, table, pages_per_compute_block=2)


if __name__ == "__main__":
    q, k, v = (normal(1, HEADS, SEQUENCE, DEPTH, seed=seed) for seed in range(3))
    scale = DEPTH**-0.5
    expected = jax.vmap(jax.vmap(reference))(q, k, v)
    program = lambda *x: flash_attention(*x, sm_scale=scale)  # noqa: E731
    agree("flash attention", program, (q, k, v), expected, tolerance=1e-2)

    one = (q[0] * scale, k[0], v[0])
    expected = jax.vmap(causal)(*one)
    agree("splash attention", splash_attention, one, expected, tolerance=1e-2)

    x, weights = integers(256, 128, dtype=jnp.bfloat16), integers(3, 128, 256, dtype=jnp.bfloat16)
    sizes = np.array([100, 28, 128])
    groups = np.split(np.asarray(x, np.float32), np.cumsum(sizes)[:-1])
    pairs = zip(groups, np.asarray(weights, np.float32), strict=True)
    expected = np.concatenate([group @ matrix for group, matrix in pairs])
    sizes = jnp.asarray(sizes, jnp.int32)
    agree("grouped matmul", grouped, (x, weights, sizes), expected, checks=())

    batch, pages, page = 2, 4, 16
    q = normal(batch, 8, DEPTH) * scale  # the kernel does not scale
    k_pages, v_pages = (normal(8, batch * pages, page, DEPTH, seed=seed) for seed in (1, 2))
    table = jnp.arange(batch * pages, dtype=jnp.int32).reshape(batch, pages)[:, ::-1]
    lengths = jnp.array([37, 64], jnp.int32)

    def attend(b, head):
        keys, values = (p[head, table[b]].reshape(-1, DEPTH) for p in (k_pages, v_pages))
        weights = jax.nn.softmax(q[b, head] @ keys[: lengths[b]].T)
        return weights @ values[: lengths[b]]

    expected = np.stack([[attend(b, head) for head in range(8)] for b in range(batch)])
    inputs = (q, k_pages, v_pages, lengths, table)
    agree("paged attention", paged, inputs, expected, tolerance=1e-2, checks=())
