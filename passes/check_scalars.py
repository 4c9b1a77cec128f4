"""What the TPU compiler does not compute on scalars; `--allow-beyond-reference` lifts these."""

from __future__ import annotations

from xdsl.dialects.builtin import BFloat16Type, Float16Type, IntegerType, VectorType
from xdsl.ir import Operation

from pallasite.dialects import arith, math
from pallasite.passes.check_vectors import Rule, refusal
from pallasite.targets import Target


def _scalars(op: Operation, target: Target) -> None:
    """The scalar unit computes with 32-bit words (and bits); narrow scalars are only moved."""
    type = op.results[0].type
    if isinstance(type, IntegerType):
        narrow = type.width.data not in (1, 32)
    else:
        narrow = isinstance(type, BFloat16Type | Float16Type)
    if narrow:
        wide = "int32" if isinstance(type, IntegerType) else "float32"
        raise refusal(
            op, "scalar-type", f"{op.name} of scalars of {type} is not supported",
            "the scalar unit computes with 32-bit words only",
            f"cast the operands to {wide} first, and the result back",
        )  # fmt: skip


def _power(op: math.PowFOp, target: Target) -> None:
    """Powers are computed by the vector unit only."""
    if not isinstance(op.results[0].type, VectorType):
        raise refusal(
            op, "scalar-power", f"{op.name} of scalars is not supported",
            "the scalar unit has no power, and the compiler makes none of its other operations",
            "write jnp.exp(y * jnp.log(x)), or take the power of a vector",
        )  # fmt: skip


SCALAR_RULES: dict[type[Operation], tuple[Rule, ...]] = {
    **dict.fromkeys(
        (
            arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.DivSIOp, arith.DivUIOp, arith.RemSIOp,
            arith.RemUIOp, arith.MinSIOp, arith.MinUIOp, arith.MaxSIOp, arith.MaxUIOp,
            arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp, arith.MaximumfOp,
            arith.MinimumfOp,
        ),
        (_scalars,),
    ),
    math.PowFOp: (_power,),
}  # fmt: skip
"""Rules of the reference for operations on scalars."""
