"""What every `tpu` operation shares: the base class, constraints on types, small checks.

Constraints are bound once here: verifying runs them for every operand of every operation, so they
are plain `isinstance` checks (and sets of types where the element type matters).
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    Signedness,
    StringAttr,
    TensorType,
    VectorType,
    bf16,
    f32,
    i1,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrConstraint,
    BaseAttr,
    EqAttrConstraint,
    ParamAttrConstraint,
    ParsePropInAttrDict,
    VarOperand,
    operand_def,
    opt_operand_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.constraints import VerificationContext
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import HasCanonicalizationPatternsTrait, OpTrait, Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.constraints import VectorOf
from pallasite.dialects.sorted_properties import SortedProperties
from pallasite.dialects.tpu.types import DMASemaphoreType, SemaphoreType
from pallasite.dialects.types import AnyMemRef, AnyVector, is_float, split_grid

si32 = IntegerType(32, Signedness.SIGNED)

T = TypeVar("T", bound=Attribute)
Constraint: TypeAlias = AttrConstraint[T] | type[T] | T


def operand(constraint: Constraint[T]) -> SSAValue[T]:
    """An operand whose values have the type that the constraint promises."""
    return cast(SSAValue[T], operand_def(constraint))


def operands(constraint: Constraint[T]) -> VarOperand[T]:
    """Any number of operands of the type that the constraint promises."""
    return cast(VarOperand[T], var_operand_def(constraint))


def optional_operand(constraint: Constraint[T]) -> SSAValue[T] | None:
    """An operand of the type that the constraint promises, or none."""
    return cast("SSAValue[T] | None", opt_operand_def(constraint))


class TpuOp(SortedProperties, ABC):
    """An operation of the dialect, whose text has properties among the attributes."""

    irdl_options = (ParsePropInAttrDict(),)


class UnaryOp(TpuOp, ABC):
    """An operation that makes a `result` of its `input`."""

    assembly_format = "$input attr-dict `:` type($input) `->` type($result)"


def is_signless(type: Attribute) -> bool:
    """Whether `type` is a signless integer, the only kind that computes."""
    return isinstance(type, IntegerType) and type.signedness.data is Signedness.SIGNLESS


def check_element_types(source: AnyMemRef | AnyVector, result: AnyMemRef | AnyVector) -> None:
    """Both hold the same element type."""
    if source.element_type != result.element_type:
        raise VerifyException(f"expected one element type, got {source} and {result}")


@dataclass(frozen=True)
class MemRefOf(AttrConstraint[AnyMemRef]):
    """A memref whose element type is one of `elements`."""

    elements: tuple[Attribute, ...]

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not isinstance(attr, MemRefType):
            raise VerifyException(f"expected a memref, got {attr}")
        if attr.element_type not in self.elements:
            names = " or ".join(str(e) for e in self.elements)
            raise VerifyException(f"expected a memref of {names}, got {attr}")

    def mapping_type_vars(self, type_var_mapping: Any) -> MemRefOf:
        return self


@dataclass(frozen=True)
class ScalarOrVector(AttrConstraint[Attribute]):
    """A float or signless integer type, or a vector or tensor of one."""

    kind: str

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        element = attr.element_type if isinstance(attr, VectorType | TensorType) else attr
        if not (is_float(element) if self.kind == "float" else is_signless(element)):
            raise VerifyException(f"expected a {self.kind} or a vector of such, got {attr}")

    def mapping_type_vars(self, type_var_mapping: Any) -> ScalarOrVector:
        return self


VECTOR = VectorOf()
ANY_RANK_VECTOR = VectorOf(rank=0)
MASK = VectorOf((i1,))
VECTOR_I32 = VectorOf((i32,))
VECTOR_F32 = VectorOf((f32,))
VECTOR_32 = VectorOf((i32, f32))
VECTOR_INTEGER = VectorOf(integers=True)
VECTOR_F32_OR_INTEGER = VectorOf((f32,), integers=True)
SCAN_INPUT = VectorOf((i1, i16, i32, bf16, f32))
SCAN_OUTPUT = VectorOf((i16, i32, bf16, f32))
FLOAT_LIKE = ScalarOrVector("float")
SIGNLESS_LIKE = ScalarOrVector("signless integer")
MEMREF: AttrConstraint[AnyMemRef] = BaseAttr(MemRefType)
MEMREF_I32 = MemRefOf((i32,))
MEMREF_32 = MemRefOf((i32, f32))
SEMAPHORE = MemRefOf((SemaphoreType(),))
DMA_SEMAPHORE = MemRefOf((DMASemaphoreType(),))
ANY_SEMAPHORE = MemRefOf((SemaphoreType(), DMASemaphoreType()))
ANY = AnyAttr()

I32_ATTR = IntegerAttr.constr(EqAttrConstraint(i32))
SI32_ATTR = IntegerAttr.constr(EqAttrConstraint(si32))
BOOL_ATTR = IntegerAttr.constr(EqAttrConstraint(i1))
STRING_ATTR = BaseAttr(StringAttr)


def array_of(element: IntegerType) -> AttrConstraint[DenseArrayBase[IntegerType]]:
    """The constraint of a property `array<element: ...>`."""
    constraint = ParamAttrConstraint.get(DenseArrayBase, EqAttrConstraint(element), AnyAttr())
    return cast(AttrConstraint[DenseArrayBase[IntegerType]], constraint)


INDEX = IndexType()
I1_ARRAY = array_of(i1)
I32_ARRAY = array_of(i32)
I64_ARRAY = array_of(i64)
TRUE = IntegerAttr.from_bool(True)
FALSE = IntegerAttr.from_bool(False)


class Elementwise(OpTrait):
    """All operands and results that are not scalars have one shape (MLIR's ElementwiseMappable)."""

    def verify(self, op: Operation) -> None:
        operands = [v.type for v in op.operands if isinstance(v.type, VectorType | TensorType)]
        results = [v.type for v in op.results if isinstance(v.type, VectorType | TensorType)]
        if operands and not results:
            raise VerifyException(
                "if an operand is non-scalar, then there must be at least one non-scalar result"
            )
        if results and not operands:
            raise VerifyException(
                "if a result is non-scalar, then at least one operand must be non-scalar"
            )
        if not operands:
            return
        first = operands[0]
        for other in (*operands[1:], *results):
            if type(other) is not type(first) or other.shape != first.shape:
                raise VerifyException(
                    "all non-scalar operands/results must have the same shape and base type, "
                    f"got {first} and {other}"
                )


class HasCanonicalForms(HasCanonicalizationPatternsTrait):
    """The patterns of the operation are in `pallasite.dialects.tpu.patterns`."""

    def get_patterns(self, op: type[Operation]) -> tuple[RewritePattern, ...]:
        # The patterns make operations of the dialect, which are defined after this trait.
        from pallasite.dialects.tpu.patterns import PATTERNS

        return PATTERNS[op]

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return ()


class ElementwiseOp(UnaryOp, ABC):
    """The same for a scalar and for every element of a vector."""

    traits = traits_def(Pure(), Elementwise())


def check_widths(*types: AnyMemRef | AnyVector) -> None:
    """The bits of the elements are known, as those of `index` and of semaphores are not."""
    for type in types:
        if isinstance(type.element_type, IndexType | SemaphoreType | DMASemaphoreType):
            raise VerifyException(f"expected elements of a known width, got {type}")


def check_same_types(sources: Sequence[SSAValue]) -> None:
    """Raises unless all `sources` have the same type."""
    for source in sources[1:]:
        if source.type != sources[0].type:
            raise VerifyException(
                f"expected sources of the same type, got {sources[0].type} and {source.type}"
            )


def sublane_counts(vector: AnyVector) -> tuple[int, ...]:
    """What may count as the sublanes of a register: dimension 0, or the register's in a grid."""
    shape = vector.get_shape()
    split = split_grid(vector)
    return (shape[0], split[1][0]) if split else (shape[0],)


def check_positions(positions: DenseArrayBase[IntegerType], sources: int, factor: int) -> None:
    """Each source of a pack has its own position below the packing factor."""
    numbers = positions.get_values()
    if len(numbers) != sources:
        raise VerifyException(f"expected {sources} positions, got {len(numbers)}")
    if sources > factor:
        raise VerifyException(f"expected at most {factor} sources, got {sources}")
    if len(set(numbers)) != len(numbers):
        raise VerifyException(f"expected different positions, got {list(numbers)}")
    for number in numbers:
        if not 0 <= number < factor:
            raise VerifyException(f"expected positions in [0, {factor}), got {number}")


def check_inferred(result: Attribute, expected: Attribute) -> None:
    """The result has the type that follows from the operands."""
    if result != expected:
        raise VerifyException(f"expected result {expected}, got {result}")
