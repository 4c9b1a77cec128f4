"""K22: the same pipeline with one to four buffers per input, looking ahead, and not overlapped at
all: how blocks travel never changes the result."""

import functools

import jax.numpy as jnp
from harness import agree, integers
from jax.experimental import pallas as pl
from pipeline_matmul import matmul, product

if __name__ == "__main__":
    x, y = (integers(256, 256, dtype=jnp.bfloat16, seed=seed) for seed in (0, 1))
    variants = {
        "1 buffer": {"mode": pl.Buffered(1)},
        "2 buffers": {"mode": pl.Buffered(2)},
        "3 buffers": {"mode": pl.Buffered(3)},
        "3 buffers, looking ahead": {"mode": pl.Buffered(3, use_lookahead=True)},
        "4 buffers": {"mode": pl.Buffered(4)},
        # JAX's copies without overlap know nothing of the shares of several cores.
        "no overlap": {"no_pipelining": True, "cores": 1},
    }
    for name, options in variants.items():
        program = functools.partial(matmul, block=128, **options)
        agree(name, program, (x, y), product(x, y))
