"""`fold-ranges`: simplifies vector arithmetic on row and lane numbers, whose ranges are known.

    %i = tpu.iota {dimensions = array<i32: 0>} : vector<64x128xi32>
    %q = arith.divsi %i, %8 : vector<64x128xi32>
    %n = arith.cmpi slt, %i, %0 : vector<64x128xi32>
becomes
    %q = arith.shrui %i, %3 : vector<64x128xi32>
    %n = arith.constant dense<false> : vector<64x128xi1>

JAX writes the floored division `i // 8` and the remainder `i % 8` with a correction for negative
numbers, which is most of their cost. Row and lane numbers (`tpu.iota`) are never negative, so the
correction goes. `tiles-to-vregs` applies the same rules to single registers, whose row numbers have
smaller ranges: a causal mask is constant in all registers but those on the diagonal.

Needs a kernel in the `mosaic` or `dma` form and leaves the same form. Every rule is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, VectorType, i1, i32
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from pallasite.dialects import arith
from pallasite.dialects.subcores import lowered_functions
from pallasite.dialects.types import element_of
from pallasite.passes.admission import Admits
from pallasite.passes.fold_kernel import fold_kernel
from pallasite.passes.fold_kernel.driver import Folder, Rules, integer
from pallasite.passes.ranges import Range, Ranges
from pallasite.targets import DEFAULT_TARGET

RANGES = Rules()


class RangeFolder(Folder):
    """A folder whose rules may use the ranges of values."""

    def __init__(self, admits: Admits | None = None, rules: Rules = RANGES) -> None:
        super().__init__(admits, rules)
        self.ranges = Ranges()


@RANGES.rule(arith.CmpiOp)
def decide_comparison(op: arith.CmpiOp, f: RangeFolder) -> SSAValue | None:
    """A comparison of vectors that has the same result for every element is a constant."""
    (result,) = op.results
    if type(result.type) is not VectorType:
        return None
    answer = f.ranges.of(result)
    if answer.low is None or answer.low != answer.high:
        return None
    return f.constant(result.type, answer.low)


@RANGES.rule(arith.AndIOp)
def decide_with_remainder(op: arith.AndIOp, f: RangeFolder) -> SSAValue | None:
    """`m & (x % d != 0)` is false if `x` is never negative and `m` is false for all `x` above 0.

    JAX's correction of a floored division has this form: `m` is true where `x` and `d` have
    different signs, which for `x >= 0` leaves only `x == 0`, whose remainder is 0.
    """
    if element_of(op.result) != i1 or not isinstance(op.result.type, VectorType):
        return None
    for mask, other in (op.operands, reversed(op.operands)):
        for dividend in _not_zero(other):
            whole = f.ranges.of(dividend)
            if whole.low is None or whole.low < 0:
                continue
            above = Ranges({dividend: Range(1, whole.high)}, elsewhere=f.ranges)
            if above.of(mask).high == 0:
                return f.constant(op.result.type, 0)
    return None


def _not_zero(mask: SSAValue) -> Sequence[SSAValue]:
    """Values that are not 0 where `mask` is true: `x` of `x % d != 0`, both of `x & y != 0`."""
    compared = mask.owner
    if not isinstance(compared, arith.CmpiOp) or compared.predicate_name != "ne":
        return ()
    remainder = compared.lhs.owner
    if integer(compared.rhs) != 0:
        return ()
    if isinstance(remainder, arith.RemSIOp) and integer(remainder.rhs):
        return (remainder.lhs,)
    return remainder.operands if isinstance(remainder, arith.AndIOp) else ()


@RANGES.rule(arith.DivSIOp, arith.RemSIOp)
def divide_by_bits(op: arith.DivSIOp | arith.RemSIOp, f: RangeFolder) -> SSAValue | None:
    """For `x >= 0`, `x / 8` is `x >> 3` and `x % 8` is `x & 7`; for `0 <= x < d`, `x / d` is 0 and
    `x % d` is `x`.

    Scalars stay as they are: `divisibility.py` reads facts off their divisions.
    """
    kind, divisor = op.result.type, integer(op.rhs)
    if not isinstance(kind, VectorType) or kind.element_type != i32:
        return None
    whole, quotient = f.ranges.of(op.lhs), isinstance(op, arith.DivSIOp)
    if divisor is None or divisor < 1 or whole.low is None or whole.low < 0:
        return None
    if whole.high is not None and whole.high < divisor:
        return f.constant(kind, 0) if quotient else op.lhs
    if divisor & (divisor - 1):
        return None
    if quotient:
        bits = f.constant(kind, divisor.bit_length() - 1)
        return f.emit(arith.ShRUIOp(op.lhs, bits))
    return f.emit(arith.AndIOp(op.lhs, f.constant(kind, divisor - 1)))


@dataclass(frozen=True)
class FoldRangesPass(ModulePass):
    """Folds what follows from the ranges of vectors of integers."""

    name = "fold-ranges"

    target: str = DEFAULT_TARGET
    """Not used: what folds does not depend on the target."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.apply_admitted(ctx, op, None)

    def apply_admitted(self, ctx: Context, op: ModuleOp, admits: Admits | None) -> None:
        """`apply` with only those rewrites that `admits` allows."""
        functions = lowered_functions(op)
        if any([RangeFolder(admits).function(f) for f in functions]):
            # Selections by a comparison that is constant now, and what only the other side used.
            fold_kernel(op)
