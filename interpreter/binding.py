"""Binds the arrays of a call to the arguments of its kernel, and reads its results back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, MemRefType, TensorType, i1, i32
from xdsl.ir import Attribute, BlockArgument, Operation

from pallasite.diagnostics import Diagnostic, Note, SourceLocation, UsageError
from pallasite.dialects.core_split import CoreSplit
from pallasite.dialects.kernel import DYNAMIC, IN_PLACE, WRITTEN_ONCE, Kernel
from pallasite.dialects.kernel_call import Call
from pallasite.dialects.locations import source_location
from pallasite.dialects.subcores import Kernels
from pallasite.dialects.tpu import MemorySpaceAttr
from pallasite.dialects.types import memory_space
from pallasite.interpreter import arrays
from pallasite.interpreter.driver import Program
from pallasite.interpreter.in_order import Use, completed, in_order, joined
from pallasite.interpreter.machine import transfer
from pallasite.interpreter.machine.accesses import Box
from pallasite.interpreter.machine.codec import is_semaphore
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.machine import Device
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.subcores import invocations
from pallasite.interpreter.values import Array
from pallasite.interpreter.windows import Invocation, Operand, titled


def dynamic_bounds(kernel: Kernel) -> int:
    """How many sizes of the grid a call passes, before its other operands."""
    return sum(size == DYNAMIC for size in kernel.grid or ())


_ALL_OF_IT = "write all of it, or start from an input by input_output_aliases"
_ALL_OF_A_BLOCK = (
    "a block of an output begins undefined, also where the memory is an input's: write all of it, "
    "out[...] = input[...], or keep the output in HBM: out_specs=pl.BlockSpec(memory_space=pl.ANY)"
)
_UNDEFINED_IS_NAN = (
    "unless arithmetic gives them (0 / 0, inf - inf), they come from what blocks hold behind the "
    "end of their array, which is NaN here and anything on a TPU"
)
_LEAVE_IT_OUT = (
    "leave out what lies behind the end before rows or columns are combined: "
    "jnp.where(index < n, x, 0), with index from pl.program_id and lax.broadcasted_iota"
)


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

    def unwritten(self, location: SourceLocation | None) -> Iterator[Diagnostic]:
        """A warning for each result of which nobody has written all (if written bytes are tracked).

        Not an error: a caller may know which part of a result to look at.
        """
        where = self._where()
        for operand in self.results:
            ref = operand.ref
            found = None
            if not is_semaphore(ref.element):
                found = Box(ref, (0,) * len(ref.shape), ref.shape).unwritten()
            if found is not None:
                yield Diagnostic(
                    "unwritten-output",
                    f"{found.amount} of {operand.name}{where} were never written, the first at "
                    f"{list(found.first)}",
                    location,
                    [
                        Note("on a TPU they are whatever the memory held before the call"),
                        *self._given_up(ref),
                        Note(_ALL_OF_A_BLOCK if ref.buffer.aliased else _ALL_OF_IT),
                    ],
                    severity="warning",
                )

    def undefined(
        self, inputs: Sequence[Array], outputs: Sequence[Array], location: SourceLocation | None
    ) -> Iterator[Diagnostic]:
        """A warning for each result with NaNs of a kernel that was given none but beyond edges.

        Not an error: arithmetic makes NaNs, too. Undefined integers are not seen.
        """
        if not self.core.machine.overruns or any(_nans(array).any() for array in inputs):
            return
        for operand, output in zip(self.results, outputs, strict=True):
            found = _nans(output)
            if found.any():
                first = [int(n) for n in np.unravel_index(int(np.argmax(found)), output.shape)]
                yield Diagnostic(
                    "undefined-output",
                    f"{np.count_nonzero(found)} of {output.size} elements of {operand.name}"
                    f"{self._where()} are NaN, the first at {first}, and no operand has one",
                    location,
                    [Note(_UNDEFINED_IS_NAN), Note(_LEAVE_IT_OUT)],
                    severity="warning",
                )

    def _where(self) -> str:
        """The device, for messages, if there are several."""
        core = self.core
        return f" on device {core.device.index}" if len(core.machine.devices) > 1 else ""

    def _given_up(self, ref: Ref) -> list[Note]:
        """Of a transfer to `ref` that nobody has waited for."""
        dropped = self.core.machine.engine.dropped
        lost = next((t for t in dropped if t.target.buffer is ref.buffer and not t.remote), None)
        if lost is None:
            return []
        what = "wait for it before its source is gone, at the end of its scope or of the kernel"
        return [Note(f"{lost.describe()} writes there: {what}", lost.location)]


def _nans(array: Any) -> NDArray[np.bool_]:
    """Which elements of an array are NaN: none of one that is not of floats."""
    if np.issubdtype(array.dtype, np.floating) or array.dtype.kind == "V":
        return np.isnan(array)
    return np.zeros(0, bool)


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
    if core.observer is not None or core.machine.checks or subcores:
        uses = [Use.LAYOUT] * len(arguments)
    expected = len(call.operands) - bounds + len(call.results)
    if expected != len(arguments):
        raise UsageError(
            "operand-count",
            f"the kernel takes {len(arguments)} operands and results, its call has {expected}",
            source_location(kernel.func),
        )
    for type, argument in zip((*call.operands[bounds:], *call.results), arguments, strict=True):
        _check_element(type, argument, kernel)
    sizes = [int(array.reshape(())) for array in inputs[:bounds]]
    dynamic = iter(sizes)
    grid = tuple(next(dynamic) if size == DYNAMIC else size for size in kernel.grid or ())
    alias = {result: operand - bounds for operand, result in call.aliases}
    uses = joined(uses, [(source, len(inputs) - bounds + n) for n, source in alias.items()])
    operands: list[Operand] = []
    for position, array in enumerate(inputs[bounds:]):
        name = titled(f"input {position + bounds}", arguments[position])
        operand = _allocate(core, name, arguments[position], array.shape, uses[position])
        _write(core, operand, array, uses[position])
        operands.append(operand)
    written_once = kernel.func.attributes.get(WRITTEN_ONCE)
    once = written_once.get_values() if isinstance(written_once, DenseArrayBase) else ()
    for position, type in enumerate(call.results):
        argument, use = arguments[len(operands)], uses[len(operands)]
        name = titled(f"output {position}", argument)
        source = alias.get(position)
        if source is None:
            operand = _allocate(core, name, argument, type.get_shape(), use, output=True)
            if operand.in_order and use is Use.FILLS:
                operand.buffer.buffer.landed = {}
            if is_semaphore(operand.ref.element):
                core.passed_semaphores(operand.ref)
            if len(operands) - len(kernel.prefetch) in once:
                operand.buffer.buffer.boxes = {}
        else:
            shared = operands[source]
            shared.buffer.buffer.aliased = True
            operand = Operand(name, shared.ref, shared.buffer, True, True, shared.in_order)
        operands.append(operand)
    first = len(kernel.prefetch)
    if subcores:
        started = invocations(device, program, subcores, operands)
    else:
        started = [
            Invocation(program, kernel, core, grid, split, operands[:first], operands[first:])
            for core in device.cores
        ]
    return Bound(core, started, operands[len(call.operands) - bounds :])


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


def _write(core: Core, operand: Operand, array: Array, use: Use) -> None:
    """Puts an operand where the kernel looks for it; of semaphores, an array holds the counts."""
    ref = operand.ref
    if operand.in_order and use is Use.READS and array.flags.c_contiguous:
        if transfer.same_bits(array, ref):
            ref.buffer.adopt(array.reshape(-1).view(np.uint8))
            return
    if not is_semaphore(ref.element):
        if ref.byte_count == ref.buffer.size:
            ref.buffer.completed()
            ref.buffer.unfilled()
        if transfer.same_bits(array, ref):
            transfer.write_array(array, ref)
        else:
            ref.write(arrays.to_carrier(array, ref.element))
        return
    for semaphore, count in zip(core.passed_semaphores(ref), array.flat, strict=True):
        semaphore.value = int(count)


def _read(core: Core, operand: Operand, dtype: np.dtype[Any]) -> Array:
    """The array of `dtype` that the kernel leaves in `operand`."""
    ref = operand.ref
    if not is_semaphore(ref.element):
        if not transfer.same_bits(np.empty(0, dtype), ref):
            return arrays.from_carrier(ref.read(), ref.element, dtype)
        if operand.in_order and (left := completed(ref)) is not None:
            return left.view(dtype).reshape(ref.shape)
        out = np.empty(ref.shape, dtype)
        transfer.read_array(ref, out)
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
        type = MemRefType(memref.element_type, shape, memory_space=MemorySpaceAttr("hbm"))
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
            raise UsageError(
                "call-mismatch",
                f"the call has an array of shape {list(shape)} where the kernel sees {memref}",
                source_location(cast("Operation", argument.block.parent_op())),
            )
        ref = buffer.slice((0,) * len(shape), shape)
    return Operand(name, ref, buffer, output)


def _shape_for(
    shape: tuple[int, ...], memref: MemRefType[Attribute], whole: bool
) -> tuple[int, ...]:
    """The shape under which the kernel knows an array: JAX passes scalars as arrays of rank 1."""
    known = memref.get_shape()
    if len(shape) != len(known) and whole and prod(shape) == prod(known):
        return known
    return shape
