"""`fold-ranges`: what follows from where numbers of rows and lanes lie needs no vector operations.

    %i = tpu.iota {dimensions = array<i32: 0>} : vector<64x128xi32>
    %q = arith.divsi %i, %8 : vector<64x128xi32>
    %n = arith.cmpi slt, %i, %0 : vector<64x128xi32>
becomes
    %q = arith.shrui %i, %3 : vector<64x128xi32>
    %n = arith.constant dense<false> : vector<64x128xi1>

JAX writes the floored division `i // 8` and the remainder `i % 8` for numbers of any sign, with a
correction for negative ones, which is most of what they cost; numbers of rows and lanes have none.
`tiles-to-vregs` applies the same rules to single registers, whose rows are known better: a mask
below the diagonal is constant in all but the registers on it.

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
    """A folder whose rules may ask where values lie."""

    def __init__(self, admits: Admits | None = None, rules: Rules = RANGES) -> None:
        super().__init__(admits, rules)
        self.ranges = Ranges()


@RANGES.rule(arith.CmpiOp)
def decide_comparison(op: arith.CmpiOp, f: RangeFolder) -> SSAValue | None:
    """A comparison that every element answers alike is a constant."""
    (result,) = op.results
    if type(result.type) is not VectorType:
        return None
    answer = f.ranges.of(result)
    if answer.low is None or answer.low != answer.high:
        return None
    return f.constant(result.type, answer.low)


@RANGES.rule(arith.AndIOp)
def decide_with_remainder(op: arith.AndIOp, f: RangeFolder) -> SSAValue | None:
    """`m & (x % d != 0)` is false if `m` is for all `x` above 0, where `x` is not negative.

    That is the correction of a floored division, for `m` says that `x` and `d` differ in sign.
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
    """Values that are not 0 where `mask` is set: `x` of `x % d != 0` or `x & y != 0`."""
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
    """A dividend that is not negative is divided by a power of two with a shift, its remainder is a
    mask; if it is below the divisor, the quotient is 0.

    Scalars stay: what is known of their divisors is read off their divisions.
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
    """Any: what folds does not depend on the target."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.apply_admitted(ctx, op, None)

    def apply_admitted(self, ctx: Context, op: ModuleOp, admits: Admits | None) -> None:
        """`apply` with only the rewrites that `admits` lets through; the others are left out."""
        functions = lowered_functions(op)
        if any([RangeFolder(admits).function(f) for f in functions]):
            # Choices by what is decided now, and what was computed for the other answer.
            fold_kernel(op)
