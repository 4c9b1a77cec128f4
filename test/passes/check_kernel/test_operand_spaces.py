"""The memories in which the TPU compiler places what a kernel gets from its program."""

from __future__ import annotations

import pytest

from ..checking import check, kernel, refused


@pytest.mark.parametrize("target", ["v4", "v5e", "v5p", "v7x"])
def test_operands_are_not_in_cmem(target: str) -> None:
    def text(space: str) -> str:
        return kernel(f"%a: memref<64x128xf32, #tpu.memory_space<{space}>>", "")

    for space in ("vmem", "smem", "any", "hbm"):
        check(text(space), target)
    refused(text("cmem"), "operand-space", target)
