"""Conversions that the TPU compiler does not have; `--allow-beyond-reference` lifts these.

Asked of libtpu 0.0.51 for v4 to v7x, one kernel of one conversion each.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import AnyFloat, VectorType
from xdsl.ir import Attribute, Operation

from pallasite.dialects import arith, tpu
from pallasite.passes.check_vectors import Rule, refusal
from pallasite.targets import Target


def _conversion(op: Operation, target: Target) -> None:
    """Elements of some types are only moved: chips do not unpack and pack them."""
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
    """Powers of two without a sign are read from memory, never computed."""
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
    """Floats in words are unpacked by an instruction, integers by shifts."""
    packed = op.source_type
    if isinstance(packed, AnyFloat) and packed.bitwidth < target.interleaved_pack_bits:
        raise refusal(
            op, "narrow-cast", f"{target.name} does not unpack {packed} from words",
            "its unit does not unpack elements that lie interleaved in words",
            "bits that are moved up are a float32: pltpu.bitcast(x << 16, jnp.float32), or "
            "x & 0xFFFF0000 for the upper half",
        )  # fmt: skip


CAST_RULES: dict[type[Operation], tuple[Rule, ...]] = {
    **dict.fromkeys(
        (
            arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.SIToFPOp,
            arith.UIToFPOp, arith.FPToSIOp, arith.FPToUIOp, tpu.ExtfOp, tpu.SitofpOp,
            tpu.UitofpOp, tpu.FptosiOp, tpu.FptouiOp,
        ),
        (_conversion,),
    ),
    **dict.fromkeys((arith.TruncFOp, tpu.TruncfOp), (_conversion, _scale)),
    tpu.UnpackElementwiseOp: (_unpacked_floats,),
}  # fmt: skip
"""Rules of the reference for conversions between element types."""
