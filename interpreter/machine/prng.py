"""The per-core random number generator behind `tpu.prng_*` (spec/pallas_semantics.md 4.8).

The hardware's sequence is not specified; ours is counter-based. Word n after seeding is the high
half of SplitMix64's mix of `key + n * 0x9E3779B97F4A7C15`, where the key mixes the seeds. Registers
are drawn in row-major order of the register grid, so every form of a kernel draws the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pallasite.layouts.registers import LANES, SUBLANES

_STEP = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def _mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class Prng:
    """A key and a counter of words drawn since it was set."""

    def __init__(self, *seeds: int) -> None:
        self.seed(seeds)

    def seed(self, seeds: Sequence[int]) -> None:
        """Starts the sequence that belongs to the 32-bit words `seeds`."""
        key = 0
        for seed in seeds:
            key = _mix((key + _STEP + (seed & 0xFFFFFFFF)) & _MASK)
        self.key = key
        self.drawn = 0

    def words(self, count: int) -> NDArray[np.uint32]:
        """The next `count` words."""
        n = np.arange(self.drawn, self.drawn + count, dtype=np.uint64)
        self.drawn += count
        z = n * np.uint64(_STEP) + np.uint64(self.key)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        return (z >> np.uint64(32)).astype(np.uint32)

    def registers(self, matrix: Sequence[int]) -> NDArray[np.uint32]:
        """Words for an array of shape (..., rows, columns), drawn register by register."""
        *lead, rows, columns = matrix
        down, across = -(-rows // SUBLANES), -(-columns // LANES)
        count = int(np.prod([*lead, down, across], dtype=np.int64))
        drawn = self.words(count * SUBLANES * LANES).reshape(*lead, down, across, SUBLANES, LANES)
        full = np.swapaxes(drawn, -3, -2).reshape(*lead, down * SUBLANES, across * LANES)
        return full[..., :rows, :columns]
