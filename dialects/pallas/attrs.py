"""How an operand of a kernel is cut into blocks: its role, its array, its window.

    #pallas.operand<input, tensor<512x1024xbf16>,
        #pallas.window<[128, squeezed], affine_map<(d0, d1) -> (d0, d1)>, buffers = 1>>

For each dimension, a block has one of the following. It says what the index map's result in this
dimension means (spec/pallas_semantics.md 1.4):

| text | value of the index map | the block starts at | dimension of the ref |
| --- | --- | --- | --- |
| `128` | index of a block | 128 times the value | 128 |
| `squeezed` | index of an element | the value | none |
| `element(8, 1, 2)` | index of an element | the value, counted from 1 before the array | 8 |
| `bounded(8)` | index of an element, and a size of at most 8 | the first value | 8 |

An index map has one result per dimension, and two (start and size) for a bounded one.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    IntAttr,
    NoneAttr,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.ir.affine import AffineConstantExpr, AffineMap
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.str_enum import StrEnum


class DimKind(StrEnum):
    """What one value of the index map means in a dimension (see above)."""

    BLOCKED = "blocked"
    SQUEEZED = "squeezed"
    ELEMENT = "element"
    BOUNDED = "bounded"


class Role(StrEnum):
    """What an operand of a kernel is for; their order is that of the body's arguments."""

    PREFETCH = "prefetch"
    INPUT = "input"
    OUTPUT = "output"


@irdl_attr_definition
class DimAttr(ParametrizedAttribute):
    """One dimension of a block: `#pallas.dim<128>`, `<squeezed>`, `<element(8, 1, 2)>`."""

    name = "pallas.dim"

    kind_name: StringAttr = param_def()
    extent: IntAttr = param_def()
    padding: ArrayAttr[IntAttr] = param_def()

    def __init__(self, kind: str, size: int = 1, low: int = 0, high: int = 0):
        """A dimension of a `DimKind` and `size` elements; one that begins at any element may reach
        `low` elements before the array and `high` beyond it."""
        super().__init__(
            StringAttr(DimKind(kind).value),
            IntAttr(size),
            ArrayAttr((IntAttr(low), IntAttr(high))),
        )

    @property
    def kind(self) -> DimKind:
        """What a value of the index map means in this dimension."""
        return DimKind(self.kind_name.data)

    @property
    def size(self) -> int:
        """Elements of the array that the block covers in this dimension; 1 if it is squeezed."""
        return self.extent.data

    @property
    def low(self) -> int:
        """Padding in elements before the array; 0 unless the dimension is an element one."""
        return self.padding.data[0].data

    @property
    def high(self) -> int:
        """Padding in elements after the array; 0 unless the dimension is an element one."""
        return self.padding.data[1].data

    @property
    def squeezed(self) -> bool:
        """Whether the body's ref lacks this dimension, whose size is 1."""
        return self.kind is DimKind.SQUEEZED

    @classmethod
    def parse_inline(cls, parser: AttrParser) -> DimAttr:
        """Reads the text of one dimension without its brackets."""
        size = parser.parse_optional_integer(allow_boolean=False)
        if size is not None:
            return cls("blocked", size)
        start = parser.pos
        word = parser.parse_identifier("`squeezed`, `element` or `bounded`")
        if word == "squeezed":
            return cls(word)
        if word not in ("element", "bounded"):
            parser.raise_error(
                f"expected a size, squeezed, element(...) or bounded(...), got {word}",
                start,
                parser.pos,
            )
        numbers = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_integer(allow_boolean=False)
        )
        if len(numbers) not in ((1, 3) if word == "element" else (1,)):
            parser.raise_error(f"expected another number of arguments of {word}", start, parser.pos)
        return cls(word, *numbers)

    def inline(self) -> str:
        """The text that `parse_inline` reads."""
        if self.kind is DimKind.BLOCKED:
            return str(self.size)
        if self.squeezed:
            return "squeezed"
        padding = f", {self.low}, {self.high}" if self.low or self.high else ""
        return f"{self.kind.value}({self.size}{padding})"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return cls.parse_inline(parser).parameters

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.inline()}>")


@irdl_attr_definition
class WindowAttr(ParametrizedAttribute):
    """The block of an operand that each grid point sees.

    `map` is the index map where it is affine in the grid indices, else the number of one of the
    `maps` regions of the operation. `buffers` is None for the default of two; `lookahead` fetches
    an input as early as a buffer is free; `revisits` lets an output block be visited again.
    """

    name = "pallas.window"

    dims: ArrayAttr[DimAttr] = param_def()
    index_map: AffineMapAttr | IntAttr = param_def()
    buffer_count: IntAttr | NoneAttr = param_def()
    options: ArrayAttr[StringAttr] = param_def()

    def __init__(
        self,
        dims: Sequence[DimAttr],
        map: AffineMap | int,
        *,
        buffers: int | None = None,
        lookahead: bool = False,
        revisits: bool = False,
    ):
        options = [n for n, on in (("lookahead", lookahead), ("revisits", revisits)) if on]
        super().__init__(
            ArrayAttr(dims),
            IntAttr(map) if isinstance(map, int) else AffineMapAttr(map),
            NoneAttr() if buffers is None else IntAttr(buffers),
            ArrayAttr(StringAttr(name) for name in options),
        )

    @property
    def map(self) -> AffineMap | int:
        """The affine index map, or the number of the region that computes it."""
        return self.index_map.data

    @property
    def buffers(self) -> int | None:
        """How many buffers are asked for; None leaves it to the lowering."""
        return self.buffer_count.data if isinstance(self.buffer_count, IntAttr) else None

    @property
    def lookahead(self) -> bool:
        """Whether an input's block is fetched as early as a buffer is free."""
        return StringAttr("lookahead") in self.options.data

    @property
    def revisits(self) -> bool:
        """Whether an output block may be visited again after others."""
        return StringAttr("revisits") in self.options.data

    @property
    def bounds(self) -> tuple[int, ...]:
        """The block's size in every dimension of the array, 1 where it is squeezed."""
        return tuple(dim.size for dim in self.dims)

    @property
    def block_shape(self) -> tuple[int, ...]:
        """The shape of the ref: the bounds without squeezed dimensions."""
        return tuple(dim.size for dim in self.dims if not dim.squeezed)

    @property
    def results(self) -> int:
        """How many values the index map gives."""
        return len(self.dims) + sum(dim.kind is DimKind.BOUNDED for dim in self.dims)

    def is_trivial(self, array: TensorType[Attribute]) -> bool:
        """Whether the block is all of `array` and its index is written as zeros."""
        map = self.map
        return (
            self.bounds == array.get_shape()
            and isinstance(map, AffineMap)
            and all(isinstance(e, AffineConstantExpr) and e.value == 0 for e in map.results)
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            dims = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: DimAttr.parse_inline(parser)
            )
            parser.parse_punctuation(",")
            map: AffineMap | int
            if parser.parse_optional_keyword("region") is not None:
                map = parser.parse_integer(allow_boolean=False, allow_negative=False)
            else:
                parser.parse_keyword("affine_map")
                with parser.in_angle_brackets():
                    map = parser.parse_affine_map()
            buffers: int | None = None
            found: set[str] = set()
            while parser.parse_optional_punctuation(",") is not None:
                word = parser.parse_identifier()
                if word == "buffers":
                    parser.parse_punctuation("=")
                    buffers = parser.parse_integer(allow_boolean=False)
                elif word in ("lookahead", "revisits"):
                    found.add(word)
                else:
                    parser.raise_error(f"expected buffers, lookahead or revisits, got {word}")
        return cls(
            dims, map, buffers=buffers, lookahead="lookahead" in found, revisits="revisits" in found
        ).parameters

    def print_parameters(self, printer: Printer) -> None:
        map = f"region {self.map}" if isinstance(self.map, int) else f"affine_map<{self.map}>"
        text = f"[{', '.join(dim.inline() for dim in self.dims)}], {map}"
        if self.buffers is not None:
            text += f", buffers = {self.buffers}"
        for option in self.options:
            text += f", {option.data}"
        printer.print_string(f"<{text}>")


@irdl_attr_definition
class OperandAttr(ParametrizedAttribute):
    """An operand of a kernel: its role, the array in the program, its window if it has one.

    Scalar-prefetch operands, and operands that the kernel sees whole, have no window. In which
    memory the kernel sees the operand is said by the type of its block argument.
    """

    name = "pallas.operand"

    role_name: StringAttr = param_def()
    array: TensorType[Attribute] = param_def()
    block: WindowAttr | NoneAttr = param_def()

    def __init__(self, role: str, array: TensorType[Attribute], window: WindowAttr | None = None):
        super().__init__(
            StringAttr(Role(role).value), array, NoneAttr() if window is None else window
        )

    @property
    def role(self) -> Role:
        """What the operand is for."""
        return Role(self.role_name.data)

    @property
    def window(self) -> WindowAttr | None:
        """How the operand is cut into blocks; None if the body sees all of it."""
        return self.block if isinstance(self.block, WindowAttr) else None

    @property
    def ref_shape(self) -> tuple[int, ...]:
        """The shape of the ref that the kernel's body sees."""
        return self.array.get_shape() if self.window is None else self.window.block_shape

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            role = parser.parse_str_enum(Role)
            parser.parse_punctuation(",")
            start = parser.pos
            array = parser.parse_type()
            if not isinstance(array, TensorType):
                parser.raise_error(f"expected a tensor type, got {array}", start, parser.pos)
            window: Attribute = NoneAttr()
            if parser.parse_optional_punctuation(",") is not None:
                window = parser.parse_attribute()
        return (StringAttr(role.value), array, window)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.role.value}, ")
            printer.print_attribute(self.array)
            if self.window is not None:
                printer.print_string(", ")
                printer.print_attribute(self.window)
