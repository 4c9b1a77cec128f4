"""Writes MLIR bytecode of version 0, which MLIR and the TPU compiler read.

Every operation is written under its name with properties and attributes in one dictionary, so a
kernel for the compiler is first put in stable form (`pallasite.frontend.versions.serialize`).
"""

from __future__ import annotations

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import IsolatedFromAbove

from pallasite.frontend.bytecode_encode import Encoder, varint
from pallasite.frontend.bytecode_format import MAGIC, VERSION, OpMask, Section
from pallasite.frontend.serialized import NAME, name_of

PRODUCER = b"Pallasite\0"


def write_bytecode(module: ModuleOp) -> bytes:
    """The bytecode of `module`, its operations as they are."""
    writer = _Writer(module)
    ir = bytearray(varint(1 << 1))
    writer.operation(ir, module, 0)
    encoder = writer.encoder
    names = _operation_names(encoder, writer.names)
    sections = {
        Section.DIALECT: encoder.dialect_names() + names,
        Section.ATTRIBUTE_TYPE: encoder.data(),
        Section.ATTRIBUTE_TYPE_OFFSET: encoder.offsets(),
        Section.IR: bytes(ir),
    }
    # The other sections add strings, so theirs comes last in time and first in the file.
    ordered = {Section.STRING: encoder.string_section(), **sections}
    body = b"".join(bytes([key]) + varint(len(data)) + data for key, data in ordered.items())
    return MAGIC + varint(VERSION) + PRODUCER + body


def _operation_names(encoder: Encoder, names: dict[str, int]) -> bytes:
    """The names in the order of their numbers, in runs of the same dialect."""
    return encoder.grouped(
        [
            (dialect, varint(encoder.string(rest)))
            for dialect, _, rest in (name.partition(".") for name in names)
        ]
    )


class _Writer:
    def __init__(self, module: ModuleOp) -> None:
        self.encoder = Encoder()
        self.names: dict[str, int] = {}
        for op in module.walk():
            self.names.setdefault(name_of(op), len(self.names))
        for name in self.names:
            self.encoder.dialect(name.partition(".")[0])
        self._values: dict[SSAValue, int] = {}

    def operation(self, out: bytearray, op: Operation, limit: int) -> None:
        """Appends `op`; values of its regions are numbered from `limit` on."""
        encoder = self.encoder
        attributes = {**op.properties, **op.attributes}
        attributes.pop(NAME, None)
        present = (
            (OpMask.ATTRIBUTES, attributes),
            (OpMask.RESULTS, op.results),
            (OpMask.OPERANDS, op.operands),
            (OpMask.SUCCESSORS, op.successors),
            (OpMask.REGIONS, op.regions),
        )
        out += varint(self.names[name_of(op)])
        out.append(sum(flag for flag, part in present if part))
        out += varint(encoder.attribute(op.location))
        if attributes:
            out += varint(encoder.attribute(DictionaryAttr(attributes)))
        if op.results:
            out += varint(len(op.results))
            for result in op.results:
                out += varint(encoder.type(result.type))
        if op.operands:
            out += varint(len(op.operands))
            for operand in op.operands:
                out += varint(self._values[operand])
        if op.successors:
            out += varint(len(op.successors))
            for successor in op.successors:
                out += varint(_number(successor))
        if op.regions:
            isolated = op.has_trait(IsolatedFromAbove, value_if_unregistered=False)
            out += varint(len(op.regions) << 1 | isolated)
            for region in op.regions:
                self.region(out, region, 0 if isolated else limit)

    def region(self, out: bytearray, region: Region, first: int) -> None:
        """Appends `region`; its values, block by block, are numbered from `first` on."""
        out += varint(len(region.blocks))
        if not region.blocks:
            return
        limit = first
        for block in region.blocks:
            for value in (*block.args, *(result for op in block.ops for result in op.results)):
                self._values[value] = limit
                limit += 1
        out += varint(limit - first)
        for block in region.blocks:
            self.block(out, block, limit)

    def block(self, out: bytearray, block: Block, limit: int) -> None:
        operations = list(block.ops)
        out += varint(len(operations) << 1 | bool(block.args))
        if block.args:
            out += varint(len(block.args))
            for argument in block.args:
                out += varint(self.encoder.type(argument.type))
                out += varint(self.encoder.attribute(argument.location))
        for op in operations:
            self.operation(out, op, limit)


def _number(block: Block) -> int:
    region = block.parent
    if region is None:
        raise ValueError("expected a block inside a region")
    return region.get_block_index(block)
