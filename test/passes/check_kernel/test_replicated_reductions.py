"""Places of maxima in vectors that registers keep once for all rows or lanes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ..checking import beyond, check, kernel, load, memref

KIND, ROWS, COLUMNS = "vector<4x8x128xf32>", "vector<4x1x128xf32>", "vector<4x8x1xf32>"


def place(value: str, axis: int = 0) -> str:
    """The place of the largest of `value`, one of those that are made here."""
    kinds = {"row": ROWS, "rows": ROWS, "wide": "vector<4x1x256xf32>", "lanes": COLUMNS}
    kinds |= {"taken": ROWS, "sum": ROWS, "column": COLUMNS, "added": ROWS}
    kinds |= {"turned": "vector<4x128x1xf32>", "parted": "vector<2x2x8x128xf32>"}
    kinds |= {"regrouped": "vector<8x4x1xf32>", "splat": ROWS, "chosen": ROWS, "either": ROWS}
    kinds |= {name: "vector<4x1x1xf32>" for name in ("of_row", "of_lanes", "of_column")}
    kinds |= {
        "joined": "vector<2x16x128xf32>",
        "one": ROWS,
        "put_back": ROWS,
        "most_once": "vector<4x1x1xf32>",
    }
    kind = kinds.get(value, KIND)
    shape = kind.removeprefix("vector<").removesuffix("xf32>").split("x")
    left = "x".join(size for dim, size in enumerate(shape) if dim != axis)
    body = load("x", "a", "4x8x128xf32") + load("row", "b", "4x1x128xf32")
    body += load("wide", "c", "4x1x256xf32") + load("column", "d", "4x8x1xf32")
    body += f"""%k0 = arith.constant dense<0.0> : vector<4x128xf32>
    %k1 = arith.constant dense<0.0> : vector<4x8xf32>
    %k2 = arith.constant dense<0.0> : vector<4xf32>
    %k3 = arith.constant dense<1.0> : {ROWS}
    %c3 = arith.constant 3 : index
    %number = arith.constant 1.0 : f32
    %ones = vector.broadcast %number : f32 to vector<4x128xf32>
    %most = vector.multi_reduction <maximumf>, %x, %k0 [1] : {KIND} to vector<4x128xf32>
    %more = arith.addf %most, %ones : vector<4x128xf32>
    %rows = vector.shape_cast %more : vector<4x128xf32> to {ROWS}
    %last = vector.multi_reduction <maximumf>, %x, %k1 [2] : {KIND} to vector<4x8xf32>
    %lanes = vector.shape_cast %last : vector<4x8xf32> to {COLUMNS}
    %repeated = vector.broadcast %rows : {ROWS} to {KIND}
    %i = tpu.iota {{dimensions = array<i32: 2>}} : vector<4x8x128xi32>
    %iota = arith.sitofp %i : vector<4x8x128xi32> to {KIND}
    %mixed = arith.addf %repeated, %x : {KIND}
    %both = arith.mulf %repeated, %iota : {KIND}
    %taken = vector.extract_strided_slice %x
        {{offsets = [0, 0, 0], sizes = [4, 1, 128], strides = [1, 1, 1]}} : {KIND} to {ROWS}
    %turned = vector.shape_cast %row : {ROWS} to vector<4x128x1xf32>
    %parted = vector.shape_cast %x : {KIND} to vector<2x2x8x128xf32>
    %regrouped = vector.shape_cast %column : {COLUMNS} to vector<8x4x1xf32>
    %one = vector.load %a[%c0, %c3, %c0] : {memref("4x8x128xf32")}, {ROWS}
    %flat = vector.shape_cast %one : {ROWS} to vector<4x128xf32>
    %flat_sum = arith.addf %flat, %more : vector<4x128xf32>
    %put_back = vector.shape_cast %flat_sum : vector<4x128xf32> to {ROWS}
    %most_of_all = vector.multi_reduction <maximumf>, %x, %k2 [1, 2] : {KIND} to vector<4xf32>
    %most_once = vector.shape_cast %most_of_all : vector<4xf32> to vector<4x1x1xf32>
    %column0 = vector.extract_strided_slice %last
        {{offsets = [0, 0], sizes = [1, 4], strides = [1, 1]}} : vector<4x8xf32> to vector<1x4xf32>
    %lanes0 = vector.extract_strided_slice %most
        {{offsets = [0, 0], sizes = [1, 4], strides = [1, 1]}}
        : vector<4x128xf32> to vector<1x4xf32>
    %first = vector.extract_strided_slice %column
        {{offsets = [0, 0, 0], sizes = [1, 4, 1], strides = [1, 1, 1]}}
        : {COLUMNS} to vector<1x4x1xf32>
    %of_column = vector.shape_cast %first : vector<1x4x1xf32> to vector<4x1x1xf32>
    %of_row = vector.shape_cast %column0 : vector<1x4xf32> to vector<4x1x1xf32>
    %of_lanes = vector.shape_cast %lanes0 : vector<1x4xf32> to vector<4x1x1xf32>
    %spread = vector.broadcast %column : {COLUMNS} to {KIND}
    %joined = vector.shape_cast %spread : {KIND} to vector<2x16x128xf32>
    %splat = arith.addf %row, %k3 : {ROWS}
    %chosen = arith.select %yes, %row, %rows : {ROWS}
    %either = scf.if %yes -> ({ROWS}) {{
      scf.yield %row : {ROWS}
    }} else {{
      scf.yield %one : {ROWS}
    }}
    %sum = arith.addf %row, %taken : {ROWS}
    %added = arith.addf %row, %rows : {ROWS}
    %p = tpu.reduce_index %{value} {{axis = {axis} : i32, kind = #tpu.reduction_kind<arg_max>}}
        : {kind} -> vector<{left}xi32>"""
    arguments = (("a", "4x8x128"), ("b", "4x1x128"), ("c", "4x1x256"), ("d", "4x8x1"))
    given = ", ".join(f"%{n}: {memref(s + 'xf32')}" for n, s in arguments)
    return kernel(f"{given}, %yes: i1", body)


@pytest.mark.parametrize(
    "value",
    [
        "row",
        "rows",
        "lanes",
        "repeated",
        "iota",
        "both",
        "added",
        "turned",
        "one",
        "put_back",
        "most_once",
        "splat",
        "chosen",
        "either",
        "of_row",
        "of_lanes",
        "joined",
    ],
)
def test_places_along_leading_dimensions_need_rows_and_lanes(value: str) -> None:
    beyond(place(value), "index-reduction")


@pytest.mark.parametrize(
    "value", ["x", "wide", "column", "mixed", "taken", "sum", "parted", "regrouped", "of_column"]
)
def test_places_along_leading_dimensions(value: str) -> None:
    check(place(value))


def loaded_rows(made: str, columns: int = 128) -> str:
    """The place of the largest of `%r`, which is made of rows of an array and of values of it."""
    shape = f"4x8x{columns}xf32"
    body = (
        load("x", "a", "4x8x128xf32")
        + f"""%c3 = arith.constant 3 : index
    %c1 = arith.constant 1 : index
    %l = vector.load %b[%c0, %c3, %c0] : {memref(shape)}, {ROWS}
    %m = vector.load %b[%c0, %c0, %c0] : {memref(shape)}, {ROWS}
    %more = arith.mulf %x, %x : {KIND}
    %t = vector.extract_strided_slice %more
        {{offsets = [0, 0, 0], sizes = [4, 1, 128], strides = [1, 1, 1]}} : {KIND} to {ROWS}
    %f = memref.load %s[%c0] : memref<1xi32, #tpu.memory_space<smem>>
    %z = arith.constant 0 : i32
    %p = arith.cmpi sgt, %f, %z : i32
    {made}
    %q = tpu.reduce_index %r {{axis = 0 : i32, kind = #tpu.reduction_kind<arg_max>}}
        : {ROWS} -> vector<1x128xi32>"""
    )
    flag = "%s: memref<1xi32, #tpu.memory_space<smem>>"
    return kernel(f"{flag}, %a: {memref('4x8x128xf32')}, %b: {memref(shape)}", body)


def turns(first: str, last: str) -> str:
    return f"""%r = scf.for %i = %c0 to %c3 step %c1 iter_args(%v = {first}) -> ({ROWS}) {{
      %w = arith.addf %v, {last} : {ROWS}
      scf.yield %w : {ROWS}
    }}"""


def turns_while(first: str, last: str) -> str:
    return f"""%n, %r = scf.while (%i = %z, %v = {first}) : (i32, {ROWS}) -> (i32, {ROWS}) {{
      %go = arith.cmpi slt, %i, %f : i32
      scf.condition(%go) %i, %v : i32, {ROWS}
    }} do {{
    ^bb0(%j: i32, %u: {ROWS}):
      %w = arith.addf %u, {last} : {ROWS}
      scf.yield %j, %w : i32, {ROWS}
    }}"""


def ways(first: str, last: str) -> str:
    return f"""%r = scf.if %p -> ({ROWS}) {{
      %w = arith.addf {first}, {first} : {ROWS}
      scf.yield %w : {ROWS}
    }} else {{
      %u = arith.mulf {last}, {last} : {ROWS}
      scf.yield %u : {ROWS}
    }}"""


@pytest.mark.parametrize("made", [turns, turns_while, ways])
def test_loaded_rows_that_loops_and_branches_give(made: Callable[[str, str], str]) -> None:
    """A row of words comes to all rows of a register, from whatever array it is loaded."""
    beyond(loaded_rows(f"%r = arith.negf %l : {ROWS}"), "index-reduction")
    beyond(loaded_rows(f"%r = arith.negf %l : {ROWS}", 256), "index-reduction")
    bits = ROWS.replace("f32", "i32")
    cast = f"%i = tpu.bitcast %l : {ROWS} -> {bits}\n%r = tpu.bitcast %i : {bits} -> {ROWS}"
    beyond(loaded_rows(cast), "index-reduction")
    beyond(loaded_rows(made("%l", "%m")), "index-reduction")
    for first, last in (("%l", "%t"), ("%t", "%m"), ("%t", "%t")):
        check(loaded_rows(made(first, last)))


@pytest.mark.parametrize("element", ["bf16", "i16", "i8"])
def test_a_loaded_row_of_packed_elements_lies_in_one_row(element: str) -> None:
    """Rows of words are loaded to all rows of a register."""
    extend = "arith.extf" if element == "bf16" else "arith.sitofp"
    rows = f"vector<4x1x128x{element}>"
    body = (
        load("x", "a", f"4x1x128x{element}")
        + f"""%w = {extend} %x : {rows} to {ROWS}
    %p = tpu.reduce_index %w {{axis = 0 : i32, kind = #tpu.reduction_kind<arg_max>}}
        : {ROWS} -> vector<1x128xi32>"""
    )
    check(kernel(f"%a: {memref(f'4x1x128x{element}')}", body))


def test_places_along_rows_and_lanes() -> None:
    for value in ("repeated", "iota", "both"):
        check(place(value, 1))
        check(place(value, 2))
    check(place("row", 2))


def largest(value: str, dims: str) -> str:
    """The largest of half words along `dims` of 4x16x128, which are computed or loaded."""
    shape, whole, row = "4x16x128xbf16", "vector<4x16x128xbf16>", "vector<4x1x128xbf16>"
    left = "x".join(n for d, n in enumerate(("4", "16", "128")) if str(d) not in dims)
    body = load("x", "a", shape)
    for dim in range(3):
        body += f"""%n{dim} = tpu.iota {{dimensions = array<i32: {dim}>}} : vector<4x16x128xi32>
        %f{dim} = arith.sitofp %n{dim} : vector<4x16x128xi32> to vector<4x16x128xf32>
        %iota{dim} = arith.truncf %f{dim} : vector<4x16x128xf32> to {whole}
        """
    body += f"""%sum = arith.addf %iota0, %x : {whole}
    %first = vector.extract_strided_slice %x
        {{offsets = [0, 0, 0], sizes = [4, 1, 128], strides = [1, 1, 1]}} : {whole} to {row}
    %row = vector.broadcast %first : {row} to {whole}
    %low = arith.constant dense<0xFF80> : vector<{left}xbf16>
    %r = vector.multi_reduction <maximumf>, %{value}, %low {dims}
        : {whole} to vector<{left}xbf16>"""
    return kernel(f"%a: {memref(shape)}", body)


@pytest.mark.parametrize(
    ("value", "dims"),
    [("iota0", "[1]"), ("iota0", "[2]"), ("iota1", "[2]"), ("iota2", "[1]"), ("row", "[1]"),
     ("iota2", "[0, 1]"), ("iota1", "[1, 2]")],
)  # fmt: skip
def test_packed_maxima_of_copies(value: str, dims: str) -> None:
    for target in ("v6e", "v7x"):
        beyond(largest(value, dims), "reduced-copies", target)
    for target in ("v4", "v5e"):
        check(largest(value, dims), target)


@pytest.mark.parametrize(
    ("value", "dims"),
    [("x", "[1]"), ("sum", "[1]"), ("iota1", "[1]"), ("iota2", "[2]"), ("iota1", "[0]"),
     ("row", "[2]")],
)  # fmt: skip
def test_packed_maxima(value: str, dims: str) -> None:
    check(largest(value, dims), "v6e")
