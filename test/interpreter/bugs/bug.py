"""What a planted bug is: a kernel, and what must be said about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from .kernel_text import DEFAULTS, module


@dataclass(frozen=True)
class Bug:
    """A kernel (`kernel_text`) and its finding: where both sides of the bug are, and in words."""

    name: str
    code: str
    at: int
    """The line of the finding; 100 is the kernel itself."""
    other: int | None
    """The line of the operation, or allocation, on the other side."""
    says: tuple[str, ...]
    """What the text must contain: operands, bytes, what is missing."""
    lines: str
    arguments: dict[str, str] = field(default_factory=dict[str, str])
    devices: int = 1
    operands: int = 2
    grid: str = ""
    windows: Sequence[str] = ()
    transforms: str = ""
    forms: tuple[str, ...] = ("mosaic", "dma", "tiles", "vreg")
    target: str = "v5e"
    semantics: str = "arbitrary"
    aliases: dict[int, int] = field(default_factory=dict[int, int])
    unordered: bool = False
    """It shows only if transfers between the same two cores may overtake each other."""

    def operand(self) -> Any:
        """The input: zeros of the type of `%x`."""
        shape, element = _parts((DEFAULTS | self.arguments)["%x"])
        rows = shape if not self.grid else (32, 128)
        return np.zeros(rows, DTYPES[element])

    def result(self) -> tuple[tuple[int, ...], str]:
        """The shape and type of `%o`."""
        return (32, 128), "float32"

    def text(self) -> str:
        lines = self.lines.strip("\n").split("\n")
        return module(
            lines, self.arguments, operands=self.operands, grid=self.grid, windows=self.windows,
            transforms=self.transforms, semantics=self.semantics,
        )  # fmt: skip


DTYPES: dict[str, Any] = {
    "f32": np.float32, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i32": np.int32,
}  # fmt: skip


def _parts(type: str) -> tuple[tuple[int, ...], str]:
    *sizes, element = type.split()[0].split("x")
    return tuple(map(int, sizes)), element


def transform(number: int, body: str, result: str) -> str:
    return (
        f"func.func @transform_{number}(%i: i32) -> (i32, i32) {{\n %z = arith.constant 0 : i32\n"
        f" {body}\n return {result}, %z : i32, i32\n}} "
        'loc("kernel.py":90:1)\n'
    )


NEIGHBOURS = """
%me = tpu.device_id : i32
%one = arith.constant 1 : i32
%two = arith.constant 2 : i32
%next = arith.addi %me, %one : i32
%peer = arith.remsi %next, %two : i32
"""
"""What kernels of several devices begin with; lines 1 to 5."""
