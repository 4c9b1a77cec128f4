"""Refuses operations on vectors by operation and element type.

Every rule was found by asking libtpu 0.0.51 (v4 to v7x) about kernels of one operation; the reasons
are in spec/vreg_lowering.md sections 4.2, 5.6 and 8.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float32Type,
    IntegerAttr,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, math, tpu, vector
from pallasite.dialects.in_words import in_words
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import AnyVector, bit_width, element_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.check_kernel.rules import Rule, RuleTable
from pallasite.targets import Target, targets_with

_WORDS = frozenset({32})
_HALVES = frozenset({16, 32})
_SUMS = (arith.AddiOp, arith.SubiOp, arith.MuliOp, math.AbsIOp)
_INTEGER_WIDTHS: dict[type[Operation], frozenset[int]] = {
    **dict.fromkeys(_SUMS, _HALVES),
    **dict.fromkeys(
        (
            arith.DivSIOp, arith.RemSIOp, arith.MinSIOp, arith.MinUIOp, arith.MaxSIOp,
            arith.MaxUIOp, arith.AddUIExtendedOp, arith.SubUIExtendedOp, arith.MulSIExtendedOp,
            arith.MulUIExtendedOp, math.CtPopOp, math.CountLeadingZerosOp,
        ),
        _WORDS,
    ),
    **dict.fromkeys((arith.DivUIOp, arith.RemUIOp), _HALVES),
    math.CountTrailingZerosOp: frozenset(),
}  # fmt: skip
"""Widths of vector elements that the integer operations take; bitwise ones take all."""
_NARROW_SUMS = (
    "the TPU compiler says: Not implemented: Only vector<i16> and vector<i32> are supported"
)
"""The compiler's own message, by which programs and searches know it."""
EXTREMUM_AS_FLOATS = (
    "compare as float32, which holds them exactly: "
    "jnp.maximum(a.astype(jnp.float32), b.astype(jnp.float32)), and convert back"
)
"""Advice for narrow integers: the compiler takes a maximum of int32 back to their type."""
_EXTREMA = (arith.MaxSIOp, arith.MaxUIOp, arith.MinSIOp, arith.MinUIOp)

_WIDE_FLOATS = (
    arith.AddfOp, arith.SubfOp, arith.MulfOp, arith.DivfOp, arith.MaximumfOp, arith.MinimumfOp,
    arith.MaxnumfOp, arith.MinnumfOp, arith.NegfOp, arith.CmpfOp, math.AbsFOp, math.CeilOp,
    math.CosOp, math.ErfOp, math.ExpOp, math.Exp2Op, math.FloorOp, math.LogOp, math.Log1pOp,
    math.Log2Op, math.PowFOp, math.RoundOp, math.RoundEvenOp, math.RsqrtOp, math.SinOp,
    math.SqrtOp, math.TanOp, math.TanhOp,
)  # fmt: skip
"""Operations on f32 and bf16 vectors (bf16 through f32 where the target has no bf16 unit)."""
_SINGLE_FLOATS = (math.Atan2Op, arith.RemFOp)
_NO_FLOATS = (
    math.AcosOp, math.AcoshOp, math.AsinOp, math.AsinhOp, math.AtanOp, math.AtanhOp, math.CbrtOp,
    math.CopySignOp, math.CoshOp, math.ExpM1Op, math.SinhOp,
)  # fmt: skip


def _integers(op: Operation, target: Target) -> None:
    type = op.operands[0].type
    widths = _INTEGER_WIDTHS[op.__class__]
    if isinstance(op, arith.DivUIOp | arith.RemUIOp) and target.byte_division:
        widths |= {8}
    if isinstance(op, arith.AddUIExtendedOp) and arith.AddiOp.name in target.i16_ops:
        widths |= {16}
    if not isinstance(type, VectorType) or bit_width(type) in widths:
        return
    element = cast(AnyVector, type).element_type
    known = " and ".join(f"i{w}" for w in sorted(widths))
    raise refusal(
        op, "narrow-integer",
        f"{in_words(op)} takes vectors of {known}, got {element}" if known
        else f"the vector unit does not have {in_words(op)}",
        _as_words(op),
        *([_NARROW_SUMS] if isinstance(op, _SUMS) else []),
    )  # fmt: skip


def _as_words(op: Operation) -> str:
    """Advice for an operation on narrow integers: cast them to int32."""
    bits = bit_width(op.operands[0].type)
    unsigned = f"x.astype(jnp.int32) & {(1 << bits) - 1}"
    if isinstance(op, math.CtPopOp):
        return f"write lax.population_count({unsigned})"
    if isinstance(op, math.CountLeadingZerosOp):
        return f"write lax.clz({unsigned}) - {32 - bits}"
    if isinstance(op, arith.ShRUIOp):
        return f"write lax.shift_right_logical({unsigned}, n.astype(jnp.int32)), and cast it back"
    if isinstance(op, math.CountTrailingZerosOp):
        wide = "" if bits == 32 else f" of n = x.astype(jnp.int32) | {1 << bits}"
        return f"count the ones below the last{wide}: lax.population_count((n & -n) - 1)"
    return EXTREMUM_AS_FLOATS if isinstance(op, _EXTREMA) else "cast the operands to int32 first"


def constant_or_value(value: SSAValue) -> object:
    """The number that a splat consists of, so that equal constants compare equal; else the value
    itself."""
    owner = value.owner
    if isinstance(owner, vector.BroadcastOp | arith.TruncIOp):
        return constant_or_value(owner.operands[0])
    if isinstance(owner, arith.ExtSIOp | arith.ExtUIOp):
        return owner.__class__, constant_or_value(owner.operands[0])
    if isinstance(owner, arith.ConstantOp):
        constant = owner.value
        if isinstance(constant, IntegerAttr):
            return cast("IntegerAttr[IntegerType]", constant).value.data
        if isinstance(constant, DenseIntOrFPElementsAttr) and constant.is_splat():
            return next(iter(constant.get_values()))
    return value


def _shifts(op: Operation, target: Target) -> None:
    """Refuses shifts of booleans; and, on some targets, of elements under 16 bits by amounts that
    are not constant."""
    type, amount = op.operands[0].type, constant_or_value(op.operands[1])
    if not isinstance(type, VectorType) or bit_width(type) >= 16:
        return
    if bit_width(type) == 1:
        raise refusal(
            op, "narrow-integer", f"{in_words(op)} of vectors of i1 is not supported",
            "registers of masks are combined by bitwise operations only",
            "cast the operands to int32 first",
        )  # fmt: skip
    if isinstance(amount, int):
        return
    if not target.unsigned_unpack:
        element = cast(AnyVector, type).element_type
        raise refusal(
            op, "narrow-integer",
            f"{target.name} does not shift vectors of {element} by amounts that are not constant",
            _as_words(op),
        )  # fmt: skip


def _floats(*allowed: type[Attribute]) -> Rule:
    def rule(op: Operation, target: Target) -> None:
        type = op.operands[0].type
        if not isinstance(type, VectorType):
            return
        element = cast(AnyVector, type).element_type
        if isinstance(element, allowed):
            return
        raise refusal(
            op, "float-type", f"{in_words(op)} of vectors of {element} is not supported",
            "cast the operands to float32 first" if allowed else "express it by other operations",
        )  # fmt: skip

    return rule


def _truncation(op: math.TruncOp, target: Target) -> None:
    allowed = (Float32Type, BFloat16Type) if target.bf16_trunc else (Float32Type,)
    _floats(*allowed)(op, target)


def _reduction(op: vector.MultiReductionOp, target: Target) -> None:
    """Refuses reductions other than sums, maxima and minima of f32, bf16 and i32."""
    kind, element = op.kind.data, element_of(op.source)
    if isinstance(element, Float32Type | BFloat16Type):
        known = ("add", "maximumf", "minimumf", "maxnumf", "minnumf")
    elif bit_width(element) == 32:
        known = ("add", "maxsi", "minsi")
    else:
        raise refusal(
            op, "reduction-type", f"vectors of {element} cannot be reduced",
            "cast to float32 or int32 first",
        )  # fmt: skip
    if kind not in known:
        raise refusal(
            op, "reduction-kind",
            f"reductions of {element} are {', '.join(known)}, got {kind}",
            "combine slices with the elementwise operation instead",
        )  # fmt: skip


def gather_unit(op: tpu.DynamicGatherOp, target: Target) -> None:
    """Refuses gathers along sublanes on targets that only gather along lanes."""
    shape = op.source.type.get_shape()
    if (len(shape) - 2) in op.dimensions.get_values() and not target.sublane_gather:
        raise refusal(
            op, "sublane-gather", f"{target.name} has no gather along sublanes",
            f"choose among the rows, from found = jnp.zeros(indices.shape, x.dtype): for i in "
            f"range({shape[-2]}): found = jnp.where(indices == i, "
            f"x[{':, ' * (len(shape) - 2)}i : i + 1], found)",
        )  # fmt: skip


def _gather_width(op: tpu.DynamicGatherOp, target: Target) -> None:
    """Refuses gathers of widths that the compiler does not have, or by indices of another width."""
    source, indices = op.source.type, op.indices.type
    lanes = len(source.get_shape()) - 1 in op.dimensions.get_values()
    known = target.lane_gather_bits if lanes else target.sublane_gather_bits
    bits = bit_width(source)
    if bits not in known:
        raise refusal(
            op, "gather-width",
            f"{target.name} gathers {' or '.join(map(str, sorted(known)))}-bit elements along "
            f"{'lanes' if lanes else 'sublanes'}, got {bits}-bit ones",
            "cast the operand to a 32-bit type first, of indices of int32, and the result back",
            *_pieces_once_wide(op),
        )  # fmt: skip
    if bit_width(indices) != bits:
        raise refusal(
            op, "gather-width",
            f"a gather of {bits}-bit elements by {bit_width(indices)}-bit indices is not supported",
            "a register of indices selects among elements of the same width",
            f"cast the indices to int{bits}"
            + (", or the operand to a 32-bit type" if bit_width(indices) == 32 else ""),
        )  # fmt: skip


def _pieces_once_wide(op: tpu.DynamicGatherOp) -> list[str]:
    """What to write besides for a gather whose elements are words, if it reaches too far then."""
    shape, indices = op.source.type.get_shape(), op.indices.type.get_shape()
    dim = op.dimensions.get_values()[0]
    limit = LANES if dim == len(shape) - 1 else SUBLANES
    if dim < len(shape) - 2 or shape[dim] <= limit:
        return []
    return _in_pieces(shape[dim], indices[dim], limit, dim)


def gather_form(op: tpu.DynamicGatherOp, target: Target) -> None:
    """Refuses gathers along several dimensions, or along a leading one, which JAX never makes."""
    dims, rank = list(op.dimensions.get_values()), op.source.type.get_num_dims()
    if len(dims) != 1 or dims[0] < rank - 2:
        raise refusal(
            op, "gather-form", f"a gather along {dims} of {op.source.type} is not supported",
            "registers gather along lanes or sublanes",
            "gather along one of the last two dimensions, one at a time",
        )  # fmt: skip


def _gather_extent(op: tpu.DynamicGatherOp, target: Target) -> None:
    """Refuses gathers along more elements than one register has."""
    source = op.source.type
    shape, rows = source.get_shape(), SUBLANES * packing(bit_width(source))
    indices = op.indices.type.get_shape()
    for dim in op.dimensions.get_values():
        limit = LANES if dim == len(shape) - 1 else rows
        if dim >= len(shape) - 2 and shape[dim] > limit:
            raise refusal(
                op, "gather-extent",
                f"a gather of {source.element_type} reaches {limit} elements of dimension {dim}, "
                f"got {shape[dim]}",
                "the gather unit reads a single register",
                *_in_pieces(shape[dim], indices[dim], limit, dim),
            )  # fmt: skip


def _in_pieces(size: int, wanted: int, limit: int, dim: int) -> list[str]:
    """Advice for a gather of `wanted` from `size` elements of `dim`: in pieces of `limit`; pieces
    of the operand and of the indices have one shape."""
    before = ":, " * dim
    padded = [name for name, n in (("x", size), ("indices", wanted)) if n % limit]
    joined = "" if wanted <= limit else f", and jnp.concatenate of the pieces along {dim}"
    part = f"indices[{before}j : j + {limit}]" if wanted > limit else "indices"
    pads = f"pad {' and '.join(padded)} to a multiple of {limit} (jnp.pad), and cut the result"
    return [
        f"gather in pieces of {limit}: p = {part}; found = jnp.zeros(p.shape, x.dtype); for i in "
        f"range(0, {size}, {limit}): found = jnp.where(p // {limit} == i // {limit}, "
        f"jnp.take_along_axis(x[{before}i : i + {limit}], p % {limit}, {dim}, "
        f"mode='promise_in_bounds'), found){joined}",
        *([pads] if padded else []),
    ]


_GATHERED_ROW = (
    "gather within rows: jnp.take_along_axis(jnp.broadcast_to(x, (8, {n})), "
    "jnp.broadcast_to(indices, (8, {n})), 1, mode='promise_in_bounds')[0]"
)
_GATHERED_PIECES = (
    "reshape x and indices to rows of 128, gather from each row r of x, jnp.take_along_axis("
    "jnp.broadcast_to(x[r : r + 1], shape), indices % 128, 1, mode='promise_in_bounds'), and take "
    "that where indices // 128 == r"
)


def _flat(op: tpu.DynamicRotateOp | tpu.DynamicGatherOp | tpu.IotaOp, target: Target) -> None:
    """Refuses rotations, gathers and iotas of rank 1."""
    kind = cast(AnyVector, op.results[0].type)
    if len(kind.get_shape()) < 2:
        # JAX gathers along rows where there are several.
        count = max(kind.get_shape(), default=1)
        gathered = _GATHERED_PIECES if count > LANES else _GATHERED_ROW.format(n=count)
        is_gather = isinstance(op, tpu.DynamicGatherOp)
        raise refusal(
            op, "one-dimension", f"{in_words(op)} of a one-dimensional {kind} is not supported",
            "a flat vector runs through all sublanes of a register, lanes move within one",
            gathered if is_gather
            else "do it in two dimensions, (1, n), and reshape what goes in and comes out",
        )  # fmt: skip


def _comparison(op: arith.CmpfOp, target: Target) -> None:
    """Refuses comparisons of floats that are true for NaN."""
    name = op.predicate_name
    if name not in ("oeq", "ogt", "oge", "olt", "ole", "one"):
        raise refusal(
            op, "comparison", f"comparing floats by {name!r} is not supported",
            "the compiler has the ordered comparisons only, which are false for NaN",
            "negate the opposite comparison (not x <= y for 'ugt'), or compare x with itself, "
            "which is 'oeq' unless x is NaN",
        )  # fmt: skip


def _narrow_iota(op: tpu.IotaOp, target: Target) -> None:
    """Refuses iotas of under 8 bits; and of 16 bits over several registers, on targets that cannot
    add 16-bit integers."""
    kind = cast(AnyVector, op.results[0].type)
    shape, bits = kind.get_shape(), bit_width(kind)
    if bits < 8:
        raise refusal(
            op, "narrow-integer", f"{kind.element_type} cannot be counted",
            "registers of numbers are made of 8, 16 or 32 bits",
            "make an int32 iota and convert it",
            "the TPU compiler says: Only 8-, 16- and 32-bit Iota supported",
        )  # fmt: skip
    if bits != 16 or "arith.addi" in target.i16_ops:
        return
    for dim in op.dimensions.get_values():
        block = {1: LANES, 2: SUBLANES * packing(bits)}.get(len(shape) - dim, shape[dim])
        if shape[dim] > block:
            raise refusal(
                op, "narrow-integer", f"{target.name} counts {block} elements of "
                f"{kind.element_type} along dimension {dim}, got {shape[dim]}",
                "further registers need an addition of 16-bit integers, which it does not have",
                "make an int32 iota and convert it",
            )  # fmt: skip


REFERENCE_RULES: RuleTable = {
    arith.CmpfOp: (_comparison,),
    tpu.DynamicGatherOp: (_flat, gather_form, _gather_width, _gather_extent),
    tpu.DynamicRotateOp: (_flat,),
    tpu.IotaOp: (_flat, _narrow_iota),
}  # fmt: skip
"""What the TPU compiler refuses and we could do: `--allow-beyond-reference` lifts these."""


def _stochastic_rounding(op: Operation, target: Target) -> None:
    """Refuses stochastic rounding on targets without it."""
    if not target.stochastic_round:
        raise refusal(
            op, "stochastic-round", f"{target.name} has no stochastic rounding",
            f"{targets_with(lambda t: t.stochastic_round)} have it",
            "round to nearest with astype, or add random bits below those kept and cut them off",
        )  # fmt: skip


def scalar_rule(op: vector.ExtractOp, target: Target) -> None:
    """Refuses to extract anything but one element of 32 bits at a constant position."""
    kind = cast(AnyVector, op.operands[0].type)
    if len(op.static_position) != kind.get_num_dims() or len(op.operands) > 1:
        raise refusal(
            op, "extract-position", "only one element at a position known at compile time can be "
            "extracted from a vector", "slice the vector first, or read it from SMEM",
        )  # fmt: skip
    if bit_width(kind) != 32:
        raise refusal(
            op, "extract-width",
            f"a scalar of {kind.element_type} cannot be extracted from a vector",
            "scalar registers hold 32 bits", "convert the vector to a 32-bit type first",
        )  # fmt: skip


COMPUTE_RULES: RuleTable = {
    **dict.fromkeys(_INTEGER_WIDTHS, (_integers,)),
    **dict.fromkeys((arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp), (_shifts,)),
    **dict.fromkeys(_WIDE_FLOATS, (_floats(Float32Type, BFloat16Type),)),
    **dict.fromkeys(_SINGLE_FLOATS, (_floats(Float32Type),)),
    **dict.fromkeys(_NO_FLOATS, (_floats(),)),
    math.TruncOp: (_truncation,),
    tpu.DynamicGatherOp: (gather_unit,),
    tpu.StochasticConvertOp: (_stochastic_rounding,),
    vector.ExtractOp: (scalar_rule,),
    vector.MultiReductionOp: (_reduction,),
}
"""What each operation of a kernel that computes on whole vectors must obey."""
