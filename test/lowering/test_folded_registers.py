"""What folding single registers, and ranges of vectors, must leave alone."""

# ruff: noqa: E501 (MLIR)

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import VectorType

import pallasite
from pallasite.frontend.aot import compile_ahead_of_time
from pallasite.targets import get_target

from .memory_kernels import kernel

FORMS = ("mosaic", "tiles", "vreg")
WORDS = "vector<128x128xi32>"
COUNTED = f"""
  %i = tpu.iota {{dimensions = array<i32: 1>}} : {WORDS}
  %three = arith.constant dense<3> : {WORDS}
  %zero = arith.constant dense<0> : {WORDS}
  %low = arith.andi %i, %three : {WORDS}
  %odd = arith.cmpi ne, %low, %zero : {WORDS}
"""
MOVES = {
    # What of `i` is compared with 0: not the element that is divided.
    "rotated": "%s = arith.constant 1 : i32\n%t = tpu.dynamic_rotate %i by %s dim 1 : vector<128x128xi32>, i32 -> vector<128x128xi32>",
    "transposed": "%t = tpu.transpose %i, [1, 0] : vector<128x128xi32> -> vector<128x128xi32>",
    "spread": "%p = vector.extract_strided_slice %i {offsets = [0, 0], sizes = [128, 1], strides = [1, 1]} : vector<128x128xi32> to vector<128x1xi32>\n%t = vector.broadcast %p : vector<128x1xi32> to vector<128x128xi32>",
}
LANES = np.indices((128, 128))[1]
MOVED = {"rotated": np.roll(LANES, 1, 1), "transposed": LANES.T, "spread": np.zeros_like(LANES)}


@pytest.mark.parametrize("name", MOVES)
def test_what_is_assumed_of_one_element_is_not_of_another(name: str) -> None:
    module = f"""
pallas.kernel @k
  output %o: tensor<128x128xi32> in vmem
{{
  {COUNTED}
  {MOVES[name]}
  %first = arith.cmpi eq, %t, %zero : {WORDS}
  %m = arith.andi %first, %odd : vector<128x128xi1>
  %r = arith.extui %m : vector<128x128xi1> to {WORDS}
  pallas.store %r, %o[...] : memref<128x128xi32, #tpu.memory_space<vmem>>
}}
"""
    expected = ((MOVED[name] == 0) & (LANES & 3 != 0)).astype(np.int32)
    for form in FORMS:
        (found,) = pallasite.run(pallasite.parse(module), [], form=form)
        np.testing.assert_array_equal(found, expected, err_msg=form)


CONDITIONAL = """
pallas.kernel @k
  input %p: tensor<1xi32> in smem
  input %x: tensor<16x128xf32> in vmem
  input %y: tensor<16x128xf32> in vmem
  output %o: tensor<16x128xf32> in vmem
{
  %n = pallas.load %p[0] : memref<1xi32, #tpu.memory_space<smem>>
  %a = pallas.load %x[...] : memref<16x128xf32, #tpu.memory_space<vmem>>
  %b = pallas.load %y[...] : memref<16x128xf32, #tpu.memory_space<vmem>>
  %i = tpu.iota {dimensions = array<i32: 0>} : vector<16x128xi32>
  %eight = arith.constant dense<8> : vector<16x128xi32>
  %m = arith.cmpi slt, %i, %eight : vector<16x128xi32>
  %zero = arith.constant 0 : i32
  %c = arith.cmpi sgt, %n, %zero : i32
  %r = scf.if %c -> (vector<16x128xf32>) {
    %e = math.exp %a : vector<16x128xf32>
    %s = arith.select %m, %a, %e : vector<16x128xi1>, vector<16x128xf32>
    scf.yield %s : vector<16x128xf32>
  } else {
    scf.yield %b : vector<16x128xf32>
  }
  pallas.store %r, %o[...] : memref<16x128xf32, #tpu.memory_space<vmem>>
}
"""


@pytest.mark.parametrize("n", [0, 1])
def test_a_branch_that_passes_a_register_on_once_it_is_folded(n: int) -> None:
    x = np.linspace(-1, 1, 2048, dtype=np.float32).reshape(16, 128)
    expected = np.concatenate([x[:8], np.exp(x[8:])]) if n else 2 * x
    for form in FORMS:
        arrays = [np.array([n], np.int32), x, 2 * x]
        (found,) = pallasite.run(pallasite.parse(CONDITIONAL), arrays, form=form)
        np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=form)


@pytest.mark.aot
def test_the_tpu_compiler_takes_such_a_branch() -> None:
    pytest.importorskip("libtpu")
    for target in ("v5e", "v6e"):
        module = pallasite.lower(pallasite.parse(CONDITIONAL), "vreg", target)
        topology = get_target(target).topology
        verdict = compile_ahead_of_time(module, topology=topology, layout_passes=False)
        assert verdict.accepted, verdict


BLOCK = "memref<16x128xi32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem>>"
ALL = "sublanes [true, true, true, true, true, true, true, true] {grid.steps = array<i64: 8, 128>}"
ENTRY = f"""
func.func @f(%x: {BLOCK}, %y: {BLOCK}, %o: {BLOCK}, %n: i1) {{
  %c0 = arith.constant 0 : index
  %p = grid.position dim 0 step 8 : vector<2x1x8x128xi32>
  %m8 = arith.constant dense<8> : vector<8x128xi32>
  %m8s = grid.broadcast %m8 : vector<8x128xi32> -> vector<2x1x8x128xi32>
  %q = arith.subi %p, %m8s : vector<2x1x8x128xi32>
  tpu.store %y[%c0, %c0], %q {ALL} : {BLOCK}, vector<2x1x8x128xi32>,
  %a = tpu.load %x[%c0, %c0] {ALL} : {BLOCK}, vector<2x1x8x128xi32>
  %b = tpu.load %y[%c0, %c0] {ALL} : {BLOCK}, vector<2x1x8x128xi32>
  %s = scf.if %n -> (vector<2x1x8x128xi32>) {{
    scf.yield %a : vector<2x1x8x128xi32>
  }} else {{
    scf.yield %b : vector<2x1x8x128xi32>
  }}
  tpu.store %o[%c0, %c0], %s {ALL} : {BLOCK}, vector<2x1x8x128xi32>,
  func.return
}}
"""
BLOCKS = f"""
func.func @f(%o: {BLOCK}, %b: i1) {{
  %c0 = arith.constant 0 : index
  %p = grid.position dim 0 step 8 : vector<2x1x8x128xi32>
  cf.cond_br %b, ^bb1, ^bb2
^bb1:
  tpu.store %o[%c0, %c0], %p {ALL} : {BLOCK}, vector<2x1x8x128xi32>,
  cf.br ^bb2
^bb2:
  func.return
}}
"""


@pytest.mark.parametrize("text", [ENTRY, BLOCKS], ids=["entry", "blocks"])
def test_constants_are_defined_before_they_are_used(text: str) -> None:
    from xdsl.parser import Parser

    from pallasite.dialects import make_context
    from pallasite.lowering.tiles_to_vregs import TilesToVregsPass

    context = make_context()
    module = Parser(context, text).parse_module()
    TilesToVregsPass().apply(context, module)
    module.verify()


@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("dim", [0, 1])
def test_a_sum_of_one_element_is_no_negative_zero(dim: int, element: str) -> None:
    shape = (8, 1, 128) if dim else (1, 8, 128)
    kind = f"vector<{'x'.join(map(str, shape))}x{element}>"
    module = f"""
pallas.kernel @k
  input %x: tensor<{kind[7:-1]}> in vmem
  output %o: tensor<8x128x{element}> in vmem
{{
  %l = pallas.load %x[...] : memref<{kind[7:-1]}, #tpu.memory_space<vmem>>
  %z = arith.constant dense<0.0> : vector<8x128x{element}>
  %r = vector.multi_reduction <add>, %l, %z [{dim}] : {kind} to vector<8x128x{element}>
  pallas.store %r, %o[...] : memref<8x128x{element}, #tpu.memory_space<vmem>>
}}
"""
    x = np.full(shape, -0.0, np.float32 if element == "f32" else ml_dtypes.bfloat16)
    for form in FORMS:
        (found,) = pallasite.run(pallasite.parse(module), [x], form=form)
        assert not np.signbit(found).any(), form


@pytest.mark.parametrize("target", ["v5e", "v6e"])
def test_registers_of_padding_are_not_added(target: str) -> None:
    """A step of a running sum of integers: of three rows, each a register, two are added to."""
    module = kernel(["3x8x128xi32", "3x8x128xi32"], """
    %v = vector.load %a[%z, %z, %z] : A, vector<3x8x128xi32>
    %n = arith.constant dense<0> : vector<1x8x128xi32>
    %h = vector.extract_strided_slice %v {offsets = [0, 0, 0], sizes = [2, 8, 128],
      strides = [1, 1, 1]} : vector<3x8x128xi32> to vector<2x8x128xi32>
    %p = tpu.concatenate %n, %h in 0 :
      vector<1x8x128xi32>, vector<2x8x128xi32> -> vector<3x8x128xi32>
    %r = arith.addi %v, %p : vector<3x8x128xi32>
    tpu.vector_store %b[%z, %z, %z], %r {strides = array<i32>} : B, vector<3x8x128xi32>,
    """)  # fmt: skip
    values = np.arange(3 * 8 * 128, dtype=np.int32).reshape(3, 8, 128)
    lowered = pallasite.lower(module, form="vreg", target=target)
    (result,) = pallasite.run(lowered, [values], form="vreg", target=target)
    expected = values.copy()
    expected[1:] += values[:-1]
    assert np.array_equal(result, expected)
    made = [op for op in lowered.walk() if any(isinstance(r.type, VectorType) for r in op.results)]
    kinds = [op.name for op in made]
    assert kinds.count("arith.addi") == 2
    assert "arith.constant" not in kinds
