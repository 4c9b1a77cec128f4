"""Refs detached from the memory of a run: they describe where elements lie, in a script's memory
too."""

from __future__ import annotations

from typing import Any

import numpy as np

from pallasite.interpreter import arrays
from pallasite.interpreter.machine.memory import Buffer, Memory
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.values import Array


def apart(ref: Ref) -> Ref:
    """The same ref to an empty buffer: only the description of where its elements lie."""
    memory = Memory("", 0, poison=ref.buffer.memory.poison)
    return ref.over(Buffer(memory, 0, ref.buffer.size, "", None))


def put(ref: Ref, dtype: np.dtype[Any], shape: tuple[int, ...], array: Array, to: Array) -> None:
    """Writes `array`, viewed as `dtype` and `shape`, to the place of `ref` in the memory bytes
    `to`."""
    _over(ref, to).write(arrays.to_carrier(array.view(dtype).reshape(shape), ref.element))


def take(ref: Ref, dtype: np.dtype[Any], memory: Array, to: Array) -> None:
    """Copies the elements of `ref` in the bytes `memory` to the bytes `to` of an array of type
    `dtype`."""
    found = arrays.from_carrier(_over(ref, memory).read(), ref.element, dtype)
    to[...] = np.ascontiguousarray(found).reshape(-1).view(np.uint8)


def _over(ref: Ref, memory: Array) -> Ref:
    """`ref` to a buffer whose contents are `memory`."""
    buffer = Buffer(ref.buffer.memory, 0, ref.buffer.size, "", None)
    buffer.bytes = memory
    return ref.over(buffer)
