"""Where a kernel runs: device, core, subcore, grid size; and its random numbers."""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from pallasite.dialects.tpu.base import I32_ATTR, VECTOR, TpuOp


@irdl_op_definition
class DeviceIdOp(TpuOp):
    """The logical number of this device."""

    name = "tpu.device_id"

    result = result_def(i32)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"


@irdl_op_definition
class CoreIdOp(TpuOp):
    """The number of this SparseCore."""

    name = "tpu.core_id"

    result = result_def(i32)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"


@irdl_op_definition
class SubcoreIdOp(TpuOp):
    """The number of this vector subcore."""

    name = "tpu.subcore_id"

    result = result_def(i32)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"


@irdl_op_definition
class IterationBoundOp(TpuOp):
    """The number of steps of grid dimension `dim`."""

    name = "tpu.iteration_bound"

    dim = prop_def(I32_ATTR)
    result = result_def(i32)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$dim attr-dict `:` type($result)"


@irdl_op_definition
class PrngSetSeed32Op(TpuOp):
    """Seeds the hardware generator."""

    name = "tpu.prng_set_seed_32"

    seeds = var_operand_def(i32)


@irdl_op_definition
class PrngRandomBitsOp(TpuOp):
    """Random bits of the hardware generator."""

    name = "tpu.prng_random_bits"

    result = result_def(VECTOR)


OPERATIONS = (
    DeviceIdOp,
    CoreIdOp,
    SubcoreIdOp,
    IterationBoundOp,
    PrngSetSeed32Op,
    PrngRandomBitsOp,
)
