"""Refuses maxima, minima, argmax and argmin of replicated vectors, on which the TPU compiler fails.

It keeps some vectors replicated over the sublanes or lanes of a register (`replication.py`). An
argmax or argmin of one crashes if the reduced dimension is a leading one, neither rows nor lanes. A
packed maximum or minimum along a replicated dimension is not implemented. Asked of libtpu 0.0.51
for v4, v5e, v6e and v7x. Our own lowering can do both, so `--allow-beyond-reference` lifts the
refusals.
"""

from __future__ import annotations

from functools import partial

from xdsl.dialects.builtin import VectorType

from pallasite.dialects import tpu, vector
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import bit_width, element_of, shape_of
from pallasite.passes import two_values
from pallasite.passes.check_kernel.replication import Replications
from pallasite.passes.check_kernel.rules import RuleTable
from pallasite.targets import Target


def replicated_reductions(known: Replications) -> RuleTable:
    """The rules of the reference for reductions, given which vectors are replicated."""
    return {
        tpu.ReduceIndexOp: (partial(_index_reduction, known),),
        vector.MultiReductionOp: (partial(_packed_extremum, known),),
    }


def _index_reduction(known: Replications, op: tpu.ReduceIndexOp, target: Target) -> None:
    """Refuses an argmax or argmin along a leading dimension of a replicated vector."""
    rank = len(op.input.type.get_shape())
    if op.axis.value.data >= rank - 2 or not any(known.of(op.input)):
        return
    raise refusal(
        op, "index-reduction", f"cannot reduce dimension {op.axis.value.data} of {op.input.type} "
        "to a place: the vector is the same in all rows or in all lanes of its registers",
        "the TPU compiler keeps such a vector once and crashes here: a row of its own, what was "
        "reduced with keepdims, broadcasts and iotas are kept so",
        "reduce along rows of an array of two dimensions: x[:, 0, :], or the result without "
        "keepdims",
    )  # fmt: skip


def _packed_extremum(known: Replications, op: vector.MultiReductionOp, target: Target) -> None:
    """Refuses a maximum or minimum of 16-bit floats along a dimension in which they are replicated,
    on targets that compute it packed."""
    kind = two_values.kind_of(op)
    native = f"arith.{kind}" in target.bf16_ops and bit_width(element_of(op.source)) == 16
    if not native or not isinstance(op.results[0].type, VectorType):
        return
    shape = shape_of(op.source.type)
    dims = [int(d) - len(shape) + 2 for d in op.reduction_dims.get_values()]
    replicated = known.of(op.source)
    if any(d >= 0 and shape[d - 2] > 1 and replicated[d] for d in dims):
        raise refusal(
            op, "reduced-copies", f"cannot reduce {op.source.type} along dimensions in which it is "
            "the same everywhere",
            "the TPU compiler keeps such a vector once, and finds no packed maximum or minimum of "
            "copies",
            "take one of them, x[:1] or x[:, :1], or reduce x.astype(jnp.float32)",
            "the TPU compiler says: Non-32-bit reductions over replicated axes",
        )  # fmt: skip
