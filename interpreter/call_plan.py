"""What a call and its kernel say of the arrays that they are run on, whatever these hold."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerType,
    MemRefType,
    NoneAttr,
    TensorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, BlockArgument, Operation

from pallasite.diagnostics import WITHOUT_X64, Note, UsageError
from pallasite.dialects.kernel import DYNAMIC, IN_PLACE, WRITTEN_ONCE, Kernel
from pallasite.dialects.kernel_call import Call, check_sizes, missing_operands
from pallasite.dialects.locations import source_location
from pallasite.dialects.tpu import MemorySpaceAttr
from pallasite.dialects.types import memory_space
from pallasite.interpreter import arrays
from pallasite.interpreter.blocks import titled
from pallasite.interpreter.in_order import Use, joined
from pallasite.interpreter.machine.codec import is_semaphore


def dynamic_bounds(kernel: Kernel) -> int:
    """How many sizes of the grid a call passes, before its other operands."""
    return sum(size == DYNAMIC for size in kernel.grid or ())


def array_bytes(call: Call) -> int:
    """Bytes of the arrays of a call."""
    return sum(
        prod(type.get_shape()) * arrays.dtype_of(type.element_type).itemsize
        for type in (*call.operands, *call.results)
    )


class ArrayType(NamedTuple):
    """What NumPy knows of an array of a call."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def byte_count(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    @staticmethod
    def of(type: TensorType[Attribute]) -> ArrayType:
        return ArrayType(type.get_shape(), arrays.dtype_of(type.element_type))


class Place(NamedTuple):
    """Where one array of a call goes, whatever it holds."""

    name: str
    argument: BlockArgument
    type: Attribute
    """Of its memory in HBM."""
    shape: tuple[int, ...]
    """As the kernel knows it."""
    use: Use
    source: int | None
    """The number of the operand that a result shares its memory with."""
    once: bool
    """Whether blocks of it may be written back only once."""


@dataclass(frozen=True)
class CallPlan:
    """What a call of a kernel needs to know of the two, worked out once for all its runs."""

    operands: tuple[ArrayType, ...]
    results: tuple[ArrayType, ...]
    bounds: int
    """How many of the operands are sizes of the grid; they come first."""
    places: tuple[Place, ...]
    """Of the other operands, then of the results."""
    array_bytes: int
    deciding: tuple[int, ...]
    """The operands that are sizes of the grid, or scalars that are in SMEM before the kernel
    begins: index maps, loops and branches may depend on what these hold."""

    @staticmethod
    def of(kernel: Kernel, call: Call, uses: Sequence[Use]) -> CallPlan:
        """`uses` is what the kernel does with its operands. Raises if the two do not fit."""
        check_sizes(call, source_location(kernel.func))
        bounds = dynamic_bounds(kernel)
        arguments = (*kernel.prefetch, *kernel.operands)
        _check_call(call, bounds, arguments, kernel)
        inputs = len(call.operands) - bounds
        sources = {inputs + result: operand - bounds for operand, result in call.aliases}
        uses = joined(uses, [(source, result) for result, source in sources.items()])
        once = [len(kernel.prefetch) + number for number in _written_once(kernel)]
        types = (*call.operands[bounds:], *call.results)
        places: list[Place] = []
        for n, (argument, type) in enumerate(zip(arguments, types, strict=True)):
            role = f"input {n + bounds}" if n < inputs else f"output {n - inputs}"
            known, shape = _in_memory(argument, type.get_shape())
            places.append(
                Place(
                    titled(role, argument), argument, known, shape, uses[n], sources.get(n),
                    n in once,
                )
            )  # fmt: skip
        operands, results = (tuple(map(ArrayType.of, t)) for t in (call.operands, call.results))
        scalars = _scalars(kernel, range(inputs), sources.values())
        deciding = (*range(bounds), *(bounds + n for n in scalars))
        return CallPlan(operands, results, bounds, tuple(places), array_bytes(call), deciding)


def _check_call(
    call: Call, bounds: int, arguments: Sequence[BlockArgument], kernel: Kernel
) -> None:
    """Refuses a call with other operands and results than the `arguments` of the kernel."""
    expected = len(call.operands) - bounds + len(call.results)
    if expected != len(arguments):
        raise UsageError(
            "call-mismatch",
            f"the kernel takes {len(arguments)} operands and results, its call has {expected}",
            source_location(kernel.func),
            missing_operands(len(arguments) - expected, bounds),
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


def _written_once(kernel: Kernel) -> Sequence[int | float]:
    """The outputs whose blocks may be written back only once, by their number as operands."""
    found = kernel.func.attributes.get(WRITTEN_ONCE)
    return found.get_values() if isinstance(found, DenseArrayBase) else ()


def _scalars(kernel: Kernel, inputs: range, shared: Collection[int]) -> Iterator[int]:
    """Those of the `inputs` that are copied to SMEM before the kernel begins, and there only: none
    of its operands whose memory is `shared` with a result."""
    first = len(kernel.prefetch)
    yield from range(first)
    for n, argument in enumerate(kernel.operands, first):
        if n in inputs and n not in shared and memory_space(argument.type) == "smem":
            if not kernel.windows[n - first].windowed:
                yield n


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
        [Note(f"cast it before the call, jnp.int32(n), {WITHOUT_X64}")] if given == i64 else [],
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
    if shape_for(shape, memref, whole=True) != memref.get_shape():
        raise other_shape(shape, argument, kernel.func)


def other_shape(shape: tuple[int, ...], argument: BlockArgument, kernel: Operation) -> UsageError:
    """A call's array has another shape than the kernel's `argument`."""
    return UsageError(
        "call-mismatch",
        f"the call has an array of shape {list(shape)} where the kernel sees {argument.type}",
        source_location(kernel),
    )


def _in_memory(
    argument: BlockArgument, shape: tuple[int, ...]
) -> tuple[Attribute, tuple[int, ...]]:
    """The type of an array of `shape` in HBM, which is that of the kernel's memref if that is there
    too, and the shape under which the kernel knows it."""
    memref = cast("MemRefType[Attribute]", argument.type)
    in_place = memory_space(memref) in IN_PLACE
    if in_place and memref.has_static_shape():
        return memref, shape
    shape = shape_for(shape, memref, whole=in_place)
    return MemRefType(memref.element_type, shape, memory_space=MemorySpaceAttr("hbm")), shape


def shape_for(
    shape: tuple[int, ...], memref: MemRefType[Attribute], *, whole: bool
) -> tuple[int, ...]:
    """The shape under which the kernel knows an array: JAX passes scalars as arrays of rank 1."""
    known = memref.get_shape()
    if len(shape) != len(known) and whole and prod(shape) == prod(known):
        return known
    return shape
