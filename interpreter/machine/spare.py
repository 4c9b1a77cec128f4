"""Memory of this computer that one run leaves to the next.

The C library gives large blocks back to the system and gets them again page by page, which takes
longer than to fill them. A program that calls kernels again and again keeps some of them instead.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Block = NDArray[np.uint8]
MOST_KEPT = 1 << 28
"""Bytes that are kept between runs."""
LEAST = 1 << 16
"""Bytes of the smallest block worth keeping: smaller ones the C library keeps itself."""

ALIGNMENT = 64
"""Bytes: XLA takes memory as it is whose address is a multiple of it, and copies other."""


def fresh(size: int) -> Block:
    """New memory that holds anything; of what is large, with an address that XLA takes."""
    if size < LEAST:
        return np.empty(size, np.uint8)
    room = np.empty(size + ALIGNMENT, np.uint8)
    first = -room.__array_interface__["data"][0] % ALIGNMENT
    return room[first : first + size]


class Spare:
    """Blocks that nobody uses now, by size; threads share it."""

    def __init__(self, limit: int = MOST_KEPT) -> None:
        self.limit = limit
        self.kept = 0
        self._blocks: dict[int, list[Block]] = {}
        self._lock = threading.Lock()

    def take(self, size: int) -> Block | None:
        """A block of exactly `size` bytes that hold anything, if there is one."""
        with self._lock:
            blocks = self._blocks.get(size)
            if not blocks:
                return None
            self.kept -= size
            return blocks.pop()

    def keep(self, blocks: Iterable[Block]) -> None:
        """Keeps blocks to which nobody has a reference any more; old ones make room for them."""
        with self._lock:
            for block in blocks:
                size = len(block)
                if not LEAST <= size <= self.limit:
                    continue
                while self.kept + size > self.limit:
                    self._drop_one()
                # What was used last comes last, of its size and of all sizes.
                same = self._blocks.pop(size, [])
                self._blocks[size] = [*same, block]
                self.kept += size

    def _drop_one(self) -> None:
        size, blocks = next(iter(self._blocks.items()))
        if blocks:
            del blocks[0]
            self.kept -= size
        if not blocks:
            del self._blocks[size]
