"""Rows that registers hold in every sublane are stored to flat memory one by one, and as words of
several registers where elements are narrow; casts of half tiles fill registers with whole ones."""

from __future__ import annotations

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

import pallasite

from .memory_kernels import kernel

Array = NDArray[Any]
TYPES: dict[str, Any] = {
    "f32": np.float32, "i32": np.int32, "bf16": ml_dtypes.bfloat16, "i16": np.int16, "i8": np.int8,
}  # fmt: skip
WIDE = {"f32": "f32", "i32": "i32", "bf16": "f32", "i16": "i32", "i8": "i32"}
CASTS = {"f32": ("extf", "truncf"), "i32": ("extsi", "trunci")}


def counts(module: ModuleOp) -> Counter[str]:
    """How often operations of each name occur."""
    return Counter(op.name for op in module.walk())


def summed(rows: int, columns: int, element: str) -> ModuleOp:
    """The sums of columns, added in 32 bits, as a vector of one dimension."""
    before, wide = f"{rows}x{columns}x", WIDE[element]
    widen, narrow = CASTS[wide]
    zero = "0.0" if wide == "f32" else "0"
    lines = [f"%v = vector.load %a[%z, %z] : A, vector<{before}{element}>"]
    if wide == element:
        held = "%v"
    else:
        held = "%w"
        lines.append(f"%w = arith.{widen} %v : vector<{before}{element}> to vector<{before}{wide}>")
    lines += [
        f"%n = arith.constant dense<{zero}> : vector<{columns}x{wide}>",
        f"%r = vector.multi_reduction <add>, {held}, %n [0] "
        f": vector<{before}{wide}> to vector<{columns}x{wide}>",
    ]
    result = "%r"
    if wide != element:
        result = "%s"
        kinds = f"vector<{columns}x{wide}> to vector<{columns}x{element}>"
        lines.append(f"%s = arith.{narrow} %r : {kinds}")
    lines.append(
        f"tpu.vector_store %b[%z], {result} {{strides = array<i32>}} : B, "
        f"vector<{columns}x{element}>,"
    )
    return kernel([f"{before}{element}", f"{columns}x{element}"], "\n".join(lines))


@pytest.mark.parametrize("target", ["v4", "v5e", "v6e"])
@pytest.mark.parametrize("element", list(TYPES))
@pytest.mark.parametrize("rows,columns", [(8, 1024), (16, 1024), (16, 700), (3, 200), (40, 384)])
def test_sums_of_columns_become_flat_rows(
    rows: int, columns: int, element: str, target: str
) -> None:
    if target == "v4" and element == "i8":
        columns += -columns % 512  # v4 stores no part of the words of a flat array of bytes.
    value = np.random.default_rng(0).integers(-90, 90, (rows, columns))
    value = (value if element != "bf16" else value % 4).astype(TYPES[element])
    wide = np.float32 if WIDE[element] == "f32" else np.int32
    expected = value.astype(wide).sum(0).astype(TYPES[element])
    lowered = pallasite.lower(summed(rows, columns, element), form="vreg", target=target)
    (actual,) = pallasite.run(lowered, [value], form="vreg", target=target)
    assert np.array_equal(actual, expected)


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("element", ["f32", "bf16", "i16", "i8"])
def test_a_row_of_words_is_one_store(element: str, target: str) -> None:
    found = counts(pallasite.lower(summed(8, 1024, element), form="vreg", target=target))
    p = 4 // np.dtype(TYPES[element]).itemsize
    assert found["tpu.store"] == 8 // p
    assert found["arith.select"] == found["tpu.create_mask"] == 0
    # Four bytes of a word come as two pairs of halves.
    assert found["tpu.pack_subelements"] == {1: 0, 2: 4, 4: 4}[p]


@pytest.mark.parametrize("target", ["v4", "v5e", "v6e"])
@pytest.mark.parametrize("rows", [8, 12, 16])
@pytest.mark.parametrize("columns", [256, 384, 1000])
def test_casts_of_half_tiles(rows: int, columns: int, target: str) -> None:
    shape = f"{rows}x{columns}x"
    module = kernel(
        [f"{shape}i8", f"{shape}i8"],
        f"""%v = vector.load %a[%z, %z] : A, vector<{shape}i8>
        %w = arith.extsi %v : vector<{shape}i8> to vector<{shape}i32>
        %t = arith.muli %w, %w : vector<{shape}i32>
        %s = arith.trunci %t : vector<{shape}i32> to vector<{shape}i8>
        tpu.vector_store %b[%z, %z], %s {{strides = array<i32>}} : B, vector<{shape}i8>,""",
    )
    value = np.random.default_rng(0).integers(-128, 128, (rows, columns)).astype(np.int8)
    lowered = pallasite.lower(module, form="vreg", target=target)
    (actual,) = pallasite.run(lowered, [value], form="vreg", target=target)
    assert np.array_equal(actual, (value.astype(np.int32) ** 2).astype(np.int8))
    tiles = -(-columns // 128)
    # A register holds two tiles of 16 rows, or four of 8.
    registers = -(-tiles // (2 if rows > 8 else 4))
    found = counts(lowered)
    assert (found["tpu.load"], found["tpu.pack_subelements"]) == (registers, registers)
    assert found["tpu.store"] == registers
