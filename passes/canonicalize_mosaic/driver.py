"""The walk of `canonicalize-mosaic` and what its rules share.

    %s = arith.addf %a, %b : vector<16x128xbf16>
becomes, on targets whose vector unit adds only f32,
    %x = tpu.extf %a : vector<16x128xbf16> -> vector<16x128xf32>
    %y = tpu.extf %b : vector<16x128xbf16> -> vector<16x128xf32>
    %t = arith.addf %x, %y : vector<16x128xf32>
    %s = tpu.truncf %t {rounding_mode = ...} : vector<16x128xf32> -> vector<16x128xbf16>

Needs a form whose vectors are whole (not grids of registers); leaves the same form. Rules are
registered by class of operation and depend only on the target's data (spec/vreg_lowering.md section
4). Operations that a rule creates are visited again, so rules may rely on each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float32Type,
    ModuleOp,
    VectorType,
    f32,
    i16,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from pallasite.dialects import arith, math, tpu
from pallasite.dialects.integers import unsigned, wrap
from pallasite.dialects.locations import refusal
from pallasite.dialects.subcores import lowered_functions
from pallasite.dialects.types import bit_width, element_of, is_vector, splat, splat_value, vector_of
from pallasite.dialects.walking import operations_of
from pallasite.passes.admission import Admits
from pallasite.passes.dead_code import drop
from pallasite.passes.insertion import Insertion, alike
from pallasite.passes.rules import AllRules
from pallasite.targets import DEFAULT_TARGET, Target, get_target

Rule = Callable[..., "SSAValue | None"]
"""From `(op, legalizer)` to what replaces its result, or None to keep the operation.

Rules of one operation are tried in the order of their families in `rules.py`.
"""

_RULES = AllRules[Rule]()
rule = _RULES.rule


def like(value: SSAValue, element: Attribute) -> Attribute:
    """The type of `value` with another element type."""
    kind = value.type
    if isinstance(kind, VectorType):
        return vector_of(element, cast(VectorType[Attribute], kind).get_shape())
    return element


class Legalizer(Insertion):
    """Applies the rules to one function; rules create operations through it."""

    def __init__(self, target: Target, admits: Admits | None = None) -> None:
        """With `admits`, applies a rule only where `admits(name of the rule, op)` is true."""
        self.target = target
        self._admits = admits
        self._made: list[Operation] = []

    def block(self, block: Block) -> None:
        """Legalises the operations of `block` and of the regions in it."""
        for op in operations_of(block):
            self._operation(op)

    def _operation(self, op: Operation) -> None:
        for region in op.regions:
            for block in region.blocks:
                self.block(block)
        for rule in _RULES.of.get(type(op), ()):
            if self._apply(rule, op):
                return

    def _apply(self, rule: Rule, op: Operation) -> bool:
        """True if `rule` replaced `op`."""
        if self._admits is not None and not self._admits(rule.__name__, op):
            return False
        outer = (self._anchor, self._made)
        self._anchor, self._made = op, []
        replacement = rule(op, self)
        made = self._made
        self._anchor, self._made = outer
        if replacement is not None:
            replacement.name_hint = op.results[0].name_hint
            op.results[0].replace_all_uses_with(replacement)
            drop(op)
        for fresh in made:
            self._operation(fresh)
        return replacement is not None

    def emit(self, op: Operation) -> SSAValue:
        """Inserts `op` and returns its first result; `op` is legalised, too."""
        self._made.append(op)
        return super().emit(op)

    def again(self, op: Operation, operands: Sequence[SSAValue], result: Attribute) -> SSAValue:
        """An operation like `op` on other operands, with another result type."""
        return self.emit(alike(op, operands, [result]))

    unsupported = staticmethod(refusal)

    # Conversions that rules are made of.

    def to_f32(self, value: SSAValue) -> SSAValue:
        """`value`, a float, converted to f32."""
        if isinstance(element_of(value), Float32Type):
            return value
        if (folded := self._splat(value, f32)) is not None:
            return folded
        exact = _unrounded(value)
        if exact is not None:
            return exact
        kind = arith.ExtFOp if not is_vector(value) else tpu.ExtfOp
        return self.emit(kind.create(operands=[value], result_types=[like(value, f32)]))

    def _splat(
        self, value: SSAValue, element: Attribute, *, signed: bool = True
    ) -> SSAValue | None:
        """The splat `value` as a constant of the wider type `element`; None if it is no splat."""
        number = arith.splat_number(value)
        if number is None or not is_vector(value):
            return None
        if isinstance(number, int):
            width = bit_width(element_of(value))
            # The only bit of an i1 is its sign.
            number = wrap(number, width) if signed else unsigned(number, width)
        kind = cast(VectorType[Attribute], like(value, element))
        return self.emit(arith.ConstantOp(splat(kind, number)))

    def to_float(self, value: SSAValue, element: Attribute) -> SSAValue:
        """An f32 value rounded to `element`."""
        if element_of(value) == element:
            return value
        if not is_vector(value):
            return self.emit(arith.TruncFOp(value, element))
        return self.emit(
            tpu.TruncfOp.create(
                operands=[value],
                result_types=[like(value, element)],
                properties={"rounding_mode": NEAREST},
            )
        )

    def to_i32(self, value: SSAValue, signed: bool = True, *, low_bits: bool = False) -> SSAValue:
        """An integer value widened to i32; with `low_bits`, the upper bits may be anything."""
        if bit_width(element_of(value)) == 32:
            return value
        if (folded := self._splat(value, i32, signed=signed)) is not None:
            return folded
        if (whole := untruncated(value, signed, low_bits=low_bits)) is not None:
            return whole
        value, signed = unextended(value, signed)
        kind = arith.ExtSIOp if signed else arith.ExtUIOp
        return self.emit(kind.create(operands=[value], result_types=[like(value, i32)]))

    def to_i16(self, value: SSAValue, signed: bool = True) -> SSAValue:
        """A vector of bytes widened to 16-bit integers."""
        if (folded := self._splat(value, i16, signed=signed)) is not None:
            return folded
        kind = arith.ExtSIOp if signed else arith.ExtUIOp
        return self.emit(kind.create(operands=[value], result_types=[like(value, i16)]))

    def to_int(self, value: SSAValue, element: Attribute) -> SSAValue:
        """An i32 value truncated to `element`."""
        if element_of(value) == element:
            return value
        return self.emit(
            arith.TruncIOp.create(operands=[value], result_types=[like(value, element)])
        )


_EXACT = (
    arith.SelectOp, arith.MaximumfOp, arith.MinimumfOp, arith.NegfOp, math.AbsFOp,
)  # fmt: skip
"""Operations whose results are operands, or operands with another sign: nothing to round."""


def _unrounded(value: SSAValue) -> SSAValue | None:
    """The f32 value from which `value` was narrowed, if narrowing changed nothing; else None."""
    owner = value.owner
    if isinstance(owner, tpu.TruncfOp) and is_vector(value):
        wide = owner.input
        if isinstance(element_of(wide), Float32Type) and _fits(wide, element_of(value)):
            return wide
    return None


def untruncated(value: SSAValue, signed: bool, *, low_bits: bool) -> SSAValue | None:
    """The i32 vector from which `value` was truncated, if it is what extending `value` gives, or if
    only the low bits matter; else None."""
    owner = value.owner
    if not isinstance(owner, arith.TruncIOp) or not is_vector(value):
        return None
    wide = owner.operands[0]
    if bit_width(element_of(wide)) != 32:
        return None
    made = wide.owner
    if isinstance(made, arith.ExtUIOp) or (signed and isinstance(made, arith.ExtSIOp)):
        narrowest = bit_width(element_of(made.operands[0]))
        if narrowest < bit_width(element_of(value)):
            return wide
    return wide if low_bits else None


def unextended(value: SSAValue, signed: bool) -> tuple[SSAValue, bool]:
    """The narrower vector that, extended by its sign or by zeros, is `value`; None if there is
    none."""
    made = value.owner
    if not isinstance(made, arith.ExtSIOp | arith.ExtUIOp) or not is_vector(value):
        return value, signed
    source, keeps_sign = made.operands[0], isinstance(made, arith.ExtSIOp)
    if bit_width(element_of(source)) == 1 or (keeps_sign and not signed):
        return value, signed
    return source, keeps_sign


def _fits(value: SSAValue, element: Attribute) -> bool:
    """Whether every element of the f32 vector `value` is exact in `element`."""
    owner = value.owner
    if isinstance(owner, tpu.ExtfOp):
        return element_of(owner.input) == element
    if isinstance(owner, arith.ConstantOp):
        number = splat_value(owner.value)
        return number is not None and splat_value(splat(like(value, element), number)) == number
    if isinstance(owner, _EXACT):
        floats = [v for v in owner.operands if isinstance(element_of(v), Float32Type)]
        return all(_fits(v, element) for v in floats)
    return False


NEAREST = tpu.RoundingModeAttr(tpu.RoundingMode.TO_NEAREST_EVEN)
TOWARDS_ZERO = tpu.RoundingModeAttr(tpu.RoundingMode.TOWARDS_ZERO)


def is_bf16(kind: Attribute) -> bool:
    """Whether `kind` is bf16."""
    return isinstance(kind, BFloat16Type)


@dataclass(frozen=True)
class CanonicalizeMosaicPass(ModulePass):
    """Rewrites operations and element types that the target does not execute."""

    name = "canonicalize-mosaic"

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.apply_admitted(ctx, op, None)

    def apply_admitted(self, ctx: Context, op: ModuleOp, admits: Admits | None) -> None:
        """`apply` with only those rewrites that `admits` allows."""
        from pallasite.passes.canonicalize_mosaic import rules

        rules.load()
        legalizer = Legalizer(get_target(self.target), admits)
        for function in lowered_functions(op):
            for block in function.body.blocks:
                legalizer.block(block)
