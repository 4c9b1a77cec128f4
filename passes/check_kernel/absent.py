"""Refuses operations that the TPU compiler does not lower, on scalars or on vectors.

`--allow-beyond-reference` lifts these rules. Every operation of `arith` and `math` was asked of
libtpu 0.0.51: of scalars for v4, v5e and v7x, of vectors of float32, bfloat16 and integers of 8 to
32 bits for v5e and v6e, which agree.
"""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation

from pallasite.dialects import arith, math, vector
from pallasite.dialects.in_words import in_words
from pallasite.dialects.locations import refusal
from pallasite.passes.check_kernel.rules import RuleTable
from pallasite.targets import Target

ABSENT_SCALARS = (
    arith.CeilDivSIOp, arith.FloorDivSIOp, arith.MaxnumfOp, arith.MinnumfOp,
    arith.MulSIExtendedOp, arith.MulUIExtendedOp, arith.SubUIExtendedOp, math.AcosOp,
    math.AcoshOp, math.AsinOp, math.AsinhOp, math.AtanOp, math.AtanhOp, math.CbrtOp, math.ClampFOp,
    math.CopySignOp, math.CoshOp, math.CountTrailingZerosOp, math.CtPopOp, math.ErfcOp,
    math.ExpM1Op, math.FPowIOp, math.FmaOp, math.IPowIOp, math.IsFiniteOp, math.IsInfOp,
    math.IsNaNOp, math.IsNormalOp, math.Log10Op, math.PowFOp, math.SinhOp, math.TruncOp,
)  # fmt: skip
_ABSENT_VECTORS = (
    arith.CeilDivSIOp, arith.CeilDivUIOp, arith.ConvertFOp, arith.FloorDivSIOp,
    arith.FlushDenormalsOp, arith.MaxnumfOp, arith.MinnumfOp, arith.SubUIExtendedOp, math.ClampFOp,
    math.ErfcOp, math.FPowIOp, math.FmaOp, math.IPowIOp, math.IsFiniteOp, math.IsInfOp,
    math.IsNaNOp, math.IsNormalOp, math.Log10Op, math.SincosOp, vector.FMAOp,
)  # fmt: skip
_UNKNOWN_VECTORS = (
    vector.BitcastOp, vector.ConstantMaskOp, vector.CreateMaskOp, vector.DeinterleaveOp,
    vector.InterleaveOp, vector.ShuffleOp, vector.StepOp,
)  # fmt: skip
"""Operations for which the compiler's layout pass has no rule (libtpu 0.0.52)."""
_INSTEAD: dict[type[Operation], str] = {
    arith.CeilDivSIOp: "write -jnp.floor_divide(-x, y)",
    arith.CeilDivUIOp: "write x // y + (x % y != 0).astype(x.dtype)",
    arith.FloorDivSIOp: "write jnp.floor_divide(x, y), which selects between quotients",
    arith.MaxnumfOp: "write jnp.maximum(x, y)",
    arith.MinnumfOp: "write jnp.minimum(x, y)",
    arith.SubUIExtendedOp: "write x - y, and x < y for the borrow",
    math.ClampFOp: "write jnp.clip(x, low, high)",
    math.ErfcOp: "write 1 - jax.lax.erf(x)",
    math.FmaOp: "write x * y + z",
    math.ExpM1Op: "write jnp.exp(x) - 1",
    math.FPowIOp: "write x ** n with a number n, or x ** n.astype(x.dtype)",
    math.IPowIOp: "multiply in a loop",
    math.IsFiniteOp: "write jnp.isfinite(x)",
    math.IsInfOp: "write jnp.abs(x) == jnp.inf",
    math.IsNaNOp: "write x != x",
    math.IsNormalOp: "write jnp.isfinite(x) & (jnp.abs(x) >= jnp.finfo(x.dtype).tiny)",
    math.Log10Op: "write jnp.log(x) / jnp.log(10.0)",
    math.SincosOp: "write jnp.sin(x) and jnp.cos(x)",
    vector.BitcastOp: "write jax.lax.bitcast_convert_type(x, dtype), or pltpu.bitcast, by rows",
    vector.ConstantMaskOp: "compare positions of jax.lax.broadcasted_iota",
    vector.CreateMaskOp: "compare positions of jax.lax.broadcasted_iota",
    vector.FMAOp: "write x * y + z",
    vector.StepOp: "write jax.lax.broadcasted_iota(jnp.int32, shape, dimension)",
    math.PowFOp: "write jnp.exp(y * jnp.log(x)), or take the power of a vector",
}


def _scalar(op: Operation, target: Target) -> None:
    """Refuses `op` on scalars, whatever their type."""
    if not isinstance(op.results[0].type, VectorType):
        raise refusal(
            op, "scalar-operation", f"{in_words(op)} of scalars is not supported",
            "the scalar unit does not have it, and the compiler makes none of other operations",
            _INSTEAD.get(type(op), "take it of a vector, or outside of the kernel"), _complaint(op),
        )  # fmt: skip


def _vector(op: Operation, target: Target) -> None:
    """Refuses `op` on vectors, whatever their element type."""
    if isinstance(op.results[0].type, VectorType):
        raise refusal(
            op, "vector-operation", f"{in_words(op)} of vectors is not supported",
            "the vector unit does not have it, and the compiler makes none of other operations",
            _INSTEAD.get(type(op), "compute it outside of the kernel"), _complaint(op),
        )  # fmt: skip


def _complaint(op: Operation) -> str:
    """The TPU compiler's own message, so that a search for it finds this refusal."""
    if isinstance(op, _UNKNOWN_VECTORS):
        return (
            f"the TPU compiler says: Unsupported operation: {op.name} in infer-vector-layout pass"
        )
    return f"the TPU compiler says: failed to legalize operation '{op.name}'"


ABSENT_RULES: RuleTable = {
    kind: tuple(
        rule
        for kinds, rule in (
            (ABSENT_SCALARS, _scalar),
            ((*_ABSENT_VECTORS, *_UNKNOWN_VECTORS), _vector),
        )
        if kind in kinds
    )
    for kind in dict.fromkeys((*ABSENT_SCALARS, *_ABSENT_VECTORS, *_UNKNOWN_VECTORS))
}
