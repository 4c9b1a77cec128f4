"""Blocks that reach over the edge of their array, odd arrays and scalars in SMEM are replayed."""

# ruff: noqa: E501 (MLIR)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pallasite import api
from pallasite.interpreter.options import Options
from pallasite.interpreter.replay.repeats import BEFORE
from pallasite.interpreter.run import Prepared, execute, prepare
from pallasite.targets import get_target

V5E = get_target("v5e")
VMEM, SMEM = "#tpu.memory_space<vmem>", "#tpu.memory_space<smem>"
KINDS = {"f32": (np.float32, 8), "bf16": (np.uint16, 16), "i8": (np.int8, 32)}


def prepared(text: str) -> Prepared:
    return prepare(api.lower(api.parse(text), "tiles", "v5e"), target=V5E)


def ragged(rows: int, kind: str = "f32", columns: int = 128) -> Prepared:
    """Copies blocks of as many rows as a register has; to those of f32 it adds the last row of the
    block, so that poison shows in all of it."""
    count = KINDS[kind][1]
    steps = -(-rows // count)
    array, block = f"tensor<{rows}x{columns}x{kind}>", f"memref<{count}x{columns}x{kind}, {VMEM}>"
    vector, row = f"vector<{count}x{columns}x{kind}>", f"vector<1x{columns}x{kind}>"
    more = f"""
      %row = vector.load %kept[%c7, %c0] : {block}, {row}
      %rows = vector.broadcast %row : {row} to {vector}
      %c = arith.addf %b, %rows : {vector}
    """
    window = f"{{transform_indices = @at, window_bounds = array<i64: {count}, {columns}>}}"
    return prepared(f"""
    module attributes {{tpu.call = {{operands = [{array}], results = [{array}], aliases = array<i64>, settings = "{{}}"}}}} {{
    func.func @main(%i: i32, %x: {block}, %o: {block}, %kept: {block}) attributes {{dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: {steps}>, scalar_prefetch = 0 : i64, scratch_operands = 1 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{window}, {window}]}} {{
      %c0 = arith.constant 0 : index
      %c7 = arith.constant 7 : index
      %a = vector.load %x[%c0, %c0] : {block}, {vector}
      vector.store %a, %kept[%c0, %c0] : {block}, {vector}
      %b = vector.load %kept[%c0, %c0] : {block}, {vector}
      {more if kind == "f32" else ""}
      vector.store %{"c" if kind == "f32" else "b"}, %o[%c0, %c0] : {block}, {vector}
      return
    }}
    func.func @at(%i: i32) -> (i32, i32) {{
      %c0 = arith.constant 0 : i32
      return %i, %c0 : i32, i32
    }} }}""")


def run(kernel: Prepared | None, module: Any, inputs: list[Any]) -> list[bytes]:
    outcome = execute(module, [inputs], Options.of(), target=V5E, prepared=kernel)
    return [array.tobytes() for array in outcome.all()]


@pytest.mark.parametrize(
    "rows, kind, columns",
    [(13, "f32", 128), (20, "bf16", 128), (70, "i8", 128), (3, "f32", 200), (8, "f32", 100)],
)
def test_what_lies_behind_the_edge_is_poison(rows: int, kind: str, columns: int) -> None:
    kernel = ragged(rows, kind, columns)
    module = kernel.described.module

    def inputs(seed: int) -> list[Any]:
        random = np.random.default_rng(seed)
        return api.random_inputs(module, int(random.integers(100)))

    for seed in range(BEFORE + 1):
        run(kernel, module, inputs(seed))
    assert kernel.repeats.replays
    for seed in range(20, 24):
        assert run(kernel, module, inputs(seed)) == run(None, module, inputs(seed))


SCALED = f"""
module attributes {{tpu.call = {{operands = [tensor<2xf32>, tensor<8x128xf32>], results = [tensor<8x128xf32>], aliases = array<i64>, settings = "{{}}"}}}} {{
func.func @main(%s: memref<2xf32, {SMEM}>, %x: memref<8x128xf32, {VMEM}>, %o: memref<8x128xf32, {VMEM}>) attributes {{dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %first = memref.load %s[%c0] : memref<2xf32, {SMEM}>
  %second = memref.load %s[%c1] : memref<2xf32, {SMEM}>
  %a = vector.load %x[%c0, %c0] : memref<8x128xf32, {VMEM}>, vector<8x128xf32>
  %firsts = vector.broadcast %first : f32 to vector<8x128xf32>
  %b = arith.mulf %a, %firsts : vector<8x128xf32>
  vector.store %b, %o[%c0, %c0] : memref<8x128xf32, {VMEM}>, vector<8x128xf32>
  %positive = arith.cmpf ogt, %second, %zero : f32
  scf.if %positive {{
    %c = arith.addf %b, %a : vector<8x128xf32>
    vector.store %c, %o[%c0, %c0] : memref<8x128xf32, {VMEM}>, vector<8x128xf32>
  }}
  return
}} }}"""


def test_scalars_in_smem_decide_as_those_that_are_prefetched() -> None:
    kernel = prepared(SCALED)
    module = kernel.described.module
    x = np.random.default_rng(0).standard_normal((8, 128)).astype(np.float32)
    scalars = np.array([2, 1], np.float32)
    for _ in range(BEFORE + 1):
        run(kernel, module, [scalars, x])
    assert len(kernel.repeats.replays) == 1
    for factor, more in ((2, 1), (2, -1), (3, 1), (-3, 0), (2, 1)):
        scalars[:] = factor, more
        for y in (x, x + 1):
            expected = y * np.float32(factor) + (y if more > 0 else 0)
            assert run(kernel, module, [scalars, y]) == [expected.tobytes()]
