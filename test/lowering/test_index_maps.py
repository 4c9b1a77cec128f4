"""Index maps written as affine expressions: what divides numbers below zero rounds down."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pallasite

MAPS: dict[str, Callable[[int], int]] = {
    "(i - 3) floordiv 2 + 2": lambda i: (i - 3) // 2 + 2,
    "(i - 5) ceildiv 2 + 2": lambda i: 2 - (5 - i) // 2,
    "i ceildiv 2": lambda i: -(-i // 2),
    "(i - 3) mod 3": lambda i: (i - 3) % 3,
    "(i * 3) mod 4": lambda i: i * 3 % 4,
}


@pytest.mark.parametrize("expression", MAPS)
def test_every_form_takes_the_blocks_of_the_map(expression: str) -> None:
    kind = "memref<8x128xf32, #tpu.memory_space<vmem>>"
    module = pallasite.parse(f"""pallas.kernel @k grid (i = 5 arbitrary)
  input %x: tensor<32x128xf32> in vmem block (8, 128) at ({expression}, 0)
  output %o: tensor<40x128xf32> in vmem block (8, 128) at (i, 0)
{{
  %v = pallas.load %x[...] : {kind}
  pallas.store %v, %o[...] : {kind}
}}""")
    value = np.arange(32 * 128, dtype=np.float32).reshape(4, 8, 128)
    expected = np.concatenate([value[MAPS[expression](i)] for i in range(5)])
    for form in ("pallas", "mosaic", "vreg"):
        (result,) = pallasite.run(module, [value.reshape(32, 128)], form=form, target="v5e")
        assert np.array_equal(np.asarray(result), expected), form
