"""Refs apart from the memory of a run: they say where elements are in that of a script."""

from __future__ import annotations

from typing import Any

import numpy as np

from pallasite.interpreter import arrays
from pallasite.interpreter.machine.memory import Buffer, Memory
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.values import Array


def apart(ref: Ref) -> Ref:
    """The same ref to no memory: what says where elements are."""
    memory = Memory("", 0, poison=ref.buffer.memory.poison)
    return ref.over(Buffer(memory, 0, ref.buffer.size, "", None))


def put(ref: Ref, dtype: np.dtype[Any], shape: tuple[int, ...], array: Array, to: Array) -> None:
    """Puts the bytes of an array where memory `to` has `ref`."""
    _over(ref, to).write(arrays.to_carrier(array.view(dtype).reshape(shape), ref.element))


def take(ref: Ref, dtype: np.dtype[Any], memory: Array, to: Array) -> None:
    """Puts what `memory` has of `ref` into the bytes of an array."""
    found = arrays.from_carrier(_over(ref, memory).read(), ref.element, dtype)
    to[...] = np.ascontiguousarray(found).reshape(-1).view(np.uint8)


def _over(ref: Ref, memory: Array) -> Ref:
    """`ref` to a buffer with the contents `memory`."""
    buffer = Buffer(ref.buffer.memory, 0, ref.buffer.size, "", None)
    buffer.bytes = memory
    return ref.over(buffer)
