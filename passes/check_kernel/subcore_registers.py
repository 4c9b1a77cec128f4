"""Refuses vector operations that a vector subcore's registers do not have, for `check-kernel`.

The rules are about element types: integers of 32 bits only, floats of some types only, and
conversions between some pairs of types only. They were found by asking libtpu 0.0.51 for v5p, v6e
and v7x about every operation that JAX lowers and every element type of up to 32 bits; the three
targets agree. A message that begins "the TPU compiler says" quotes libtpu. All refusals are
`Unsupported` with the code `subcore-vector`.
"""

from __future__ import annotations

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import tpu
from pallasite.dialects.in_words import in_words
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import bit_width, element_type, shape_of
from pallasite.targets import SparseCores

_WORDS_ONLY = frozenset({
    "arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.shli", "arith.shrsi",
    "arith.shrui", "math.absi",
})  # fmt: skip
"""Integer operations that registers have for elements of 32 bits only."""
_FLOATS = {"arith.divf": (Float32Type, BFloat16Type), "arith.remf": (Float32Type,)}
"""The float types that an operation takes, by its name."""
_MATH = (Float32Type, BFloat16Type)
"""Float types for which registers have the functions of the `math` dialect; float16 is missing."""
_CHANGES_KIND = frozenset({
    "arith.fptosi", "arith.fptoui", "arith.sitofp", "arith.uitofp", "tpu.fptosi", "tpu.fptoui",
    "tpu.sitofp", "tpu.uitofp",
})  # fmt: skip
"""Conversions between integers and floats."""
_TO_FLOAT = frozenset({"arith.sitofp", "arith.uitofp", "tpu.sitofp", "tpu.uitofp"})
"""Conversions of integers to floats."""
_WIDENS = ("arith.extsi", "tpu.extsi")
_NARROWS = ("arith.truncf", "tpu.truncf")
_RESIZES = (*_NARROWS, "arith.extf", "tpu.extf")
"""Conversions between floats of different widths."""
_CONVERTS = _CHANGES_KIND | set(_RESIZES)
"""All conversions of which an end is a float."""
_FROM_MASK = _CHANGES_KIND | {"arith.extui", "arith.extsi"}
"""Conversions that may take a mask (i1)."""


def check_register(op: Operation, parts: SparseCores) -> None:
    """Raises `Unsupported` if a vector subcore's registers do not have `op` for its element types.

    `parts` has what differs between targets: the types that it does not convert.
    """
    if isinstance(op, tpu.ScanOp):
        _check_words(op, op.input.type, "a scan", "widen it to words before")
    elif isinstance(op, tpu.DynamicGatherOp) and (
        bit_width(op.source.type) < 32 or shape_of(op.indices.type) != shape_of(op.source.type)
    ):
        raise refusal(
            op, "subcore-vector", f"lanes of {op.source.type} are not gathered on a subcore",
            "the TPU compiler says: Different shapes for source and indices",
            "load them in the order that is wanted: plsc.load_gather, or use 32-bit elements",
        )  # fmt: skip
    elif isinstance(op, tpu.VectorStoreOp) and op.add.value.data:
        if bit_width(op.value.type) < 16:
            raise refusal(
                op, "subcore-vector", f"{op.value.type} are not added to VMEM by a store",
                "the TPU compiler ends there", "load, add and store, or use int32",
            )  # fmt: skip
    elif op.results and isinstance(op.results[0].type, VectorType):
        _check_type(op, op.results[0].type, parts)


def check_single(op: Operation, lanes: int) -> None:
    """Raises `Unsupported` for a result that does not fit into one register of `lanes` 32-bit
    words.

    Only the compiler's layout passes split a vector over several registers. Masks are never
    refused.
    """
    for result in op.results:
        if not isinstance(result.type, VectorType):
            continue
        bits, count = bit_width(result.type), _elements(result.type)
        if bits > 1 and count * bits > 32 * lanes:
            raise refusal(
                op, "subcore-vector",
                f"{in_words(op)} makes {result.type}, and a register has {lanes} words",
                "the TPU compiler says: failed to legalize operation",
                "take parts of a register each (plsc.unpack widens), or compile with "
                "pltpu.CompilerParams(needs_layout_passes=True)",
            )  # fmt: skip


def _elements(type: Attribute) -> int:
    """The number of elements of a vector type."""
    count = 1
    for size in shape_of(type):
        count *= size
    return count


def _check_type(op: Operation, result: Attribute, parts: SparseCores) -> None:
    """Refuses `op`, whose first result has the type `result`, by the tables of this file.

    The operations are elementwise ones and conversions; others pass.
    """
    source = op.operands[0].type if op.operands else result
    element = element_type(result)
    if op.name in _CONVERTS and {str(element), str(element_type(source))} & parts.unconverted:
        raise refusal(
            op, "subcore-vector", f"{in_words(op)} of {source} to {result}",
            "the TPU compiler ends there", "use bfloat16, or float8_e5m2",
        )  # fmt: skip
    if op.name in _WORDS_ONLY:
        _check_words(op, result, in_words(op), "unpack to words before: plsc.unpack, or use int32")
    elif op.name in _FROM_MASK and bit_width(source) == 1:
        _check_of_mask(op, result)
    elif op.name == "arith.extui":
        raise refusal(
            op, "subcore-vector", f"unsigned {source} are not widened on a subcore",
            "the TPU compiler says: Not implemented: non-i1 inputs",
            "widen them as signed integers, and mask the sign: x.astype(int32) & 0xff",
        )  # fmt: skip
    elif op.name in _CHANGES_KIND and not _is_folded(op):
        _check_width(op, _before_widening(op), result)
    elif op.name in _NARROWS and _made_of_integers(op.operands[0]) is not None:
        _check_width(op, _before_widening(_made_of_integers(op.operands[0]) or op), result)
    elif op.name in _RESIZES and not _is_resized(source, result):
        raise refusal(
            op, "subcore-vector", f"{source} do not become {result} in one step on a subcore",
            "the TPU compiler says: Only packing ratio of 2 is supported for float types",
            "go by way of bfloat16",
        )  # fmt: skip
    else:
        _check_float(op, result)


def _check_of_mask(op: Operation, result: Attribute) -> None:
    """Refuses to convert a mask to bytes and narrower elements."""
    if bit_width(result) < 16:
        raise refusal(
            op, "subcore-vector", f"a mask does not become {result} on a subcore",
            "the TPU compiler says: Failed in pass VectorUnrollPass",
            "select numbers of that type by it: jnp.where(mask, one, zero)",
        )  # fmt: skip


def _check_float(op: Operation, result: Attribute) -> None:
    """Refuses functions of floats that subcores do not compute in the type of `result`."""
    element = element_type(result)
    allowed = _FLOATS.get(op.name)
    if allowed is None and op.name.startswith("math."):
        allowed = _MATH if isinstance(element, Float16Type) else None
    if allowed is not None and not isinstance(element, allowed):
        raise refusal(
            op, "subcore-vector", f"{in_words(op)} of {result} on a subcore",
            "the TPU compiler says: op has an unsupported element type",
            "compute in float32",
        )  # fmt: skip


def _is_resized(source: Attribute, result: Attribute) -> bool:
    """Whether floats of type `source` become floats of type `result` in one step.

    It is so unless one of them has 8 bits; of those, float16 is never converted, and float32 is not
    narrowed directly.
    """
    if 8 not in (bit_width(source), bit_width(result)):
        return True
    if any(isinstance(element_type(kind), Float16Type) for kind in (source, result)):
        return False
    return (bit_width(source), bit_width(result)) != (32, 8)


def _is_folded(op: Operation) -> bool:
    """Whether `op` converts integers to floats that are only narrowed afterwards.

    The TPU compiler makes one conversion of both, so that the widths are checked at the narrowing.
    """
    users = [use.operation for use in op.results[0].uses]
    return op.name in _TO_FLOAT and bool(users) and all(u.name in _NARROWS for u in users)


def _made_of_integers(value: SSAValue) -> Operation | None:
    """The conversion of integers to floats that `value` is the result of, if it is one."""
    owner = value.owner
    return owner if isinstance(owner, Operation) and owner.name in _TO_FLOAT else None


def _before_widening(op: Operation) -> Attribute:
    """The type of the integers that `op` converts, as the compiler sees it.

    If they were just widened, it converts the narrow ones directly: i8 for `sitofp(extsi(i8))`.
    """
    source = op.operands[0]
    owner = source.owner
    if op.name in _TO_FLOAT and isinstance(owner, Operation) and owner.name in _WIDENS:
        source = owner.operands[0]
    return source.type


def _check_width(op: Operation, source: Attribute, result: Attribute) -> None:
    """Refuses a conversion between types of different widths, unless the source is a mask (i1)."""
    if bit_width(source) in (1, bit_width(result)):
        return
    raise refusal(
        op, "subcore-vector", f"{source} do not become {result} in one step on a subcore",
        "the TPU compiler says: Operands must have consistent bitwidth, also of an integer that is "
        "widened before or a float that is narrowed after",
        "convert between integers and floats of one width: x.astype(int16).astype(bfloat16)",
    )  # fmt: skip


def _check_words(op: Operation, type: Attribute, what: str, advice: str) -> None:
    """Refuses `what` on elements of `type` unless they are masks or words of 32 bits."""
    if bit_width(type) in (1, 32):
        return
    raise refusal(
        op, "subcore-vector", f"{what} of {type} on a subcore",
        "the TPU compiler says: op must have i32 elements", advice,
    )  # fmt: skip
