"""`memref` with custom syntax where upstream has none, and `transpose`.

Every class is found here under its upstream name.
"""

from __future__ import annotations

from abc import ABC
from typing import Any, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I64,
    AffineMapAttr,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    StringAttr,
    SymbolNameConstraint,
    TensorType,
    UnitAttr,
    UnrankedMemRefType,
)
from xdsl.dialects.memref import (
    AllocaOp,
    AllocaScopeOp,
    AllocaScopeReturnOp,
    AllocOp,
    AssumeAlignmentOp,
    AtomicRMWOp,
    CollapseShapeOp,
    DeallocOp,
    DimOp,
    DmaStartOp,
    DmaWaitOp,
    ExpandShapeOp,
    ExtractAlignedPointerAsIndexOp,
    ExtractStridedMetaDataOp,
    GetGlobalOp,
    LoadOp,
    RankOp,
    ReinterpretCastOp,
    StoreOp,
    SubviewOp,
    ViewOp,
)
from xdsl.dialects.memref import MemRef as UpstreamMemRef
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, NoMemoryEffect, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.constraints import broken_alignment, broken_visibility
from pallasite.dialects.derive import derive
from pallasite.dialects.types import AnyMemRef


def _ref(value: SSAValue) -> AnyMemRef:
    return cast(AnyMemRef, value.type)


def _verify_same_array(source: SSAValue, target: SSAValue) -> None:
    """Both sides have one element type, and shapes that agree where both are static."""
    one, two = source.type, target.type
    if not isinstance(one, MemRefType) or not isinstance(two, MemRefType):
        return
    shapes = _ref(source).get_shape(), _ref(target).get_shape()
    agree = len(shapes[0]) == len(shapes[1]) and all(
        a == b or DYNAMIC_INDEX in (a, b) for a, b in zip(*shapes, strict=True)
    )
    if _ref(source).element_type != _ref(target).element_type or not agree:
        raise VerifyException(f"expected one shape and element type, got {one} and {two}")


def _agree(one: Attribute, other: Attribute) -> bool:
    """Whether one may know of the strides what the other does not.

    What has no layout has the strides of an array that lies dense, which its shape says.
    """
    return one == other or all(
        isinstance(a, NoneAttr | AffineMapAttr | StridedLayoutAttr) for a in (one, other)
    )


def _is_strided(type: AnyMemRef) -> bool:
    return isinstance(type.layout, NoneAttr | StridedLayoutAttr)


class _Cast(IRDLOperation, ABC):
    """The same memref under another type."""

    source = operand_def(base(MemRefType) | base(UnrankedMemRefType))
    dest = result_def(base(MemRefType) | base(UnrankedMemRefType))

    traits = traits_def(NoMemoryEffect())
    assembly_format = "$source attr-dict `:` type($source) `to` type($dest)"

    def __init__(self, source: SSAValue | Operation, dest: Attribute) -> None:
        super().__init__(operands=[source], result_types=[dest])

    def verify_(self) -> None:
        _verify_same_array(self.source, self.dest)


@irdl_op_definition
class CastOp(_Cast):
    """The same memref under a type that knows more or less of its shape."""

    name = "memref.cast"

    def verify_(self) -> None:
        super().verify_()
        one, two = self.source.type, self.dest.type
        if not isinstance(one, MemRefType) or not isinstance(two, MemRefType):
            return
        if _ref(self.source).memory_space != _ref(self.dest).memory_space:
            raise VerifyException(f"expected one memory space, got {one} and {two}")
        if not _agree(_ref(self.source).layout, _ref(self.dest).layout):
            raise VerifyException(f"expected layouts that agree, got {one} and {two}")


@irdl_op_definition
class MemorySpaceCastOp(_Cast):
    """The same memref under a type with another memory space."""

    name = "memref.memory_space_cast"

    def verify_(self) -> None:
        one, two = self.source.type, self.dest.type
        if not isinstance(one, MemRefType) or not isinstance(two, MemRefType):
            return
        source, dest = _ref(self.source), _ref(self.dest)
        same = source.shape == dest.shape and source.element_type == dest.element_type
        if not same or source.layout != dest.layout:
            raise VerifyException(f"expected {one} in another memory space, got {two}")


@irdl_op_definition
class CopyOp(IRDLOperation):
    """Writes every element of the source to the destination."""

    name = "memref.copy"

    source = operand_def(base(MemRefType) | base(UnrankedMemRefType))
    destination = operand_def(base(MemRefType) | base(UnrankedMemRefType))

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$source `,` $destination attr-dict `:` type($source) `to` type($destination)"

    def __init__(self, source: SSAValue | Operation, destination: SSAValue | Operation) -> None:
        super().__init__(operands=[source, destination])

    def verify_(self) -> None:
        _verify_same_array(self.source, self.destination)


@irdl_op_definition
class TransposeOp(IRDLOperation):
    """A view with permuted dimensions: `memref.transpose %0 (i, j) -> (j, i) : T to U`."""

    name = "memref.transpose"

    source = operand_def(MemRefType)
    permutation = prop_def(AffineMapAttr)
    result = result_def(MemRefType)

    traits = traits_def(NoMemoryEffect())

    @classmethod
    def parse(cls, parser: Parser) -> TransposeOp:
        name = parser.parse_unresolved_operand()
        permutation = parser.parse_affine_map()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source = parser.parse_type()
        parser.parse_keyword("to")
        result = parser.parse_type()
        return cls.create(
            operands=[parser.resolve_operand(name, source)],
            result_types=[result],
            properties={"permutation": AffineMapAttr(permutation)},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.source)
        printer.print_string(f" {self.permutation.data}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" to ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        dims = [e.position for e in self.permutation.data.results if isinstance(e, AffineDimExpr)]
        shape = _ref(self.source).get_shape()
        if sorted(dims) != list(range(len(shape))):
            raise VerifyException(
                f"expected a permutation of {len(shape)} dimensions, got {self.permutation.data}"
            )
        expected = tuple(shape[d] for d in dims)
        if _ref(self.result).get_shape() != expected:
            raise VerifyException(f"expected shape {list(expected)}, got {self.result.type}")
        source, result = _ref(self.source), _ref(self.result)
        if source.element_type != result.element_type:
            raise VerifyException(f"expected one element type, got {source} and {result}")
        if source.memory_space != result.memory_space:
            raise VerifyException(f"expected one memory space, got {source} and {result}")
        if _is_strided(source) and _is_strided(result):
            strides = source.get_strides() or ()
            turned = StridedLayoutAttr([strides[d] for d in dims], source.get_offset())
            if (result.get_strides(), result.get_offset()) != (
                turned.get_strides(), turned.get_offset()
            ):  # fmt: skip
                raise VerifyException(f"expected layout {turned}, got {result}")


@irdl_op_definition
class GlobalOp(IRDLOperation):
    """A named array that lives as long as the program."""

    name = "memref.global"

    sym_name = prop_def(SymbolNameConstraint())
    sym_visibility = opt_prop_def(StringAttr)
    type = prop_def(MemRefType)
    initial_value = opt_prop_def(UnitAttr | DenseIntOrFPElementsAttr)
    constant = opt_prop_def(UnitAttr)
    alignment = opt_prop_def(IntegerAttr[I64])

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(SymbolOpInterface())

    def verify_(self) -> None:
        rule = broken_visibility(self.sym_visibility) or broken_alignment(self.alignment)
        if rule is not None:
            raise VerifyException(rule)

    @classmethod
    def parse(cls, parser: Parser) -> GlobalOp:
        properties: dict[str, Attribute] = {}
        visibility = parser.parse_optional_str_literal()
        if visibility is not None:
            properties["sym_visibility"] = StringAttr(visibility)
        if parser.parse_optional_keyword("constant") is not None:
            properties["constant"] = UnitAttr()
        properties["sym_name"] = parser.parse_symbol_name()
        parser.parse_punctuation(":")
        type = properties["type"] = parser.parse_type()
        if not isinstance(type, MemRefType):
            parser.raise_error(f"expected a memref type, got {type}")
        if parser.parse_optional_punctuation("=") is not None:
            if parser.parse_optional_keyword("uninitialized") is not None:
                properties["initial_value"] = UnitAttr()
            else:
                ref = cast(MemRefType[Any], type)
                array = TensorType[Any](ref.element_type, ref.get_shape())
                parser.parse_keyword("dense")
                properties["initial_value"] = parser.parse_dense_int_or_fp_elements_attr(array)
        attributes = parser.parse_optional_attr_dict()
        if "alignment" in attributes:
            properties["alignment"] = attributes.pop("alignment")
        return cls.create(properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        if self.sym_visibility is not None:
            printer.print_string(" ")
            printer.print_attribute(self.sym_visibility)
        if self.constant is not None:
            printer.print_string(" constant")
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(" : ")
        printer.print_attribute(self.type)
        value = self.initial_value
        if isinstance(value, UnitAttr):
            printer.print_string(" = uninitialized")
        elif value is not None:
            printer.print_string(" = ")
            value.print_without_type(printer)
        rest = dict(self.attributes)
        if self.alignment is not None:
            rest["alignment"] = self.alignment
        printer.print_op_attributes(rest)


MemRef = derive(UpstreamMemRef, [CastOp, MemorySpaceCastOp, CopyOp, TransposeOp, GlobalOp])

__all__ = [
    "AllocOp",
    "AllocaOp",
    "AllocaScopeOp",
    "AllocaScopeReturnOp",
    "AssumeAlignmentOp",
    "AtomicRMWOp",
    "CastOp",
    "CollapseShapeOp",
    "CopyOp",
    "DeallocOp",
    "DimOp",
    "DmaStartOp",
    "DmaWaitOp",
    "ExpandShapeOp",
    "ExtractAlignedPointerAsIndexOp",
    "ExtractStridedMetaDataOp",
    "GetGlobalOp",
    "GlobalOp",
    "LoadOp",
    "MemRef",
    "MemorySpaceCastOp",
    "RankOp",
    "ReinterpretCastOp",
    "StoreOp",
    "SubviewOp",
    "TransposeOp",
    "ViewOp",
]
