"""The text of `pallas.kernel`: the grid, one line per operand and scratch, the body.

    pallas.kernel @matmul grid (i = 4 parallel, j = 2 parallel, k = 3 arbitrary)
      input %x: tensor<512x384xbf16> in vmem block (128, 128) at (i, k)
      input %y: tensor<384x256xbf16> in vmem block (128, 128) at (k, j)
      output %o: tensor<512x256xf32> in vmem block (128, 128) at (i, j)
      scratch %acc: memref<128x128xf32, #tpu.memory_space<vmem>>
    {
      ...
    }

A mesh kernel has `mesh` instead of `grid`, followed by the kind of subcore if it runs on those:
`mesh (c = 2 core_parallel, s = 16 subcore_parallel) on sc_vector_subcore`. The line of an output
that shares memory with an operand ends with `aliasing %x`. `params {...}` are compiler parameters.
Scalar-prefetch operands are in SMEM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Region
from xdsl.parser import Parser
from xdsl.printer import Printer

from pallasite.dialects.pallas.affine_text import axis_variables
from pallasite.dialects.pallas.attrs import OperandAttr, Role, WindowAttr
from pallasite.dialects.pallas.base import integers_of, memref_in
from pallasite.dialects.pallas.scope import end_region, print_argument, print_body
from pallasite.dialects.pallas.syntax import (
    Axes,
    parse_axes,
    parse_window,
    print_axes,
    print_window,
)
from pallasite.dialects.tpu.keywords import CoreType, MemorySpace
from pallasite.dialects.types import memory_space

if TYPE_CHECKING:
    from pallasite.dialects.pallas.kernel import KernelOp


@dataclass
class _Header:
    """What the lines before the body say."""

    axes: Axes | None = None
    core: str | None = None
    specs: list[OperandAttr] = field(default_factory=list[OperandAttr])
    arguments: list[Parser.Argument] = field(default_factory=list[Parser.Argument])
    maps: list[Region] = field(default_factory=list[Region])
    aliases: dict[int, int] = field(default_factory=dict[int, int])
    prefetch: list[Attribute] = field(default_factory=list[Attribute])


def parse_kernel(parser: Parser) -> dict[str, Any]:
    """The arguments of `KernelOp` that the text after its name gives."""
    name = parser.parse_symbol_name().data
    header = _Header()
    mesh = parser.parse_optional_keyword("mesh") is not None
    if mesh or parser.parse_optional_keyword("grid") is not None:
        header.axes = parse_axes(parser)
    if mesh and parser.parse_optional_keyword("on") is not None:
        header.core = parser.parse_str_enum(CoreType).value
    while _parse_operand(parser, header):
        pass
    while parser.parse_optional_keyword("scratch") is not None:
        header.arguments.append(parser.parse_argument())
    params: dict[str, Attribute] = {}
    if parser.parse_optional_keyword("params") is not None:
        params = parser.parse_optional_attr_dict()
    attributes = parser.parse_optional_attr_dict_with_keyword()
    body = parser.parse_optional_region(header.arguments)
    if body is None:
        lines = ", ".join(role.value for role in Role)
        parser.raise_error(f"expected a line of {lines} or scratch, or the body in braces")
    end_region(body)
    axes = header.axes
    return {
        "name": name,
        "specs": header.specs,
        "body": body,
        "maps": header.maps,
        "grid": axes.sizes if axes else None,
        "grid_names": axes.names if axes and any(axes.names) else None,
        "semantics": axes.semantics if axes and axes.semantics else None,
        "mapped": axes.mapped if axes else (),
        "mesh": mesh,
        "core": header.core,
        "aliases": header.aliases,
        "params": params,
        "attributes": attributes.data if attributes else {},
    }


def _parse_operand(parser: Parser, header: _Header) -> bool:
    """Reads the line of one operand; False if there is none."""
    for role in Role:
        if parser.parse_optional_keyword(role.value) is not None:
            break
    else:
        return False
    argument = parser.parse_argument(expect_type=False)
    parser.parse_punctuation(":")
    start = parser.pos
    array = parser.parse_type()
    if not isinstance(array, TensorType):
        parser.raise_error(f"expected the tensor type of an array, got {array}", start, parser.pos)
    space = MemorySpace.SMEM
    window: WindowAttr | None = None
    if role is not Role.PREFETCH:
        parser.parse_keyword("in")
        space = parser.parse_str_enum(MemorySpace)
        if parser.parse_optional_keyword("block") is not None:
            variables = header.axes.variables if header.axes else []
            window = parse_window(parser, variables, header.prefetch, header.maps)
    if role is Role.OUTPUT and parser.parse_optional_keyword("aliasing") is not None:
        _parse_alias(parser, header)
    spec = OperandAttr(role, array, window)
    type = memref_in(space, spec.ref_shape, array.get_element_type())
    if role is Role.PREFETCH:
        header.prefetch.append(type)
    header.specs.append(spec)
    header.arguments.append(argument.resolve(type))
    return True


def _parse_alias(parser: Parser, header: _Header) -> None:
    start = parser.pos
    name = parser.parse_argument(expect_type=False).name.text
    names = [argument.name.text for argument in header.arguments]
    if name not in names:
        parser.raise_error(f"expected the name of an operand, got {name}", start, parser.pos)
    if names.index(name) in header.aliases:
        parser.raise_error(f"{name} shares memory with an output already", start, parser.pos)
    outputs = sum(spec.role is Role.OUTPUT for spec in header.specs)
    header.aliases[names.index(name)] = outputs


def print_kernel(printer: Printer, op: KernelOp) -> None:
    """Prints what `parse_kernel` reads."""
    printer.print_string(" ")
    printer.print_symbol_name(op.sym_name.data)
    if op.grid_shape is not None:
        printer.print_string(" mesh " if op.mesh is not None else " grid ")
        names = op.axis_names if op.grid_names is not None else ()
        mapped = integers_of(op.mapped)
        print_axes(printer, op.grid_shape, names=names, semantics=op.axis_semantics, mapped=mapped)
        if op.core_type is not None:
            printer.print_string(f" on {op.core}")
    with printer.indented():
        _print_header(printer, op, axis_variables(op.axis_names))
    if op.attributes:
        printer.print_op_attributes(op.attributes, print_keyword=True)
    printer.print_string("\n")
    print_body(printer, op.body)


def _print_header(printer: Printer, op: KernelOp, variables: Sequence[str]) -> None:
    arguments = op.body.block.args
    outputs = 0
    aliased = {result: operand for operand, result in op.alias_pairs}
    for spec, argument in zip(op.operand_specs, arguments, strict=False):
        printer.print_string(f"\n{spec.role.value} ")
        printer.print_ssa_value(argument)
        printer.print_string(": ")
        printer.print_attribute(spec.array)
        if spec.role is not Role.PREFETCH:
            printer.print_string(f" in {memory_space(argument.type)}")
        if spec.window is not None:
            print_window(printer, spec.window, variables, op.maps)
        if spec.role is Role.OUTPUT:
            if outputs in aliased:
                printer.print_string(" aliasing ")
                printer.print_ssa_value(arguments[aliased[outputs]])
            outputs += 1
    for argument in op.scratch:
        printer.print_string("\nscratch ")
        print_argument(printer, argument)
    if op.params is not None and op.params.data:
        printer.print_string("\nparams")
        printer.print_op_attributes(op.params.data)
