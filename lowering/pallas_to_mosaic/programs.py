"""Which program runs: ids and sizes of the grid around an operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import SSAValue

from pallasite.dialects import pallas, tpu
from pallasite.lowering.pallas_to_mosaic.driver import Converter, rule


@dataclass(frozen=True)
class Programs:
    """The grid of a kernel; `ids` and `axes` leave out what transformations added."""

    ids: Sequence[SSAValue] = ()
    axes: Sequence[int] = ()
    """Which of the function's grid dimensions each axis is."""
    names: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])


@rule(pallas.ProgramIdOp)
def lower_program_id(op: pallas.ProgramIdOp, c: Converter) -> Sequence[SSAValue]:
    """The grid index that the function is given."""
    return [c.programs.ids[op.axis.value.data]]


@rule(pallas.NumProgramsOp)
def lower_num_programs(op: pallas.NumProgramsOp, c: Converter) -> Sequence[SSAValue]:
    """`tpu.iteration_bound` of the function's own grid dimension."""
    axis = c.programs.axes[op.axis.value.data]
    bound = tpu.IterationBoundOp(result_types=[i32], properties={"dim": IntegerAttr(axis, i32)})
    return [c.emit(bound)]


@rule(pallas.AxisIndexOp)
def lower_axis_index(op: pallas.AxisIndexOp, c: Converter) -> Sequence[SSAValue]:
    """The number of the core along a mesh axis."""
    return [c.programs.names[op.axis_name.data]]
