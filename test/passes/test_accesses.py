"""What is advised instead of accesses at a distance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from pallasite.passes.accesses import at_a_distance


@pytest.mark.parametrize(
    ("shape", "strides"),
    [((16, 128), (2, 1)), ((16, 128), (1, 4)), ((4, 32, 256), (2, 8, 1)), ((6, 8, 12), (3, 1, 4))],
)
def test_parts_of_split_dimensions(shape: Sequence[int], strides: Sequence[int]) -> None:
    x = np.arange(np.prod(shape)).reshape(shape)
    found = eval(at_a_distance("x", shape, strides), {"x": x})
    np.testing.assert_array_equal(found, x[tuple(slice(None, None, s) for s in strides)])


def test_what_does_not_divide_is_padded_first() -> None:
    assert at_a_distance("x", (15, 128), (2, 1)) == "jnp.pad(x, ...).reshape(8, 2, 128)[:, 0]"
