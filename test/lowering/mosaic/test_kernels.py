"""Kernels written in the `pallas` form give NumPy's answer in every form below it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pallasite
from pallasite.dialects.kernel import form_of

Array = NDArray[Any]
FORMS = ("mosaic", "dma", "tiles", "vreg")


@dataclass(frozen=True)
class Case:
    """A kernel, its inputs, and the results that NumPy computes from them."""

    name: str
    text: str
    inputs: Callable[[np.random.Generator], list[Array]]
    answer: Callable[..., Sequence[Array]]


def normal(*shape: int) -> Callable[[np.random.Generator], Array]:
    return lambda rng: rng.standard_normal(shape).astype(np.float32)


GATHER = """
pallas.kernel @gather grid (6 arbitrary)
  prefetch %ids: tensor<6xi32>
  input %x: tensor<16x8x128xf32> in vmem block (squeezed, 8, 128) at (%i, %table) {
    %row = pallas.load %table[%i] : memref<6xi32, #tpu.memory_space<smem>>
    %zero = arith.constant 0 : i32
    pallas.yield %row, %zero, %zero : i32, i32, i32
  }
  output %o: tensor<8x128xf32> in vmem block (8, 128) at (0, 0)
  output %sums: tensor<6xf32> in smem
{
  %i = pallas.program_id 0
  %n = pallas.num_programs 0
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %a = pallas.load %x[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
  %first = arith.cmpi eq, %i, %zero : i32
  scf.if %first {
    %zeros = arith.constant dense<0.0> : vector<8x128xf32>
    pallas.store %zeros, %o[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
  }
  %old = pallas.load %o[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
  %new = arith.addf %old, %a : vector<8x128xf32>
  pallas.store %new, %o[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
  %rest = arith.subi %n, %i : i32
  %back = arith.subi %rest, %one : i32
  %row = pallas.load %x[%back, :] : memref<8x128xf32, #tpu.memory_space<vmem>>
  %sum = pallas.reduce add %row axes [0] : vector<128xf32> -> f32
  pallas.store %sum, %sums[%i] : memref<6xf32, #tpu.memory_space<smem>>
}
"""


def gather(ids: Array, x: Array) -> Sequence[Array]:
    blocks = x[ids]
    return blocks.sum(0), np.stack([block[5 - i].sum() for i, block in enumerate(blocks)])


BOOLEANS = """
pallas.kernel @booleans
  input %x: tensor<16x128xf32> in vmem
  input %keep: tensor<16x128xi1> in vmem
  output %o: tensor<16x128xi1> in vmem
  output %flags: tensor<2xi1> in smem
  scratch %held: memref<16x128xi1, #tpu.memory_space<vmem>>
{
  %a = pallas.load %x[...] : memref<16x128xf32, #tpu.memory_space<vmem>>
  %k = pallas.load %keep[...] : memref<16x128xi1, #tpu.memory_space<vmem>>
  %zeros = arith.constant dense<0.0> : vector<16x128xf32>
  %positive = arith.cmpf ogt, %a, %zeros : vector<16x128xf32>
  pallas.store %positive, %held[...] : memref<16x128xi1, #tpu.memory_space<vmem>>
  %again = pallas.load %held[...] : memref<16x128xi1, #tpu.memory_space<vmem>>
  %both = arith.andi %again, %k : vector<16x128xi1>
  pallas.store %both, %o[...] : memref<16x128xi1, #tpu.memory_space<vmem>>
  %some = pallas.reduce or %both axes [0, 1] : vector<16x128xi1> -> i1
  %every = pallas.reduce and %both axes [0, 1] : vector<16x128xi1> -> i1
  pallas.store %some, %flags[0] : memref<2xi1, #tpu.memory_space<smem>>
  pallas.store %every, %flags[1] : memref<2xi1, #tpu.memory_space<smem>>
}
"""


def booleans(x: Array, keep: Array) -> Sequence[Array]:
    both = (x > 0) & keep
    return both.astype(np.int32), np.array([both.any(), both.all()], np.int32)


REFS = """
pallas.kernel @refs
  input %x: tensor<32x128xf32> in vmem
  output %o: tensor<16x128xf32> in vmem
{
  %odd = pallas.load %x[ds(1, 16, 2), :] : memref<32x128xf32, #tpu.memory_space<vmem>>
  pallas.store %odd, %o[...] : memref<16x128xf32, #tpu.memory_space<vmem>>
  %one = pallas.load %x[3, 5] : memref<32x128xf32, #tpu.memory_space<vmem>>
  %ones = vector.broadcast %one : f32 to vector<8x128xf32>
  %part = pallas.load %x[ds(8, 8), :] : memref<32x128xf32, #tpu.memory_space<vmem>>
  %mask = arith.cmpf olt, %part, %ones : vector<8x128xf32>
  pallas.store %ones, %o[ds(8, 8), :] mask %mask : memref<16x128xf32, #tpu.memory_space<vmem>>
  %row = pallas.load %x[7, :] : memref<32x128xf32, #tpu.memory_space<vmem>>
  %was = pallas.swap %row, %o[0, :] : memref<16x128xf32, #tpu.memory_space<vmem>>
  pallas.store %was, %o[1, :] : memref<16x128xf32, #tpu.memory_space<vmem>>
}
"""


def refs(x: Array) -> Sequence[Array]:
    o = x[1::2].copy()
    o[8:] = np.where(x[8:16] < x[3, 5], x[3, 5], o[8:])
    o[1] = o[0]
    o[0] = x[7]
    return (o,)


DOT = """
pallas.kernel @dots
  input %x: tensor<2x16x128xbf16> in vmem
  input %r: tensor<1x128xbf16> in vmem
  output %batched: tensor<2x16x16xf32> in vmem
  output %column: tensor<16x1xf32> in vmem
  output %largest: tensor<16xi32> in vmem
{
  %a = pallas.load %x[...] : memref<2x16x128xbf16, #tpu.memory_space<vmem>>
  %p = pallas.dot %a, %a contracting [2] [2] batch [0] [0] : vector<2x16x128xbf16>, vector<2x16x128xbf16> -> vector<2x16x16xf32>
  pallas.store %p, %batched[...] : memref<2x16x16xf32, #tpu.memory_space<vmem>>
  %m = pallas.load %x[1, :, :] : memref<2x16x128xbf16, #tpu.memory_space<vmem>>
  %v = pallas.load %r[...] : memref<1x128xbf16, #tpu.memory_space<vmem>>
  %mv = pallas.dot %m, %v contracting [1] [1] : vector<16x128xbf16>, vector<1x128xbf16> -> vector<16x1xf32>
  pallas.store %mv, %column[...] : memref<16x1xf32, #tpu.memory_space<vmem>>
  %first = vector.extract_strided_slice %p {offsets = [0, 0, 0], sizes = [1, 16, 16], strides = [1, 1, 1]} : vector<2x16x16xf32> to vector<1x16x16xf32>
  %square = vector.shape_cast %first : vector<1x16x16xf32> to vector<16x16xf32>
  %at = pallas.arg_reduce max %square axis 1 : vector<16x16xf32> -> vector<16xi32>
  pallas.store %at, %largest[...] : memref<16xi32, #tpu.memory_space<vmem>>
}
"""


def dots(x: Array, r: Array) -> Sequence[Array]:
    a, v = x.astype(np.float32), r.astype(np.float32)
    products = np.einsum("bik,bjk->bij", a, a)
    return products, a[1] @ v.T, products[0].argmax(1).astype(np.int32)


PIPELINE = """
pallas.kernel @pipeline
  prefetch %size: tensor<2xi32>
  input %x: tensor<40x256xf32> in any
  input %y: tensor<1x128xf32> in any
  output %o: tensor<40x256xf32> in any
  scratch %counts: memref<16x128xf32, #tpu.memory_space<vmem>>
{
  %n = pallas.load %size[0] : memref<2xi32, #tpu.memory_space<smem>>
  pallas.run_scoped (%unused: memref<8x128xf32, #tpu.memory_space<vmem>>) {
    pallas.emit_pipeline grid (%n arbitrary, 2 arbitrary)
      input %xb = %x: memref<40x256xf32, #tpu.memory_space<any>> in vmem block (16, 128) at (%i, %j) {
        %last = pallas.load %size[1] : memref<2xi32, #tpu.memory_space<smem>>
        %k = arith.subi %last, %i : i32
        pallas.yield %k, %j : i32, i32
      }
      input %yb = %y: memref<1x128xf32, #tpu.memory_space<any>> in vmem block (1, 128) at (0, 0)
      input %cb = %counts: memref<16x128xf32, #tpu.memory_space<vmem>> in vmem block (8, 128) at (d1, 0)
      output %ob = %o: memref<40x256xf32, #tpu.memory_space<any>> in vmem block (16, 128) at (d0, d1)
    {
      %i = pallas.program_id 0
      %f = arith.sitofp %i : i32 to f32
      %fs = vector.broadcast %f : f32 to vector<16x128xf32>
      pallas.store %fs, %counts[...] : memref<16x128xf32, #tpu.memory_space<vmem>>
      %part = pallas.load %cb[0, :] : memref<8x128xf32, #tpu.memory_space<vmem>>
      %spread = pallas.broadcast %part dims [1] : vector<128xf32> -> vector<16x128xf32>
      %a = pallas.load %xb[...] : memref<16x128xf32, #tpu.memory_space<vmem>>
      %b = pallas.load %yb[...] : memref<1x128xf32, #tpu.memory_space<vmem>>
      %bs = pallas.broadcast %b dims [0, 1] : vector<1x128xf32> -> vector<16x128xf32>
      %c = arith.addf %a, %bs : vector<16x128xf32>
      %d = arith.addf %c, %spread : vector<16x128xf32>
      pallas.store %d, %ob[...] : memref<16x128xf32, #tpu.memory_space<vmem>>
    }
  }
}
"""


def pipeline(size: Array, x: Array, y: Array) -> Sequence[Array]:
    rows = np.concatenate([x, np.full((8, 256), np.nan, np.float32)])
    out = [rows[16 * k : 16 * k + 16] + np.tile(y, 2) + (2 - k) for k in (2, 1, 0)]
    return (np.concatenate(out)[:40],)


CASES = (
    Case(
        "gather",
        GATHER,
        lambda g: [np.array([3, 0, 15, 3, 7, 1], np.int32), normal(16, 8, 128)(g)],
        gather,
    ),
    Case(
        "booleans",
        BOOLEANS,
        lambda g: [normal(16, 128)(g), g.integers(0, 2, (16, 128)).astype(bool)],
        booleans,
    ),
    Case("refs", REFS, lambda g: [normal(32, 128)(g)], refs),
    Case("dots", DOT, lambda g: [_bf16(normal(2, 16, 128)(g)), _bf16(normal(1, 128)(g))], dots),
    Case(
        "pipeline",
        PIPELINE,
        lambda g: [np.array([3, 2], np.int32), normal(40, 256)(g), normal(1, 128)(g)],
        pipeline,
    ),
)


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
