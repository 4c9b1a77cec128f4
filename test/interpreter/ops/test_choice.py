"""Selects with known operands choose the bits that `numpy.where` chooses."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from pallasite.interpreter.ops.choice import chooser

SHAPE = (3, 2, 8, 128)


def laid(array: Any, order: tuple[int, ...]) -> Any:
    """The same array, otherwise in memory."""
    back = tuple(order.index(axis) for axis in range(len(order)))
    return array.transpose(order).copy().transpose(back)


def drawn(generator: np.random.Generator, dtype: Any, kind: str) -> Any:
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    if kind == "any":
        words = generator.integers(0, np.iinfo(bits).max, SHAPE, bits, endpoint=True)
        if dtype == np.float32:
            words[generator.random(SHAPE) < 0.3] |= 0x7F800000
        return words.view(dtype)
    number = {"zero": 0.0, "minus zero": -0.0, "one number": 3.0}[kind]
    return np.broadcast_to(np.dtype(dtype).type(number), SHAPE)


KINDS = ("any", "zero", "minus zero", "one number")


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int16, np.int8])
@pytest.mark.parametrize("which", [*itertools.product((False, True), repeat=3)][1:-1])
def test_the_same_bits_are_chosen(dtype: Any, which: tuple[bool, ...]) -> None:
    generator = np.random.default_rng(0)
    for left, right, cond in itertools.product(KINDS, KINDS, ("any", "none", "all", "rows")):
        conds = {
            "any": generator.random(SHAPE) < 0.5,
            "none": np.zeros(SHAPE, np.bool_),
            "all": np.ones(SHAPE, np.bool_),
            "rows": np.broadcast_to(generator.random((2, 1, 128)) < 0.5, SHAPE),
        }
        operands = [conds[cond], drawn(generator, dtype, left), drawn(generator, dtype, right)]
        known = [x if is_known else None for x, is_known in zip(operands, which, strict=True)]
        fn = chooser(np.dtype(dtype), *known)
        if fn is None:
            continue
        bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
        expected = np.where(operands[0], *(x.view(bits) for x in operands[1:]))
        for order in ((0, 1, 2, 3), (0, 2, 1, 3), (0, 1, 2, 3)):
            rest = [laid(x, order) for x, k in zip(operands, known, strict=True) if k is None]
            found = fn(*rest)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found.view(bits), expected)
            assert not any(np.may_share_memory(found, x) for x in (*rest, *operands))
            found[...] = 0  # It belongs to whoever asked.


def test_nothing_is_gained_for_masks_or_where_nothing_is_known() -> None:
    mask = np.ones(SHAPE, np.bool_)
    assert chooser(np.dtype(np.bool_), mask, mask, None) is None
    assert chooser(np.dtype(np.float32), None, None, None) is None
    varied = np.arange(8.0, dtype=np.float32)
    assert chooser(np.dtype(np.float32), None, varied, None) is None
