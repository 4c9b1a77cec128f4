"""Buffers filled with one number, of which other accesses take a few rows, are tiled by those."""

from __future__ import annotations

from collections import Counter

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pallasite

from .memory_kernels import kernel

ZERO = {"bf16": "0.0", "i16": "0", "i8": "0"}
NUMPY = {"bf16": ml_dtypes.bfloat16, "i16": np.int16, "i8": np.int8}


def placed(rows: int, columns: int, few: int, element: str, at: int | None) -> ModuleOp:
    """`few` rows in a buffer of zeros, from row `at` on, or from one that is known at run time."""
    part, whole = f"vector<{few}x{columns}x{element}>", f"vector<{rows}x{columns}x{element}>"
    known = f"%r = arith.constant {at} : index"
    found = """%v = vector.load %a[%z, %z] : A, vector<8x128xi32>
    %s = vector.extract %v[0, 0] : i32 from vector<8x128xi32>
    %m = tpu.assume_multiple %s, 32 : i32
    %r = arith.index_cast %m : i32 to index"""
    body = f"""%zeros = arith.constant dense<{ZERO[element]}> : {whole}
    vector.store %zeros, %c[%z, %z] : C, {whole}
    %x = vector.load %b[%z, %z] : B, {part}
    {known if at is not None else found}
    vector.store %x, %c[%r, %z] : C, {part}"""
    types = ["8x128xi32", f"{few}x{columns}x{element}", f"{rows}x{columns}x{element}"]
    return kernel(types, body)


def stores(module: ModuleOp, few: int, columns: int, element: str, at: int) -> int:
    """The stores of the kernel, once its answer is checked."""
    lowered = pallasite.lower(module, form="vreg", target="v5e", allow_beyond_reference=True)
    x = np.random.default_rng(3).integers(-9, 9, (few, columns)).astype(NUMPY[element])
    place = np.full((8, 128), at, np.int32)
    (actual,) = pallasite.run(lowered, [place, x], form="vreg", target="v5e")
    expected = np.zeros_like(actual)
    expected[at : at + few] = x
    assert np.array_equal(actual, expected)
    return Counter(op.name for op in lowered.walk())["tpu.store"]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("element", "columns", "few", "count"),
    [("bf16", 256, 8, 8 + 1), ("i16", 384, 8, 12 + 2), ("i8", 256, 16, 4 + 1),
     ("i8", 640, 8, 10 + 2)],
    ids=str,
)  # fmt: skip
def test_neighbouring_tiles_are_stored_together(
    element: str, columns: int, few: int, count: int, known: bool
) -> None:
    module = placed(64, columns, few, element, 32 if known else None)
    assert stores(module, few, columns, element, 32) == count


@pytest.mark.parametrize(("rows", "columns"), [(64, 200), (68, 256)], ids=str)
def test_others_keep_their_tiles(rows: int, columns: int) -> None:
    """Those that do not end with a tile."""
    module = placed(rows, columns, 8, "bf16", 8)
    assert stores(module, 8, columns, "bf16", 8) > 0
