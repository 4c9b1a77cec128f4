"""What is advised instead of accesses at a distance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from pallasite.passes.spaced_out import Along, at_a_distance


def whole(shape: Sequence[int], strides: Sequence[int]) -> list[Along]:
    return [Along(n, 0, -(-n // s), s) for n, s in zip(shape, strides, strict=True)]


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((16, 128), (2, 1)), ((16, 128), (1, 4)), ((4, 32, 256), (2, 8, 1)), ((6, 8, 12), (3, 1, 4))],
)
def test_parts_of_split_dimensions(shape: Sequence[int], strides: Sequence[int]) -> None:
    x = np.arange(np.prod(shape)).reshape(shape)
    found = eval(at_a_distance("x", whole(shape, strides)), {"x": x})
    np.testing.assert_array_equal(found, x[tuple(slice(None, None, s) for s in strides)])


@pytest.mark.parametrize(
    ("shape", "taken"),
    [
        ((16, 16), (slice(1, 14, 2), slice(2, 13, 4))),
        ((16, 128), (slice(None), slice(5, None, 4))),
        ((16, 128), (slice(4, 12), slice(0, 64, 2))),
        ((8, 32, 128), (slice(3, None, 2), slice(9, 30, 4), slice(None))),
        ((16, 128), (slice(2, 8), slice(8, 16))),
    ],
)
def test_elements_taken_from_the_midst(shape: Sequence[int], taken: tuple[slice, ...]) -> None:
    x = np.arange(np.prod(shape)).reshape(shape)
    dims: list[Along] = []
    for size, part in zip(shape, taken, strict=True):
        places = range(*part.indices(size))
        dims.append(Along(size, places.start, len(places), places.step))
    found = eval(at_a_distance("x", dims), {"x": x})
    np.testing.assert_array_equal(found, x[taken])


def test_what_does_not_divide_is_padded_first() -> None:
    dims = whole((15, 128), (2, 1))
    assert at_a_distance("x", dims) == "jnp.pad(x, ...).reshape(8, 2, 128)[:, 0]"
    assert at_a_distance("x", whole((15, 128), (1, 1))) == "x"
