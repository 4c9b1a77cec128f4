"""Which stores of vectors a TensorCore has."""

from __future__ import annotations

from pallasite.dialects import tpu
from pallasite.passes.check_vectors import refusal
from pallasite.targets import Target


def no_addition(op: tpu.VectorStoreOp, target: Target) -> None:
    """Raises `Unsupported` for a store that adds (libtpu: "not implemented: add to vmem")."""
    if op.add.value.data:
        raise refusal(
            op, "store-add", "a store that adds to what is in memory is not for TensorCores",
            "only stores of the SparseCore add",
            "load, add and store",
        )  # fmt: skip


def rank_rule(op: tpu.VectorStoreOp, target: Target) -> None:
    """Raises `Unsupported` for vectors of lower rank than their memref.

    libtpu: "memref and vector rank mismatch"; `vector.store` has no such rule.
    """
    stored, memref = op.value.type, op.base.type
    if stored.get_num_dims() != memref.get_num_dims():
        raise refusal(
            op, "store-rank", f"the TPU compiler cannot store {stored} to {memref}",
            "it wants a vector with as many dimensions as the memref",
            "give the value leading dimensions of 1",
        )  # fmt: skip
