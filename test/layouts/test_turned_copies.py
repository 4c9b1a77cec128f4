"""Rows that are the same everywhere, turned: every lane of the result has them."""

from __future__ import annotations

import numpy as np
import pytest

import pallasite
from pallasite.layouts.move import Move
from pallasite.layouts.planner.check import expected_elements, source_elements
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.demand import ALL_LANES, demand
from pallasite.layouts.planner.execute import UNDEFINED, execute_part
from pallasite.layouts.planner.planner import plan
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.targets import get_target


@pytest.mark.parametrize("bits", [32, 16])
@pytest.mark.parametrize("shape", [(9, 72), (16, 72), (40, 200), (130, 8), (2, 40, 72)])
def test_every_element_arrives(shape: tuple[int, ...], bits: int) -> None:
    rank = len(shape)
    same = VectorLayout.native(rank, bits).with_offsets(None, 0)
    order = [*range(rank - 2), rank - 1, rank - 2]
    move = Move.transpose((same, shape), VectorLayout.native(rank, bits), order)
    made = plan(move, Costs.of(get_target("v6e")))
    layout, turned = move.destination
    registers = np.arange(layout.register_count(turned))
    part = demand(made, registers, ALL_LANES)
    source = source_elements(move.sources[0], 0, part.registers[0], part.lanes[0])
    expected = expected_elements(move, registers, ALL_LANES)
    found = execute_part(made, part, [source])
    assert not ((expected != UNDEFINED) & (found != expected)).any()


@pytest.mark.parametrize("form", ["mosaic", "vreg"])
@pytest.mark.parametrize("rows, columns", [(40, 72), (16, 200), (130, 9)])
def test_numbers_of_lanes_as_numbers_of_rows(rows: int, columns: int, form: str) -> None:
    module = pallasite.parse(f"""
module attributes {{tpu.call = {{operands = [], results = [tensor<{columns}x{rows}xi32>],
    aliases = array<i64>, settings = "{{}}"}}}} {{
  func.func @kernel(%a: memref<{columns}x{rows}xi32, #tpu.memory_space<vmem>>)
      attributes {{dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
      tpu.core_type = #tpu.core_type<tc>}} {{
    %z = arith.constant 0 : index
    %0 = tpu.iota {{dimensions = array<i32: 1>}} : vector<{rows}x{columns}xi32>
    %1 = tpu.transpose %0, [1, 0] : vector<{rows}x{columns}xi32> -> vector<{columns}x{rows}xi32>
    tpu.vector_store %a[%z, %z], %1 {{strides = array<i32>}}
      : memref<{columns}x{rows}xi32, #tpu.memory_space<vmem>>, vector<{columns}x{rows}xi32>,
    func.return
  }}
}}""")
    (found,) = pallasite.run(module, [], form=form, target="v5e")
    np.testing.assert_array_equal(
        np.asarray(found), np.broadcast_to(np.arange(columns)[:, None], (columns, rows))
    )
