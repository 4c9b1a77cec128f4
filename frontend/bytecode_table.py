"""The attribute and type table of a bytecode file: entries are decoded when first asked for.

The builtin dialect's entries have binary encodings, each a decoder of `bytecode_attributes` or
`bytecode_types`; entries of other dialects are text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, TypeVar

from xdsl.dialects.builtin import LocationAttr, UnknownLoc
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects import make_context
from pallasite.frontend.bytecode_cursor import Cursor
from pallasite.frontend.bytecode_format import AttributeCode, TypeCode
from pallasite.frontend.expansion import TOO_MANY, Expansion
from pallasite.frontend.text_parser import TextParser

MAX_NESTING = 64
"""How deep attributes may nest; callers of a location beyond that depth are left out."""

A = TypeVar("A")


@dataclass(frozen=True)
class Entry:
    """Where the bytes of one attribute or type are, and whether they are its dialect's encoding."""

    dialect: str
    binary: bool
    start: int
    end: int


class AttributeTable:
    """The attributes and types of one file."""

    def __init__(
        self,
        section: Cursor,
        strings: list[str],
        attributes: list[Entry],
        types: list[Entry],
        *,
        attribute_decoders: Mapping[int, Decoder],
        type_decoders: Mapping[int, Decoder],
    ) -> None:
        """`section` has the bytes of the entries `attributes` and `types`, in MLIR's own encoding
        by the decoders of their codes; `strings` are those that they name by number."""
        self._section = section
        self._strings = strings
        self._attributes = _Column(attributes, attribute_decoders, is_type=False)
        self._types = _Column(types, type_decoders, is_type=True)
        self._depth = 0
        self._expansion = Expansion()

    def attribute(self, cursor: Cursor) -> Attribute:
        """The attribute whose index stands at `cursor`."""
        return self._value(cursor, self._attributes)

    def type(self, cursor: Cursor) -> Attribute:
        """The type whose index stands at `cursor`."""
        return self._value(cursor, self._types)

    def attribute_of(self, cursor: Cursor, kind: type[A], what: str) -> A:
        """The attribute at `cursor`, which must be a `kind`."""
        start = cursor.position
        value = self.attribute(cursor)
        if not isinstance(value, kind):
            raise cursor.error(f"expected {what}, got {value.name}", position=start)
        return value

    def location(self, cursor: Cursor) -> LocationAttr:
        """The location at `cursor`; `unknown` for one that nests too deeply."""
        if self._depth >= MAX_NESTING:
            cursor.index(len(self._attributes.entries), "attributes")
            return UnknownLoc()
        start = cursor.position
        value = self.attribute(cursor)
        if not isinstance(value, LocationAttr):
            raise cursor.error(f"expected a location, got {value.name}", position=start)
        return value

    def string(self, cursor: Cursor) -> str:
        """The string whose index stands at `cursor`."""
        return self._strings[cursor.index(len(self._strings), "strings")]

    def _value(self, cursor: Cursor, column: _Column) -> Attribute:
        values = column.values
        index = cursor.index(len(values), "attributes or types")
        value = values[index]
        if value is None:
            if index in column.open:
                raise cursor.error(f"{column.what} {index} contains itself")
            column.open.add(index)
            value = values[index] = self._decode(column, column.entries[index])
            column.open.remove(index)
            if not self._expansion.fits(value):
                raise cursor.error(TOO_MANY, code="attribute-too-large")
        return value

    def _decode(self, column: _Column, entry: Entry) -> Attribute:
        cursor = Cursor(self._section.data, self._section.name, entry.start, entry.end)
        if self._depth >= MAX_NESTING:
            raise cursor.error(f"attributes nest more than {MAX_NESTING} deep")
        if not entry.binary:
            value = _from_text(cursor, column.is_type)
        else:
            self._depth += 1
            value = self._builtin(column, entry, cursor)
            self._depth -= 1
        if not cursor.done:
            raise cursor.error(f"{cursor.end - cursor.position} bytes left over after {value.name}")
        return value

    def _builtin(self, column: _Column, entry: Entry, cursor: Cursor) -> Attribute:
        if entry.dialect != "builtin":
            raise cursor.error(
                f"binary encoding of dialect '{entry.dialect}' is unknown, expected text",
                code="unsupported-bytecode",
            )
        code = cursor.varint()
        decode = column.decoders.get(code)
        if decode is None:
            codes = TypeCode if column.is_type else AttributeCode
            known = f" ({codes(code).name.lower()})" if code in tuple(codes) else ""
            raise cursor.error(
                f"builtin {column.what} code {code}{known} has no counterpart here",
                code="unsupported-bytecode",
                position=entry.start,
            )
        try:
            return decode(self, cursor)
        except (VerifyException, ValueError, OverflowError, NotImplementedError) as error:
            raise cursor.error(f"invalid {column.what}: {error}", position=entry.start) from error


Decoder: TypeAlias = Callable[[AttributeTable, Cursor], Attribute]


class _Column:
    """The attributes, or the types, of a table: where they are and those decoded so far."""

    def __init__(
        self, entries: list[Entry], decoders: Mapping[int, Decoder], *, is_type: bool
    ) -> None:
        self.entries = entries
        self.values: list[Attribute | None] = [None] * len(entries)
        self.open: set[int] = set()
        """Those that are being decoded."""
        self.decoders = decoders
        self.is_type = is_type
        self.what = "type" if is_type else "attribute"


def _from_text(cursor: Cursor, is_type: bool) -> Attribute:
    start = cursor.position
    text = cursor.text("an attribute")
    try:
        return parse_text(text, is_type)
    except Exception as error:
        # The parsers of attributes raise whatever their author chose to; all of it means bad text.
        kind = "type" if is_type else "attribute"
        lines = str(error).strip().splitlines()
        reason = lines[-1].strip() if lines else type(error).__name__
        raise cursor.error(
            f"cannot parse {kind} '{text}' ({reason})",
            position=start,
        ) from error


def parse_text(text: str, is_type: bool) -> Attribute:
    """The attribute or type that `text` spells; short ones come again."""
    return (_parsed if len(text) <= SHORT_TEXT else _parsed.__wrapped__)(text, is_type)


SHORT_TEXT = 1000
"""Longer ones have the elements of constants, and are not kept."""


@lru_cache(maxsize=4096)
def _parsed(text: str, is_type: bool) -> Attribute:
    parser = TextParser(make_context(), text, "<attribute>")
    value = parser.parse_type() if is_type else parser.parse_attribute()
    if parser.pos < len(text.rstrip()):
        parser.raise_error("expected the end of the attribute")
    return value
