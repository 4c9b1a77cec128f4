"""Random bits of elements narrower than a word, by both drivers."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_narrow_elements_are_the_parts_of_words(run, bits):
    def draw(type: str) -> np.ndarray:
        """What the second of two equal operations gives."""
        text = f"""
        func.func @main() -> vector<{type}> {{
          %s = arith.constant 7 : i32
          "tpu.prng_set_seed_32"(%s, %s) : (i32, i32) -> ()
          %x = "tpu.prng_random_bits"() : () -> vector<{type}>
          %y = "tpu.prng_random_bits"() : () -> vector<{type}>
          return %y : vector<{type}>
        }}"""
        return run(text)[0]

    words = draw("8x128xi32").view(np.uint32)
    packing, half = 32 // bits, 1 << (bits - 1)
    parts = [(words >> np.uint32(bits * k)) & np.uint32(2 * half - 1) for k in range(packing)]
    expected = (np.stack(parts, -1).astype(np.int64) ^ half) - half
    np.testing.assert_array_equal(draw(f"8x128x{packing}xi{bits}"), expected)
    rows = 8 * packing
    logical = draw(f"{rows}x128xi{bits}")
    assert logical.dtype == (np.int16 if bits == 16 else np.int8)
    np.testing.assert_array_equal(logical, np.moveaxis(expected, -1, 1).reshape(rows, 128))
    np.testing.assert_array_equal(draw(f"{rows - 1}x128xi{bits}"), logical[:-1])
