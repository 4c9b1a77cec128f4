"""Refuses conversions between element types that a target or the TPU compiler does not have.

`--allow-beyond-reference` lifts these rules, except `ROUNDING_RULES`. Asked of libtpu 0.0.51 for v4
to v7x, one kernel for each conversion.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import AnyFloat, BFloat16Type, VectorType
from xdsl.ir import Attribute, Operation

from pallasite.dialects import arith, tpu
from pallasite.dialects.arith_casts import rounding_of
from pallasite.dialects.in_words import in_words
from pallasite.dialects.locations import refusal
from pallasite.dialects.rounding import rounding_mode
from pallasite.dialects.types import bit_width
from pallasite.passes.check_kernel.rules import RuleTable
from pallasite.targets import Target

_NEAREST, _TOWARDS_ZERO = tpu.RoundingMode.TO_NEAREST_EVEN, tpu.RoundingMode.TOWARDS_ZERO


def _conversion(op: Operation, target: Target) -> None:
    """Refuses conversions of element types that a target can only move (`Target.unconverted`)."""
    kinds = (op.operands[0].type, op.results[0].type)
    if not all(isinstance(kind, VectorType) for kind in kinds):
        return
    source, result = (str(cast("VectorType[Attribute]", kind).element_type) for kind in kinds)
    narrow = next((name for name in (source, result) if name in target.unconverted), None)
    if narrow is not None:
        raise refusal(
            op, "narrow-cast", f"{target.name} does not convert {source} to {result}",
            f"its registers hold {narrow}, but no unit of it unpacks or packs such elements",
            "convert outside of the kernel, or store them as a wider type",
        )  # fmt: skip


def _scale(op: Operation, target: Target) -> None:
    """Refuses conversions to f8E8M0FNU, powers of two, which no TPU computes."""
    kind = op.results[0].type
    if isinstance(kind, VectorType) and str(cast("VectorType[Attribute]", kind).element_type) == (
        "f8E8M0FNU"
    ):
        raise refusal(
            op, "narrow-cast", "no TPU converts to f8E8M0FNU",
            "the type holds scales, which are converted to wider floats only",
            "keep scales as float32 or bfloat16, or shift the bits of a float32 yourself",
        )  # fmt: skip


def _unpacked_floats(op: tpu.UnpackElementwiseOp, target: Target) -> None:
    """Refuses to unpack floats that are narrower than a target's instruction does; integers are
    unpacked by shifts."""
    packed = op.source_type
    if isinstance(packed, AnyFloat) and packed.bitwidth < target.interleaved_pack_bits:
        raise refusal(
            op, "narrow-cast", f"{target.name} does not unpack {packed} from words",
            "its unit does not unpack elements that lie interleaved in words",
            "bits that are moved up are a float32: pltpu.bitcast(x << 16, jnp.float32), or "
            "x & 0xFFFF0000 for the upper half",
        )  # fmt: skip


def _rounding_of_packed(
    op: arith.TruncFOp | tpu.TruncfOp | tpu.SitofpOp | tpu.UitofpOp, target: Target
) -> None:
    """Refuses rounding modes when packing: it rounds to the nearest even number, and for bfloat16
    bits can be cut off before."""
    mode, kind = rounding_mode(op), op.result.type
    if bit_width(kind) == 32:
        return
    cut = isinstance(kind, VectorType) and isinstance(kind.element_type, BFloat16Type)
    if mode is _NEAREST or (cut and mode is _TOWARDS_ZERO):
        return
    name = rounding_of(op) if isinstance(op, arith.TruncFOp) else op.rounding_mode.data.value
    raise refusal(
        op, "rounding-mode", f"{in_words(op)} to {kind} with rounding {name} is not supported",
        "registers are packed with rounding to the nearest even number",
        "round to the nearest, or cut the bits off yourself: of a float32 x, "
        "pltpu.bitcast(pltpu.bitcast(x, jnp.int32) & -65536, jnp.float32) is a bfloat16 towards "
        "zero",
    )  # fmt: skip


def _rounding_of_integer(op: tpu.SitofpOp | tpu.UitofpOp, target: Target) -> None:
    """Refuses conversions of integers to floats with another rounding than to nearest even."""
    if rounding_mode(op) is not _NEAREST:
        raise refusal(
            op, "rounding-mode", f"{in_words(op)} rounds to the nearest even number only",
            "its instruction has no other mode",
            "use rounding_mode = #tpu.rounding_mode<to_nearest_even>",
        )  # fmt: skip


def _unsigned_fraction(op: tpu.FptouiOp, target: Target) -> None:
    """Refuses conversions of floats to unsigned words with another rounding than towards zero;
    narrower integers are made as signed ones."""
    kind = op.result.type
    if bit_width(kind) == 32 and rounding_mode(op) is not _TOWARDS_ZERO:
        raise refusal(
            op, "rounding-mode", f"{in_words(op)} to {kind} rounds towards zero only",
            "its instruction has no other mode", "write jnp.round(x).astype(jnp.uint32)",
        )  # fmt: skip


ROUNDING_RULES: RuleTable = dict.fromkeys(
    (arith.TruncFOp, tpu.TruncfOp, tpu.SitofpOp, tpu.UitofpOp), (_rounding_of_packed,)
)
"""Rules of conversions that the lowering needs as well."""
CAST_RULES: RuleTable = {
    **dict.fromkeys(
        (
            arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.SIToFPOp,
            arith.UIToFPOp, arith.FPToSIOp, arith.FPToUIOp, tpu.ExtfOp, tpu.FptosiOp,
        ),
        (_conversion,),
    ),
    **dict.fromkeys((tpu.SitofpOp, tpu.UitofpOp), (_conversion, _rounding_of_integer)),
    tpu.FptouiOp: (_conversion, _unsigned_fraction),
    **dict.fromkeys((arith.TruncFOp, tpu.TruncfOp), (_conversion, _scale)),
    tpu.UnpackElementwiseOp: (_unpacked_floats,),
}  # fmt: skip
"""Rules of the reference for conversions between element types."""
