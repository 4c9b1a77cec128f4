"""How a program calls a kernel that is written by hand: what `tpu.call` says for one from JAX."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    i1,
    i32,
)
from xdsl.ir import Attribute

from pallasite.dialects.kernel import DYNAMIC
from pallasite.dialects.kernel_call import (
    BOOLEAN_OPERANDS,
    BOOLEANS,
    CONFIG,
    EFFECTS,
    NAME,
    Call,
    vmem_setting,
)
from pallasite.dialects.pallas.attrs import Role
from pallasite.dialects.pallas.kernel import LAYOUT_PASSES, KernelOp
from pallasite.dialects.subcores import subcore_settings

PLAIN = (
    "collective_id",
    "internal_scratch_in_bytes",
    "disable_bounds_checks",
    "disable_semaphore_checks",
    "skip_device_barrier",
    "shape_invariant_numerics",
    "allow_input_fusion",
    "has_communication",
)
"""Compiler parameters that the configuration of the call has under their own names."""


def call_for(kernel: KernelOp) -> Call:
    """The call of `kernel`: dynamic bounds, prefetched scalars and inputs; booleans are i32."""
    dynamic = sum(bound == DYNAMIC for bound in kernel.grid_shape or ())
    arrays = [spec.array for role in (Role.PREFETCH, Role.INPUT) for spec in kernel.specs(role)]
    results = [spec.array for spec in kernel.specs(Role.OUTPUT)]
    booleans = [n for n, array in enumerate(results) if array.element_type == i1]
    settings: dict[str, Any] = {CONFIG: _configuration(kernel), NAME: kernel.sym_name.data}
    if kernel.on_subcores:
        (cores, *_) = kernel.grid_shape or (1,)
        settings |= subcore_settings(cores, compact=kernel.compact)
    limit = _plain(kernel.param("vmem_limit_bytes"))
    if limit is not None:
        settings |= vmem_setting(limit)
    if booleans:
        settings[BOOLEANS] = booleans
    masks = [dynamic + n for n, array in enumerate(arrays) if array.element_type == i1]
    if masks:
        settings[BOOLEAN_OPERANDS] = masks
    if _plain(kernel.param("has_side_effects")):
        settings[EFFECTS] = True
    return Call(
        (*(TensorType(i32, ()) for _ in range(dynamic)), *map(_stored, arrays)),
        tuple(map(_stored, results)),
        tuple((dynamic + operand, result) for operand, result in kernel.alias_pairs),
        settings,
    )


def _stored(array: TensorType[Attribute]) -> TensorType[Attribute]:
    return TensorType(i32, array.get_shape()) if array.element_type == i1 else array


def _configuration(kernel: KernelOp) -> dict[str, Any]:
    config: dict[str, Any] = {"serialization_format": 1}
    if kernel.layout_passes:
        config[LAYOUT_PASSES] = True
    for name in PLAIN:
        value = _plain(kernel.param(name))
        if value is not None:
            config[name] = value
    return config


def _plain(attribute: Attribute) -> Any:
    """An attribute as JSON; None for what is not given."""
    match attribute:
        case IntegerAttr():
            number = cast(IntegerAttr[IntegerType], attribute)
            return bool(number.value.data) if number.type == i1 else number.value.data
        case FloatAttr():
            return cast(FloatAttr[Any], attribute).value.data
        case StringAttr():
            return attribute.data
        case ArrayAttr():
            return [_plain(item) for item in attribute]
        case _:
            return None
