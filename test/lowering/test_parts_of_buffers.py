"""Random stores of parts leave the rest of a buffer alone, also where it has two names."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pallasite
from pallasite.targets import TARGETS

from .memory_kernels import module_of

VMEM = "#tpu.memory_space<vmem>"
TYPES: dict[str, tuple[Any, int]] = {
    "f32": (np.float32, 8), "bf16": (ml_dtypes.bfloat16, 16), "i8": (np.int8, 32),
}  # fmt: skip


def kernel(shape: tuple[int, int], element: str, values: list[str], body: str) -> ModuleOp:
    """A kernel whose first operand, `%a`, is also its result, `%b`; the others are `%v0`, ..."""
    whole = f"{shape[0]}x{shape[1]}x{element}"
    names = ["a", *(f"v{n}" for n in range(len(values))), "b"]
    return module_of(names, [whole, *values, whole], body, aliases=(0, 0))


def place(draw: random.Random, extent: int, unit: int) -> tuple[int, int]:
    """Where a part begins and its size: often at a tile, often to the end, often all."""
    first = draw.choice([0, 0, draw.randrange(extent), draw.randrange(extent) // unit * unit])
    return first, draw.choice([extent - first, draw.randint(1, extent - first)])


@pytest.mark.parametrize("seed", range(24))
def test_the_rest_of_a_buffer_stays(seed: int) -> None:
    draw, numbers = random.Random(seed), np.random.default_rng(seed)
    element = draw.choice(list(TYPES))
    dtype, tile = TYPES[element]
    shape = (draw.choice([1, 2, 4, 8, 12, 16, 24]), draw.choice([100, 128, 246, 306, 384]))
    inputs = [numbers.integers(-99, 99, shape).astype(dtype)]
    expected, values, lines = inputs[0].copy(), list[str](), list[str]()
    for n in range(draw.randint(2, 5)):
        (row, rows), (column, columns) = place(draw, shape[0], tile), place(draw, shape[1], 128)
        part = f"{rows}x{columns}x{element}"
        box = (slice(row, row + rows), slice(column, column + columns))
        lines.append(f"%r{n} = arith.constant {row} : index")
        lines.append(f"%c{n} = arith.constant {column} : index")
        if draw.random() < 0.3:
            number = "1" if element == "i8" else "1.0"
            lines.append(f"%w{n} = arith.constant dense<{number}> : vector<{part}>")
            expected[box] = 1
        elif draw.random() < 0.4:
            lines.append(
                f"%w{n} = vector.load %{draw.choice('ab')}[%z, %z] : "
                f"memref<{shape[0]}x{shape[1]}x{element}, {VMEM}>, vector<{part}>"
            )
            expected[box] = expected[:rows, :columns].copy()
        else:
            given = numbers.integers(-99, 99, (rows, columns)).astype(dtype)
            lines.append(
                f"%w{n} = vector.load %v{len(values)}[%z, %z] : memref<{part}, {VMEM}>, "
                f"vector<{part}>"
            )
            values.append(part)
            inputs.append(given)
            expected[box] = given
        lines.append(
            f"tpu.vector_store %{draw.choice('ab')}[%r{n}, %c{n}], %w{n} {{strides = array<i32>}} :"
            f" memref<{shape[0]}x{shape[1]}x{element}, {VMEM}>, vector<{part}>,"
        )
    module = kernel(shape, element, values, "\n    ".join(lines))
    target = draw.choice(list(TARGETS))
    for form in ("mosaic", "dma", "tiles", "vreg"):
        (actual,) = pallasite.run(module, inputs, form=form, target=target)
        assert np.array_equal(actual, expected), (form, target)
