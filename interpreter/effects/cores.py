"""Where a kernel runs, its random numbers, and delays."""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

from pallasite.diagnostics import ExecutionError
from pallasite.dialects import tpu
from pallasite.dialects.locations import source_location
from pallasite.dialects.types import bit_width, register_rank
from pallasite.interpreter import values
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.semaphores import Pause, Wait
from pallasite.interpreter.meanings import Facts, effect
from pallasite.interpreter.values import Array
from pallasite.layouts.registers import LANES, SUBLANES, packing


@effect(tpu.DeviceIdOp)
def device_id(op: tpu.DeviceIdOp, facts: Facts) -> Callable[[Core], int]:
    """The logical number of this device."""
    return lambda core: core.device.index


@effect(tpu.CoreIdOp)
def core_id(op: tpu.CoreIdOp, facts: Facts) -> Callable[[Core], int]:
    """The number of this core on its device."""
    return lambda core: core.index


@effect(tpu.SubcoreIdOp)
def subcore_id(op: tpu.SubcoreIdOp, facts: Facts) -> Callable[[Core], int]:
    """The number of this vector subcore on its SparseCore."""
    return lambda core: core.number


@effect(tpu.IterationBoundOp)
def iteration_bound(op: tpu.IterationBoundOp, facts: Facts) -> Callable[[Core], int]:
    """The size of one grid dimension of the running kernel."""
    at = source_location(op)
    dim = int(op.dim.value.data)

    def fn(core: Core) -> int:
        if not 0 <= dim < len(core.bounds):
            raise ExecutionError(
                "iteration-bound",
                f"grid dimension {dim} of a kernel with {len(core.bounds)} grid dimensions",
                at,
            )
        return core.bounds[dim]

    return fn


@effect(tpu.PrngSetSeed32Op)
def prng_set_seed(op: tpu.PrngSetSeed32Op, facts: Facts) -> Callable[..., None]:
    """Restarts the core's generator."""

    def fn(core: Core, *seeds: int) -> None:
        core.prng.seed(seeds)

    return fn


@effect(tpu.PrngRandomBitsOp)
def prng_random_bits(op: tpu.PrngRandomBitsOp, facts: Facts) -> Callable[[Core], Array]:
    """The next words, register by register in row-major order of the value's tiles."""
    type = op.result.type
    element, shape = type.element_type, type.get_shape()
    per_word = packing(bit_width(type))
    registers = per_word > 1 and register_rank(type) == 3 and shape[-3:-1] == (SUBLANES, LANES)

    def fn(core: Core) -> Array:
        if registers:
            return values.from_words(core.prng.registers(shape[:-1]), element)
        *lead, rows, columns = shape if len(shape) > 1 else (1, *shape)
        words = core.prng.registers([*lead, -(-rows // per_word), columns])
        if per_word == 1:
            return values.values_of(element)(np.ascontiguousarray(words)).reshape(shape)
        # The elements of a word lie below each other.
        split = np.moveaxis(values.from_words(words, element), -1, -2)
        return split.reshape(*lead, -1, columns)[..., :rows, :].reshape(shape)

    return fn


@effect(tpu.DelayOp, blocking=True)
def delay(op: tpu.DelayOp, facts: Facts) -> Callable[..., Generator[Wait, None, None]]:
    """Lets the other cores run; there is no time here."""

    def fn(core: Core, nanoseconds: int) -> Generator[Wait, None, None]:
        yield Pause()

    return fn
