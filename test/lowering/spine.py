"""The kernels that go all the way down, with seeded inputs and what NumPy says of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
DATA = Path(__file__).parent.parent / "data"
BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype(np.float32)


@dataclass(frozen=True)
class Spine:
    """A kernel of `test/data`: its inputs (shape, type), its answer, the relative tolerance."""

    name: str
    inputs: tuple[tuple[tuple[int, ...], Any], ...]
    answer: Callable[..., Array]
    tolerance: float

    @property
    def text(self) -> str:
        return (DATA / f"{self.name}.stablehlo.mlir").read_text()

    def arrays(self, seed: int = 0) -> list[Array]:
        """Seeded inputs: normal floats, small integers."""
        rng = np.random.default_rng(seed)
        arrays: list[Array] = []
        for shape, kind in self.inputs:
            if np.dtype(kind).kind == "i":
                high = 10 if np.dtype(kind).itemsize == 4 else 100
                low = 0 if high == 10 else -100
                arrays.append(rng.integers(low, high, shape).astype(kind))
            else:
                arrays.append(rng.standard_normal(shape).astype(kind))
        return arrays


def _wide(*arrays: Array) -> list[Array]:
    return [a.astype(np.float32) for a in arrays]


def add(x: Array, y: Array) -> Array:
    return (x.astype(np.float32) + y.astype(np.float32)).astype(x.dtype)


def matmul(x: Array, y: Array) -> Array:
    """Operands rounded to bfloat16, sums in double precision."""
    left, right = (a.astype(BF16).astype(np.float64) for a in (x, y))
    return (left @ right).astype(np.float32).astype(x.dtype)


def matmul_silu(x: Array, y: Array) -> Array:
    r = matmul(*_wide(x, y))
    return (r / (1 + np.exp(-np.clip(r, -80, 80)))).astype(x.dtype)


def integer_matmul(x: Array, y: Array) -> Array:
    return x.astype(np.int32) @ y.astype(np.int32)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layernorm(x: Array, g: Array, b: Array) -> Array:
    (v,) = _wide(x)
    mean = v.mean(axis=-1, keepdims=True)
    variance = ((v - mean) ** 2).mean(axis=-1, keepdims=True)
    return ((v - mean) / np.sqrt(variance + 1e-5) * g + b).astype(BF16)


def attention(q: Array, k: Array, v: Array) -> Array:
    wide = _wide(*(a.astype(BF16) for a in (q, k, v)))
    weights = softmax(wide[0] @ wide[1].T * q.shape[1] ** -0.5)
    return (weights @ wide[2]).astype(q.dtype)


def gather(index: Array, x: Array) -> Array:
    blocks = [x[8 * i : 8 * i + 8] * 2.0 + np.float32(i) for i in index]
    return np.concatenate(blocks).astype(np.float32)


def accumulate(x: Array) -> Array:
    return x.sum(axis=0)


SPINE = [
    Spine("vadd_f32", (((256, 256), F32),) * 2, add, 1e-6),
    Spine("vadd_unaligned_f32", (((13, 200), F32),) * 2, add, 1e-6),
    Spine("vadd_3d_bf16", (((3, 16, 256), BF16),) * 2, add, 1e-2),
    Spine("mm_f32", (((512, 512), F32),) * 2, matmul, 1e-5),
    Spine("mm_bf16", (((512, 512), BF16),) * 2, matmul, 1e-2),
    Spine("mm_i8", (((512, 512), np.int8),) * 2, integer_matmul, 0),
    Spine("mm_bf16_silu", (((512, 512), BF16),) * 2, matmul_silu, 1e-2),
    Spine("softmax_rows_f32", (((256, 512), F32),), softmax, 1e-5),
    Spine(
        "layernorm_bf16", (((256, 384), BF16), ((1, 384), F32), ((1, 384), F32)), layernorm, 2e-2
    ),
    Spine("flash_f32", (((512, 128), F32),) * 3, attention, 2e-2),
    Spine("flash_bf16", (((512, 128), BF16),) * 3, attention, 2e-2),
    Spine("scalar_prefetch_gather", (((6,), np.int32), ((80, 128), F32)), gather, 1e-6),
    Spine("accum_revisit_squeezed", (((8, 32, 128), F32),), accumulate, 1e-5),
    Spine("vadd_grid_edge_f32", (((20, 128), F32),) * 2, add, 1e-6),
]
