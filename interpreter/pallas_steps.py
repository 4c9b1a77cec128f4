"""Operations that only `pallas_program` makes: a nested pipeline, taken apart into its steps.

    %p = pallas_steps.open %x, %o            // buffers of the blocks
    for every grid point:
      %index:2 = pallas_steps.map %i, %j     // an affine index map
      %xb, %ob = pallas_steps.enter %p ...   // leaves and enters blocks
      ... the body ...
    pallas_steps.close %p                    // writes the last blocks back

They are in no dialect: nobody reads or prints them. Their effects are in
`effects/pallas_pipeline.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, IntAttr, UnitAttr, i32
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
    var_result_def,
)

from pallasite.dialects import pallas


@irdl_attr_definition
class HandleType(ParametrizedAttribute, TypeAttribute):
    """A pipeline that is running."""

    name = "pallas_steps.handle"


@irdl_op_definition
class MapOp(IRDLOperation):
    """The results of an affine index map; its operands are the positions that they depend on."""

    name = "pallas_steps.map"

    positions = var_operand_def(i32)
    map = prop_def(AffineMapAttr)
    dims = prop_def(ArrayAttr[IntAttr])
    indices = var_result_def(i32)

    def __init__(self, positions: Sequence[SSAValue], map: AffineMap):
        dims = sorted(map.used_dims())
        super().__init__(
            operands=[[positions[dim] for dim in dims]],
            properties={
                "map": AffineMapAttr(map),
                "dims": ArrayAttr(IntAttr(dim) for dim in dims),
            },
            result_types=[[i32] * len(map.results)],
        )


@irdl_op_definition
class OpenOp(IRDLOperation):
    """Allocates the blocks of a pipeline."""

    name = "pallas_steps.open"

    refs = var_operand_def()
    inputs = prop_def(IntAttr)
    windows = prop_def(ArrayAttr[pallas.WindowAttr])
    blocks = prop_def(ArrayAttr)
    no_pipelining = opt_prop_def(UnitAttr)
    handle = result_def(HandleType)

    def __init__(self, op: pallas.EmitPipelineOp):
        super().__init__(
            operands=[[*op.inputs, *op.outputs]],
            properties={
                "inputs": IntAttr(len(op.inputs)),
                "windows": op.windows,
                "blocks": ArrayAttr(argument.type for argument in op.blocks),
                "no_pipelining": op.no_pipelining,
            },
            result_types=[HandleType()],
        )
        self.location = op.location


@irdl_op_definition
class EnterOp(IRDLOperation):
    """Makes the blocks of one grid point current; the results are the refs that the body sees."""

    name = "pallas_steps.enter"

    handle = operand_def(HandleType)
    positions = var_operand_def(i32)
    indices = var_operand_def(i32)
    refs = var_result_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        handle: SSAValue,
        positions: Sequence[SSAValue],
        indices: Sequence[SSAValue],
        types: Sequence[Attribute],
    ):
        super().__init__(
            operands=[handle, list(positions), list(indices)], result_types=[list(types)]
        )


@irdl_op_definition
class CloseOp(IRDLOperation):
    """Writes the last blocks back and frees the buffers."""

    name = "pallas_steps.close"

    handle = operand_def(HandleType)

    def __init__(self, handle: SSAValue):
        super().__init__(operands=[handle])
