"""Where in its grid a kernel is."""

from __future__ import annotations

from abc import ABC

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i32
from xdsl.irdl import irdl_op_definition, prop_def, result_def, traits_def
from xdsl.traits import Pure

from pallasite.dialects.pallas.base import PallasOp
from pallasite.dialects.pallas.body_rules import check_axis, check_axis_name
from pallasite.dialects.tpu.base import I32_ATTR


class AxisOp(PallasOp, ABC):
    """Something about one axis of the innermost grid."""

    axis = prop_def(I32_ATTR)
    result = result_def(i32)

    traits = traits_def(Pure())
    assembly_format = "$axis attr-dict"

    def __init__(self, axis: int):
        super().__init__(properties={"axis": IntegerAttr(axis, i32)}, result_types=[i32])

    def verify_(self) -> None:
        check_axis(self, self.axis.value.data)


@irdl_op_definition
class ProgramIdOp(AxisOp):
    """The index of the current step along one axis of the innermost grid around the operation.

    Inside `pallas.emit_pipeline` that is the pipeline's grid. Axes that a transformation added
    (`mapped`) are not counted.

    Example: `%i = pallas.program_id 0`
    """

    name = "pallas.program_id"


@irdl_op_definition
class NumProgramsOp(AxisOp):
    """The size of one axis of the innermost grid; axes are counted as in `pallas.program_id`.

    The index map of a kernel may use it, but not `pallas.program_id`: it is given the indices.

    Example: `%n = pallas.num_programs 0`
    """

    name = "pallas.num_programs"


@irdl_op_definition
class AxisIndexOp(PallasOp):
    """The index of the current step along the kernel's grid axis of that name.

    Inside a pipeline, too, it is that of the kernel's grid. In a mesh kernel it is the number of
    the core along that axis.

    Example: `%core = pallas.axis_index "core"`
    """

    name = "pallas.axis_index"

    axis_name = prop_def(StringAttr)
    result = result_def(i32)

    traits = traits_def(Pure())
    assembly_format = "$axis_name attr-dict"

    def __init__(self, axis_name: str):
        super().__init__(properties={"axis_name": StringAttr(axis_name)}, result_types=[i32])

    def verify_(self) -> None:
        check_axis_name(self, self.axis_name.data)
