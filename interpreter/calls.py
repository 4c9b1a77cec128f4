"""The call that a run makes of a kernel: its operands and results, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import MemRefType, TensorType
from xdsl.ir import Attribute, BlockArgument, Operation

from pallasite import arguments
from pallasite.diagnostics import ExecutionError, Note, UsageError
from pallasite.dialects.kernel import IN_PLACE, Kernel
from pallasite.dialects.kernel_call import Call, check_sizes
from pallasite.dialects.locations import source_location
from pallasite.dialects.types import memory_space
from pallasite.interpreter import arrays
from pallasite.interpreter.call_plan import CallPlan, array_bytes, dynamic_bounds
from pallasite.interpreter.machine.memory import MEMORY_NOTE, default_memory
from pallasite.interpreter.values import Array


def call_for(
    kernel: Kernel,
    inputs: Sequence[Any],
    results: Sequence[tuple[Sequence[int], Any]] | None = None,
    aliases: Mapping[int, int] | None = None,
) -> Call:
    """The call that the arguments describe, for modules that record none."""
    inputs = arguments.array_list(inputs, "inputs")
    bounds = dynamic_bounds(kernel)
    refs = (*kernel.prefetch, *kernel.operands)
    if not bounds <= len(inputs) <= bounds + len(refs):
        raise UsageError(
            "input-count",
            f"expected at most {bounds + len(refs)} inputs, got {len(inputs)}",
            source_location(kernel.func),
        )
    operands = [arrays.tensor_of((), arrays.element_named("int32"))] * bounds
    for array, argument in zip(inputs[bounds:], refs, strict=False):
        operands.append(_operand_type(arrays.as_array(array, "an input"), argument))
    outputs = refs[len(operands) - bounds :]
    if results is None:
        types = [_whole_type(argument, kernel) for argument in outputs]
    else:
        types = [
            arrays.tensor_of(shape, arrays.element_named(dtype))
            for shape, dtype in arguments.result_types(results)
        ]
    pairs = arguments.alias_pairs(aliases, len(operands), len(types))
    return Call(tuple(operands), tuple(types), pairs)


def _operand_type(array: Array, argument: BlockArgument) -> TensorType[Attribute]:
    """The call type of an input of a bare module: its own dtype, or for raw bytes the memref's."""
    element = cast("MemRefType[Attribute]", argument.type).element_type
    try:
        element = arrays.element_named(array.dtype)
    except UsageError:
        pass
    return arrays.tensor_of(array.shape, element)


def _whole_type(argument: BlockArgument, kernel: Kernel) -> TensorType[Attribute]:
    """The call type of a result of a bare module, known only if the kernel sees it whole."""
    memref = cast("MemRefType[Attribute]", argument.type)
    if kernel.grid is not None and memory_space(memref) not in IN_PLACE:
        raise UsageError(
            "unknown-results",
            "the module does not record the types of its results",
            source_location(kernel.func),
            [Note("pass results=[(shape, dtype), ...], or --like with the program that calls it")],
        )
    return arrays.tensor_of(memref.get_shape(), memref.element_type)


def checked_inputs(call: Call, plan: CallPlan, inputs: Any) -> list[Array]:
    """The operands of a call, of which `plan` is made, on one device."""
    listed = arguments.array_list(inputs, "inputs")
    if len(listed) != len(call.operands):
        notes = [Note("operands: " + ", ".join(arrays.type_text(t) for t in call.operands))]
        if hasattr(inputs, "dtype"):
            notes.append(Note("an array is no list of inputs: write [x]"))
        count = f"expected {len(call.operands)} inputs, got {len(listed)}"
        raise UsageError("input-count", count, notes=notes)
    found: list[Array] = []
    for array, wanted in zip(listed, plan.operands, strict=True):
        if type(array) is not np.ndarray or (array.shape, array.dtype) != wanted:
            position = len(found)
            array = arrays.checked(array, call.operands[position], f"input {position}")
        found.append(array)
    return found


def check_arrays(call: Call, devices: int, max_memory: int | None, kernel: Operation) -> None:
    """Raises if the arrays of a call take more than `max_memory` (None: the default) on so many
    devices, or nobody knows how many bytes."""
    check_sizes(call, source_location(kernel))
    check_size(array_bytes(call) * devices, max_memory, kernel)


def check_size(size: int, max_memory: int | None, kernel: Operation) -> None:
    """Raises if the arrays of a call take `size` bytes and may take less."""
    limit = default_memory() if max_memory is None else max_memory
    if size > limit:
        raise ExecutionError(
            "memory-limit",
            f"the arrays of the call take {size} bytes, more than the limit of {limit}",
            source_location(kernel),
            [MEMORY_NOTE],
        )
