"""The nested pipeline: a grid inside a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, MemRefType, UnitAttr, i32
from xdsl.ir import Attribute, Block, BlockArgument, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_region_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import RecursiveMemoryEffect

from pallasite.dialects.pallas.attrs import WindowAttr
from pallasite.dialects.pallas.axes import OverGrid, axis_properties
from pallasite.dialects.pallas.base import integers_of
from pallasite.dialects.pallas.pipeline_rules import verify_pipeline
from pallasite.dialects.pallas.pipeline_text import parse_pipeline, print_pipeline
from pallasite.dialects.tpu.base import I64_ARRAY
from pallasite.dialects.types import dense_integers


@irdl_op_definition
class EmitPipelineOp(OverGrid):
    """Runs its body once per point of a grid over blocks of refs, as `pltpu.emit_pipeline`.

    Blocks are fetched and written back as in a kernel (spec/pallas_semantics.md section 2). If a
    ref is already in the memory of its blocks, nothing is copied, and the body sees a view of it.

    There is one window per input and output. An index map that is not affine is a region of `maps`,
    which takes one i32 per grid axis and may use values from outside of the pipeline. `bounds` are
    the sizes of axes that are known only at run time. `offsets`, one per axis or none, are for a
    pipeline that is split over cores: index maps and `pallas.program_id` see the position along an
    axis plus its offset. With `no_pipelining`, every step copies all of its blocks, and no copy
    overlaps with the body.
    """

    name = "pallas.emit_pipeline"

    inputs = var_operand_def(MemRefType)
    outputs = var_operand_def(MemRefType)
    bounds = var_operand_def(i32)
    offsets = var_operand_def(i32)
    grid = prop_def(I64_ARRAY)
    windows = prop_def(ArrayAttr[WindowAttr])
    no_pipelining = opt_prop_def(UnitAttr)
    trace_scopes = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    maps = var_region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(RecursiveMemoryEffect())

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        windows: Sequence[WindowAttr],
        body: Region | Block,
        maps: Sequence[Region] = (),
        *,
        grid: Sequence[int],
        bounds: Sequence[SSAValue] = (),
        offsets: Sequence[SSAValue] = (),
        semantics: Sequence[str] | None = None,
        mapped: Sequence[int] = (),
        no_pipelining: bool = False,
        trace_scopes: bool = False,
        attributes: Mapping[str, Attribute] | None = None,
    ):
        """`grid` has DYNAMIC where one of `bounds` is the size."""
        properties: dict[str, Attribute] = {
            "grid": dense_integers(grid),
            "windows": ArrayAttr(windows),
            **axis_properties(semantics, mapped),
        }
        if no_pipelining:
            properties["no_pipelining"] = UnitAttr()
        if trace_scopes:
            properties["trace_scopes"] = UnitAttr()
        region = Region(body) if isinstance(body, Block) else body
        super().__init__(
            operands=[inputs, outputs, bounds, offsets],
            properties=properties,
            regions=[region, list(maps)],
            attributes=dict(attributes or {}),
        )

    @classmethod
    def parse(cls, parser: Parser) -> EmitPipelineOp:
        return cls(**parse_pipeline(parser))

    def print(self, printer: Printer) -> None:
        print_pipeline(printer, self)

    def verify_(self) -> None:
        verify_pipeline(self)

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """Sizes of the grid's axes, DYNAMIC where one of the bounds is the size."""
        return integers_of(self.grid)

    @property
    def blocks(self) -> tuple[BlockArgument, ...]:
        """The body's arguments: the block of every input, then of every output."""
        return tuple(self.body.block.args)
