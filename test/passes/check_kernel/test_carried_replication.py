"""Loops whose vectors are one element at first, as libtpu 0.0.51 takes and refuses them."""

from __future__ import annotations

import pytest

from ..checking import beyond, check, kernel, load, memref


def loop(shape: str, turns: str, first: str = "%k, %k", extra: str = "") -> str:
    """Carries `%a` and `%b` from `first` by the operations `turns`; `%l` is loaded."""
    kind = f"vector<{shape}>"
    zero = "0.0" if "f" in shape else "0"
    return kernel(
        f"%x: {memref(shape)}, %s: {shape.rsplit('x', 1)[1]}, %flag: i1",
        load("l", "x", shape)
        + f"""%k = arith.constant dense<{zero}> : {kind}
    %c1 = arith.constant 1 : index
    %c9 = arith.constant 9 : index
    %splat = vector.broadcast %s : {shape.rsplit("x", 1)[1]} to {kind}
    {extra.replace("KIND", kind)}
    %r:2 = scf.for %i = %c0 to %c9 step %c1 iter_args(%a = {first.split(", ")[0]},
        %b = {first.split(", ")[1]}) -> ({kind}, {kind}) {{
      {turns.replace("KIND", kind)}
      scf.yield %c, %d : {kind}, {kind}
    }}""",
    )


def swap(value: str, element: str = "f32") -> str:
    """What arrives in the second value reaches the first one a turn later."""
    add = "addf" if element[0] in "fb" else "addi"
    return f"%d = arith.{add} %a, {value} : KIND\n%c = arith.select %true, %b, %k : KIND"


TRUE = "%true = arith.cmpi ne, %c0, %c9 : index"
ROWS = "%rows32 = tpu.iota {dimensions = array<i32: 0>} : vector<8x128xi32>"
FLOATS = f"{ROWS}\n%rows = arith.sitofp %rows32 : vector<8x128xi32> to vector<8x128xf32>"


@pytest.mark.parametrize(
    "shape", ["8x128xf32", "128xf32", "3x100xf32", "4x8x128xf32", "8x1xf32", "16x128xbf16"]
)
def test_varying_in_the_second_turn(shape: str) -> None:
    beyond(loop(shape, swap("%l"), extra=TRUE), "carried-splat")
    beyond(loop(shape, swap("%l"), "%k, %splat", TRUE), "carried-splat")


def test_along_one_dimension() -> None:
    extra = f"{TRUE}\n{FLOATS}"
    beyond(loop("8x128xf32", swap("%l"), "%rows, %k", extra), "carried-splat")
    beyond(loop("8x128xf32", swap("%rows"), "%k, %k", extra), "carried-splat")
    check(loop("8x128xf32", swap("%rows"), "%rows, %k", extra))


@pytest.mark.parametrize("value", ["%lanes", "%spread"])
def test_along_the_lanes(value: str) -> None:
    """The lanes of a vector vary as much as those of one row that is repeated."""
    row = memref("128xf32")
    extra = f"""{TRUE}
      %lanes32 = tpu.iota {{dimensions = array<i32: 1>}} : vector<8x128xi32>
      %lanes = arith.sitofp %lanes32 : vector<8x128xi32> to vector<8x128xf32>
      %row = memref.alloca() : {row}
      %line = vector.load %row[%c0] : {row}, vector<128xf32>
      %spread = vector.broadcast %line : vector<128xf32> to vector<8x128xf32>"""
    beyond(loop("8x128xf32", swap(value), extra=extra), "carried-splat")
    check(loop("8x128xf32", swap(value), "%lanes, %k", extra))


def test_one_element_that_is_repeated() -> None:
    one = memref("1xf32")
    extra = f"""{TRUE}
      %one = memref.alloca() : {one}
      %element = vector.load %one[%c0] : {one}, vector<1xf32>
      %spread = vector.broadcast %element : vector<1xf32> to vector<8x128xf32>"""
    check(loop("8x128xf32", swap("%spread"), extra=extra))


@pytest.mark.parametrize("first", ["%k, %l", "%l, %k", "%l, %l"])
def test_varying_from_the_first_turn(first: str) -> None:
    check(loop("8x128xf32", swap("%l"), first, TRUE))


@pytest.mark.parametrize("value", ["%k", "%splat", "%b"])
def test_never_varying(value: str) -> None:
    check(loop("8x128xf32", swap(value), extra=TRUE))


def test_single_elements() -> None:
    check(loop("1x1xf32", swap("%l"), extra=TRUE))


def test_without_exchange() -> None:
    turns = "%c = arith.addf %a, %l : KIND\n%d = arith.addf %b, %a : KIND"
    beyond(loop("8x128xf32", turns), "carried-splat")
    check(loop("8x128xf32", "%c = arith.addf %a, %l : KIND\n%d = arith.addf %b, %l : KIND"))


def test_inner_loops() -> None:
    turns = """%c = scf.for %j = %c0 to %c9 step %c1 iter_args(%e = %a) -> (KIND) {
        %f = arith.addf %e, VALUE : KIND
        scf.yield %f : KIND
      }
      %d = arith.addf %b, %l : KIND"""
    beyond(loop("8x128xf32", turns.replace("VALUE", "%b")), "carried-splat")
    check(loop("8x128xf32", turns.replace("VALUE", "%l")))


def test_branches() -> None:
    turns = """%c = scf.if %flag -> (KIND) {
        scf.yield %b : KIND
      } else {
        scf.yield %k : KIND
      }
      %d = arith.addf %b, VALUE : KIND"""
    beyond(loop("8x128xf32", turns.replace("VALUE", "%l")), "carried-splat")
    check(loop("8x128xf32", turns.replace("VALUE", "%splat")))


@pytest.mark.parametrize(("value", "refused"), [("%l", True), ("%k", False)])
def test_while_loops(value: str, refused: bool) -> None:
    kind = "vector<8x128xf32>"
    text = kernel(
        f"%x: {memref('8x128xf32')}",
        load("l", "x", "8x128xf32")
        + f"""%k = arith.constant dense<0.0> : {kind}
    %n0 = arith.constant 0 : i32
    %n1 = arith.constant 1 : i32
    %n9 = arith.constant 9 : i32
    %r:3 = scf.while (%i = %n0, %a = %k, %b = %k) : (i32, {kind}, {kind})
        -> (i32, {kind}, {kind}) {{
      %p = arith.cmpi slt, %i, %n9 : i32
      scf.condition(%p) %i, %a, %b : i32, {kind}, {kind}
    }} do {{
    ^bb0(%j: i32, %c: {kind}, %d: {kind}):
      %next = arith.addi %j, %n1 : i32
      %e = arith.addf %c, {value} : {kind}
      scf.yield %next, %d, %e : i32, {kind}, {kind}
    }}""",
    )
    if refused:
        beyond(text, "carried-splat")
    else:
        check(text)


def rows(turns: str, columns: int = 128, first: str = "%l, %l") -> str:
    """The loop over rows; `%third` is one of eight, `%most` a maximum and `%at` its place."""
    shape = f"1x{columns}xf32"
    extra = f"""
    %i0 = tpu.iota {{dimensions = array<i32: 0>}} : vector<8x{columns}xi32>
    %several = arith.sitofp %i0 : vector<8x{columns}xi32> to vector<8x{columns}xf32>
    %third = vector.extract_strided_slice %several
        {{offsets = [3, 0], sizes = [1, {columns}], strides = [1, 1]}}
        : vector<8x{columns}xf32> to KIND
    %k1 = arith.constant dense<0.0> : vector<1xf32>
    %most0 = vector.multi_reduction <maximumf>, %l, %k1 [1] : KIND to vector<1xf32>
    %most1 = vector.shape_cast %most0 : vector<1xf32> to vector<1x1xf32>
    %most = vector.broadcast %most1 : vector<1x1xf32> to KIND
    %at0 = tpu.reduce_index %l {{axis = 1 : i32, kind = #tpu.reduction_kind<arg_max>}}
        : KIND -> vector<1xi32>
    %at1 = vector.shape_cast %at0 : vector<1xi32> to vector<1x1xi32>
    %at2 = arith.sitofp %at1 : vector<1x1xi32> to vector<1x1xf32>
    %at = vector.broadcast %at2 : vector<1x1xf32> to KIND"""
    return loop(shape, turns, first, extra)


def late(value: str) -> str:
    """`value` arrives in the first vector, which arrives in the second a turn later."""
    return f"%c = arith.addf %a, {value} : KIND\n%d = arith.addf %b, %a : KIND"


def test_rows_that_memory_repeats() -> None:
    beyond(rows(late("%third")), "carried-splat")
    beyond(rows(late("%at")), "carried-splat")
    beyond(rows(late("%third"), 64), "carried-splat")
    beyond(rows(late("%at"), first="%k, %k"), "carried-splat")
    check(rows(late("%third"), 256))
    check(rows(late("%most")))
    check(rows(late("%l")))
    check(rows(late("%third"), first="%l, %third"))


def turned(shape: str) -> str:
    """The first vector is rotated, and arrives in the second a turn later."""
    add = "addf" if "f" in shape else "addi"
    return f"""%c = tpu.dynamic_rotate %a by %turn dim 1 : KIND, i32 -> KIND
      %d = arith.{add} %b, %a : KIND"""


TURN = "%turn = arith.constant 3 : i32"


@pytest.mark.parametrize("shape", ["8x128xf32", "1x128xf32", "16x256xf32"])
def test_what_is_rotated_varies_whatever_it_was(shape: str) -> None:
    beyond(loop(shape, turned(shape), extra=TURN), "carried-splat")
    if shape != "1x128xf32":
        check(loop(shape, turned(shape), "%l, %l", TURN))


@pytest.mark.parametrize(
    ("shape", "refused"),
    [("1x128xf32", True), ("1x64xi32", True), ("1x256xf32", False), ("1x128xbf16", False)],
)
def test_rows_of_words_are_loaded_to_all_rows_of_a_register(shape: str, refused: bool) -> None:
    text = loop(shape, turned(shape), "%l, %l", TURN)
    if refused:
        beyond(text, "carried-splat")
    else:
        check(text)


@pytest.mark.parametrize("part", ["%halves", "%joined"])
def test_joined_splats_vary(part: str) -> None:
    extra = """%half = arith.constant dense<1.0> : vector<8x64xf32>
    %halves = tpu.concatenate %half, %half in 1
      : vector<8x64xf32>, vector<8x64xf32> -> KIND
    %few = arith.constant dense<1.0> : vector<4x128xf32>
    %joined = tpu.concatenate %few, %few in 0
      : vector<4x128xf32>, vector<4x128xf32> -> KIND"""
    beyond(loop("8x128xf32", late(part), extra=extra), "carried-splat")
    check(loop("8x128xf32", late(part), f"%l, {part}", extra))
