"""Kernels written in the `pallas` form give NumPy's answer in every form below it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pallasite
from pallasite.dialects.kernel import form_of
from pallasite.frontend.aot import kernel_bytecode

Array = NDArray[Any]
FORMS = ("pallas", "mosaic", "dma", "tiles", "vreg")


@dataclass(frozen=True)
class Case:
    """A kernel of `data`, its inputs, and the results that NumPy computes from them."""

    name: str
    inputs: Callable[[np.random.Generator], list[Array]]
    answer: Callable[..., Sequence[Array]]

    @property
    def text(self) -> str:
        return (Path(__file__).parent / "data" / f"{self.name}.mlir").read_text()


def normal(*shape: int) -> Callable[[np.random.Generator], Array]:
    return lambda rng: rng.standard_normal(shape).astype(np.float32)


def gather(ids: Array, x: Array) -> Sequence[Array]:
    blocks = x[ids]
    return blocks.sum(0), np.stack([block[5 - i].sum() for i, block in enumerate(blocks)])


def booleans(x: Array, keep: Array) -> Sequence[Array]:
    both = (x > 0) & keep
    return both.astype(np.int32), np.array([both.any(), both.all()], np.int32)


def refs(x: Array) -> Sequence[Array]:
    o = x[1::2].copy()
    o[8:] = np.where(x[8:16] < x[3, 5], x[3, 5], o[8:])
    o[1] = o[0]
    o[0] = x[7]
    return (o,)


def dots(x: Array, r: Array) -> Sequence[Array]:
    a, v = x.astype(np.float32), r.astype(np.float32)
    products = np.einsum("bik,bjk->bij", a, a)
    return products, a[1] @ v.T, products[0].argmax(1).astype(np.int32)


def products(x: Array, y: Array) -> Sequence[Array]:
    heads = np.einsum("abik,bakj->abij", x, y)
    return heads, heads.sum((0, 1)), np.outer(x[0, 0, :, 5], y[0, 0, 5])


def pipeline(size: Array, x: Array, y: Array) -> Sequence[Array]:
    rows = np.concatenate([x, np.full((8, 256), np.nan, np.float32)])
    out = [rows[16 * k : 16 * k + 16] + np.tile(y, 2) + (2 - k) for k in (2, 1, 0)]
    return (np.concatenate(out)[:40],)


def slices(starts: Array, x: Array, y: Array) -> Sequence[Array]:
    out = np.full_like(x, np.nan)
    for i in (1, 2):
        rows = slice(starts[i], starts[i + 1])
        out[rows] = x[rows] + np.tile(y[16 * i], 2) + i
    return (out,)


CASES = (
    Case(
        "gather",
        lambda g: [np.array([3, 0, 15, 3, 7, 1], np.int32), normal(16, 8, 128)(g)],
        gather,
    ),
    Case(
        "booleans",
        lambda g: [normal(16, 128)(g), g.integers(0, 2, (16, 128)).astype(bool)],
        booleans,
    ),
    Case("refs", lambda g: [normal(32, 128)(g)], refs),
    Case("dots", lambda g: [_bf16(normal(2, 16, 128)(g)), _bf16(normal(1, 128)(g))], dots),
    Case(
        "products",
        lambda g: [_whole(g, 2, 3, 16, 64), _whole(g, 3, 2, 64, 24)],
        products,
    ),
    Case(
        "pipeline",
        lambda g: [np.array([3, 2], np.int32), normal(40, 256)(g), normal(1, 128)(g)],
        pipeline,
    ),
    Case(
        "slices",
        lambda g: [np.array([0, 8, 32, 64], np.int32), normal(64, 256)(g), normal(40, 128)(g)],
        slices,
    ),
)


def _whole(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-8, 8, shape).astype(np.float32)


def _bf16(array: Array) -> Array:
    import ml_dtypes

    return array.astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_form(case: Case) -> None:
    module = pallasite.parse(case.text)
    assert form_of(module) == "pallas"
    inputs = case.inputs(np.random.default_rng(0))
    expected = case.answer(*inputs)
    for form in FORMS:
        lowered = pallasite.lower(module, form=form, target="v6e")
        lowered.verify()
        outputs = pallasite.run(lowered, inputs, form=form, target="v6e")
        for actual, wanted in zip(outputs, expected, strict=True):
            compared = np.isfinite(wanted)
            assert actual.dtype == wanted.dtype, form
            np.testing.assert_allclose(
                actual[compared], wanted[compared], rtol=2e-5, atol=2e-4, err_msg=form
            )


@pytest.mark.jax
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_jaxlib_verifies_what_is_serialised(case: Case, jaxlib: Any) -> None:
    module = pallasite.lower(pallasite.parse(case.text), form="mosaic", target="v6e")
    assert jaxlib.deserialize(kernel_bytecode(module)).operation.verify()
