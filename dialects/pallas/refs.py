"""Loads, stores, swaps and views of refs, by indexers (spec/pallas_semantics.md 3.1)."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, MemRefType, i1, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, NoMemoryEffect
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.pallas.base import (
    check_type,
    integers_of,
    parse_ref_type,
    ref_type,
    value_type,
)
from pallasite.dialects.pallas.indexing import (
    Entry,
    Indexed,
    Indexer,
    dynamic_sizes,
    dynamic_starts,
    indexer_properties,
    named_shape,
    parse_indexer,
    print_indexer,
    resolve_indexer,
)
from pallasite.dialects.types import AnyMemRef, bit_width, memory_space

UNCHECKED = "disable_bounds_checks"
"""The parameter of a kernel that may load vectors from outside of its refs."""
SEGMENTS = (AttrSizedOperandSegments(as_property=True),)


def named_type(ref: SSAValue, entries: Sequence[Entry]) -> Attribute:
    """The type of the value that `entries` name: a scalar if every dimension is dropped."""
    return value_type(named_shape(entries), ref_type(ref).element_type)


@irdl_op_definition
class LoadOp(Indexed):
    """Loads elements of a ref: as a vector, or as a scalar if every dimension has a single index.

    Vectors are loaded from VMEM, scalars from SMEM or VMEM. Elements where the mask is false are
    undefined.

    Example: `%v = pallas.load %x[%i, ds(0, 8), :] : memref<4x16x128xf32, #tpu.memory_space<vmem>>`
    is a `vector<8x128xf32>`.
    """

    name = "pallas.load"

    ref = operand_def(MemRefType)
    dynamic_starts = var_operand_def(i32)
    mask = opt_operand_def()
    result = result_def()

    irdl_options = SEGMENTS
    traits = traits_def(MemoryReadEffect())

    def __init__(self, ref: SSAValue, entries: Sequence[Entry], mask: SSAValue | None = None):
        super().__init__(
            operands=[ref, dynamic_starts(entries), mask],
            properties=indexer_properties(entries),
            result_types=[named_type(ref, entries)],
        )

    @property
    def least_stride(self) -> int:
        return 0

    @property
    def reads_outside(self) -> bool:
        """Kernels may switch checks of their vectors off; what lies outside is undefined."""
        parent = self.parent_op()
        while parent is not None and parent.name != "pallas.kernel":
            parent = parent.parent_op()
        params = None if parent is None else parent.get_attr_or_prop("params")
        given = params.data.get(UNCHECKED) if isinstance(params, DictionaryAttr) else None
        return bool(self.shape) and isinstance(given, IntegerAttr) and bool(given.value.data)

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        target, entries, mask, attributes = _parse_access(parser)
        op = cls(target, entries, mask)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        _print_access(printer, self, self.mask)

    def verify_(self) -> None:
        check_access(self, self.mask, stores=False)
        check_type(self.result.type, named_type(self.ref, self.entries), "a result")


class Writing(Indexed, ABC):
    """What stores a value: a vector to VMEM, a scalar to SMEM."""

    value = operand_def()
    ref = operand_def(MemRefType)
    dynamic_starts = var_operand_def(i32)
    mask = opt_operand_def()

    irdl_options = SEGMENTS

    def __init__(
        self,
        value: SSAValue,
        ref: SSAValue,
        entries: Sequence[Entry],
        mask: SSAValue | None = None,
        result_types: Sequence[Attribute] = (),
    ):
        super().__init__(
            operands=[value, ref, dynamic_starts(entries), mask],
            properties=indexer_properties(entries),
            result_types=result_types,
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        value = _parse_value(parser)
        ref, entries, mask, attributes = _parse_access(parser)
        op = cls(parser.resolve_operand(value, named_type(ref, entries)), ref, entries, mask)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        _print_access(printer, self, self.mask, self.value)

    def verify_(self) -> None:
        check_access(self, self.mask, stores=True)
        check_stored(self.value, self.ref, self.entries)


@irdl_op_definition
class StoreOp(Writing):
    """Stores a value: a vector to VMEM, a scalar to SMEM.

    Where the mask is false, the ref keeps its elements.

    Example: `pallas.store %v, %o[ds(%i, 8), :] mask %m : memref<64x128xf32, ...>`
    """

    name = "pallas.store"

    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class SwapOp(Writing):
    """Stores a value and returns the elements that were there before.

    Where the mask is false, the ref keeps its elements, and those of the result are undefined.

    Example: `%old = pallas.swap %new, %s[%i] : memref<4xi32, #tpu.memory_space<smem>>`
    """

    name = "pallas.swap"

    result = result_def()

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        value: SSAValue,
        ref: SSAValue,
        entries: Sequence[Entry],
        mask: SSAValue | None = None,
    ):
        super().__init__(value, ref, entries, mask, [value.type])

    def verify_(self) -> None:
        super().verify_()
        check_type(self.result.type, self.value.type, "a result")


@irdl_op_definition
class AtOp(Indexed):
    """A view of a part of a ref, as `ref.at[...]` in JAX: the same memory, without a copy.

    A size may be an SSA value; the result then has the dynamic size `?`. Views have no strides.

    Example: `%w = pallas.at %x[%i, ds(%j, %n), :] : memref<4x64x128xf32, #tpu.memory_space<any>>`
    is a `memref<?x128xf32, #tpu.memory_space<any>>`.
    """

    name = "pallas.at"

    ref = operand_def(MemRefType)
    dynamic_starts = var_operand_def(i32)
    dynamic_sizes = var_operand_def(i32)
    result = result_def(MemRefType)

    irdl_options = SEGMENTS
    traits = traits_def(NoMemoryEffect())

    def __init__(self, ref: SSAValue, entries: Sequence[Entry]):
        super().__init__(
            operands=[ref, dynamic_starts(entries), dynamic_sizes(entries)],
            properties=indexer_properties(entries),
            result_types=[view_type(ref_type(ref), entries)],
        )

    @property
    def run_time_sizes(self) -> Sequence[SSAValue]:
        return self.dynamic_sizes

    @classmethod
    def parse(cls, parser: Parser) -> AtOp:
        ref, entries, _, attributes = _parse_access(parser)
        op = cls(ref, entries)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        _print_access(printer, self)

    def verify_(self) -> None:
        self.check_indexer()
        type = ref_type(self.ref)
        if not type.has_static_shape():
            raise VerifyException(f"a view is of a ref of known shape, got {type}")
        if set(integers_of(self.strides)) - {1}:
            raise VerifyException(
                f"a view has stride 1 in every dimension, got {list(integers_of(self.strides))}; "
                "load and store with a stride instead"
            )
        check_type(self.result.type, view_type(type, self.entries), "a view")


def view_type(type: AnyMemRef, entries: Sequence[Entry]) -> AnyMemRef:
    """The type of a view of a ref of `type`."""
    return MemRefType(type.element_type, named_shape(entries), memory_space=type.memory_space)


# Text

Access = tuple[SSAValue, list[Entry], SSAValue | None, dict[str, Attribute]]


def _parse_value(parser: Parser) -> UnresolvedOperand:
    value = parser.parse_unresolved_operand()
    parser.parse_punctuation(",")
    return value


def _parse_access(parser: Parser) -> Access:
    """Reads `%ref[indexer] mask %m {attributes} : type`."""
    base = parser.parse_unresolved_operand()
    indexer: Indexer = parse_indexer(parser)
    masked = parser.parse_optional_keyword("mask") is not None
    mask = parser.parse_unresolved_operand() if masked else None
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    memref = parse_ref_type(parser)
    entries = resolve_indexer(parser, indexer, memref)
    values = parser.resolve_operand(base, memref)
    if mask is None:
        return values, entries, None, attributes
    mask_type = value_type(named_shape(entries), i1)
    return values, entries, parser.resolve_operand(mask, mask_type), attributes


def _print_access(
    printer: Printer, op: Indexed, mask: SSAValue | None = None, value: SSAValue | None = None
) -> None:
    printer.print_string(" ")
    if value is not None:
        printer.print_ssa_value(value)
        printer.print_string(", ")
    type = ref_type(op.ref)
    printer.print_ssa_value(op.ref)
    print_indexer(printer, op.entries, type)
    if mask is not None:
        printer.print_string(" mask ")
        printer.print_ssa_value(mask)
    printer.print_op_attributes(op.attributes)
    printer.print_string(" : ")
    printer.print_attribute(type)


# Rules


def check_access(op: Indexed, mask: SSAValue | None, *, stores: bool) -> None:
    """The indexer fits, and the core reaches the memory: vectors in VMEM, scalars in SMEM.

    One element of VMEM is loaded as a vector and taken out, but not stored.
    """
    op.check_indexer()
    type = ref_type(op.ref)
    space, scalar = memory_space(type) or "vmem", not op.shape
    access = "stores" if stores else "loads"
    if space not in ("vmem", "smem"):
        raise VerifyException(
            f"the core {access} in vmem and smem, got {type}; copy it there first (tpu.enqueue_dma)"
        )
    if space == "smem" and not scalar:
        raise VerifyException(f"smem holds scalars: one element at a time, got shape {op.shape}")
    if space == "vmem" and scalar and (stores or not type.get_num_dims()):
        raise VerifyException(f"a core {access} no scalars in vmem, got {type}; use smem")
    if mask is None:
        return
    check_type(mask.type, value_type(op.shape, i1), "a mask")
    if space == "smem":
        raise VerifyException(f"only accesses of vmem are masked, got {type}")
    if bit_width(type) != 32:
        raise VerifyException(f"only 32-bit elements are masked, got {type}")
    if set(integers_of(op.strides)) - {1}:
        raise VerifyException("a masked access has stride 1 in every dimension")


def check_stored(value: SSAValue, ref: SSAValue, entries: Sequence[Entry]) -> None:
    """The value has the shape and type of the elements it replaces."""
    expected = named_type(ref, entries)
    if value.type != expected:
        raise VerifyException(
            f"expected a value of type {expected} for {ref_type(ref)}, got {value.type}"
        )
