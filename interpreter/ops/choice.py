"""Faster `arith.select` where some operands are constant.

In general, `select` is computed as `b ^ ((a ^ b) & mask)`. A constant condition is prepared as a
mask of words once; of a constant operand only the selected part is kept, and if that is 0
everywhere nothing has to be added.
"""

# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from typing import Any

import numpy as np

from pallasite.interpreter.meanings import Function, Many, elementwise
from pallasite.interpreter.values import Array

_LAYOUTS = 4
"""Layouts in which one constant is kept."""


class _Laid:
    """A constant that is kept in the memory layouts of the arrays it is combined with, which makes
    NumPy twice as fast."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self._kept: dict[tuple[int, ...], Array] = {}

    def like(self, x: Array) -> Array:
        """The constant in the memory layout of `x`, which has the same shape; of each of its parts
        if it has one more dimension in front."""
        if x.ndim > self._array.ndim:
            x = x[0]
        found = self._kept.get(x.strides)
        if found is None:
            found = np.empty_like(x, self._array.dtype)
            found[...] = self._array
            if len(self._kept) < _LAYOUTS:
                self._kept[x.strides] = found
        return found


class Put:
    """Selects between two arrays by a condition that is true, or false, in a box and nowhere else:
    a copy of the one, the operand `into`, with the part `box` of the other."""

    def __init__(self, box: tuple[slice, ...], into: int) -> None:
        self._box = box
        self.into = into

    def __call__(self, *operands: Array) -> Array:
        result = operands[self.into].copy("K")
        result[self._box] = operands[1 - self.into][self._box]
        return result

    def over(self, *operands: Array) -> Array:
        """The same, in the memory of the one."""
        result = operands[self.into]
        result[self._box] = operands[1 - self.into][self._box]
        return result

    @property
    def many(self) -> Many:
        """How it selects from several arrays at once (`meanings.many_of`)."""
        return Many(Put((slice(None), *self._box), self.into))


def _put(cond: Array) -> Put | None:
    for into, mask in ((1, cond), (0, ~cond)):
        box = _box_of(mask)
        if box is not None:
            return Put(box, into)
    return None


def _box_of(mask: Array) -> tuple[slice, ...] | None:
    """The box in which `mask` is true, if it is nowhere else; None if there is none."""
    box: list[slice] = []
    for axis in range(mask.ndim):
        places = np.flatnonzero(mask.any(axis=tuple(d for d in range(mask.ndim) if d != axis)))
        if not places.size:
            return None
        box.append(slice(int(places[0]), int(places[-1]) + 1))
    return tuple(box) if mask[tuple(box)].all() else None


def chooser(
    dtype: np.dtype[Any], cond: Array | None, a: Array | None, b: Array | None
) -> Function | None:
    """A function that computes `select` on vectors of `dtype` from those operands that are given as
    None here.

    The others are constants. None if that would not be faster.
    """
    if dtype == np.bool_ or (cond is None and a is None and b is None):
        return None
    bits = np.dtype(f"int{8 * dtype.itemsize}")
    left, right = (None if x is None else x.view(bits) for x in (a, b))
    if cond is not None:
        put = _put(cond) if a is None and b is None else None
        if put is not None:
            return put
        chosen = _known_mask(bits, -cond.astype(bits), left, right)
    elif left is not None and right is not None:
        return elementwise(_of_two(dtype, left, right), spreads=False)
    elif right is not None and (one := _one(right)) is not None:
        chosen = _or_one(bits, one)
    elif left is not None and (one := _one(left)) is not None:
        chosen = _one_or(bits, one)
    else:
        return None
    return elementwise(lambda *operands: chosen(*operands).view(dtype), spreads=False)


def _one(words: Array) -> Any | None:
    """The word that all of `words` are equal to; None if they differ."""
    first = words[(0,) * words.ndim]
    return first if (words == first).all() else None


def _known_mask(
    bits: np.dtype[Any], mask: Array, left: Array | None, right: Array | None
) -> Function:
    if left is None and right is None:
        return _blend(bits, _Laid(mask))
    if right is None:
        mask, left, right = ~mask, right, left
    assert right is not None
    kept, rest = _Laid(mask), right & ~mask
    if not rest.any():
        return lambda x: x.view(bits) & kept.like(x)
    others = _Laid(rest)

    def choose(x: Array) -> Array:
        result = x.view(bits) & kept.like(x)
        result |= others.like(result)
        return result

    return choose


def _blend(bits: np.dtype[Any], mask: _Laid) -> Function:
    def choose(a: Array, b: Array) -> Array:
        other = b.view(bits)
        result = a.view(bits) ^ other
        result &= mask.like(result)
        result ^= other
        return result

    return choose


def _of_two(dtype: np.dtype[Any], left: Array, right: Array) -> Function:
    """Selects between two constants for each element."""
    differences, others = left ^ right, _Laid(right)
    change, one = _one(differences), _one(right)
    changes = _Laid(differences)

    def choose(cond: Array) -> Array:
        result = np.multiply(cond, changes.like(cond) if change is None else change)
        if one != 0:
            result ^= others.like(result) if one is None else one
        return result.view(dtype)

    return choose


def _or_one(bits: np.dtype[Any], one: Any) -> Function:
    """Selects a constant number where the condition is false."""

    def choose(cond: Array, a: Array) -> Array:
        if not one:
            return np.multiply(a.view(bits), cond)
        result = a.view(bits) ^ one
        # Where `cond` is 0, nothing of it is left.
        np.multiply(result, cond, out=result)
        result ^= one
        return result

    return choose


def _one_or(bits: np.dtype[Any], one: Any) -> Function:
    """Selects a constant number where the condition is true."""

    def choose(cond: Array, b: Array) -> Array:
        other = b.view(bits)
        if not one:
            return np.multiply(other, np.logical_not(cond))
        result = other ^ one
        np.multiply(result, cond, out=result)
        result ^= other
        return result

    return choose
