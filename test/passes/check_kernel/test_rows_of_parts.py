"""Rows at places known at run time of parts of wide arrays: the part keeps the array's tiles.

Asked of libtpu 0.0.51 about loads and stores of each.
"""

from __future__ import annotations

import pytest

from ..checking import VMEM, check, kernel, memref, refused


def row(array: str, part: str, begin: str, rows: int, columns: int, *, stored: bool = False) -> str:
    """A kernel that loads or stores `rows` of a `part` of an `array`, from a row known at run
    time on."""
    part_type = memref(f"{part}xf32")
    vector = f"vector<{rows}x{columns}xf32>"
    body = f"""
      %p = memref.load %t[%c0] : {memref("16xi32", "#tpu.memory_space<smem>")}
      %i = arith.index_cast %p : i32 to index
      %zero = arith.constant 0 : i32
      %lanes = arith.constant {begin} : i32
      %part = tpu.memref_slice %a[%zero, %lanes] : {memref(f"{array}xf32")} -> {part_type}
    """
    body += (
        f"%v = arith.constant dense<0.0> : {vector}\n"
        f"vector.store %v, %part[%i, %c0] : {part_type}, {vector}"
        if stored
        else f"%v = vector.load %part[%i, %c0] : {part_type}, {vector}"
    )
    smem = memref("16xi32", "#tpu.memory_space<smem>")
    return kernel(f"%t: {smem}, %a: memref<{array}xf32, {VMEM}>", body)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(("array", "part", "begin", "rows", "columns", "good"), [
    ("16x128", "16x128", "0", 1, 128, True),
    ("16x128", "8x128", "0", 2, 128, True),
    ("16x256", "16x128", "0", 1, 128, False),
    ("16x256", "16x128", "128", 1, 128, False),
    ("16x256", "16x128", "0", 2, 128, False),
    ("16x256", "8x128", "0", 1, 64, False),
    ("8x130", "8x128", "0", 1, 128, False),
    ("16x384", "16x256", "0", 1, 256, True),
    ("16x384", "16x256", "0", 2, 256, False),
    ("1x256", "1x128", "0", 1, 128, True),
])  # fmt: skip
def test_rows_of_a_part(
    array: str, part: str, begin: str, rows: int, columns: int, good: bool, stored: bool
) -> None:
    text = row(array, part, begin, rows, columns, stored=stored)
    if good:
        check(text)
    else:
        refused(text, "unproven-alignment")
