"""Binds the arrays of a call to the arguments of its kernel, and reads its results back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation

from pallasite.dialects.core_split import CoreSplit
from pallasite.dialects.kernel import DYNAMIC, Kernel
from pallasite.dialects.subcores import Kernels
from pallasite.interpreter import arrays
from pallasite.interpreter.blocks import Operand
from pallasite.interpreter.call_plan import CallPlan, Place, other_shape, shape_for
from pallasite.interpreter.driver import Program
from pallasite.interpreter.in_order import Use, completed, in_order
from pallasite.interpreter.machine.codec import is_semaphore
from pallasite.interpreter.machine.copies import read_array, same_bits, write_array
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.machine import Device
from pallasite.interpreter.machine.spare import fresh
from pallasite.interpreter.subcores import invocations
from pallasite.interpreter.values import Array
from pallasite.interpreter.windows import Invocation


@dataclass
class Bound:
    """A kernel bound to the arrays of one device, and to each of its cores."""

    core: Core
    """The core that semaphores among the operands belong to."""
    invocations: list[Invocation]
    inputs: list[Operand]
    results: list[Operand]

    def outputs(self, plan: CallPlan) -> list[Array]:
        """What the kernel has left in its results."""
        return [
            _read(self.core, operand, dtype).reshape(shape)
            for operand, (shape, dtype) in zip(self.results, plan.results, strict=True)
        ]


def bind(
    device: Device,
    program: Program,
    kernel: Kernel,
    split: CoreSplit | None,
    plan: CallPlan,
    inputs: Sequence[Array],
    subcores: Kernels | None = None,
) -> Bound:
    """Puts `inputs` into HBM, makes room for the results, and prepares the kernel on each core.

    `subcores` are the kernels of a call that runs on SparseCores; `kernel` is one of them. Who
    observes a run may see more of an array than its kernel does.
    """
    core = device.cores[0]
    seen = core.observer is not None or bool(core.machine.checks) or bool(subcores)
    bounds, count = plan.bounds, len(inputs) - plan.bounds
    operands: list[Operand] = []
    for n, place in enumerate(plan.places):
        use = Use.LAYOUT if seen else place.use
        if n < count:
            operand = _allocate(core, place, use)
            _write(core, operand, inputs[bounds + n], use)
        elif place.source is None:
            operand = _result(core, place, use)
        else:
            operand = _shared(place.name, operands[place.source])
        operands.append(operand)
    scalars = len(kernel.prefetch)
    if subcores:
        started = invocations(device, program, subcores, operands)
    else:
        grid = _grid(kernel, inputs[:bounds])
        started = [
            Invocation(
                program, kernel, core, grid, operands[scalars:], prefetch=operands[:scalars],
                split=split,
            )
            for core in device.cores
        ]  # fmt: skip
    return Bound(core, started, operands[:count], operands[count:])


def _grid(kernel: Kernel, bounds: Sequence[Array]) -> tuple[int, ...]:
    """The sizes of the kernel's grid; `bounds` are those that the call passes, one element each."""
    passed = iter([int(array.reshape(())) for array in bounds])
    return tuple(next(passed) if size == DYNAMIC else size for size in kernel.grid or ())


def _result(core: Core, place: Place, use: Use) -> Operand:
    """Room for a result that shares its memory with no operand."""
    operand = _allocate(core, place, use, output=True)
    if place.once:
        operand.buffer.buffer.boxes = {}
    if operand.in_order and use is Use.FILLS:
        operand.buffer.buffer.landed = set()
    if is_semaphore(operand.ref.element):
        core.passed_semaphores(operand.ref)
    return operand


def _shared(name: str, source: Operand) -> Operand:
    """A result in the memory of the operand `source`."""
    source.buffer.buffer.aliased = True
    return Operand(
        name, source.ref, source.buffer, output=True, aliased=True, in_order=source.in_order
    )


def _write(core: Core, operand: Operand, array: Array, use: Use) -> None:
    """Puts an operand where the kernel looks for it; of semaphores, an array holds the counts."""
    ref = operand.ref
    if operand.in_order and use is Use.READS and array.flags.c_contiguous:
        if same_bits(array.dtype, ref):
            ref.buffer.adopt(array.reshape(-1).view(np.uint8))
            return
    if not is_semaphore(ref.element):
        if ref.byte_count == ref.buffer.size:
            ref.buffer.completed()
            ref.buffer.unfilled()
        if same_bits(array.dtype, ref):
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
        if not same_bits(dtype, ref):
            return arrays.from_carrier(ref.read(), ref.element, dtype)
        if operand.in_order and (left := completed(ref)) is not None:
            return left.view(dtype).reshape(ref.shape)
        out = fresh(prod(ref.shape) * dtype.itemsize).view(dtype).reshape(ref.shape)
        read_array(ref, out)
        return out
    counts = [semaphore.value for semaphore in core.passed_semaphores(ref)]
    return np.array(counts, dtype).reshape(ref.shape)


def _allocate(core: Core, place: Place, use: Use, *, output: bool = False) -> Operand:
    """An array in HBM, laid out as the kernel's memref says, if it matters."""
    name, shape = place.name, place.shape
    buffer = core.allocate(place.type, name, argument=True)
    ordered = None if use is Use.LAYOUT or buffer.shape != shape else in_order(buffer)
    if ordered is not None:
        return Operand(name, ordered, ordered, output, in_order=True)
    memref = cast("MemRefType[Attribute]", place.argument.type)
    if len(buffer.shape) != len(shape):
        shape = shape_for(shape, memref, whole=True)
    ref = buffer
    if buffer.shape != shape:
        padded = zip(shape, buffer.shape, strict=False)
        if len(shape) != len(buffer.shape) or any(size > there for size, there in padded):
            kernel = cast("Operation", place.argument.block.parent_op())
            raise other_shape(shape, place.argument, kernel)
        ref = buffer.slice((0,) * len(shape), shape)
    return Operand(name, ref, buffer, output)
