"""What transfers of whole tiles reach, behind the elements that they move."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import BFloat16Type

from pallasite.interpreter.machine.memory import Memory
from pallasite.interpreter.machine.recast import reinterpret
from pallasite.interpreter.machine.rounding import in_tiles
from pallasite.interpreter.machine.views import Ref
from pallasite.layouts.tiling import Tiling

BF16 = BFloat16Type()
WHOLE = Tiling(((16, 128), (2, 1)), (2, 1, 1))
FEW = Tiling(((4, 128), (2, 1)), (4, 4))
"""Four rows of each of `WHOLE`'s tiles."""


def slots() -> Ref:
    shape = (2, 32, 128)
    buffer = Memory("vmem", 1 << 20).allocate(2 * WHOLE.elements(shape), "buffer")
    return Ref.of(buffer, BF16, shape, WHOLE)


@pytest.mark.parametrize("count", [0, 1, 3, 4])
@pytest.mark.parametrize("slot", [0, 1])
def test_the_first_rows_of_a_tile_are_the_array_s(slot, count):
    array = slots()
    values = np.arange(2 * 32 * 128, dtype=np.float32).reshape(2, 32, 128) % 256
    array.write(values.astype(np.float32))
    rows = reinterpret(array.slice((slot, 0, 0), (1, 16, 128)), (4, 128), BF16, FEW)
    part = in_tiles(rows.slice((0, 0), (count, 128)), WHOLE, [1, 2])
    assert part is not None
    np.testing.assert_array_equal(part.read(), values[slot, :count])
    grown = Ref(part.buffer, BF16, (32, 128), part.digits, part.starts, part.base, part.blocks)
    np.testing.assert_array_equal(grown.read(), values[slot])


def test_rows_that_the_array_has_elsewhere():
    array = slots()
    rows = reinterpret(array, (16, 128), BF16, FEW)
    assert in_tiles(rows, WHOLE, [1, 2]) is None, "row 4 begins another tile of the array"
    assert in_tiles(array.slice((0, 2, 0), (1, 2, 128)), WHOLE, [0, 1, 2]) is None
