"""Masks of packed elements of few wide rows with masks of a row for all, as libtpu takes them."""

from __future__ import annotations

import pytest

from ..checking import beyond, check, kernel, load, memref, refused

NEWER, NEWEST = ("v5e", "v5p", "v6e", "v7x"), ("v6e", "v7x")
ALL = ("v4", *NEWER)
COMPARES = {
    ("bf16", "arith.cmpf ogt"): NEWEST,
    ("bf16", "arith.cmpf oeq"): NEWEST,
    ("i16", "arith.cmpi sgt"): NEWEST,
    ("i16", "arith.cmpi eq"): NEWER,
    ("i8", "arith.cmpi ne"): NEWER,
    ("i8", "arith.cmpi slt"): (),
    ("i4", "arith.cmpi eq"): (),
}
"""The targets that compare the elements packed."""


def text(combine: str, element: str, compare: str, shape: str = "4x256", data: str = "i32") -> str:
    """A choice by `combine` of the mask `%m` of loaded elements and `%r`, the same in all rows."""
    held, kind, masks = memref(f"{shape}x{element}"), f"vector<{shape}x{element}>", f"{shape}xi1"
    one = "1.0" if element == "bf16" else "1"
    chosen = f"vector<{shape}x{data}>"
    return kernel(
        f"%x: {held}, %y: {memref(f'{shape}x{data}')}",
        f"""%v = vector.load %x[%c0, %c0] : {held}, {kind}
        %w = vector.load %y[%c0, %c0] : {memref(f"{shape}x{data}")}, {chosen}
        %one = arith.constant dense<{one}> : {kind}
        %m = {compare}, %v, %one : {kind}
        %lanes = tpu.iota {{dimensions = array<i32: 1>}} : vector<{shape}xi32>
        %bound = arith.constant dense<37> : vector<{shape}xi32>
        %r = arith.cmpi slt, %lanes, %bound : vector<{shape}xi32>
        %yes = arith.constant dense<true> : vector<{masks}>
        %no = arith.xori %m, %yes : vector<{masks}>
        %both = {combine} : vector<{masks}>
        %s = arith.select %both, %w, %w : vector<{masks}>, {chosen}""",
    )


@pytest.mark.parametrize(("element", "compare"), COMPARES)
def test_the_first_mask_decides(element: str, compare: str) -> None:
    for target in ALL:
        refuses = target in COMPARES[element, compare]
        for combine in ("arith.andi %m, %r", "arith.ori %m, %r", "arith.xori %no, %r"):
            case = text(combine, element, compare)
            if refuses:
                beyond(case, "mask-row", target)
            else:
                check(case, target)
        check(text("arith.andi %r, %m", element, compare), target)


def test_other_masks_are_combined() -> None:
    for target in NEWEST:
        check(text("arith.andi %m, %r", "bf16", "arith.cmpf ogt", "8x256"), target)
        check(text("arith.andi %m, %r", "bf16", "arith.cmpf ogt", "4x128"), target)
        check(text("arith.andi %m, %no", "bf16", "arith.cmpf ogt"), target)


@pytest.mark.parametrize(("element", "compare"), COMPARES)
def test_masks_of_a_packed_row_choose_between_few_rows(element: str, compare: str) -> None:
    row, held = memref(f"1x256x{element}"), memref(f"4x256x{element}")
    kind, one = f"vector<4x256x{element}>", "1.0" if element == "bf16" else "1"
    case = kernel(
        f"%x: {row}, %y: {held}",
        f"""%q = vector.load %x[%c0, %c0] : {row}, vector<1x256x{element}>
        %v = vector.broadcast %q : vector<1x256x{element}> to {kind}
        %w = vector.load %y[%c0, %c0] : {held}, {kind}
        %one = arith.constant dense<{one}> : {kind}
        %m = {compare}, %v, %one : {kind}
        %s = arith.select %m, %w, %v : vector<4x256xi1>, {kind}""",
    )
    for target in NEWER:
        if target in COMPARES[element, compare]:
            check(case, target)
        elif element != "i4":
            beyond(case, "mask-row", target)


def carried(first: str, mask: str) -> str:
    """A choice by a mask of a row for all, between halves of few wide rows, of which one, or the
    mask's numbers, comes out of a loop or branch (`%bits`, `%way`; `%rows`, `%either`)."""
    held, kind, words = memref("4x256xbf16"), "vector<4x256xbf16>", "vector<4x256xf32>"
    row = memref("1x256xf32")
    return kernel(
        f"%x: {held}, %y: {row}, %n: i32",
        f"""%v = vector.load %x[%c0, %c0] : {held}, {kind}
        %one = vector.load %y[%c0, %c0] : {row}, vector<1x256xf32>
        %r = vector.broadcast %one : vector<1x256xf32> to {words}
        %wide = arith.extf %v : {kind} to {words}
        %zero = arith.constant 0 : i32
        %step = arith.constant 1 : i32
        %yes = arith.cmpi sgt, %n, %zero : i32
        %bits = scf.for %i = %zero to %n step %step iter_args(%c = %v) -> ({kind}) : i32 {{
          %turned = arith.maximumf %c, %v : {kind}
          scf.yield %turned : {kind}
        }}
        %way = scf.if %yes -> ({kind}) {{
          scf.yield %v : {kind}
        }} else {{
          scf.yield %bits : {kind}
        }}
        %rows = scf.for %i = %zero to %n step %step iter_args(%c = %r) -> ({words}) : i32 {{
          %more = arith.addf %c, %r : {words}
          scf.yield %more : {words}
        }}
        %mixed = scf.for %i = %zero to %n step %step iter_args(%c = %r) -> ({words}) : i32 {{
          %more = arith.addf %c, %wide : {words}
          scf.yield %more : {words}
        }}
        %either = scf.if %yes -> ({words}) {{
          scf.yield %r : {words}
        }} else {{
          scf.yield %rows : {words}
        }}
        %m = arith.cmpf ogt, {mask}, %r : {words}
        %s = arith.select %m, {first}, %v : vector<4x256xi1>, {kind}""",
    )


def test_loops_and_branches_leave_vectors_where_they_lie() -> None:
    for mask in ("%r", "%rows", "%either"):
        for first in ("%v", "%bits", "%way"):
            beyond(carried(first, mask), "mask-row", "v6e")
    check(carried("%v", "%mixed"), "v6e")
    # Narrowed from words: it does not lie as in memory.
    check(carried("%bits", "%rows"), "v5e")


@pytest.mark.parametrize("kind", ["f32", "i32", "i1"])
def test_masks_of_accesses_are_booleans(kind: str) -> None:
    held = memref("8x128xf32")
    mask = "%m = arith.cmpf ogt, %a, %a : vector<8x128xf32>\n"
    if kind != "i1":
        mask = load("m", "y", f"8x128x{kind}")
    types = f"{held}, vector<8x128xf32>, vector<8x128x{kind}>"
    store = f"tpu.vector_store %x[%c0, %c0], %a masked %m {{strides = array<i32>}} : {types}"
    body = load("a", "x", "8x128xf32") + mask + store
    text = kernel(f"%x: {held}, %y: {memref(f'8x128x{kind}')}", body)
    if kind == "i1":
        check(text)
    else:
        refused(text, "mask-type")
