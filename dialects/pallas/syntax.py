"""The text of grids and windows, which kernels and nested pipelines share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from pallasite.dialects.kernel import DYNAMIC
from pallasite.dialects.pallas.affine_text import axis_variables, is_identifier, map_text, parse_map
from pallasite.dialects.pallas.attrs import DimAttr, WindowAttr
from pallasite.dialects.tpu import DimensionSemantics


@dataclass
class Axes:
    """A grid as text says it: `(i = 4 parallel, 2 mapped, ?)`."""

    sizes: list[int] = field(default_factory=list[int])
    names: list[str] = field(default_factory=list[str])
    semantics: list[str] = field(default_factory=list[str])
    mapped: list[int] = field(default_factory=list[int])
    bounds: list[UnresolvedOperand] = field(default_factory=list[UnresolvedOperand])

    @property
    def variables(self) -> list[str]:
        """What index maps call the axes."""
        return axis_variables(self.names)


def parse_axes(parser: Parser, *, values: bool = False) -> Axes:
    """Reads a grid; with `values` a dynamic size is a value, else it is `?`."""
    axes = Axes()

    def axis() -> None:
        _parse_axis(parser, axes, values)

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, axis)
    if axes.semantics and len(axes.semantics) != len(axes.sizes):
        parser.raise_error("expected the semantics of every axis or of none")
    return axes


def _parse_axis(parser: Parser, axes: Axes, values: bool) -> None:
    name = parser.parse_optional_str_literal()
    if name is None:
        name = parser.parse_optional_identifier()
    if name is not None:
        parser.parse_punctuation("=")
    axes.names.append(name or "")
    if values and (operand := parser.parse_optional_unresolved_operand()) is not None:
        axes.bounds.append(operand)
        axes.sizes.append(DYNAMIC)
    elif not values and parser.parse_optional_punctuation("?") is not None:
        axes.sizes.append(DYNAMIC)
    else:
        axes.sizes.append(parser.parse_integer(allow_boolean=False))
    if parser.parse_optional_keyword("mapped") is not None:
        axes.mapped.append(len(axes.sizes) - 1)
    for word in DimensionSemantics:
        if parser.parse_optional_keyword(word.value) is not None:
            axes.semantics.append(word.value)
            return
    start = parser.pos
    if (unknown := parser.parse_optional_identifier()) is not None:
        known = ", ".join(word.value for word in DimensionSemantics)
        message = f"expected the semantics of an axis ({known}), got {unknown}"
        parser.raise_error(message, start, parser.pos)


def print_axes(
    printer: Printer,
    sizes: Sequence[int],
    *,
    names: Sequence[str] = (),
    semantics: Sequence[str] = (),
    mapped: Sequence[int] = (),
    bounds: Sequence[SSAValue] | None = None,
) -> None:
    """Prints what `parse_axes` reads; `bounds` are the dynamic sizes if they are values."""
    values = iter(bounds or ())
    printer.print_string("(")
    for axis, size in enumerate(sizes):
        if axis:
            printer.print_string(", ")
        if names and (name := names[axis]):
            if is_identifier(name):
                printer.print_string(name)
            else:
                printer.print_string_literal(name)
            printer.print_string(" = ")
        if size != DYNAMIC:
            printer.print_string(str(size))
        elif bounds is None:
            printer.print_string("?")
        else:
            printer.print_ssa_value(next(values))
        if axis in mapped:
            printer.print_string(" mapped")
        if semantics:
            printer.print_string(f" {semantics[axis]}")
    printer.print_string(")")


def parse_window(
    parser: Parser,
    variables: Sequence[str],
    prefetch: Sequence[Attribute],
    maps: list[Region],
) -> WindowAttr:
    """Reads `(128, squeezed) at (i, k) buffers 1`, after the word `block`.

    An index map that is no affine map is a region, `at (%i, %k, %ids) {...}`, which is added to
    `maps`; the types of its arguments are i32 for every axis, then those of `prefetch`.
    """
    dims = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: DimAttr.parse_inline(parser)
    )
    parser.parse_keyword("at")
    parser.parse_punctuation("(")
    arguments: list[Parser.UnresolvedArgument] = []
    while (argument := parser.parse_optional_argument(expect_type=False)) is not None:
        arguments.append(argument)
        if parser.parse_optional_punctuation(",") is None:
            break
    if not arguments:
        map = parse_map(parser, variables)
    else:
        parser.parse_punctuation(")")
        types = (*(i32 for _ in variables), *prefetch)
        if len(arguments) != len(types):
            parser.raise_error(
                f"expected an index map of {len(types)} arguments, one per axis of the grid and "
                f"scalar-prefetch operand, got {len(arguments)}"
            )
        named = [a.resolve(t) for a, t in zip(arguments, types, strict=True)]
        maps.append(parser.parse_region(named))
        map = len(maps) - 1
    buffers: int | None = None
    if parser.parse_optional_keyword("buffers") is not None:
        buffers = parser.parse_integer(allow_boolean=False)
    lookahead = parser.parse_optional_keyword("lookahead") is not None
    revisits = parser.parse_optional_keyword("revisits") is not None
    return WindowAttr(dims, map, buffers=buffers, lookahead=lookahead, revisits=revisits)


def print_window(
    printer: Printer, window: WindowAttr, variables: Sequence[str], maps: Sequence[Region]
) -> None:
    """Prints what `parse_window` reads, with the word `block`."""
    printer.print_string(f" block ({', '.join(dim.inline() for dim in window.dims)}) at ")
    if isinstance(window.map, int):
        region = maps[window.map]
        printer.print_string("(")
        printer.print_list(region.block.args, printer.print_ssa_value)
        printer.print_string(") ")
        printer.print_region(region, print_entry_block_args=False)
    else:
        printer.print_string(map_text(window.map, variables))
    if window.buffers is not None:
        printer.print_string(f" buffers {window.buffers}")
    for option in window.options:
        printer.print_string(f" {option.data}")
