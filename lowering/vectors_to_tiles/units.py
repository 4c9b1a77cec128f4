"""Matrix units that the kernel feeds by hand: the same operations on grids of native tiles.

`check-kernel` has seen to it that matrices fill whole registers (`passes/check_kernel/units.py`).
"""

from __future__ import annotations

from pallasite.dialects import tpu
from pallasite.dialects.types import element_of, shape_of
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.tiled import grid_type


@rule(tpu.MatmulPushRhsOp, tpu.MatmulAccLhsOp, tpu.MatmulLhsFifoOp)
def lower_feeding(
    op: tpu.MatmulPushRhsOp | tpu.MatmulAccLhsOp | tpu.MatmulLhsFifoOp, c: Converter
) -> None:
    """Brings operands that are fed to a matrix unit to native tiles."""
    matrix = op.operands[0]
    tiles = c.in_layout(matrix, VectorLayout.native(2, c.mask_bits(matrix)))
    c.insert(type(op).create(operands=[tiles], properties=op.properties))
    c.retire(op)


@rule(tpu.MatmulPopOp, tpu.MatmulPopFifoOp)
def lower_popping(op: tpu.MatmulPopOp | tpu.MatmulPopFifoOp, c: Converter) -> None:
    """Receives results of a matrix unit, f32 or i32, in native tiles."""
    (result,) = op.results
    layout = VectorLayout.native(2, 32)
    kind = grid_type(layout, shape_of(result.type), element_of(result))
    made = type(op).create(result_types=[kind], properties=op.properties)
    c.define(result, c.emit(made), layout)
    c.retire(op)
