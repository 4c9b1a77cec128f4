"""Reshapes as the TPU compiler (libtpu 0.0.51) takes and refuses them, each asked of it."""

from __future__ import annotations

from math import prod

import pytest

from ..checking import beyond, check, kernel, load, memref, refused


def reshape(old: str, *new: str, between: bool = False) -> str:
    """Reshapes a loaded vector; `between` other operations, so that no ref is reshaped instead."""
    body = load("v0", "x", old)
    if between:
        body += f"%v0b = arith.addf %v0, %v0 : vector<{old}>\n"
    last = "%v0b" if between else "%v0"
    for n, shape in enumerate(new, 1):
        body += f"%v{n} = vector.shape_cast {last} : vector<{old}> to vector<{shape}>\n"
        old, last = shape, f"%v{n}"
    return kernel(f"%x: {memref(body.split('vector<')[1].split('>')[0])}", body)


ROWS = [
    ("16x64xf32", "8x128xf32"), ("4x5x50xbf16", "20x50xbf16"), ("8x96xf32", "24x32xf32"),
    ("1x6x2xf32", "3x4xf32"), ("2x20x2x8xbf16", "8x40x2xbf16"), ("8x384xf32", "12x256xf32"),
    ("8x1x128xf32", "8x128xf32"), ("4x10x32xf32", "4x320xf32"), ("2x4x1x64xi8", "1x4x128xi8"),
    ("4x8x32xf32", "1x2x2x256xf32"), ("3x2x128xi8", "1x1x768xi8"), ("1x6x80xbf16", "1x480xbf16"),
]  # fmt: skip
NO_ROWS = [
    ("3x4xf32", "2x2x3xf32"), ("16x64xf32", "4x256xf32"), ("4x6x64xf32", "8x192xf32"),
    ("8x32xi8", "1x256xi8"), ("8x24x16xf32", "1x3072xf32"), ("4x256xbf16", "16x64xbf16"),
    ("4x4x192xi16", "12x256xi16"), ("1x256xf32", "4x64xf32"), ("20x32xf32", "4x2x1x80xf32"),
]  # fmt: skip
FLAT = [
    ("8x256xi8", "2048xi8"), ("384xf32", "3x128xf32"), ("2048xf32", "8x256xf32"),
    ("8x12xf32", "96xf32"), ("128xbf16", "4x4x8xbf16"), ("16384xf32", "16x8x128xf32"),
    ("4096xf32", "2x2x1024xf32"), ("6x256xbf16", "1536xbf16"), ("100xbf16", "10x10xbf16"),
]  # fmt: skip
NO_FLAT = [
    ("8x32xf32", "256xf32"), ("300xf32", "3x100xf32"), ("64x16xi8", "1024xi8"),
    ("4x384xf32", "1536xf32"), ("4096xf32", "4x4x256xf32"), ("2048xf32", "4x2x256xf32"),
    ("2x768xi8", "1536xi8"), ("2x3x128xf32", "768xf32"),
]  # fmt: skip


COLUMNS = [
    ("16x256xf32", "4096x1xf32"), ("3x256xf32", "768x1xf32"), ("4096x1xf32", "16x256xf32"),
    ("1600x1xbf16", "8x200xbf16"), ("2x2048x1xf32", "2x8x256xf32"), ("16x384xf32", "6144x1x1xf32"),
    ("16x384xf32", "8x2x384x1xf32"), ("8x2x200xf32", "16x1x200x1xf32"),
    ("5x3x256xf32", "15x256x1x1xf32"), ("16x100xbf16", "8x2x100x1xbf16"),
    ("8x16xf32", "128x1xf32"), ("2x50xbf16", "100x1xbf16"), ("2x8x16xf32", "256x1xf32"),
    ("16x64xf32", "8x128x1xf32"), ("8x64xbf16", "2x256x1xbf16"), ("8x128xf32", "1024x1xf32"),
    ("3x200xf32", "600x1x1xf32"), ("2x3x1x256xf32", "1536x1x1xf32"), ("600xf32", "6x100x1x1xf32"),
    ("8x256xf32", "2x1024x1x1xf32"), ("2x3x200xf32", "3x400x1x1xf32"),
    ("2x100xbf16", "200x1x1xbf16"), ("8x1x100xf32", "800x1xf32"), ("2x8x50xbf16", "800x1xbf16"),
    ("1x2x128xf32", "256x1xf32"),
]  # fmt: skip
NO_COLUMNS = [
    ("8x200xf32", "1600x1xf32"), ("2x8x256xf32", "4096x1xf32"), ("16x256xf32", "1x4096x1xf32"),
    ("16x1x256xf32", "4096x1xf32"), ("16x256xbf16", "4096x1xbf16"), ("32x256xf32", "4096x2xf32"),
    ("16x256xf32", "32x128x1xf32"), ("8x2x384xbf16", "8x2x384x1x1xbf16"),
    ("384xbf16", "384x1x1xbf16"), ("16x384xbf16", "8x2x384x1xbf16"),
    ("8x100xf32", "800x1xf32"), ("8x64xbf16", "512x1xbf16"), ("512x2xf32", "1024x1xf32"),
    ("8x128xbf16", "1024x1xbf16"), ("8x384xf32", "3072x1xf32"), ("3x640xf32", "1920x1xf32"),
    ("2x8x256xf32", "2x2048x1xf32"), ("8x256xf32", "1x2048x1xf32"), ("2x200xbf16", "400x1x1xbf16"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), COLUMNS)
def test_columns_become_rows_and_back(old: str, new: str) -> None:
    check(reshape(old, new, between=True))


@pytest.mark.parametrize(("old", "new"), NO_COLUMNS)
def test_what_is_no_column(old: str, new: str) -> None:
    beyond(reshape(old, new, between=True), "reshape")


@pytest.mark.parametrize("lanes", [128, 256])
def test_four_bit_lanes_of_several_registers_make_no_column(lanes: int) -> None:
    check(reshape(f"16x{lanes}xi8", f"{16 * lanes}x1xi8"), "v6e")
    beyond(reshape(f"16x{lanes}xi4", f"{16 * lanes}x1xi4"), "reshape", "v6e")
    check(reshape("2x50xi4", "100x1xi4"), "v6e")


def test_columns_of_other_generations() -> None:
    check(reshape("2x200xbf16", "400x1x1xbf16"), "v6e")
    check(reshape("2x3x256xf32", "1536x1x1xf32", between=True), "v4")
    beyond(reshape("8x384xi16", "3072x1xi16"), "reshape", "v7x")
    check(reshape("16x256xf32", "4096x1xf32", between=True), "v4")
    beyond(reshape("16x384xf32", "6144x1xf32", between=True), "reshape", "v4")
    check(reshape("16x256xbf16", "4096x1xbf16"), "v6e")
    check(reshape("16x384xbf16", "8x2x384x1xbf16", between=True), "v6e")
    check(reshape("384xbf16", "384x1x1xbf16", between=True), "v7x")


@pytest.mark.parametrize("target", ["v4", "v5e", "v7x"])
@pytest.mark.parametrize(("old", "new"), ROWS + FLAT)
def test_what_the_compiler_takes(old: str, new: str, target: str) -> None:
    check(reshape(old, new), target)


@pytest.mark.parametrize("target", ["v4", "v6e"])
@pytest.mark.parametrize(("old", "new"), NO_ROWS + NO_FLAT)
def test_what_it_refuses(old: str, new: str, target: str) -> None:
    beyond(reshape(old, new), "reshape", target)


@pytest.mark.parametrize(
    ("old", "new"),
    [("2x256xf32", "2x4x64xf32"), ("16x200xf32", "16x5x40xf32"), ("1x480xi8", "1x3x160xi8")],
)
def test_rows_of_several_registers_are_split_by_newer_chips(old: str, new: str) -> None:
    check(reshape(old, new), "v5e")
    beyond(reshape(old, new), "reshape", "v4")


@pytest.mark.parametrize("old", ["3x4x128xf32", "3x1x128xf32", "5x2x128xf32"])
def test_refs_of_small_tiles_are_seen_as_flat(old: str) -> None:
    a, b, c = (int(n) for n in old.split("x")[:3])
    check(reshape(old, f"{a * b * c}xf32"))
    beyond(reshape(old, f"{a * b * c}xf32", between=True), "reshape")


def test_small_tiles_fill_words() -> None:
    check(reshape("5x4x128xi8", "2560xi8"))
    refused(reshape("5x2x128xi8", "1280xi8"), "reshape")


@pytest.mark.parametrize("rows", ["3x1x128xf32", "3x4x128xf32", "2x2x128xi32", "3x2x128xbf16"])
def test_only_refs_of_rows_are_seen_anew(rows: str) -> None:
    *shape, element = rows.split("x")
    flat = f"{prod(map(int, shape))}x{element}"

    def stored(old: str, new: str) -> str:
        add = "arith.addi" if element == "i32" else "arith.addf"
        zeros = ", ".join(["%c0"] * new.count("x"))
        body = load("a", "x", old) + (
            f"%b = {add} %a, %a : vector<{old}>\n"
            f"%c = vector.shape_cast %b : vector<{old}> to vector<{new}>\n"
            f"vector.store %c, %o[{zeros}] : {memref(new)}, vector<{new}>"
        )
        return kernel(f"%x: {memref(old)}, %o: {memref(new)}", body)

    check(reshape(rows, flat), "v6e")
    beyond(reshape(flat, rows), "reshape", "v6e")
    check(stored(flat, rows), "v6e")
    beyond(stored(rows, flat), "reshape", "v6e")


def test_reshapes_that_follow_each_other_are_one() -> None:
    check(reshape("3x4xf32", "2x2x3xf32", "12x1xf32"))
    refused(reshape("16x64xf32", "8x128xf32", "4x256xf32"), "reshape")


def test_lanes_become_sublanes() -> None:
    for shape in ("100xbf16", "512xf32", "8x128xbf16"):
        check(reshape(shape, shape.replace("x", "x1x") if shape[0] != "8" else "8x128x1xbf16"))
    check(reshape("512x1xbf16", "512xbf16"))
    check(reshape("1000xbf16", "1000x1xbf16"), "v6e")
    for old, new in (("512xbf16", "512x1xbf16"), ("1x512xi8", "512x1xi8")):
        beyond(reshape(old, new), "reshape", "v5e")


def spread(element: str, begin: int, lanes: int, sliced: bool = False, ones: int = 1) -> str:
    """Spreads the lanes of a part that a load, or a slice of what it loaded, takes."""
    kind, ref = f"8x{lanes}x{element}", memref(f"16x384x{element}")
    if sliced:
        body = (
            f"%v = vector.load %x[%c0, %c0] : {ref}, vector<16x384x{element}>\n"
            f"%w = vector.extract_strided_slice %v {{offsets = [0, {begin}], sizes = [8, {lanes}], "
            f"strides = [1, 1]}} : vector<16x384x{element}> to vector<{kind}>\n"
        )
    else:
        body = (
            f"%c = arith.constant {begin} : index\n"
            f"%w = vector.load %x[%c0, %c] : {ref}, vector<{kind}>\n"
        )
    add = "arith.addf" if element[0] in "fb" else "arith.addi"
    change = f"%s = {add} %w, %w : vector<{kind}>\n" if element in ("f32", "i32") else ""
    body += change + f"%r = vector.shape_cast %{'s' if change else 'w'} : vector<{kind}> to "
    return kernel(f"%x: {ref}", body + f"vector<8x{lanes}x{'1x' * ones}{element}>")


@pytest.mark.parametrize("sliced", [False, True])
def test_lanes_of_several_registers_begin_with_a_tile(sliced: bool) -> None:
    for begin, lanes in ((8, 186), (0, 186), (136, 200), (4, 124), (45, 55), (130, 126)):
        check(spread("f32", begin, lanes, sliced))
    for begin, lanes in ((4, 128), (12, 186), (130, 127), (4, 125)):
        for target in ("v4", "v5e", "v7x"):
            beyond(spread("f32", begin, lanes, sliced), "reshape", target)
    for begin, lanes, good in ((12, 186, False), (8, 186, False), (16, 186, True), (12, 100, True)):
        text = spread("bf16", begin, lanes, sliced)
        check(text, "v6e") if good else beyond(text, "reshape", "v6e")
    check(spread("bf16", 4, 128, sliced))
    check(spread("i4", 4, 128, sliced), "v6e")


@pytest.mark.parametrize(("begin", "good"), [(25, False), (24, True)])
def test_sums_of_rows_and_other_rows_begin_where_lanes_did(begin: int, good: bool) -> None:
    wide, rows, lanes = "1x32x256xf32", "1x16x159xf32", "159xf32"
    loaded = (
        f"%c = arith.constant {begin} : index\n"
        f"%w = vector.load %x[%c0, %c0, %c] : {memref(wide)}, vector<{rows}>\n"
        f"%e = arith.addf %w, %w : vector<{rows}>\n"
        f"%v = vector.shape_cast %e : vector<{rows}> to vector<2x8x{lanes}>\n"
    )
    summed = (
        f"%z = arith.constant dense<0.0> : vector<{lanes}>\n"
        f"%s = vector.multi_reduction <add>, %v, %z [0, 1] : vector<2x8x{lanes}> to vector<{lanes}>"
        f"\n%r = vector.shape_cast %s : vector<{lanes}> to vector<159x1xf32>"
    )
    cut = (
        f"%a = arith.mulf %v, %v : vector<2x8x{lanes}>\n"
        f"%r = vector.shape_cast %a : vector<2x8x{lanes}> to vector<2x8x159x1xf32>"
    )
    for end in (summed, cut):
        text = kernel(f"%x: {memref(wide)}", loaded + end)
        check(text) if good else beyond(text, "reshape")


@pytest.mark.parametrize("sliced", [False, True])
def test_lanes_become_leading_dimensions_from_anywhere(sliced: bool) -> None:
    for begin, lanes in ((4, 128), (130, 127), (125, 29)):
        for element, target in (("f32", "v4"), ("i32", "v5e"), ("i8", "v6e"), ("bf16", "v7x")):
            check(spread(element, begin, lanes, sliced, ones=2), target)
    check(spread("bf16", 125, 29, sliced, ones=2))
    beyond(spread("bf16", 4, 200, sliced, ones=2), "reshape")


def test_lanes_of_four_bits_stay_in_one_register() -> None:
    check(reshape("8x384xi8", "8x384x1xi8"), "v6e")
    for target in ("v5e", "v6e", "v7x"):
        beyond(reshape("8x384xi4", "8x384x1xi4"), "reshape", target)


@pytest.mark.parametrize(
    ("old", "new", "good"),
    [
        ("4x6x8x1xf32", "4x48xf32", True), ("16x1x1xf32", "1x16x1xf32", True),
        ("4x4x1xf32", "1x16xf32", False), ("5x1x1xi32", "1x5xi32", False),
        ("2x4x4x1xf32", "8x4xf32", False),
    ],
)  # fmt: skip
def test_columns_become_rows_by_a_gather_along_sublanes(old: str, new: str, good: bool) -> None:
    zeros = ", ".join(["%c0"] * new.count("x"))
    body = load("a", "x", old) + (
        f"%b = vector.shape_cast %a : vector<{old}> to vector<{new}>\n"
        f"vector.store %b, %o[{zeros}] : {memref(new)}, vector<{new}>"
    )
    text = kernel(f"%x: {memref(old)}, %o: {memref(new)}", body)
    check(text, "v5e")
    if good:
        check(text, "v4")
    else:
        beyond(text, "sublane-gather", "v4")
