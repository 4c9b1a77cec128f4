"""Runs flash attention, exactly as JAX hands it to the TPU compiler, through every form.

    python examples/flash_attention.py [TARGET]

`flash_attention.stablehlo.mlir` is what JAX 0.10.2 prints for the Pallas kernel below, lowered for
TPUs with `jax.jit(f).trace(q, k, v).lower(lowering_platforms=("tpu",))`: 512 queries and keys of
128 features in bfloat16, a grid of 4 x 4 blocks, running maximum and sum in scratch. Neither JAX
nor a TPU is needed to run it.

    def body(q, k, v, o, m, l, acc):
        j = pl.program_id(1)
        @pl.when(j == 0)
        def _():
            m[...] = jnp.full_like(m, -1e30); l[...] = ...; acc[...] = ...
        s = lax.dot_general(q[...], k[...], (((1,), (1,)), ((), ())), ...) * D ** -0.5
        m0 = m[...][:, :1]
        m1 = jnp.maximum(m0, jnp.max(s, axis=1, keepdims=True))
        p, al = jnp.exp(s - m1), jnp.exp(m0 - m1)
        ...
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import pallasite

FORMS = {
    "mosaic": "what JAX serialises: one block of the grid, windows as attributes",
    "dma": "windows are gone: buffers, semaphores, DMAs, a loop over the grid",
    "tiles": "every vector is a grid of 8x128 registers",
    "vreg": "every value is one register",
}


def attention(
    q: NDArray[np.float32], k: NDArray[np.float32], v: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Softmax attention in float32, the answer to compare with."""
    scores = q @ k.T * q.shape[1] ** -0.5
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v


def main(target: str = "v5e") -> int:
    source = (Path(__file__).parent / "flash_attention.stablehlo.mlir").read_text()
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((512, 128)).astype(ml_dtypes.bfloat16) for _ in range(3)]
    expected = attention(*(x.astype(np.float32) for x in inputs))

    print(f"flash attention, 512 x 128 bfloat16, on a modelled {target}\n")
    print(
        f"{'form':8}{'operations':>11}{'lower ms':>10}{'run ms':>9}{'largest error':>15}   meaning"
    )
    worst = 0.0
    for form, meaning in FORMS.items():
        module = pallasite.parse(source)
        start = time.perf_counter()
        lowered = pallasite.lower(module, form=form, target=target)
        lowering = time.perf_counter() - start
        start = time.perf_counter()
        (result,) = pallasite.run(lowered, inputs, form=form, target=target)
        running = time.perf_counter() - start
        error = float(np.abs(result.astype(np.float32) - expected).max())
        worst = max(worst, error)
        operations = sum(1 for _ in lowered.walk())
        times = f"{1e3 * lowering:10.1f}{1e3 * running:9.1f}"
        print(f"{form:8}{operations:11}{times}{error:15.2e}   {meaning}")
    print("\nthe product of probabilities and values, as grids and as single registers:\n")
    for form, wanted in (("tiles", "grid.matmul"), ("vreg", "tpu.matmul")):
        text = str(pallasite.lower(pallasite.parse(source), form=form, target=target))
        line = [row.strip() for row in text.splitlines() if wanted in row][-1]
        print(f"  {form}: {line[:110]} ...")
    agree = worst < 2e-2
    print(f"\nall forms agree with NumPy within {worst:.1e}: {'yes' if agree else 'NO'}")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
