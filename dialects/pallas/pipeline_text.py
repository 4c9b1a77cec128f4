"""The text of `pallas.emit_pipeline`: the grid, one line per operand, the body.

    pallas.emit_pipeline grid (4, %n parallel) offset (%a, %b)
      input %xb = %x: memref<512x128xf32, #tpu.memory_space<any>> in vmem block (8, 128) at (d0, 0)
      output %ob = %o: memref<512x128xf32, #tpu.memory_space<any>> in vmem block (8, 128) at (d0, 0)
    {
      ...
    }

An axis whose size is known only at run time has an SSA value as its size. `no_pipelining` and
`trace_scopes` come before the operands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.dialects.builtin import i32
from xdsl.ir import Region, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer

from pallasite.dialects.pallas.affine_text import axis_variables
from pallasite.dialects.pallas.attrs import Role, WindowAttr
from pallasite.dialects.pallas.base import integers_of, memref_in, parse_ref_type
from pallasite.dialects.pallas.scope import end_region, print_body
from pallasite.dialects.pallas.syntax import parse_axes, parse_window, print_axes, print_window
from pallasite.dialects.tpu.keywords import MemorySpace
from pallasite.dialects.types import memory_space

if TYPE_CHECKING:
    from pallasite.dialects.pallas.pipeline import EmitPipelineOp


def parse_pipeline(parser: Parser) -> dict[str, Any]:
    """The arguments of `EmitPipelineOp` that the text after its name gives."""
    parser.parse_keyword("grid")
    axes = parse_axes(parser, values=True)
    bounds = [parser.resolve_operand(bound, i32) for bound in axes.bounds]
    offsets: list[SSAValue] = []
    if parser.parse_optional_keyword("offset") is not None:
        names = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        offsets = [parser.resolve_operand(name, i32) for name in names]
    no_pipelining = parser.parse_optional_keyword("no_pipelining") is not None
    trace_scopes = parser.parse_optional_keyword("trace_scopes") is not None
    maps: list[Region] = []
    operands: dict[Role, list[_Operand]] = {Role.INPUT: [], Role.OUTPUT: []}
    for role, found in operands.items():
        while parser.parse_optional_keyword(role.value) is not None:
            found.append(_parse_operand(parser, len(axes.sizes), maps))
    every = [*operands[Role.INPUT], *operands[Role.OUTPUT]]
    attributes = parser.parse_optional_attr_dict_with_keyword()
    body = parser.parse_region([operand.block for operand in every])
    end_region(body)
    return {
        "inputs": [operand.ref for operand in operands[Role.INPUT]],
        "outputs": [operand.ref for operand in operands[Role.OUTPUT]],
        "windows": [operand.window for operand in every],
        "body": body,
        "maps": maps,
        "grid": axes.sizes,
        "bounds": bounds,
        "offsets": offsets,
        "semantics": axes.semantics or None,
        "mapped": axes.mapped,
        "no_pipelining": no_pipelining,
        "trace_scopes": trace_scopes,
        "attributes": attributes.data if attributes else {},
    }


class _Operand(NamedTuple):
    """One line of a pipeline's header."""

    ref: SSAValue
    window: WindowAttr
    block: Parser.Argument
    """What the body calls its block."""


def _parse_operand(parser: Parser, axes: int, maps: list[Region]) -> _Operand:
    """Reads an operand after the word of its role; an index map that is a region joins `maps`."""
    block = parser.parse_argument(expect_type=False)
    parser.parse_punctuation("=")
    name = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    type = parse_ref_type(parser)
    ref = parser.resolve_operand(name, type)
    parser.parse_keyword("in")
    space = parser.parse_str_enum(MemorySpace)
    parser.parse_keyword("block")
    window = parse_window(parser, axis_variables([""] * axes), (), maps)
    seen = memref_in(space, window.block_shape, type.element_type)
    return _Operand(ref, window, block.resolve(seen))


def print_pipeline(printer: Printer, op: EmitPipelineOp) -> None:
    """Prints what `parse_pipeline` reads."""
    printer.print_string(" grid ")
    mapped = integers_of(op.mapped)
    print_axes(printer, op.grid_shape, semantics=op.axis_semantics, mapped=mapped, bounds=op.bounds)
    if op.offsets:
        printer.print_string(" offset (")
        printer.print_list(op.offsets, printer.print_ssa_value)
        printer.print_string(")")
    for word, present in (("no_pipelining", op.no_pipelining), ("trace_scopes", op.trace_scopes)):
        if present is not None:
            printer.print_string(f" {word}")
    variables = axis_variables([""] * len(op.grid_shape))
    refs = [(Role.INPUT, ref) for ref in op.inputs] + [(Role.OUTPUT, ref) for ref in op.outputs]
    with printer.indented():
        for (role, ref), window, block in zip(refs, op.windows, op.blocks, strict=True):
            printer.print_string(f"\n{role.value} ")
            printer.print_ssa_value(block)
            printer.print_string(" = ")
            printer.print_ssa_value(ref)
            printer.print_string(": ")
            printer.print_attribute(ref.type)
            printer.print_string(f" in {memory_space(block.type)}")
            print_window(printer, window, variables, op.maps)
    if op.attributes:
        printer.print_op_attributes(op.attributes, print_keyword=True)
    printer.print_string("\n")
    print_body(printer, op.body)
