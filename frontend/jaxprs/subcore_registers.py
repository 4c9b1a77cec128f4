"""What vector subcores do with registers: scans, sorts, counts of masks, packing, lanes.

Scans and sorts compare integers without a sign, so that the sign of signed ones is flipped before
and after. A reduction is the last lane of a scan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    IntegerAttr,
    VectorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from pallasite.dialects import arith, vector
from pallasite.dialects.tpu import (
    AllReduceOp,
    DynamicGatherOp,
    IotaOp,
    PackFormatAttr,
    PackSubelementsOp,
    ReductionKindAttr,
    ScanCountOp,
    ScanOp,
    SortOp,
    UnpackSubelementsOp,
)
from pallasite.dialects.tpu.keywords import PackFormat, ReductionKind
from pallasite.dialects.types import shape_of, splat
from pallasite.frontend.jaxprs import types
from pallasite.frontend.jaxprs.internals import subcore_core, subcore_primitives
from pallasite.frontend.jaxprs.rules import Result, subcore_rule
from pallasite.frontend.jaxprs.tracer import Equation

_LANES = "vectors of one register: ref[pl.ds(start, lanes)]"
_SCANS = {
    subcore_primitives.masked_cumsum_p: ReductionKind.SUM,
    subcore_primitives.masked_cummax_p: ReductionKind.MAX,
    subcore_primitives.masked_cummin_p: ReductionKind.MIN,
}
_REDUCTIONS = {
    lax.reduce_sum_p: ReductionKind.SUM,
    lax.reduce_max_p: ReductionKind.MAX,
    lax.reduce_min_p: ReductionKind.MIN,
}
_COUNTS = {
    subcore_primitives.all_reduce_population_count_p: ReductionKind.SUM,
    subcore_primitives.all_reduce_ffs_p: ReductionKind.FIND_FIRST_SET,
}


def lanes() -> int:
    """How many words a register of the target's subcores has."""
    return subcore_core.get_sparse_core_info().num_lanes


# Scans and reductions


@subcore_rule(*_SCANS)
def _masked_scan(e: Equation) -> Result:
    return _scanned(e, _SCANS[e.equation.primitive], e.operand(1))


@subcore_rule(lax.cumsum_p)
def _cumsum(e: Equation) -> Result:
    if len(e.inputs[0].shape) != 1 or e.params["reverse"]:
        raise e.unsupported(
            f"a cumulative sum of shape {e.inputs[0].shape}"
            + (" from the end" if e.params["reverse"] else ""),
            f"sum {_LANES}, from the first lane on",
        )
    return _scanned(e, ReductionKind.SUM, _everywhere(e))


@subcore_rule(*_REDUCTIONS)
def _reduction(e: Equation) -> Result:
    shape = e.inputs[0].shape
    if tuple(e.params["axes"]) != (0,) or len(shape) != 1:
        raise e.unsupported(
            f"'{e.name}' of shape {shape} along {e.params['axes']} on a subcore",
            f"reduce {_LANES}; add rows to each other in a loop",
        )
    scanned = _scanned(e, _REDUCTIONS[e.equation.primitive], _everywhere(e))
    return e.emit(vector.ExtractOp(scanned, [shape[0] - 1], types.element_type(e.output.dtype)))


@subcore_rule(lax.reduce_and_p)
def _all(e: Equation) -> Result:
    return _extreme(e, jnp.min)


@subcore_rule(lax.reduce_or_p)
def _any(e: Equation) -> Result:
    return _extreme(e, jnp.max)


def _extreme(e: Equation, of_floats: Callable[..., Any]) -> Result:
    """Whether the largest or smallest of 1.0 for true and 0.0 for false is 1.0."""
    axes = e.params["axes"]

    def found(x: Any) -> Any:
        return of_floats(jnp.where(x, 1.0, 0.0), axis=axes) > 0.0

    return e.expand(found)


def _scanned(e: Equation, kind: ReductionKind, mask: SSAValue) -> SSAValue:
    value = e.operand(0)
    flips = kind is not ReductionKind.SUM and e.inputs[0].dtype == np.int32
    if flips:
        value = _with_sign_flipped(e, value)
    result = e.emit(
        ScanOp(
            operands=[value, [mask]],
            result_types=[value.type],
            properties={"kind": ReductionKindAttr(kind)},
        )
    )
    return _with_sign_flipped(e, result) if flips else result


def _with_sign_flipped(e: Equation, value: SSAValue) -> SSAValue:
    sign = e.tracer.spread(e.tracer.scalar(-(1 << 31), i32), shape_of(value.type))
    return e.emit(arith.XOrIOp(value, sign))


def _everywhere(e: Equation) -> SSAValue:
    """A mask of all lanes of the first operand."""
    return e.tracer.spread(e.tracer.scalar(True, i1), e.inputs[0].shape)


@subcore_rule(subcore_primitives.scan_count_p)
def _scan_count(e: Equation) -> Result:
    values, mask = e.operands()
    counts, last = e.outputs
    op = ScanCountOp(
        operands=[mask, values],
        result_types=[e.tracer.type_of(last), e.tracer.type_of(counts)],
    )
    e.add(op)
    return [op.counts, op.out_mask]


@subcore_rule(*_COUNTS)
def _mask_count(e: Equation) -> Result:
    kind = ReductionKindAttr(_COUNTS[e.equation.primitive])
    return e.emit(
        AllReduceOp(
            operands=[e.operand(0)],
            result_types=[e.result_type],
            properties={"dim": IntegerAttr(0, i64), "kind": kind},
        )
    )


# Sorts


@subcore_rule(subcore_primitives.masked_sort_p)
def _sort_key_val(e: Equation) -> Result:
    keys, values, *masks = e.operands()
    signed = e.inputs[0].dtype == np.int32
    if signed:
        keys = _with_sign_flipped(e, keys)
    mask = masks[0] if masks else _true(e)
    op = _sorted(e, keys, values, mask, descending=e.params["descending"])
    found = _with_sign_flipped(e, op.sorted_keys) if signed else op.sorted_keys
    return [found, op.sorted_values, *([op.output_mask] if masks else [])]


@subcore_rule(lax.sort_p)
def _sort(e: Equation) -> Result:
    """Keys as they are: those of int32 are sorted without their sign, as JAX lowers them."""
    wanted = (lanes(),)
    if e.params["num_keys"] != 1 or any(tuple(aval.shape) != wanted for aval in e.inputs):
        raise e.unsupported(
            f"a sort of {e.params['num_keys']} keys of shapes "
            + ", ".join(str(tuple(aval.shape)) for aval in e.inputs),
            f"a subcore sorts by one key: {_LANES}",
        )
    keys, *values = e.operands()
    mask = _true(e)
    sorts = [_sorted(e, keys, value, mask, descending=False) for value in values or [keys]]
    return [sorts[0].sorted_keys, *(op.sorted_values for op in sorts[: len(values)])]


def _true(e: Equation) -> SSAValue:
    return e.emit(arith.ConstantOp(splat(VectorType(i1, e.inputs[0].shape), True)))


def _sorted(
    e: Equation, keys: SSAValue, values: SSAValue, mask: SSAValue, *, descending: bool
) -> SortOp:
    op = SortOp(
        operands=[keys, values, [mask]],
        result_types=[mask.type, keys.type, values.type],
        properties={"descending": BoolAttr.from_bool(descending)},
    )
    e.add(op)
    return op


# Lanes


@subcore_rule(lax.iota_p)
def _iota(e: Equation) -> Result:
    shape = tuple(e.params["shape"])
    if shape != (lanes(),):
        raise e.unsupported(
            f"a subcore counts the {lanes()} lanes of a register, got shape {shape}",
            f"add a start to jax.lax.iota(jnp.int32, {lanes()}) in a loop",
        )
    dtype = e.output.dtype
    if not types.is_integer(dtype):
        return e.expand(lambda: lax.iota("int32", lanes()).astype(dtype))
    return e.emit(_counted(types.value_type(shape, types.element_type(dtype))))


def _counted(type: Attribute) -> IotaOp:
    properties = {"dimensions": DenseArrayBase.from_list(i32, [0])}
    return IotaOp(result_types=[type], properties=properties)


@subcore_rule(lax.rev_p)
def _reverse(e: Equation) -> Result:
    shape = tuple(e.inputs[0].shape)
    if tuple(e.params["dimensions"]) != (0,) or shape != (lanes(),):
        raise e.unsupported(
            f"a reversal of shape {shape} along {tuple(e.params['dimensions'])} on a subcore",
            f"reverse {_LANES}, or load the others in the order that is wanted",
        )
    last = e.tracer.spread(e.tracer.scalar(lanes() - 1, i32), (lanes(),))
    positions = e.emit(arith.SubiOp(last, e.emit(_counted(last.type))))
    return e.emit(
        DynamicGatherOp(
            operands=[e.operand(0), positions],
            result_types=[e.result_type],
            properties={"dimensions": DenseArrayBase.from_list(i32, [0])},
        )
    )


# Packing


@subcore_rule(subcore_primitives.bitcast_p)
def _bitcast(e: Equation) -> Result:
    return e.emit(vector.BitcastOp.build(operands=[e.operand(0)], result_types=[e.result_type]))


@subcore_rule(subcore_primitives.pack_p)
def _pack(e: Equation) -> Result:
    return e.emit(PackSubelementsOp.in_order(e.operands(), e.result_type, _format(e)))


@subcore_rule(subcore_primitives.unpack_p)
def _unpack(e: Equation) -> Result:
    return [
        e.emit(
            UnpackSubelementsOp(
                operands=[e.operand(0)],
                result_types=[e.result_type],
                properties={
                    "index": IntegerAttr(part, i32),
                    "pack_format": PackFormatAttr(_format(e)),
                },
            )
        )
        for part in range(2)
    ]


def _format(e: Equation) -> PackFormat:
    return PackFormat(e.params["format"].value)
