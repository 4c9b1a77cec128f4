"""Where a kernel runs: device, core, subcore, grid size; and its random numbers."""

from __future__ import annotations

from abc import ABC

from xdsl.dialects.builtin import ArrayAttr, i32
from xdsl.ir import Operation
from xdsl.irdl import (
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.tpu.base import I32_ATTR, VECTOR, TpuOp, check_widths, operands
from pallasite.dialects.tpu.cores import TENSOR_CORE, declared_core, enclosing_function
from pallasite.dialects.types import bit_width


class _IdOp(TpuOp, ABC):
    """A number that says where the kernel runs."""

    result = result_def(i32)

    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"


@irdl_op_definition
class DeviceIdOp(_IdOp):
    """The logical number of this device."""

    name = "tpu.device_id"


class _SparseCoreIdOp(_IdOp, ABC):
    """A number that only kernels of SparseCores have."""

    def verify_(self) -> None:
        check_sparse_core(self)


@irdl_op_definition
class CoreIdOp(_SparseCoreIdOp):
    """The number of this SparseCore."""

    name = "tpu.core_id"


@irdl_op_definition
class SubcoreIdOp(_SparseCoreIdOp):
    """The number of this vector subcore."""

    name = "tpu.subcore_id"


@irdl_op_definition
class IterationBoundOp(TpuOp):
    """The number of steps of grid dimension `dim`."""

    name = "tpu.iteration_bound"

    dim = prop_def(I32_ATTR)
    result = result_def(i32)

    assembly_format = "$dim attr-dict `:` type($result)"


@irdl_op_definition
class PrngSetSeed32Op(TpuOp):
    """Seeds the hardware generator."""

    name = "tpu.prng_set_seed_32"

    seeds = operands(i32)


@irdl_op_definition
class PrngRandomBitsOp(TpuOp):
    """Random bits of the hardware generator."""

    name = "tpu.prng_random_bits"

    result = result_def(VECTOR)

    def verify_(self) -> None:
        check_widths(self.result.type)
        if bit_width(self.result.type) > 32:
            raise VerifyException(f"expected elements of at most 32 bits, got {self.result.type}")


def check_sparse_core(op: Operation) -> None:
    """The enclosing function names a SparseCore and has no grid of its own."""
    core = declared_core(op)
    if core is None or core == TENSOR_CORE:
        raise VerifyException(f"{op.name} is for SparseCores, got {core or 'no core type'}")
    function = enclosing_function(op)
    if function is not None and isinstance(
        function.attributes.get("dimension_semantics"), ArrayAttr
    ):
        raise VerifyException(f"{op.name} is for functions without dimension_semantics")


OPERATIONS = (
    DeviceIdOp,
    CoreIdOp,
    SubcoreIdOp,
    IterationBoundOp,
    PrngSetSeed32Op,
    PrngRandomBitsOp,
)
