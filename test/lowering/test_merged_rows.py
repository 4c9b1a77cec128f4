"""Stores of single rows become one store where nothing comes between them, and stay right."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import pallasite

from .memory_kernels import kernel

Array = NDArray[np.float32]


def row(number: int, to: int, change: str = "", source: str = "a", kind: str = "A") -> str:
    """Row `to` of the result is row `number` of a source, after `change` of `%r` to `%c`."""
    width = 128
    n = f"{to}_{number}"
    middle = change.replace("%r", f"%r{n}").replace("%c", f"%c{n}") if change else ""
    value = f"%c{n}" if change else f"%r{n}"
    return f"""%f{n} = arith.constant {number} : index
        %t{n} = arith.constant {to} : index
        %l{n} = vector.load %{source}[%f{n}, %z] : {kind}, vector<1x{width}xf32>
        %r{n} = vector.shape_cast %l{n} : vector<1x{width}xf32> to vector<{width}xf32>
        {middle}
        %s{n} = vector.shape_cast {value} : vector<{width}xf32> to vector<1x{width}xf32>
        tpu.vector_store %b[%t{n}, %z], %s{n} {{strides = array<i32>}} : B, vector<1x{width}xf32>,
        """


def accesses(rows: list[tuple[int, int]], body: str, size: int, result: int) -> tuple[int, int]:
    """Loads and stores of registers in the kernel, whose answer is checked."""
    module = kernel([f"{size}x128xf32", f"{result}x128xf32"], body)
    value = np.random.default_rng(0).integers(-9, 9, (size, 128)).astype(np.float32)
    expected = np.zeros((result, 128), np.float32)
    for source, to in rows:
        expected[to] = value[source]
    lowered = pallasite.lower(module, form="vreg", target="v5e")
    (actual,) = pallasite.run(lowered, [value], form="vreg", target="v5e")
    written = [to for _, to in rows]
    assert np.array_equal(np.asarray(actual)[written], expected[written])
    text = str(lowered)
    return text.count("tpu.load") + text.count("tpu.shuffled_load"), text.count("tpu.store")


@pytest.mark.parametrize(
    ("rows", "size", "loads", "stores"),
    [
        ([(7 - i, i) for i in range(8)], 8, 1, 1),
        ([(i, i) for i in range(16)], 16, 2, 2),
        ([(15 - i, i) for i in range(16)], 16, 2, 2),
        ([(i, i + 3) for i in (2, 0, 1)], 8, 1, 1),
        ([(3, 0), (3, 1), (1, 2), (5, 7)], 8, 2, 2),
        ([(i % 3, i) for i in range(4)], 3, 1, 1),
        ([(0, 0), (9, 1), (2, 2), (20, 3)], 24, 4, 4),
    ],
)
def test_rows_of_one_memory(
    rows: list[tuple[int, int]], size: int, loads: int, stores: int
) -> None:
    body = "".join(row(source, to) for source, to in rows)
    count = max(to for _, to in rows) + 1
    assert accesses(rows, body, size, count) == (loads, stores)


def test_rows_that_read_what_was_written_stay() -> None:
    body = row(0, 0) + row(0, 1, source="b", kind="B") + row(2, 2)
    assert accesses([(0, 0), (0, 1), (2, 2)], body, 8, 8)[1] == 3


def test_rows_written_twice_stay() -> None:
    body = row(0, 0) + row(1, 1) + row(2, 0)
    assert accesses([(2, 0), (1, 1)], body, 8, 8)[1] == 3


def test_rows_that_are_computed() -> None:
    change = """%k{n} = arith.constant 3.0 : f32
        %w{n} = vector.broadcast %k{n} : f32 to vector<128xf32>
        %c = arith.mulf %r, %w{n} : vector<128xf32>"""
    body = "".join(row(i ^ 1, i, change.replace("{n}", str(i))) for i in range(8))
    module = kernel(["8x128xf32", "8x128xf32"], body)
    value = np.random.default_rng(0).normal(size=(8, 128)).astype(np.float32)
    lowered = pallasite.lower(module, form="vreg", target="v5e")
    (actual,) = pallasite.run(lowered, [value], form="vreg", target="v5e")
    assert np.array_equal(actual, value[[1, 0, 3, 2, 5, 4, 7, 6]] * np.float32(3))
    assert str(lowered).count("arith.mulf") == 1


def test_rows_that_differ_in_what_is_computed_stay() -> None:
    body = row(0, 0, "%c = math.absf %r : vector<128xf32>") + row(1, 1)
    module = kernel(["8x128xf32", "2x128xf32"], body)
    value = np.random.default_rng(0).normal(size=(8, 128)).astype(np.float32)
    (actual,) = pallasite.run(module, [value], form="vreg", target="v5e")
    assert np.array_equal(actual, np.stack([abs(value[0]), value[1]]))
