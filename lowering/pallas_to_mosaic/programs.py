"""Program ids, numbers of programs, and core numbers: where in its grid a kernel runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import SSAValue

from pallasite.dialects import pallas, tpu
from pallasite.lowering.pallas_to_mosaic.driver import Converter, rule


@dataclass(frozen=True)
class Programs:
    """The grid of a kernel as its author wrote it, without axes that transformations (vmap) added.

    It is empty in index maps, except for `axes`.
    """

    ids: Sequence[SSAValue] = ()
    """The grid index of each axis."""
    axes: Sequence[int] = ()
    """The number of each axis among the dimensions of the function's grid."""
    names: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    """The index along each axis with a name, such as an axis of a core mesh."""


@rule(pallas.ProgramIdOp)
def lower_program_id(op: pallas.ProgramIdOp, c: Converter) -> Sequence[SSAValue]:
    """The grid index that the function is given."""
    return [c.programs.ids[op.axis.value.data]]


@rule(pallas.NumProgramsOp)
def lower_num_programs(op: pallas.NumProgramsOp, c: Converter) -> Sequence[SSAValue]:
    """`tpu.iteration_bound` of the dimension of the function's grid that the axis is."""
    axis = c.programs.axes[op.axis.value.data]
    bound = tpu.IterationBoundOp(result_types=[i32], properties={"dim": IntegerAttr(axis, i32)})
    return [c.emit(bound)]


@rule(pallas.AxisIndexOp)
def lower_axis_index(op: pallas.AxisIndexOp, c: Converter) -> Sequence[SSAValue]:
    """The number of the core along a mesh axis."""
    return [c.programs.names[op.axis_name.data]]
