"""K8: a batch of matrix products by `vmap`, which adds a grid axis the kernel never sees."""

import jax
from harness import agree, integers
from matmul import matmul

if __name__ == "__main__":
    x, y = integers(4, 256, 128), integers(4, 128, 256, seed=1)
    agree("batch of 4 products", jax.vmap(matmul), (x, y), x @ y)
