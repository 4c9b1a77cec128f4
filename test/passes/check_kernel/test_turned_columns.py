"""Columns that are computed without their dimension of 1, and get it back before an argmax."""

from __future__ import annotations

import pytest

from ..checking import beyond, check, kernel, load

FLAT, COLUMN, WHOLE = "vector<4x16xf32>", "vector<4x16x1xf32>", "vector<4x16x128xf32>"


def place(made: str, value: str) -> str:
    """The place of the largest of `value` as a column, which is computed from columns and rows."""
    body = load("x", "a", "4x16x128xf32") + load("row", "b", "4x16xf32")
    for lane in (0, 1):
        body += f"""%s{lane} = vector.extract_strided_slice %x
        {{offsets = [0, 0, {lane}], sizes = [4, 16, 1], strides = [1, 1, 1]}} : {WHOLE} to {COLUMN}
    %column{lane} = vector.shape_cast %s{lane} : {COLUMN} to {FLAT}
    """
    body += f"""%k0 = arith.constant dense<0.0> : {FLAT}
    %two = arith.constant dense<2.0> : {FLAT}
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %most = vector.multi_reduction <maximumf>, %x, %k0 [2] : {WHOLE} to {FLAT}
    %i = tpu.iota {{dimensions = array<i32: 1>}} : vector<4x16xi32>
    %iota = arith.sitofp %i : vector<4x16xi32> to {FLAT}
    {made}
    %turned = vector.shape_cast {value} : {FLAT} to {COLUMN}
    %p = tpu.reduce_index %turned {{axis = 0 : i32, kind = #tpu.reduction_kind<arg_max>}}
        : {COLUMN} -> vector<16x1xi32>"""
    vmem = "#tpu.memory_space<vmem>"
    arguments = f"%a: memref<4x16x128xf32, {vmem}>, %b: memref<4x16xf32, {vmem}>, %yes: i1"
    return kernel(arguments, body)


def added(first: str, second: str) -> str:
    return place(f"%r = arith.addf %{first}, %{second} : {FLAT}", "%r")


def chosen(first: str, second: str) -> str:
    made = f"""%r = scf.if %yes -> ({FLAT}) {{
      scf.yield %{first} : {FLAT}
    }} else {{
      scf.yield %{second} : {FLAT}
    }}"""
    return place(made, "%r")


def repeated(first: str, second: str) -> str:
    made = f"""%r = scf.for %n = %c0 to %c3 step %c1 iter_args(%v = %{first}) -> ({FLAT}) {{
      %w = arith.addf %v, %{second} : {FLAT}
      scf.yield %w : {FLAT}
    }}"""
    return place(made, "%r")


@pytest.mark.parametrize(
    ("first", "second"),
    [("column0", "two"), ("two", "column0"), ("column0", "column1"), ("column0", "row"),
     ("most", "column0"), ("most", "row")],
)  # fmt: skip
def test_columns_stay_where_they_were(first: str, second: str) -> None:
    """The first that varies decides; a row that is added to what was reduced comes along."""
    check(added(first, second))
    check(added(first, second), "v6e")


@pytest.mark.parametrize(
    ("first", "second"),
    [("row", "column0"), ("row", "two"), ("most", "two"), ("most", "iota"), ("column0", "iota"),
     ("row", "most"), ("iota", "column0"), ("two", "two")],
)  # fmt: skip
def test_rows_become_columns_once_for_all_lanes(first: str, second: str) -> None:
    beyond(added(first, second), "index-reduction")


def test_columns_that_branches_give() -> None:
    """Branches keep a column that all of them have in one lane."""
    for first, second in (("column1", "two"), ("most", "column1"), ("column1", "column1")):
        check(chosen(first, second))
    for first, second in (("column1", "column0"), ("column1", "row"), ("most", "two")):
        beyond(chosen(first, second), "index-reduction")


def test_columns_that_loops_carry() -> None:
    for first, second in (("column0", "two"), ("column0", "row"), ("most", "column0")):
        check(repeated(first, second))
    for first, second in (("row", "column0"), ("two", "row"), ("most", "two")):
        beyond(repeated(first, second), "index-reduction")
