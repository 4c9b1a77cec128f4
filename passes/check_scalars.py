"""What the TPU compiler does not compute on scalars; `--allow-beyond-reference` lifts these."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, IntegerType, VectorType
from xdsl.ir import Attribute, Operation

from pallasite.dialects import arith, math, scf
from pallasite.passes.check_vectors import Rule, refusal
from pallasite.targets import Target


def _scalars(op: Operation, target: Target) -> None:
    """The scalar unit computes with 32-bit words (and bits); narrow scalars are only moved."""
    types = [value.type for value in (*op.operands, *op.results)]
    narrow = next((type for type in types if _is_narrow(type)), None)
    if narrow is None:
        return
    wide = "int32" if isinstance(narrow, IntegerType) else "float32"
    raise refusal(
        op, "scalar-type", f"{op.name} of scalars of {narrow} is not supported",
        "the scalar unit computes with 32-bit words only",
        f"cast the operands to {wide} first, and the result back",
        f"the TPU compiler says: Not implemented: {_words(op)}",
    )  # fmt: skip


def _is_narrow(type: Attribute) -> bool:
    if isinstance(type, IntegerType):
        return type.width.data not in (1, 32)
    return _is_narrow_float(type)


def _is_narrow_float(type: Attribute) -> bool:
    return isinstance(type, AnyFloat) and type.bitwidth < 32


def _words(op: Operation) -> str:
    """The compiler's own message, by which programs and searches know it."""
    if isinstance(op, arith.AddiOp | arith.SubiOp | arith.MuliOp):
        return f"Only i32 {op.name} is supported"
    return "Only i1 and i32 scalars are supported"


def _carried_scalars(op: Operation, target: Target) -> None:
    """Narrow integers cross the borders of loops and branches, narrow floats do not."""
    narrow = next((r.type for r in op.results if _is_narrow_float(r.type)), None)
    if narrow is not None:
        raise refusal(
            op, "scalar-type", f"a scalar of {narrow} that {op.name} carries is not supported",
            "the scalar unit has no registers for narrow floats",
            "cast it to float32 inside, and the result back",
        )  # fmt: skip


def _power(op: math.PowFOp, target: Target) -> None:
    """Powers are computed by the vector unit only."""
    if not isinstance(op.results[0].type, VectorType):
        raise refusal(
            op, "scalar-power", f"{op.name} of scalars is not supported",
            "the scalar unit has no power, and the compiler makes none of its other operations",
            "write jnp.exp(y * jnp.log(x)), or take the power of a vector",
        )  # fmt: skip


_CONVERSIONS = (
    arith.BitcastOp, arith.ConstantOp, arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp, arith.FPToSIOp,
    arith.FPToUIOp, arith.IndexCastOp, arith.IndexCastUIOp, arith.SIToFPOp, arith.TruncFOp,
    arith.TruncIOp, arith.UIToFPOp, arith.ConvertFOp, arith.ScalingExtFOp, arith.ScalingTruncFOp,
)  # fmt: skip
"""Operations that narrow scalars are made for: they only change the type."""
_COMPUTING = [
    kind
    for dialect in (arith.Arith, math.Math)
    for kind in dialect.operations
    if not issubclass(kind, _CONVERSIONS)
]

SCALAR_RULES: dict[type[Operation], tuple[Rule, ...]] = {
    **dict.fromkeys(_COMPUTING, (_scalars,)),
    **dict.fromkeys((scf.ForOp, scf.IfOp, scf.WhileOp), (_carried_scalars,)),
    math.PowFOp: (_scalars, _power),
}
"""Rules of the reference for operations on scalars (asked of libtpu 0.0.51 for v5e, type by
type)."""
