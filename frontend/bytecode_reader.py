"""Reads MLIR bytecode of version 0, the form in which JAX ships Mosaic kernels.

Operations come out as they are stored: `builtin.module` as `ModuleOp`, every other one (they are
all `stable_mosaic.*` in files from JAX) unregistered, with its inherent attributes in the
attribute dictionary. `pallasite.frontend.versions.upgrade` makes registered operations of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, NoneType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pallasite.frontend.bytecode_attributes import ATTRIBUTES
from pallasite.frontend.bytecode_cursor import Cursor
from pallasite.frontend.bytecode_format import (
    ALIGNED,
    MAGIC,
    PADDING,
    VERSION,
    OpMask,
    Section,
)
from pallasite.frontend.bytecode_table import AttributeTable, Entry
from pallasite.frontend.bytecode_types import TYPES
from pallasite.frontend.serialized import unregistered

MAX_REGION_NESTING = 128
"""Verifying, printing and cloning in xDSL recurse once per level."""

T = TypeVar("T")
_UNREADABLE = OpMask.USE_LIST_ORDERS | OpMask.PROPERTIES


def is_bytecode(data: bytes) -> bool:
    """Whether `data` starts as MLIR bytecode does."""
    return data.startswith(MAGIC)


def read_bytecode(data: bytes, name: str = "<input>") -> ModuleOp:
    """The module in the bytecode `data`; raises `ReadError` naming the byte that does not fit."""
    return _Reader(data, name).read()


class _Forward(SSAValue[Attribute]):
    """Stands for a value that is used before the block that defines it was read."""

    @property
    def owner(self) -> Operation | Block:
        raise ValueError("value has no owner yet")


@dataclass
class _Scope:
    """The numbered values that operations can see: those of one isolated operation's regions."""

    values: list[SSAValue | None] = field(default_factory=list[SSAValue | None])
    forward: dict[int, _Forward] = field(default_factory=dict[int, _Forward])


@dataclass
class _Level:
    """A region that is being read: its blocks, and how far reading has come."""

    region: Region
    scope: _Scope
    base: int = -1
    """Number of the region's first value; negative while its header was not read."""
    next_value: int = 0
    limit: int = 0
    blocks: list[Block] = field(default_factory=list[Block])
    block: int = -1
    operations: int = 0
    """How many operations of the current block are still to come."""


class _Reader:
    def __init__(self, data: bytes, name: str) -> None:
        cursor = Cursor(data, name)
        if not is_bytecode(data):
            raise cursor.error("expected MLIR bytecode (4d 4c ef 52)")
        cursor.position = len(MAGIC)
        version = cursor.varint()
        if version != VERSION:
            raise cursor.error(
                f"expected MLIR bytecode version {VERSION}, got {version}",
                code="unsupported-bytecode",
                position=len(MAGIC),
            )
        cursor.text("the producer")
        sections = _sections(cursor)
        strings = _strings(sections[Section.STRING])
        dialects, self._names = _dialects(sections[Section.DIALECT], strings)
        section = sections[Section.ATTRIBUTE_TYPE]
        entries = _entries(sections[Section.ATTRIBUTE_TYPE_OFFSET], section, dialects)
        self._table = AttributeTable(
            section, strings, *entries, attribute_decoders=ATTRIBUTES, type_decoders=TYPES
        )
        self._cursor = sections[Section.IR]
        self._levels: list[_Level] = []

    def read(self) -> ModuleOp:
        cursor = self._cursor
        top = Block()
        level = _Level(Region(top), _Scope(), base=0, blocks=[top])
        self._levels.append(level)
        self._start_block(level)
        while self._levels:
            level = self._levels[-1]
            if level.base < 0:
                self._start_region(level)
            elif level.operations:
                level.operations -= 1
                self._operation(level)
            elif level.block + 1 < len(level.blocks):
                self._start_block(level)
            else:
                self._finish_region(self._levels.pop())
        module = top.first_op
        if not isinstance(module, ModuleOp) or module.next_op is not None:
            raise cursor.error("expected one builtin.module at the top", position=cursor.position)
        if not cursor.done:
            raise cursor.error(f"{cursor.end - cursor.position} bytes left over after the module")
        module.detach()
        return module

    def _start_region(self, level: _Level) -> None:
        cursor = self._cursor
        level.base = level.next_value = level.limit = len(level.scope.values)
        count = cursor.count("blocks")
        if count:
            values = cursor.count("values")
            level.limit += values
            level.scope.values.extend([None] * values)
            level.blocks = [Block() for _ in range(count)]
            for block in level.blocks:
                level.region.add_block(block)

    def _start_block(self, level: _Level) -> None:
        cursor, table = self._cursor, self._table
        level.block += 1
        block = level.blocks[level.block]
        header = cursor.varint()
        level.operations = header >> 1
        if level.operations > cursor.end - cursor.position:
            raise cursor.error(f"expected fewer than {level.operations} operations in a block")
        if header & 1:
            for index in range(cursor.count("block arguments")):
                argument = block.insert_arg(table.type(cursor), index)
                argument.location = table.location(cursor)
                self._define(level, argument)

    def _finish_region(self, level: _Level) -> None:
        scope = level.scope
        if level.next_value != level.limit and scope.forward:
            undefined = [n for n in scope.forward if n >= level.next_value]
            if undefined:
                raise self._cursor.error(f"value {undefined[0]} is used but never defined")
        del scope.values[level.base :]

    def _define(self, level: _Level, value: SSAValue) -> None:
        number = level.next_value
        if number >= level.limit:
            raise self._cursor.error(
                f"region defines more than the {level.limit - level.base} values it announced"
            )
        level.next_value = number + 1
        level.scope.values[number] = value
        forward = level.scope.forward.pop(number, None)
        if forward is not None:
            # Blocks of a region with control flow may stand before one that dominates them.
            if len(level.blocks) == 1:
                raise self._cursor.error(f"value {number} is used before it is defined")
            forward.replace_all_uses_with(value)

    def _operand(self, scope: _Scope) -> SSAValue:
        number = self._cursor.index(len(scope.values), "values")
        value = scope.values[number]
        if value is not None:
            return value
        return scope.forward.setdefault(number, _Forward(NoneType()))

    def _operation(self, level: _Level) -> None:
        cursor, table = self._cursor, self._table
        start = cursor.position
        name = self._names[cursor.index(len(self._names), "operation names")]
        mask = self._mask(start)
        location = table.location(cursor)
        attributes: dict[str, Attribute] = {}
        if mask & OpMask.ATTRIBUTES:
            attributes = dict(table.attribute_of(cursor, DictionaryAttr, "a dictionary").data)
        types = self._list(mask & OpMask.RESULTS, "results", lambda: table.type(cursor))
        operands = self._list(
            mask & OpMask.OPERANDS, "operands", lambda: self._operand(level.scope)
        )
        successors = self._list(
            mask & OpMask.SUCCESSORS,
            "successors",
            lambda: level.blocks[cursor.index(len(level.blocks), "blocks")],
        )
        regions, isolated = self._regions() if mask & OpMask.REGIONS else ([], False)
        is_module = name == ModuleOp.name
        if is_module and (len(regions) != 1 or operands or types):
            raise cursor.error("expected builtin.module with one region", position=start)
        op = (ModuleOp if is_module else unregistered(name)).create(
            operands=operands,
            result_types=types,
            attributes=attributes,
            successors=successors,
            regions=regions,
            location=location,
        )
        level.blocks[level.block].add_op(op)
        for result in op.results:
            self._define(level, result)
        for region in reversed(regions):
            self._levels.append(_Level(region, _Scope() if isolated else level.scope))

    def _mask(self, start: int) -> int:
        """Which parts the operation that starts at byte `start` has."""
        mask = self._cursor.byte()
        if mask & _UNREADABLE or mask >> 7:
            raise self._cursor.error(
                f"expected an operation of bytecode version {VERSION}, got encoding mask {mask:#x}",
                position=start,
                code="unsupported-bytecode",
            )
        return mask

    def _list(self, present: int, what: str, read: Callable[[], T]) -> list[T]:
        return [read() for _ in range(self._cursor.count(what))] if present else []

    def _regions(self) -> tuple[list[Region], bool]:
        """Regions, still empty, for the operation being read; and whether it is isolated."""
        cursor = self._cursor
        header = cursor.varint()
        if header >> 1 > cursor.end - cursor.position:
            raise cursor.error(f"expected fewer than {header >> 1} regions")
        if len(self._levels) > MAX_REGION_NESTING:
            raise cursor.error(f"regions nest more than {MAX_REGION_NESTING} deep")
        return [Region() for _ in range(header >> 1)], bool(header & 1)


def _sections(cursor: Cursor) -> dict[Section, Cursor]:
    sections: dict[Section, Cursor] = {}
    while not cursor.done:
        start = cursor.position
        identifier = cursor.byte()
        size = cursor.varint()
        number = identifier & ~ALIGNED
        if number not in tuple(Section):
            raise cursor.error(f"unknown section {number}", position=start)
        if identifier & ALIGNED:
            _skip_padding(cursor)
        if Section(number) in sections:
            raise cursor.error(f"second {Section(number).name.lower()} section", position=start)
        sections[Section(number)] = cursor.slice(size, f"section {number}")
    for section in Section:
        if section not in sections and section < Section.RESOURCE:
            raise cursor.error(
                f"expected a {section.name.lower()} section", code="truncated-bytecode"
            )
    return sections


def _skip_padding(cursor: Cursor) -> None:
    alignment = cursor.varint()
    if alignment == 0 or alignment & (alignment - 1):
        raise cursor.error(f"expected a power of two as alignment, got {alignment}")
    while cursor.position & (alignment - 1):
        if cursor.byte() != PADDING:
            raise cursor.error("expected padding", position=cursor.position - 1)


def _strings(cursor: Cursor) -> list[str]:
    """Lengths are stored last string first, the strings themselves first string first."""
    lengths = [cursor.varint() for _ in range(cursor.count("strings"))]
    strings: list[str] = []
    for length in reversed(lengths):
        start = cursor.position
        data = cursor.bytes(length, "a string")
        if not data.endswith(b"\0"):
            raise cursor.error("expected a string that ends with a zero byte", position=start)
        strings.append(cursor.decode(data[:-1], "a string", start))
    return strings


def _dialects(cursor: Cursor, strings: list[str]) -> tuple[list[str], list[str]]:
    """The names of the dialects, and the full names of the operations."""

    def string() -> str:
        return strings[cursor.index(len(strings), "strings")]

    dialects = [string() for _ in range(cursor.count("dialects"))]
    names: list[str] = []
    while not cursor.done:
        dialect = dialects[cursor.index(len(dialects), "dialects")]
        names.extend(f"{dialect}.{string()}" for _ in range(cursor.count("operation names")))
    return dialects, names


def _entries(
    cursor: Cursor, section: Cursor, dialects: list[str]
) -> tuple[list[Entry], list[Entry]]:
    """Where the attributes and the types stand in `section`; stored are their sizes, by dialect."""
    attributes = cursor.varint()
    types = cursor.varint()
    entries: list[Entry] = []
    position = section.position
    while not cursor.done:
        dialect = dialects[cursor.index(len(dialects), "dialects")]
        for _ in range(cursor.count("attributes")):
            size = cursor.varint()
            end = position + (size >> 1)
            if end > section.end:
                raise cursor.error(
                    f"attribute {len(entries)} ends at byte {end}, after its section"
                )
            entries.append(Entry(dialect, bool(size & 1), position, end))
            position = end
    if len(entries) != attributes + types:
        raise cursor.error(
            f"expected {attributes} attributes and {types} types, got {len(entries)} in all"
        )
    return entries[:attributes], entries[attributes:]
