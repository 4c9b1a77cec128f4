"""The attributes of the `tpu` dialect with several parts (spec/tpu_dialect.md section 2).

Those that are one word are in `keywords.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    IntAttr,
    IntegerAttr,
    MemRefLayoutAttr,
    NoneAttr,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from pallasite.dialects.tpu.keywords import CoreType, MemorySpace
from pallasite.layouts.tiling import Tiling


@irdl_attr_definition
class MemorySpaceAttr(ParametrizedAttribute):
    """A memory, `<vmem>`, possibly of another kind of core, `<vmem, sc_vector_subcore>`."""

    name = "tpu.memory_space"

    space: StringAttr = param_def()
    core: StringAttr | NoneAttr = param_def()

    def __init__(self, space: str, core: str | None = None):
        super().__init__(
            StringAttr(MemorySpace(space).value),
            NoneAttr() if core is None else StringAttr(CoreType(core).value),
        )

    @property
    def data(self) -> str:
        """The keyword of the memory."""
        return self.space.data

    @property
    def core_type(self) -> str | None:
        """The keyword of the core the memory belongs to, None for the core that runs."""
        return self.core.data if isinstance(self.core, StringAttr) else None

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            space = StringAttr(parser.parse_str_enum(MemorySpace).value)
            if parser.parse_optional_punctuation(",") is None:
                return (space, NoneAttr())
            return (space, StringAttr(parser.parse_str_enum(CoreType).value))

    def print_parameters(self, printer: Printer) -> None:
        core = self.core_type
        printer.print_string(f"<{self.data}, {core}>" if core else f"<{self.data}>")


@irdl_attr_definition
class TiledLayoutAttr(ParametrizedAttribute, MemRefLayoutAttr):
    """A memref layout of nested tiles, `#tpu.tiled<(8,128)(2,1),[2,1]>`.

    As in the C++ dialect, text may hold any tiles; a memref that uses the layout wants one stride
    per dimension (spec/tpu_dialect.md section 2.2).
    """

    name = "tpu.tiled"

    tiles: ArrayAttr[ArrayAttr[IntAttr]] = param_def()
    strides: ArrayAttr[IntAttr] = param_def()

    @staticmethod
    def of(tiling: Tiling) -> TiledLayoutAttr:
        """The attribute for `tiling`."""
        tiles = ArrayAttr(_integers(t) for t in tiling.tiles)
        return TiledLayoutAttr(tiles, _integers(tiling.strides))

    @property
    def tiling(self) -> Tiling:
        """The arithmetic of this layout."""
        known: Tiling | None = self.__dict__.get("_tiling")
        if known is None:
            tiles = tuple([tuple([n.data for n in tile.data]) for tile in self.tiles.data])
            known = Tiling(tiles, tuple([n.data for n in self.strides.data]))
            # Attributes never change, and passes ask for the same layouts again and again.
            object.__setattr__(self, "_tiling", known)
        return known

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def integer() -> int:
            return parser.parse_integer(allow_boolean=False)

        tiles: list[ArrayAttr[IntAttr]] = []
        with parser.in_angle_brackets():
            while True:
                tile = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, integer)
                if tile is None:
                    break
                tiles.append(_integers(tile))
            parser.parse_punctuation(",")
            strides = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, integer)
        return (ArrayAttr(tiles), _integers(strides))

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.tiling}>")

    def get_affine_map(self) -> AffineMap:
        tiling = self.tiling
        rank = len(tiling.strides)
        total: AffineExpr = AffineExpr.constant(0)
        for dim in range(rank):
            index: AffineExpr = AffineExpr.dimension(dim)
            digits = tiling.factors(dim)
            for extent, stride in reversed(digits[1:]):
                total = total + (index % extent) * stride
                index = index // extent
            total = total + index * digits[0][1]
        return AffineMap(rank, 0, (total,))

    def get_strides(self) -> Sequence[int | None] | None:
        tiling = self.tiling
        return None if tiling.tiles else tiling.strides

    def get_offset(self) -> int | None:
        return None if self.tiles.data else 0


@irdl_attr_definition
class DotDimensionNumbersAttr(ParametrizedAttribute):
    """Which dimensions of a matmul are contracted, kept and batched, as seven integer lists."""

    name = "tpu.dot_dimension_numbers"

    lhs_contracting: ArrayAttr[IntAttr] = param_def()
    rhs_contracting: ArrayAttr[IntAttr] = param_def()
    lhs_non_contracting: ArrayAttr[IntAttr] = param_def()
    rhs_non_contracting: ArrayAttr[IntAttr] = param_def()
    output_dim_order: ArrayAttr[IntAttr] = param_def()
    lhs_batch: ArrayAttr[IntAttr] = param_def()
    rhs_batch: ArrayAttr[IntAttr] = param_def()

    @staticmethod
    def of(*lists: Sequence[int]) -> DotDimensionNumbersAttr:
        """The attribute for seven lists in the order of the fields."""
        return DotDimensionNumbersAttr(*(_integers(values) for values in lists))

    def lists(self) -> tuple[tuple[int, ...], ...]:
        """The seven lists as Python integers, in the order of the fields."""
        fields = cast(Sequence[ArrayAttr[IntAttr]], self.parameters)
        return tuple(tuple(n.data for n in field) for field in fields)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            lists = [_parse_list(parser)]
            for position in range(1, 7):
                parser.parse_punctuation(",")
                # The C++ parser cannot read empty contracting dimensions or output orders.
                lists.append(_parse_list(parser, may_be_empty=position not in (1, 4)))
        return lists

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<" + ", ".join(map(_list_text, self.lists())) + ">")


@irdl_attr_definition
class ElementWindowAttr(ParametrizedAttribute):
    """Padding of a window in elements before and after each dimension.

    As in the C++ dialect, nothing checks that both lists are equally long.
    """

    name = "tpu.element_window"

    low: ArrayAttr[IntegerAttr[I64]] = param_def()
    high: ArrayAttr[IntegerAttr[I64]] = param_def()

    @staticmethod
    def of(low: Sequence[int], high: Sequence[int]) -> ElementWindowAttr:
        """The attribute for paddings `low` and `high`."""
        return ElementWindowAttr(*(ArrayAttr(IntegerAttr(n, i64) for n in v) for v in (low, high)))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            low = _parse_list(parser)
            parser.parse_punctuation(",")
            high = _parse_list(parser)
        return tuple(ArrayAttr(IntegerAttr(n.data, i64) for n in side) for side in (low, high))

    def print_parameters(self, printer: Printer) -> None:
        low, high = (_list_text([n.value.data for n in side]) for side in (self.low, self.high))
        printer.print_string(f"<{low}, {high}>")


@irdl_attr_definition
class VectorPadAttr(ParametrizedAttribute):
    """A vector layout of the old C++ passes, `#tpu.vpad<"32,{0,0},(8,128)">` or `<"none">`.

    Nothing here reads it; it is kept so that the output of those passes can be read and printed.
    """

    name = "tpu.vpad"

    text: StringAttr = param_def()

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return (StringAttr(parser.parse_str_literal()),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.text.data)


def _integers(values: Sequence[int]) -> ArrayAttr[IntAttr]:
    return ArrayAttr(IntAttr(v) for v in values)


def _list_text(values: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, values)) + "]"


def _parse_list(parser: AttrParser, *, may_be_empty: bool = False) -> ArrayAttr[IntAttr]:
    start = parser.pos
    values = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
    )
    if not values and not may_be_empty:
        parser.raise_error("expected integer value", at_position=start, end_position=parser.pos)
    return _integers(values)
