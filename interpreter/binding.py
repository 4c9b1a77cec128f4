"""Binds the arrays of a call to the arguments of its kernel, and reads its results back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerType,
    MemRefType,
    NoneAttr,
    TensorType,
    i1,
    i32,
)
from xdsl.ir import Attribute, BlockArgument, Operation

from pallasite.diagnostics import UsageError
from pallasite.dialects.core_split import CoreSplit
from pallasite.dialects.kernel import DYNAMIC, IN_PLACE, WRITTEN_ONCE, Kernel
from pallasite.dialects.kernel_call import Call
from pallasite.dialects.locations import source_location
from pallasite.dialects.subcores import Kernels
from pallasite.dialects.tpu import MemorySpaceAttr
from pallasite.dialects.types import memory_space
from pallasite.interpreter import arrays
from pallasite.interpreter.blocks import Operand, titled
from pallasite.interpreter.driver import Program
from pallasite.interpreter.in_order import Use, completed, in_order, joined
from pallasite.interpreter.machine.codec import is_semaphore
from pallasite.interpreter.machine.copies import read_array, same_bits, write_array
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.machine import Device
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.subcores import invocations
from pallasite.interpreter.values import Array
from pallasite.interpreter.windows import Invocation


def dynamic_bounds(kernel: Kernel) -> int:
    """How many sizes of the grid a call passes, before its other operands."""
    return sum(size == DYNAMIC for size in kernel.grid or ())


@dataclass
class Bound:
    """A kernel bound to the arrays of one device, and to each of its cores."""

    core: Core
    """The core that semaphores among the operands belong to."""
    invocations: list[Invocation]
    results: list[Operand]

    def outputs(self, call: Call) -> list[Array]:
        """What the kernel has left in its results."""
        return [
            _read(self.core, operand, arrays.dtype_of(type.element_type)).reshape(type.get_shape())
            for operand, type in zip(self.results, call.results, strict=True)
        ]


def bind(
    device: Device,
    program: Program,
    kernel: Kernel,
    split: CoreSplit | None,
    call: Call,
    inputs: Sequence[Array],
    uses: Sequence[Use],
    subcores: Kernels | None = None,
) -> Bound:
    """Puts `inputs` into HBM, makes room for the results, and prepares the kernel on each core.

    `uses` is what the kernel does with its operands; who observes it may see more. `subcores` are
    the kernels of a call that runs on SparseCores; `kernel` is one of them.
    """
    core = device.cores[0]
    bounds = dynamic_bounds(kernel)
    arguments = (*kernel.prefetch, *kernel.operands)
    _check_call(call, bounds, arguments, kernel)
    if core.observer is not None or core.machine.checks or subcores:
        uses = [Use.LAYOUT] * len(arguments)
    sources = {result: operand - bounds for operand, result in call.aliases}
    first = len(inputs) - bounds
    uses = joined(uses, [(source, first + result) for result, source in sources.items()])
    operands: list[Operand] = []
    for position, array in enumerate(inputs[bounds:]):
        name = titled(f"input {position + bounds}", arguments[position])
        operand = _allocate(core, name, arguments[position], array.shape, uses[position])
        _write(core, operand, array, uses[position])
        operands.append(operand)
    once = _written_once(kernel)
    for number, type in enumerate(call.results):
        argument, use = arguments[len(operands)], uses[len(operands)]
        name = titled(f"output {number}", argument)
        if number in sources:
            operand = _shared(name, operands[sources[number]])
        else:
            operand = _result(core, name, argument, type.get_shape(), use)
            if len(operands) - len(kernel.prefetch) in once:
                operand.buffer.buffer.boxes = {}
        operands.append(operand)
    scalars = len(kernel.prefetch)
    if subcores:
        started = invocations(device, program, subcores, operands)
    else:
        grid = _grid(kernel, inputs[:bounds])
        started = [
            Invocation(program, kernel, core, grid, split, operands[:scalars], operands[scalars:])
            for core in device.cores
        ]
    return Bound(core, started, operands[len(call.operands) - bounds :])


def _check_call(
    call: Call, bounds: int, arguments: Sequence[BlockArgument], kernel: Kernel
) -> None:
    """Refuses a call with other operands and results than the `arguments` of the kernel."""
    expected = len(call.operands) - bounds + len(call.results)
    if expected != len(arguments):
        raise UsageError(
            "operand-count",
            f"the kernel takes {len(arguments)} operands and results, its call has {expected}",
            source_location(kernel.func),
        )
    windowed = {
        argument
        for argument, window in zip(kernel.operands, kernel.windows, strict=True)
        if window.windowed
    }
    for type, argument in zip((*call.operands[bounds:], *call.results), arguments, strict=True):
        _check_element(type, argument, kernel)
        if argument not in windowed:
            _check_shape(type, argument, kernel)


def _grid(kernel: Kernel, bounds: Sequence[Array]) -> tuple[int, ...]:
    """The sizes of the kernel's grid; `bounds` are those that the call passes, one element each."""
    passed = iter([int(array.reshape(())) for array in bounds])
    return tuple(next(passed) if size == DYNAMIC else size for size in kernel.grid or ())


def _written_once(kernel: Kernel) -> Sequence[int | float]:
    """The outputs whose blocks may be written back only once, by their number as operands."""
    found = kernel.func.attributes.get(WRITTEN_ONCE)
    return found.get_values() if isinstance(found, DenseArrayBase) else ()


def _result(
    core: Core, name: str, argument: BlockArgument, shape: tuple[int, ...], use: Use
) -> Operand:
    """Room for a result that shares its memory with no operand."""
    operand = _allocate(core, name, argument, shape, use, output=True)
    if operand.in_order and use is Use.FILLS:
        operand.buffer.buffer.landed = {}
    if is_semaphore(operand.ref.element):
        core.passed_semaphores(operand.ref)
    return operand


def _shared(name: str, source: Operand) -> Operand:
    """A result in the memory of the operand `source`."""
    source.buffer.buffer.aliased = True
    return Operand(
        name, source.ref, source.buffer, output=True, aliased=True, in_order=source.in_order
    )


def _check_element(type: TensorType[Attribute], argument: BlockArgument, kernel: Kernel) -> None:
    """Refuses a call whose array has other elements than the kernel's ref: memory is not cast.

    Signs of integers are not the kernel's business, and booleans are words to one of the two:
    calls pass them as int32 to kernels in form `pallas`, which see them as i1.
    """
    if not isinstance(argument.type, MemRefType):
        return
    given = type.element_type
    seen = cast("MemRefType[Attribute]", argument.type).element_type
    if given == seen or is_semaphore(seen) or given == i1 or (seen == i1 and given == i32):
        return
    if (
        isinstance(given, IntegerType)
        and isinstance(seen, IntegerType)
        and given.width == seen.width
    ):
        return
    raise UsageError(
        "call-mismatch",
        f"the call has {arrays.type_text(type)} where the kernel sees elements of type {seen}",
        source_location(kernel.func),
    )


def _check_shape(type: TensorType[Attribute], argument: BlockArgument, kernel: Kernel) -> None:
    """Refuses a call whose array has another shape than the ref that is all of it.

    Refs with a layout may be padded, and dynamic ones have any shape.
    """
    if not isinstance(argument.type, MemRefType):
        return
    memref = cast("MemRefType[Attribute]", argument.type)
    if not memref.has_static_shape() or not isinstance(memref.layout, NoneAttr):
        return
    shape = type.get_shape()
    if _shape_for(shape, memref, True) != memref.get_shape():
        raise _other_shape(shape, argument, kernel.func)


def _other_shape(shape: tuple[int, ...], argument: BlockArgument, kernel: Operation) -> UsageError:
    return UsageError(
        "call-mismatch",
        f"the call has an array of shape {list(shape)} where the kernel sees {argument.type}",
        source_location(kernel),
    )


def _write(core: Core, operand: Operand, array: Array, use: Use) -> None:
    """Puts an operand where the kernel looks for it; of semaphores, an array holds the counts."""
    ref = operand.ref
    if operand.in_order and use is Use.READS and array.flags.c_contiguous:
        if same_bits(array, ref):
            ref.buffer.adopt(array.reshape(-1).view(np.uint8))
            return
    if not is_semaphore(ref.element):
        if ref.byte_count == ref.buffer.size:
            ref.buffer.completed()
            ref.buffer.unfilled()
        if same_bits(array, ref):
            write_array(array, ref)
        else:
            ref.write(arrays.to_carrier(array, ref.element))
        return
    for semaphore, count in zip(core.passed_semaphores(ref), array.flat, strict=True):
        semaphore.value = int(count)


def _read(core: Core, operand: Operand, dtype: np.dtype[Any]) -> Array:
    """The array of `dtype` that the kernel leaves in `operand`."""
    ref = operand.ref
    if not is_semaphore(ref.element):
        if not same_bits(np.empty(0, dtype), ref):
            return arrays.from_carrier(ref.read(), ref.element, dtype)
        if operand.in_order and (left := completed(ref)) is not None:
            return left.view(dtype).reshape(ref.shape)
        out = np.empty(ref.shape, dtype)
        read_array(ref, out)
        return out
    counts = [semaphore.value for semaphore in core.passed_semaphores(ref)]
    return np.array(counts, dtype).reshape(ref.shape)


def _allocate(
    core: Core,
    name: str,
    argument: BlockArgument,
    shape: tuple[int, ...],
    use: Use,
    *,
    output: bool = False,
) -> Operand:
    """An array in HBM, laid out as the kernel's memref if that is there too, and if it matters."""
    memref = cast("MemRefType[Attribute]", argument.type)
    in_place = memory_space(memref) in IN_PLACE
    if in_place and memref.has_static_shape():
        type: Attribute = memref
    else:
        shape = _shape_for(shape, memref, in_place)
        type = _in_hbm(memref.element_type, shape)
    buffer: Ref = core.allocate(type, name, argument=True)
    ordered = None if use is Use.LAYOUT or buffer.shape != shape else in_order(buffer)
    if ordered is not None:
        return Operand(name, ordered, ordered, output, in_order=True)
    if len(buffer.shape) != len(shape):
        shape = _shape_for(shape, memref, True)
    ref = buffer
    if buffer.shape != shape:
        padded = zip(shape, buffer.shape, strict=False)
        if len(shape) != len(buffer.shape) or any(size > there for size, there in padded):
            raise _other_shape(shape, argument, cast("Operation", argument.block.parent_op()))
        ref = buffer.slice((0,) * len(shape), shape)
    return Operand(name, ref, buffer, output)


@lru_cache(maxsize=1 << 10)
def _in_hbm(element: Attribute, shape: tuple[int, ...]) -> Attribute:
    """The type of an array in HBM."""
    return MemRefType(element, shape, memory_space=MemorySpaceAttr("hbm"))


def _shape_for(
    shape: tuple[int, ...], memref: MemRefType[Attribute], whole: bool
) -> tuple[int, ...]:
    """The shape under which the kernel knows an array: JAX passes scalars as arrays of rank 1."""
    known = memref.get_shape()
    if len(shape) != len(known) and whole and prod(shape) == prod(known):
        return known
    return shape
