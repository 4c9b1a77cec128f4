"""The walk of `lower-to-mosaic` and what its rules share.

A rule takes one `pallas` operation and the `Converter`, writes operations in front of it and
returns the values that replace its results. An operation of another dialect stays, but its refs are
replaced by those that memory holds. These differ from the refs of form `pallas` in two ways: a ref
of booleans is a ref of i32, and a block has its squeezed dimensions, with size 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
    i1,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from pallasite.dialects import arith, tpu, vector
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import element_type, shape_of, splat
from pallasite.passes.insertion import Insertion
from pallasite.passes.rules import LastRules

if TYPE_CHECKING:
    from pallasite.lowering.pallas_to_mosaic.programs import Programs

Rule = Callable[[Any, "Converter"], "Sequence[SSAValue] | None"]
"""From an operation to the values that replace its results; None if the operation stays."""

_RULES = LastRules[Rule]()
rule = _RULES.rule


def stored_type(type: Attribute) -> Attribute:
    """`type` as memory holds it: booleans are i32 there (spec/pallas_semantics.md section 1.5)."""
    if isinstance(type, MemRefType | VectorType) and type.element_type == i1:
        return with_element(type, i32)
    return type


def with_element(type: Attribute, element: Attribute) -> Attribute:
    """`type` with another element type."""
    match type:
        case MemRefType():
            return MemRefType(element, type.shape, type.layout, type.memory_space)
        case VectorType():
            return VectorType(element, type.get_shape())
        case _:
            return element


@dataclass(frozen=True)
class Held:
    """The ref of memory behind a ref of the kernel."""

    value: SSAValue
    squeezed: frozenset[int] = frozenset()
    """The dimensions of `value`, all of size 1, that the kernel does not see."""
    boolean: bool = False
    """The kernel sees booleans where `value` has i32."""

    @property
    def type(self) -> MemRefType[Attribute]:
        """The type of `value`."""
        return cast(MemRefType[Attribute], self.value.type)


class Converter(Insertion):
    """Converts the body of one kernel of `programs`; rules create operations through it."""

    def __init__(
        self,
        programs: Programs,
        *,
        fuse_transposed_lhs: bool = False,
        on_subcores: bool = False,
        layout_passes: bool = True,
    ) -> None:
        self.programs = programs
        self.on_subcores = on_subcores
        """Whether the kernel runs on subcores of SparseCores."""
        self.layout_passes = layout_passes
        """Whether the compiler's layout passes see its vectors first."""
        self.fuse_transposed_lhs = fuse_transposed_lhs
        """Whether products may transpose their left operand on its way to the matrix unit."""
        self._held: dict[SSAValue, Held] = {}

    # The walk.

    def block(self, block: Block) -> None:
        """Converts the operations of `block` and of the regions in them."""
        for op in list(block.ops):
            with self.standing(op):
                self._operation(op)

    def _operation(self, op: Operation) -> None:
        found = _RULES.of.get(type(op))
        if found is None:
            self.keep(op)
            return
        replacements = found(op, self)
        if replacements is None:
            return
        for result, value in zip(op.results, replacements, strict=True):
            if value.name_hint is None:
                value.name_hint = result.name_hint
            self._forward(result, value)
            result.replace_all_uses_with(value)
        op.detach()
        op.erase()

    def _forward(self, result: SSAValue, value: SSAValue) -> None:
        """Notes that `value` holds booleans as i32 if `result`, which it replaces, is a ref of
        booleans: a view of such a ref."""
        if isinstance(result.type, MemRefType) and result.type.element_type == i1:
            self.hold(value, Held(value, boolean=True))

    def keep(self, op: Operation) -> None:
        """Keeps an operation that is the same in Mosaic, and replaces its refs by memory's.

        A ref of booleans among its results becomes one of i32. Its regions are converted.
        """
        for position, operand in enumerate(op.operands):
            if isinstance(operand.type, MemRefType):
                op.operands[position] = self.plain(operand)
        for result in op.results:
            if isinstance(result.type, MemRefType) and result.type.element_type == i1:
                value = Rewriter.replace_value_with_new_type(result, stored_type(result.type))
                self.hold(value, Held(value, boolean=True))
        for region in op.regions:
            for block in region.blocks:
                self.block(block)

    # Refs.

    def hold(self, ref: SSAValue, held: Held) -> None:
        """Records how memory holds `ref`."""
        self._held[ref] = held

    def held(self, ref: SSAValue) -> Held:
        """How memory holds `ref`: as `hold` has recorded it, else as the kernel sees it."""
        return self._held.get(ref) or Held(ref)

    def plain(self, ref: SSAValue) -> SSAValue:
        """The ref of memory behind `ref`, as a view without squeezed dimensions.

        Booleans are i32 in it.
        """
        held = self.held(ref)
        if not held.squeezed:
            return held.value
        old = held.type
        shape = [n for d, n in enumerate(old.get_shape()) if d not in held.squeezed]
        type = MemRefType(old.element_type, shape, memory_space=old.memory_space)
        return self.emit(tpu.MemrefSqueezeOp(operands=[held.value], result_types=[type]))

    # Creating operations.

    def index(self, value: int | SSAValue) -> SSAValue:
        """`value` as an index."""
        if isinstance(value, int):
            return self.emit(arith.ConstantOp(IntegerAttr(value, IndexType())))
        if isinstance(value.type, IndexType):
            return value
        return self.emit(arith.IndexCastOp(value, IndexType()))

    def i32(self, value: int | SSAValue) -> SSAValue:
        """`value` as a 32-bit integer."""
        if isinstance(value, int):
            return self.emit(arith.ConstantOp(IntegerAttr(value, i32)))
        if isinstance(value.type, IndexType):
            return self.emit(arith.IndexCastOp(value, i32))
        return value

    def splat(self, type: Attribute, value: float) -> SSAValue:
        """A vector constant of one element value."""
        return self.emit(arith.ConstantOp(splat(type, value)))

    def constant(self, type: Attribute, value: float) -> SSAValue:
        """`value` as a scalar of `type`, or everywhere in a vector of it."""
        if isinstance(type, VectorType):
            return self.splat(type, value)
        if isinstance(type, IntegerType):
            return self.emit(arith.ConstantOp(IntegerAttr(int(value), type)))
        return self.emit(arith.ConstantOp(FloatAttr(value, cast(AnyFloat, type))))

    def element(self, value: SSAValue) -> SSAValue:
        """The only element of a vector, as a scalar."""
        origin = [0] * len(shape_of(value.type))
        return self.emit(vector.ExtractOp(value, origin, element_type(value.type)))

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """`value`, a vector, under another shape."""
        type = VectorType(element_type(value.type), shape)
        return value if value.type == type else self.emit(vector.ShapeCastOp(value, type))

    unsupported = staticmethod(refusal)
