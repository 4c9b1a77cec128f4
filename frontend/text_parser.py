"""xDSL's parser with the gaps closed that real Mosaic modules fall into.

Upstream reads `dense<0xFF800000>` of floats as an integer, wants aliases before their use (MLIR
prints locations after it), knows neither ranges nor metadata in locations, expands splats, and
parses the text of each type anew. The hooks overridden here are private to xDSL 0.74, which is
pinned; test/frontend/test_text.py fails if one of them moves.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from math import prod
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    AnyDenseElement,
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    IntegerType,
    LocationAttr,
    ModuleOp,
    NoneAttr,
    RankedStructure,
    StringAttr,
    UnknownLoc,
    UnregisteredOp,
)
from xdsl.ir import Attribute, AttributeInvT, Operation, SSAValue, TypeAttribute
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.parser.attribute_parser import AttrParser
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input, Span
from xdsl.utils.mlir_lexer import MLIRTokenKind

from pallasite.diagnostics import ReadError, SourceLocation, VerifyError
from pallasite.dialects.types import Dense, compact
from pallasite.dialects.verification import rule_of
from pallasite.frontend.bytecode_format import MAX_INTEGER_WIDTH
from pallasite.frontend.expansion import TOO_MANY, Expansion
from pallasite.frontend.text_lexer import TextLexer

STABLE = "stable_mosaic."
"""Operations of a serialized module; they are renamed right after reading."""

_ALIAS = re.compile(r"^[ \t]*([#!][A-Za-z_][\w$-]*)[ \t]*=", re.MULTILINE)
_OPERATION = re.compile(r'(?:%[^="]*=\s*)?"?([A-Za-z_][\w$.]*)')
_BRACKETS = re.compile(r'->|[<>]|"(?:[^"\\]|\\.)*"|\n')
_UNDEFINED = "values used but not defined"
_CONTAINERS = ("vector", "memref", "tensor")


class TextParser(Parser):
    """A parser of one text; aliases and types are remembered for its lifetime."""

    class _TensorLiteralElement(AttrParser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
        """An element of a dense literal; hexadecimal floats are bit patterns, as in MLIR."""

        def to_type(self, parser: AttrParser, type: Any) -> Any:
            text = self.span.text
            if not isinstance(type, AnyFloat) or text[:2].lower() != "0x":
                return super().to_type(parser, type)
            size = type.compile_time_size
            bits = int(text, 16)
            if bits >= 1 << type.bitwidth:
                parser.raise_error(f"{text} has more bits than {type}", self.span)
            return next(iter(type.iter_unpack(bits.to_bytes(size, "little"))))

    def __init__(self, context: Context, text: str, name: str) -> None:
        super().__init__(context, "", name)
        lexer = TextLexer(Input(text, name))
        self._parser_state.lexer = lexer
        self._parser_state.current_token = lexer.lex()
        # Where the text of each alias begins; aliases are parsed when they are first needed.
        self._definitions = {m[1]: m.end() for m in _ALIAS.finditer(text)}
        self._declared: set[str] = set()
        self._resolving: list[str] = []
        self._expansion = Expansion()
        self._types: dict[str, TypeAttribute] = {}
        self._lines = [0, *(m.end() for m in re.finditer("\n", text))]
        self._file = StringAttr(name)
        self._early: dict[str, Span] = {}
        """Where values are first used whose definitions have not come yet."""

    # Operations

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """The module; a name that nothing defines is reported where it is used."""
        try:
            return super().parse_module(allow_implicit_module)
        except ParseError as error:
            if not error.msg.startswith(_UNDEFINED):
                raise
            (name, *_) = self.forward_ssa_references
            raise ParseError(self._early[name], f"%{name} is used and defined nowhere") from error

    def resolve_operand(
        self, operand: UnresolvedOperand, type: AttributeInvT
    ) -> SSAValue[AttributeInvT]:
        """The value of a name, and where it was first met if it has none yet."""
        name = operand.operand_name
        if name not in self.ssa_values and name not in self.forward_ssa_references:
            self._early[name] = operand.span
        return super().resolve_operand(operand, type)

    def parse_operation(self) -> Operation:
        """An operation; one without a location is located where it stands, as in MLIR."""
        start = self._current_token.span.start
        try:
            op = super().parse_operation()
        except VerifyException as error:
            # Raised by a constraint that a custom syntax infers types with; it has no location yet.
            name = _OPERATION.match(self.lexer.input.content, start)
            culprit = f"'{name[1]}': " if name else ""
            rule = " ".join(rule_of(error).split())
            where = self.source_location(start)
            raise VerifyError("invalid-operation", f"{culprit}{rule}", where) from error
        if op.location is UNKNOWN_LOC:
            line, column = self._line_and_column(start)
            op.location = FileLineColLoc(self._file, IntAttr(line), IntAttr(column))
        return op

    def _line_and_column(self, position: int) -> tuple[int, int]:
        line = bisect_right(self._lines, position)
        return line, position - self._lines[line - 1] + 1

    def source_location(self, position: int | None = None) -> SourceLocation:
        """The location of an offset in the text, of the next token by default."""
        line, column = self._line_and_column(self.pos if position is None else position)
        return SourceLocation(self.lexer.input.name, line, column)

    def _get_op_by_name(self, name: str) -> type[Operation]:
        if name.startswith(STABLE):
            return UnregisteredOp.with_name(name)
        stack = self._parser_state.dialect_stack
        found = self.ctx.get_optional_op(name, dialect_stack=stack)
        if found is None:
            start = self.lexer.input.content.rfind(name, 0, self.pos)
            self.raise_error(f"operation {name} is not registered", start, start + len(name))
        return found

    # Aliases

    def _parse_alias_def(self) -> None:
        name = self._current_token.text
        if name in self._declared:
            self.raise_error(f"re-declaration of alias '{name}'")
        self._declared.add(name)
        start = self.pos
        early = self.attribute_aliases.pop(name, None)
        super()._parse_alias_def()
        if early is not None:
            self.attribute_aliases[name] = early
        self._check_size(name, start)

    def _resolve_alias(self, name: str) -> None:
        """Parses the definition of alias `name`, which stands elsewhere in the text."""
        start = self._definitions.get(name)
        if start is None or name in self.attribute_aliases:
            return
        if name in self._resolving:
            self.raise_error(f"alias '{name}' refers to itself")
        self._resolving.append(name)
        position, token = self.lexer.pos, self._current_token
        self._resume_from(start)
        self.attribute_aliases[name] = self.parse_attribute()
        self._check_size(name, start)
        self.lexer.pos = position
        self._parser_state.current_token = token
        self._resolving.pop()

    def _check_size(self, name: str, start: int) -> None:
        """Refuses an alias that stands for more than anybody could print."""
        if not self._expansion.fits(self.attribute_aliases[name]):
            raise ReadError(
                "attribute-too-large", f"{name}: {TOO_MANY}", self.source_location(start)
            )

    def _parse_extended_type_or_attribute(self, attr_or_dialect_name: str, is_type: bool) -> Any:
        if "." not in attr_or_dialect_name and self._current_token.kind != MLIRTokenKind.LESS:
            self._resolve_alias(("!" if is_type else "#") + attr_or_dialect_name)
        return cast(Any, super())._parse_extended_type_or_attribute(attr_or_dialect_name, is_type)

    # Types

    def _parse_optional_builtin_type(self) -> TypeAttribute | None:
        token = self._current_token
        if token.kind != MLIRTokenKind.BARE_IDENT:
            return super()._parse_optional_builtin_type()
        start = token.span.start
        end = self._end_of_type(token.text, token.span.end)
        if end is None:
            return super()._parse_optional_builtin_type()
        text = self.lexer.input.content[start:end]
        known = self._types.get(text)
        if known is not None:
            self._resume_from(end)
            return known
        parsed = super()._parse_optional_builtin_type()
        if parsed is not None:
            self._types[text] = parsed
        return parsed

    def _parse_optional_integer_or_float_type(self) -> TypeAttribute | None:
        """As upstream; the numbers of an integer type are powers of two, which have to fit."""
        span = self._current_token.span
        parsed = super()._parse_optional_integer_or_float_type()
        if isinstance(parsed, IntegerType) and parsed.width.data > MAX_INTEGER_WIDTH:
            self.raise_error(f"an integer type has at most {MAX_INTEGER_WIDTH} bits", span)
        return parsed

    def _end_of_type(self, word: str, position: int) -> int | None:
        """Where the type that starts with `word` ends; None if it is no single line of text."""
        if word not in _CONTAINERS:
            return position
        depth = 0
        for match in _BRACKETS.finditer(self.lexer.input.content, position):
            if match[0] == "\n":
                return None
            depth += (match[0] == "<") - (match[0] == ">")
            if depth <= 0:
                return match.end() if match[0] == ">" else None
        return None

    def parse_optional_identifier_or_str_literal(self) -> str | None:
        """A name; its letters beyond ASCII may be written as the escapes that printers make."""
        name = super().parse_optional_identifier_or_str_literal()
        if name is not None or self._current_token.kind != MLIRTokenKind.BYTES_LIT:
            return name
        position = self.pos
        try:
            return (self.parse_optional_bytes_literal() or b"").decode()
        except UnicodeDecodeError:
            self.raise_error("expected UTF-8 in a name", position, self.pos)

    # Locations

    def _parse_location(self) -> LocationAttr:
        if self.parse_optional_keyword("unknown") is not None:
            # Not UNKNOWN_LOC itself, which stands for no location at all.
            return UnknownLoc()
        if self._current_token.text == "fused":
            return self._parse_fused_location()
        if self._current_token.kind == MLIRTokenKind.STRING_LIT:
            position, token = self.lexer.pos, self._current_token
            file = self.parse_str_literal()
            if self.parse_optional_punctuation(":") is not None:
                return self._parse_file_location(file)
            self.lexer.pos = position
            self._parser_state.current_token = token
        return super()._parse_location()

    def _parse_file_location(self, file: str) -> LocationAttr:
        """`line[:column] [to [line]:column]`; xDSL's location has no end, which is dropped."""
        line = self.parse_integer(False, False)
        column = 0
        if self.parse_optional_punctuation(":") is not None:
            column = self.parse_integer(False, False)
        if self.parse_optional_keyword("to") is not None:
            self.parse_optional_integer(False, False)
            if self.parse_optional_punctuation(":") is not None:
                self.parse_integer(False, False)
        return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))

    def _parse_fused_location(self) -> LocationAttr:
        self.parse_keyword("fused")
        metadata: Attribute = NoneAttr()
        if self.parse_optional_punctuation("<") is not None:
            metadata = self.parse_attribute()
            self.parse_punctuation(">")
        parts = self.parse_comma_separated_list(self.Delimiter.SQUARE, self._parse_location)
        return FusedLoc(tuple(parts), metadata)

    # Constants

    def parse_dense_int_or_fp_elements_attr(
        self, type: RankedStructure[AnyDenseElement] | None
    ) -> Dense:
        """A dense constant; one that is the same everywhere holds one element."""
        self.parse_punctuation("<", " in dense attribute")
        contents: Any = None
        if self.parse_optional_punctuation(">") is None:
            contents = self.parse_optional_str_literal() or self._parse_tensor_literal()
            self.parse_punctuation(">", " in dense attribute")
        if type is None:
            self.parse_punctuation(":", " in dense attribute")
            type = self._parse_dense_literal_type()
        count = prod(type.get_shape())
        if contents is None:
            data = b""
        elif isinstance(contents, str):
            data = self._decode_hex(contents, type)
        else:
            elements, shape = contents
            data = self._pack_elements(elements, shape, type)
        size = cast(Any, type.get_element_type()).compile_time_size
        if len(data) != size * count and (len(data) != size or contents is None):
            self.raise_error(f"expected {count} elements, got {len(data) // size}")
        return compact(cast(Dense, DenseIntOrFPElementsAttr(type, BytesAttr(data))))

    def _decode_hex(self, text: str, type: RankedStructure[AnyDenseElement]) -> bytes:
        try:
            data = bytes.fromhex(text.removeprefix("0x"))
        except ValueError:
            self.raise_error("expected hexadecimal digits in dense attribute")
        element = type.get_element_type()
        count = prod(type.get_shape())
        if not isinstance(element, IntegerType) or element.bitwidth >= 8:
            return data
        if element.bitwidth == 1 and len(data) not in (1, count):
            # Versions of MLIR before 23 packed eight booleans into a byte.
            data = bytes(data[i // 8] >> i % 8 & 1 for i in range(min(count, 8 * len(data))))
        mask = (1 << element.bitwidth) - 1
        return element.pack([element.get_normalized_value(b & mask) for b in data])

    def _pack_elements(
        self,
        elements: Sequence[Any],
        shape: Sequence[int],
        type: RankedStructure[AnyDenseElement],
    ) -> bytes:
        if shape and tuple(shape) != type.get_shape():
            self.raise_error(f"expected shape {list(type.get_shape())}, got {list(shape)}")
        element = type.get_element_type()
        values: list[Any] = [e.to_type(self, element) for e in elements]
        if isinstance(element, IntegerType):
            values = [element.get_normalized_value(v) for v in values]
        return cast(Any, element).pack(values)
