"""Operations of `vector` that compute: reductions, contractions, outer products, scans.

Part of `pallasite.dialects.vector`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import auto
from typing import ClassVar, cast

from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import (
    I64,
    AffineMapAttr,
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    VectorType,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    base,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from pallasite.dialects.constraints import DerivedFrom
from pallasite.dialects.types import (
    AnyVector,
    dense_integers,
    element_type,
    is_float,
    vector_type,
)
from pallasite.dialects.vector_shapes import verify_element_types

_ANY_KINDS = (CombiningKindFlag.ADD, CombiningKindFlag.MUL)
_FLOAT_KINDS = (
    CombiningKindFlag.MINIMUMF, CombiningKindFlag.MAXIMUMF,
    CombiningKindFlag.MINNUMF, CombiningKindFlag.MAXNUMF,
)  # fmt: skip


@irdl_op_definition
class MultiReductionOp(IRDLOperation):
    """Reduces the named dimensions and combines the result with `acc`.

    Example: `%1 = vector.multi_reduction <add>, %0, %acc [1]
    : vector<8x128xf32> to vector<8xf32>`
    """

    name = "vector.multi_reduction"

    T: ClassVar = VarConstraint("T", AnyAttr())

    source = operand_def(VectorType)
    acc = operand_def(T)
    kind = prop_def(CombiningKindAttr)
    reduction_dims = prop_def(DenseArrayBase.constr(i64))
    dest = result_def(T)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = (
        "$kind `,` $source `,` $acc attr-dict $reduction_dims `:` type($source) `to` type($dest)"
    )

    def __init__(
        self,
        source: SSAValue | Operation,
        acc: SSAValue | Operation,
        reduction_dims: Sequence[int],
        kind: CombiningKindAttr | CombiningKindFlag,
    ) -> None:
        initial = SSAValue.get(acc)
        super().__init__(
            operands=[source, initial],
            result_types=[initial.type],
            properties={
                "kind": CombiningKindAttr(kind) if isinstance(kind, CombiningKindFlag) else kind,
                "reduction_dims": dense_integers(reduction_dims),
            },
        )

    def verify_(self) -> None:
        source = vector_type(self.source)
        dims = self.reduction_dims.get_values()
        verify_element_types(source, self.dest.type)
        rank = source.get_num_dims()
        if len(set(dims)) != len(dims) or any(not 0 <= d < rank for d in dims):
            raise VerifyException(f"expected different dimensions of {source}, got {list(dims)}")
        kept = tuple(s for d, s in enumerate(source.get_shape()) if d not in dims)
        result = self.dest.type
        shape = cast(AnyVector, result).get_shape() if isinstance(result, VectorType) else ()
        if shape != kept:
            raise VerifyException(f"expected result shape {list(kept)}, got {result}")


class IteratorType(StrEnum):
    """Whether a loop of a contraction is kept or summed over."""

    parallel = auto()
    reduction = auto()


@irdl_attr_definition
class IteratorTypeAttr(EnumAttribute[IteratorType]):
    """`#vector.iterator_type<parallel>`"""

    name = "vector.iterator_type"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> IteratorType:
        with parser.in_angle_brackets():
            return parser.parse_str_enum(IteratorType)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)


@irdl_op_definition
class ContractOp(IRDLOperation):
    """Multiplies, sums over the reduction loops and adds `acc`; maps name each operand's loops.

    Example: `%r = vector.contract {indexing_maps = [#m0, #m1, #m2], iterator_types =
    ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %a, %b, %acc
    : vector<8x128xf32>, vector<128x128xf32> into vector<8x128xf32>`
    """

    name = "vector.contract"

    lhs = operand_def(VectorType)
    rhs = operand_def(VectorType)
    acc = operand_def()
    indexing_maps = prop_def(ArrayAttr[AffineMapAttr])
    iterator_types = prop_def(ArrayAttr[IteratorTypeAttr])
    kind = prop_def(CombiningKindAttr, default_value=CombiningKindAttr(CombiningKindFlag.ADD))
    fastmath = prop_def(FastMathFlagsAttr, default_value=FastMathFlagsAttr("none"))
    result = result_def()

    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> ContractOp:
        properties = dict(_parse_contract_dictionary(parser).data)
        types = properties.get("iterator_types")
        if isinstance(types, ArrayAttr):
            properties["iterator_types"] = ArrayAttr([_iterator(t) for t in types.data])
        properties.setdefault("kind", CombiningKindAttr(CombiningKindFlag.ADD))
        properties.setdefault("fastmath", FastMathFlagsAttr("none"))
        names = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            names.append(parser.parse_unresolved_operand())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        lhs = parser.parse_type()
        parser.parse_punctuation(",")
        rhs = parser.parse_type()
        parser.parse_keyword("into")
        acc = parser.parse_type()
        operands = parser.resolve_operands(names, [lhs, rhs, acc], parser.pos)
        return cls.create(
            operands=operands, result_types=[acc], properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        words: dict[str, Attribute] = dict(self.properties)
        words["iterator_types"] = ArrayAttr([StringAttr(t.data) for t in self.iterator_types])
        if self.fastmath == FastMathFlagsAttr("none"):
            words.pop("fastmath", None)
        printer.print_string(" ")
        printer.print_attr_dict(dict(sorted(words.items())))
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.lhs.type)
        printer.print_string(", ")
        printer.print_attribute(self.rhs.type)
        printer.print_string(" into ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        if self.acc.type != self.result.type:
            raise VerifyException(f"expected result {self.acc.type}, got {self.result.type}")
        loops = len(self.iterator_types)
        if len(self.indexing_maps) != 3:
            raise VerifyException(f"expected 3 indexing maps, got {len(self.indexing_maps)}")
        verify_element_types(self.lhs.type, self.rhs.type)
        _verify_kind(self.kind, self.result.type)
        if is_float(element_type(self.lhs.type)) and not is_float(element_type(self.acc.type)):
            raise VerifyException(
                f"expected products of floats to be added to floats, got {self.lhs.type} "
                f"and {self.acc.type}"
            )
        sizes: dict[int, int] = {}
        for map, value in zip(self.indexing_maps, self.operands, strict=True):
            _verify_map(map, loops, value.type, sizes)


def _parse_contract_dictionary(parser: Parser) -> DictionaryAttr:
    attribute = parser.parse_attribute()
    if not isinstance(attribute, DictionaryAttr):
        parser.raise_error("expected a dictionary of indexing_maps and iterator_types")
    return attribute


def _iterator(attribute: Attribute) -> Attribute:
    if isinstance(attribute, StringAttr) and attribute.data in (*IteratorType,):
        return IteratorTypeAttr(IteratorType(attribute.data))
    return attribute


def _verify_map(map: AffineMapAttr, loops: int, type: Attribute, sizes: dict[int, int]) -> None:
    shape = cast(AnyVector, type).get_shape() if isinstance(type, VectorType) else ()
    if map.data.num_dims != loops or len(map.data.results) != len(shape):
        raise VerifyException(f"indexing map {map} does not fit {loops} loops and type {type}")
    for expression, size in zip(map.data.results, shape, strict=True):
        loop = getattr(expression, "position", None)
        if loop is None or sizes.setdefault(loop, size) != size:
            raise VerifyException(f"indexing map {map} does not fit type {type}")


def _verify_kind(kind: CombiningKindAttr, type: Attribute) -> None:
    """Elements of `type` can be combined so."""
    element = element_type(type)
    floats = kind.data in _FLOAT_KINDS or (kind.data in _ANY_KINDS and is_float(element))
    if not (is_float(element) if floats else isinstance(element, IntegerType | IndexType)):
        raise VerifyException(f"{kind.data} does not combine elements of {type}")


def _outer(lhs: Attribute, rhs: Attribute) -> Attribute:
    if not isinstance(lhs, VectorType) or not isinstance(rhs, VectorType):
        return lhs
    return VectorType(lhs.element_type, (*lhs.get_shape(), *rhs.get_shape()))


@irdl_op_definition
class OuterProductOp(IRDLOperation):
    """The products of every pair of elements, combined with `acc`."""

    name = "vector.outerproduct"

    L: ClassVar = VarConstraint("L", AnyAttr())
    R: ClassVar = VarConstraint("R", AnyAttr())

    lhs = operand_def(L)
    rhs = operand_def(R)
    acc = opt_operand_def(DerivedFrom((L, R), _outer))
    kind = prop_def(CombiningKindAttr, default_value=CombiningKindAttr(CombiningKindFlag.ADD))
    result = result_def(DerivedFrom((L, R), _outer))

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs (`,` $acc^)? attr-dict `:` type($lhs) `,` type($rhs)"

    def verify_(self) -> None:
        lhs, rhs = self.lhs.type, self.rhs.type
        verify_element_types(lhs, rhs)
        if any(isinstance(t, VectorType) and len(t.shape) != 1 for t in (lhs, rhs)):
            raise VerifyException(f"expected vectors of rank 1, got {lhs} and {rhs}")
        _verify_kind(self.kind, lhs)


@irdl_op_definition
class ScanOp(IRDLOperation):
    """Running reduction along one dimension, and its last value."""

    name = "vector.scan"

    S: ClassVar = VarConstraint("S", base(VectorType))
    T: ClassVar = VarConstraint("T", base(VectorType))

    source = operand_def(S)
    initial_value = operand_def(T)
    kind = prop_def(CombiningKindAttr)
    reduction_dim = prop_def(IntegerAttr[I64])
    inclusive = prop_def(BoolAttr)
    dest = result_def(S)
    accumulated_value = result_def(T)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = (
        "$kind `,` $source `,` $initial_value attr-dict `:` type($source) `,` type($initial_value)"
    )

    def verify_(self) -> None:
        source, initial = vector_type(self.source), vector_type(self.initial_value)
        dim, shape = self.reduction_dim.value.data, list(source.get_shape())
        verify_element_types(source, initial)
        _verify_kind(self.kind, source)
        if not 0 <= dim < len(shape):
            raise VerifyException(f"expected a dimension of {source} as reduction_dim, got {dim}")
        del shape[dim]
        if tuple(shape) != initial.get_shape():
            raise VerifyException(f"expected an initial value of shape {shape}, got {initial}")


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends the region of a masked operation."""

    name = "vector.yield"

    values = var_operand_def()

    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($values^ `:` type($values))?"


COMPUTE_OPS = (MultiReductionOp, ContractOp, OuterProductOp, ScanOp, YieldOp)
