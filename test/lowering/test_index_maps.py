"""Index maps written as affine expressions: what divides numbers below zero rounds down."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pallasite

VMEM = "#tpu.memory_space<vmem>"

MAPS: dict[str, Callable[[int], int]] = {
    "(i - 3) floordiv 2 + 2": lambda i: (i - 3) // 2 + 2,
    "(i - 5) ceildiv 2 + 2": lambda i: 2 - (5 - i) // 2,
    "i ceildiv 2": lambda i: -(-i // 2),
    "(i - 3) mod 3": lambda i: (i - 3) % 3,
    "(i * 3) mod 4": lambda i: i * 3 % 4,
}


@pytest.mark.parametrize("expression", MAPS)
def test_every_form_takes_the_blocks_of_the_map(expression: str) -> None:
    kind = "memref<8x128xf32, #tpu.memory_space<vmem>>"
    module = pallasite.parse(f"""pallas.kernel @k grid (i = 5 arbitrary)
  input %x: tensor<32x128xf32> in vmem block (8, 128) at ({expression}, 0)
  output %o: tensor<40x128xf32> in vmem block (8, 128) at (i, 0)
{{
  %v = pallas.load %x[...] : {kind}
  pallas.store %v, %o[...] : {kind}
}}""")
    value = np.arange(32 * 128, dtype=np.float32).reshape(4, 8, 128)
    expected = np.concatenate([value[MAPS[expression](i)] for i in range(5)])
    for form in ("pallas", "mosaic", "vreg"):
        (result,) = pallasite.run(module, [value.reshape(32, 128)], form=form, target="v5e")
        assert np.array_equal(np.asarray(result), expected), form


def test_narrow_numbers_of_a_map_wrap() -> None:
    """100 + 31 is below zero in 8 bits: the block is the last one, of which a part exists."""
    window = "window_bounds = array<i64: 16, 128>"
    module = pallasite.parse(f"""
module attributes {{tpu.call = {{operands = [tensor<20x128xf32>], results = [tensor<32x128xf32>],
    aliases = array<i64>, settings = "{{}}"}}}} {{
  func.func @kernel(%i: i32, %a: memref<16x128xf32, {VMEM}>, %o: memref<16x128xf32, {VMEM}>)
      attributes {{dimension_semantics = [#tpu.dimension_semantics<arbitrary>],
      iteration_bounds = array<i64: 2>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
      tpu.core_type = #tpu.core_type<tc>, window_params = [
      {{transform_indices = @read, {window}}}, {{transform_indices = @written, {window}}}]}} {{
    %z = arith.constant 0 : index
    %v = vector.load %a[%z, %z] : memref<16x128xf32, {VMEM}>, vector<16x128xf32>
    tpu.vector_store %o[%z, %z], %v {{strides = array<i32>}} :
        memref<16x128xf32, {VMEM}>, vector<16x128xf32>,
    func.return
  }}
  func.func @read(%i: i32) -> (i32, i32) {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.constant 0 : i8
    %some = arith.constant 31 : i8
    %many = arith.constant 100 : i8
    %n = arith.trunci %i : i32 to i8
    %few = arith.andi %n, %many : i8
    %most = arith.maxsi %few, %many : i8
    %sum = arith.addi %most, %some : i8
    %below = arith.cmpi slt, %sum, %none : i8
    %block = arith.select %below, %one, %zero : i32
    func.return %block, %zero : i32, i32
  }}
  func.func @written(%i: i32) -> (i32, i32) {{
    %zero = arith.constant 0 : i32
    func.return %i, %zero : i32, i32
  }}
}}""")
    value = np.arange(20 * 128, dtype=np.float32).reshape(20, 128)
    for form in ("mosaic", "dma", "vreg"):
        (result,) = pallasite.run(module, [value], form=form, target="v5e")
        for block in np.asarray(result).reshape(2, 16, 128):
            assert np.array_equal(block[:4], value[16:]), form
