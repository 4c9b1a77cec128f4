"""The kernels that JAX 0.7.2 ships, and what Mosaic's passes in C++ made of them.

    PYTHON benchmarks/old_passes_published.py FOLDER

PYTHON has JAX 0.7.2. Writes the program of each, its kernels one after the other, and the register
forms of each kernel for generations 5 and 6. See `old_passes.py`.
"""

from __future__ import annotations

import argparse
import importlib
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu import flash_attention as flash
from jax.experimental.pallas.ops.tpu import matmul
from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks
from old_passes_child import GENERATIONS, apart, bodies

megablox = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.gmm")
"""The package has a function of that name, too."""

Program = tuple[Callable[..., Any], tuple[Any, ...]]
f32, bf16, i32 = jnp.float32, jnp.bfloat16, jnp.int32
like = jax.ShapeDtypeStruct


def backward(function: Callable[..., Any]) -> Callable[..., Any]:
    """The pullback of an attention, at the queries."""
    return lambda q, k, v: jax.vjp(function, q, k, v)[1](q)


def flash_attention(causal: bool) -> Callable[..., Any]:
    """JAX's flash attention with blocks of 128."""
    names = (
        "block_q", "block_k_major", "block_k", "block_q_major_dkv", "block_k_major_dkv",
        "block_k_dkv", "block_q_dkv", "block_k_major_dq", "block_k_dq", "block_q_dq",
    )  # fmt: skip
    sizes = flash.BlockSizes(block_b=1, **dict.fromkeys(names, 128))
    return partial(flash.flash_attention, causal=causal, block_sizes=sizes)


def segments(q: Any, k: Any, v: Any) -> Any:
    """Flash attention with segment ids."""
    ids = flash.SegmentIds(*[jnp.zeros((1, 512), i32)] * 2)
    sizes = flash.BlockSizes(block_q=256, block_k_major=512, block_k=256, block_b=1)
    return flash.flash_attention(q, k, v, segment_ids=ids, block_sizes=sizes)


def splash_attention(mask: Any) -> Callable[..., Any]:
    """JAX's splash attention of two heads with `mask`."""
    sizes = splash.BlockSizes(
        block_q=128, block_kv=256, block_kv_compute=128, block_q_dkv=128, block_kv_dkv=256,
        block_kv_dkv_compute=128, block_q_dq=128, block_kv_dq=256,
    )  # fmt: skip

    def call(q: Any, k: Any, v: Any) -> Any:
        heads = masks.MultiHeadMask([mask] * 2)
        kernel = splash.make_splash_mha(heads, head_shards=1, q_seq_shards=1, block_sizes=sizes)
        return jax.vmap(kernel)(q, k, v)

    return call


def programs(dtype: Any) -> dict[str, Program]:
    """By name: a function that calls kernels, and its operands."""
    found: dict[str, Program] = {}
    for width in (64, 128, 256):
        heads = (like((1, 2, 256, width), dtype),) * 3
        for causal in (False, True):
            name = f"{width}{'_causal' * causal}"
            found[f"flash_{name}"] = flash_attention(causal), heads
            if width < 256:
                found[f"flash_backward_{name}"] = backward(flash_attention(causal)), heads
    heads = (like((1, 2, 512, 128), dtype),) * 3
    found["flash_segments"] = segments, heads
    for name, mask in (
        ("full", masks.FullMask((512, 512))),
        ("causal", masks.CausalMask((512, 512))),
        ("local", masks.LocalMask((512, 512), (128, 128), 0)),
    ):
        found[f"splash_{name}"] = splash_attention(mask), heads
        found[f"splash_backward_{name}"] = backward(splash_attention(mask)), heads
    for m, k, n in ((512, 512, 512), (256, 1024, 384)):
        operands = like((m, k), dtype), like((k, n), dtype)
        found[f"matmul_{m}"] = partial(matmul.matmul, block_shape=(256, 128)), operands
    for k, n in ((256, 256), (200, 300)):
        operands = like((512, k), dtype), like((4, k, n), dtype), like((4,), i32)
        gmm = partial(megablox.gmm, preferred_element_type=f32, tiling=(128, 128, 128))
        found[f"gmm_{k}"] = gmm, operands
    operands = like((256, 512), dtype), like((512, 256), dtype), like((4,), i32)
    tgmm = partial(megablox.tgmm, preferred_element_type=f32, tiling=(128, 128, 128))
    found["tgmm"] = tgmm, operands
    for width in (128, 256):
        pages = like((2, 32, 16, width), dtype)
        operands = like((4, 8, width), dtype), pages, pages, like((4,), i32), like((4, 8), i32)
        found[f"paged_{width}"] = partial(paged_attention, pages_per_compute_block=4), operands
    return found


def main() -> None:
    """Lowers every program, and writes what each of its kernels becomes."""
    p = argparse.ArgumentParser(description=main.__doc__)
    p.add_argument("folder", type=Path, help="where to write")
    folder = p.parse_args().folder
    for dtype in (f32, bf16):
        for name, (function, operands) in programs(dtype).items():
            lowered = jax.jit(function).trace(*operands).lower(lowering_platforms=("tpu",))
            place = folder / f"{name}_{jnp.dtype(dtype).name}.mlir"
            place.write_text(lowered.as_text())
            for call, body in enumerate(bodies(lowered.as_text())):
                for generation in GENERATIONS:
                    apart(place.with_suffix(f".{call}.gen{generation}.mlir"), body, generation)


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    warnings.filterwarnings("ignore", message="os.fork")
    main()
