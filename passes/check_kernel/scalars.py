"""Refuses operations on scalars that the TPU compiler does not lower, by operation and type.

`--allow-beyond-reference` lifts these refusals.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import AnyFloat, IntegerType, VectorType, f16, f32, i1
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, math, memref, scf, tpu
from pallasite.dialects.in_words import in_words
from pallasite.dialects.locations import refusal
from pallasite.dialects.tpu.keywords import RoundingMode
from pallasite.passes.check_kernel.absent import ABSENT_SCALARS
from pallasite.passes.check_kernel.rules import RuleTable
from pallasite.targets import Target


def _scalars(op: Operation, target: Target) -> None:
    """Refuses arithmetic on narrow scalars: the scalar unit computes with 32-bit words and with
    single bits."""
    types = [value.type for value in (*op.operands, *op.results)]
    narrow = next((type for type in types if _is_narrow(type)), None)
    if narrow is None:
        return
    if _is_known(op.operands[0] if isinstance(op, arith.SelectOp) else op.results[0]):
        return  # the compiler computes it itself
    wide = "int32" if isinstance(narrow, IntegerType) else "float32"
    raise refusal(
        op, "scalar-type", f"{in_words(op)} of scalars of {narrow} is not supported",
        "the scalar unit computes with 32-bit words only",
        f"cast the operands to {wide} first, and the result back",
        f"the TPU compiler says: Not implemented: {_words(op)}",
    )  # fmt: skip


def _combined_extensions(op: Operation, target: Target) -> None:
    """Refuses `ext(a) & ext(b)` of narrow scalars, which the compiler rewrites as `ext(a & b)`."""
    left, right = (value.owner for value in op.operands)
    if not isinstance(left, arith.ExtSIOp | arith.ExtUIOp) or type(left) is not type(right):
        return
    narrow, other = left.operands[0].type, cast(Operation, right).operands[0].type
    if narrow == other and _is_narrow(narrow):
        raise refusal(
            op, "scalar-type", f"{in_words(op)} of two scalars that were {narrow} is not supported",
            f"the compiler combines them as {narrow} before it extends them, and the scalar unit "
            "computes with 32-bit words only",
            "keep one of them in memory as int32",
            "the TPU compiler says: Not implemented: Only i1 and i32 scalars are supported",
        )  # fmt: skip


def _is_known(value: SSAValue, depth: int = 8) -> bool:
    """Whether `value` is computed from constants alone."""
    op = value.owner
    if not isinstance(op, Operation) or not depth:
        return False
    if op.dialect_name() != "arith" and not isinstance(op, _COMPUTED_BEFORE):
        return False
    return all(_is_known(operand, depth - 1) for operand in op.operands)


def _is_narrow(type: Attribute) -> bool:
    if isinstance(type, IntegerType):
        return type.width.data not in (1, 32)
    return _is_narrow_float(type)


def _is_narrow_float(type: Attribute) -> bool:
    return isinstance(type, AnyFloat) and type.bitwidth < 32


def _words(op: Operation) -> str:
    """The TPU compiler's own message, so that a search for it finds this refusal."""
    if isinstance(op, arith.AddiOp | arith.SubiOp | arith.MuliOp):
        return f"Only i32 {op.name} is supported"
    return "Only i1 and i32 scalars are supported"


def _carried_scalars(op: Operation, target: Target) -> None:
    """Refuses loops and branches that carry narrow floats; narrow integers are legal."""
    narrow = next((r.type for r in op.results if _is_narrow_float(r.type)), None)
    if narrow is not None:
        raise refusal(
            op, "scalar-type", f"a scalar of {narrow} that {in_words(op)} carries is not supported",
            "the scalar unit has no registers for narrow floats",
            "cast it to float32 inside, and the result back",
        )  # fmt: skip


def _seeds(op: tpu.PrngSetSeed32Op, target: Target) -> None:
    """Refuses seeds of more than two words."""
    words = len(op.seeds)
    if not 0 < words <= _SEEDS:
        raise refusal(
            op, "seed-words", f"{words} words are no seed of the random number generator",
            f"the generator is seeded with one word, or with {_SEEDS}",
            "combine the others into one word, as by multiplications and exclusive or" if words
            else "give it a number",
            f"the TPU compiler says: Setting seed with more than {_SEEDS} values is not supported"
            if words else "the TPU compiler ends without a message",
        )  # fmt: skip


def _bits(op: Operation, target: Target) -> None:
    """Refuses signed comparisons and arithmetic of booleans: they are combined, selected and
    compared unsigned."""
    if op.operands[0].type != i1:
        return
    if isinstance(op, arith.CmpiOp):
        name = op.predicate_name
        if name[0] != "s":
            return
        what, instead = f"comparing scalars of i1 by {name!r}", "compare them without a sign"
    else:
        what, instead = f"{in_words(op)} of scalars of i1", "combine booleans by &, | and ^"
    raise refusal(
        op, "scalar-type", f"{what} is not supported",
        "a boolean of the scalar unit is a predicate, which it does not calculate with",
        f"{instead}, or cast them to int32 first",
    )  # fmt: skip


def _bit_conversion(op: Operation, target: Target) -> None:
    """Refuses sign extensions of booleans, and casts of them to index, which extend the sign,
    too."""
    if op.operands[0].type == i1 and not _is_known(op.operands[0]):
        index = isinstance(op, arith.IndexCastOp | arith.IndexCastUIOp)
        raise refusal(
            op, "scalar-type", f"{in_words(op)} of a scalar of i1 is not supported",
            "a boolean is taken for an integer without a sign only",
            "cast it to int32 by astype" + ("" if index else ", and negate that"),
        )  # fmt: skip


def _float_conversion(op: Operation, target: Target) -> None:
    """Refuses conversions from floats that the scalar unit does not read, and those to a float
    unless one side is float32."""
    source, result = op.operands[0].type, op.results[0].type
    if isinstance(source, VectorType):
        return
    if isinstance(source, AnyFloat) and str(source) not in _READ:
        raise refusal(
            op, "scalar-type", f"{in_words(op)} of a scalar of {source} is not supported",
            "the scalar unit does not convert from it",
            "convert it outside of the kernel, to float32",
        )  # fmt: skip
    if isinstance(result, AnyFloat) and f32 not in (source, result):
        raise refusal(
            op, "scalar-type", f"{in_words(op)} of a scalar from {source} to {result} is not "
            "supported",
            "the scalar unit converts narrow floats from and to float32 only",
            "cast it to float32 in between",
        )  # fmt: skip


def _scalar_load(op: memref.LoadOp, target: Target) -> None:
    """Refuses loads of booleans and f16."""
    if op.results[0].type in (i1, f16):
        raise refusal(
            op, "scalar-type", f"reading a scalar of {op.results[0].type} is not supported",
            "the scalar unit reads integers, bfloat16, 8-bit floats and float32",
            "store it as int32 or float32",
        )  # fmt: skip


def _stored_constant(op: memref.StoreOp, target: Target) -> None:
    """Refuses stores of narrow floats that the compiler computes itself: it keeps the number as a
    constant of their type, for which it has no instruction."""
    narrow = op.value.type
    if _is_narrow_float(narrow) and _is_known(op.value):
        raise refusal(
            op, "scalar-type", f"{in_words(op)} of a constant scalar of {narrow} is not supported",
            "the scalar unit has constants of integers and of float32 only",
            "pass the number to the kernel as an operand in SMEM, and store what that holds",
            "or make the ref float32, and cast it outside of the kernel",
            "the TPU compiler says: failed to legalize unresolved materialization",
        )  # fmt: skip


def _fraction(op: tpu.FptosiOp | tpu.FptouiOp, target: Target) -> None:
    """Refuses conversions to integers that round in another way than towards zero."""
    mode = op.rounding_mode.data
    if not isinstance(op.results[0].type, VectorType) and mode is not RoundingMode.TOWARDS_ZERO:
        raise refusal(
            op, "scalar-type", f"{in_words(op)} of a scalar with rounding {mode.value} is not "
            "supported",
            "the scalar unit rounds towards zero only",
            "write jnp.round(x).astype(jnp.int32)",
        )  # fmt: skip


_CONVERSIONS = (
    arith.BitcastOp, arith.ConstantOp, arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp, arith.FPToSIOp,
    arith.FPToUIOp, arith.IndexCastOp, arith.IndexCastUIOp, arith.SIToFPOp, arith.TruncFOp,
    arith.TruncIOp, arith.UIToFPOp, arith.ConvertFOp, arith.ScalingExtFOp, arith.ScalingTruncFOp,
)  # fmt: skip
"""Operations that narrow scalars are made for: they only change the type."""
_BITWISE = (arith.AndIOp, arith.OrIOp, arith.XOrIOp, arith.SelectOp)
"""What predicates are combined by."""
_READ = ("f32", "bf16", "f8E5M2", "f8E4M3FN", "f8E4M3B11FNUZ")
"""Floats that scalars are converted from; they are converted to all."""
_COMPUTING = [
    kind
    for dialect in (arith.Arith, math.Math)
    for kind in dialect.operations
    if not issubclass(kind, _CONVERSIONS)
]

_COMPUTED_BEFORE = (
    math.AbsFOp, math.AbsIOp, math.CeilOp, math.CountLeadingZerosOp, math.CtPopOp, math.FloorOp,
    math.RoundEvenOp,
)  # fmt: skip
"""Functions that the compiler computes of constants of every type."""

_SEEDS = 2

_ON_BITS = [
    kind for kind in arith.Arith.operations
    if not issubclass(kind, (*_CONVERSIONS, *_BITWISE))
]  # fmt: skip

SCALAR_RULES: RuleTable = {
    **dict.fromkeys([kind for kind in _COMPUTING if kind not in ABSENT_SCALARS], (_scalars,)),
    **dict.fromkeys((scf.ForOp, scf.IfOp, scf.WhileOp), (_carried_scalars,)),
    **dict.fromkeys([kind for kind in _ON_BITS if kind not in ABSENT_SCALARS], (_scalars, _bits)),
    **dict.fromkeys((arith.AndIOp, arith.OrIOp, arith.XOrIOp), (_scalars, _combined_extensions)),
    **dict.fromkeys(
        (arith.ExtSIOp, arith.SIToFPOp, tpu.SitofpOp, arith.IndexCastOp, arith.IndexCastUIOp),
        (_bit_conversion,),
    ),
    **dict.fromkeys(
        (arith.ExtFOp, arith.TruncFOp, arith.FPToSIOp, arith.FPToUIOp, tpu.ExtfOp, tpu.TruncfOp),
        (_float_conversion,),
    ),
    **dict.fromkeys((tpu.FptosiOp, tpu.FptouiOp), (_float_conversion, _fraction)),
    memref.LoadOp: (_scalar_load,),
    memref.StoreOp: (_stored_constant,),
    tpu.PrngSetSeed32Op: (_seeds,),
}
"""Rules of the reference for operations on scalars: every operation and type was asked of libtpu
0.0.51, for v4, v5e and v7x, which agree."""
