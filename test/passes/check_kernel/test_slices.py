"""Parts of refs as the TPU compiler (libtpu 0.0.51) takes and refuses them, each asked of it."""

from __future__ import annotations

import pytest

from pallasite.diagnostics import Unsupported

from ..checking import ANY, SMEM, VMEM, beyond, check, judged, kernel, load, memref, part

SEMAPHORES = "#tpu.memory_space<semaphore_mem>"


ALL = (0, 256)
GOOD = [
    # Whole tiles of rows, and what lies within one.
    ("16x256xf32", ("d8", 8)), ("16x256xf32", (8, 8)), ("16x256xf32", (9, 6)),
    ("12x256xf32", (1, 6)), ("16x256xf32", ("d2", 2)), ("16x256xf32", ("d1", 1)),
    ("16x256xf32", ("d4", 4)), ("32x256xbf16", ("d8", 16)), ("16x256xbf16", (8, 6)),
    ("16x256xbf16", ("d2", 2)), ("16x256xi8", ("d4", 4)), ("20x256xf32", (8, 12)),
    # An array of one tile, or of one column of tiles, is cut between words.
    ("6x256xf32", ("d1", 4)), ("6x256xbf16", ("d2", 4)), ("32x256xi8", ("d12", 12)),
    # All of a dimension, from where a tile begins.
    ("12x256xf32", ("d8", 12)), ("3x256xbf16", ("d4", 3)), ("3x256xi8", ("d4", 3)),
    # Half in one tile and half in the next.
    ("16x256xf32", (7, 2)), ("24x384xf32", (6, 4)), ("12x256xf32", (4, 8)), ("32x256xbf16", (6, 4)),
    ("64x256xi8", (28, 8)), ("24x256xi8", (4, 8)),
    # The end of an array, which shares its last word with padding.
    ("7x256xbf16", (4, 3)), ("3x512xbf16", (2, 1)), ("23x256xbf16", (20, 3)),
    ("7x256xi8", (4, 3)), ("23x256xi8", (20, 3)), ("13x128xbf16", (12, 1)),
    ("37x128xi8", (12, 25)),
    # Whole tiles, and the first eights of one.
    ("128x256xi8", (32, 40)), ("128x256xi8", ("d32", 56)),
]  # fmt: skip
BAD = [
    ("16x256xf32", ("d1", 8)), ("16x256xf32", (1, 8)), ("16x256xf32", (0, 12)),
    ("16x256xf32", ("d8", 3)), ("16x256xf32", ("d1", 2)), ("12x256xf32", ("d6", 6)),
    ("16x256xbf16", (0, 3)), ("16x256xbf16", ("d1", 2)), ("12x256xbf16", (1, 6)),
    ("16x256xi8", (0, 2)), ("16x256xi8", ("d12", 12)), ("32x256xi8", ("d2", 4)),
    ("20x256xbf16", ("d8", 12)), ("6x256xbf16", ("d1", 2)), ("12x256xf32", ("d4", 12)),
    ("3x256xbf16", ("d2", 3)), ("24x256xf32", (2, 12)), ("24x256xf32", (5, 4)),
    ("24x256xf32", (4, 16)), ("32x256xbf16", (7, 2)), ("24x256xi8", (6, 4)),
    ("7x256xbf16", (3, 4)), ("3x256xi8", (2, 1)), ("13x256xbf16", (4, 7)),
    ("128x256xi8", (48, 48)), ("128x256xi8", ("d8", 40)), ("128x256xi8", (0, 36)),
]  # fmt: skip


@pytest.mark.parametrize("space", [ANY, VMEM])
@pytest.mark.parametrize(("shape", "rows"), GOOD)
def test_rows_of_whole_tiles(shape: str, rows: tuple[int | str, int], space: str) -> None:
    check(part(shape, rows, ALL, space=space))


@pytest.mark.parametrize("space", [ANY, VMEM])
@pytest.mark.parametrize(("shape", "rows"), BAD)
def test_rows_across_tiles(shape: str, rows: tuple[int | str, int], space: str) -> None:
    beyond(part(shape, rows, ALL, space=space), "unaligned-slice")


@pytest.mark.parametrize("shape", ["12x500xf32", "12x512xbf16", "12x512xi8"])
@pytest.mark.parametrize("size", [1, 3])
def test_rows_in_tiles_of_their_own(shape: str, size: int) -> None:
    """What the note on rows across tiles says to write is taken."""
    held, columns, element = shape.split("x")
    with pytest.raises(Unsupported) as caught:
        check(part(shape, ("d1", 3), (0, int(columns))))
    assert f"reshaped to [{held}, 1, {columns}]" in str(caught.value)
    apart = f"{held}x1x{columns}x{element}"
    check(part(apart, ("d1", size), (0, 1), (0, int(columns))))


@pytest.mark.parametrize(
    ("shape", "rows", "good"),
    [
        ("16x128xf32", ("d1", 3), True), ("64x64xf32", (5, 20), True),
        ("64x128xbf16", ("d2", 20), True), ("64x128xbf16", ("d1", 20), False),
        ("64x128xi8", (4, 12), True), ("64x128xi8", (0, 6), False),
    ],
)  # fmt: skip
def test_one_column_of_tiles_is_cut_between_words(
    shape: str, rows: tuple[int | str, int], good: bool
) -> None:
    text = part(shape, rows, (0, int(shape.split("x")[1])))
    judged(text, good)


@pytest.mark.parametrize("columns", [64, 192])
@pytest.mark.parametrize(
    ("shape", "rows", "good"),
    [
        ("48xCxbf16", (0, 48), True), ("48xCxbf16", (24, 8), True), ("48xCxbf16", (0, 24), True),
        ("48xCxbf16", (0, 4), False), ("48xCxbf16", (44, 4), False), ("18xCxi16", (14, 4), False),
        ("96xCxi8", (32, 8), True), ("96xCxi8", (40, 8), False), ("96xCxi8", (32, 48), True),
        ("96xCxi8", (48, 48), False), ("36xCxi8", (32, 4), False), ("5xCxi8", (0, 4), False),
        ("16xCxi8", ("d4", 16), False), ("16xCxi8", ("d32", 16), True),
        ("24xCxf32", (8, 16), True), ("24xCxf32", (0, 4), None), ("4xCxf32", (0, 2), None),
        ("24xCxf32", (12, 8), None), ("16xCxf32", ("d2", 2), None),
    ],
)  # fmt: skip
def test_rows_of_part_of_a_column_of_tiles(
    shape: str, rows: tuple[int | str, int], good: bool | None, columns: int
) -> None:
    """All lanes of an array that ends within a tile, as a part that begins at a run-time index: of
    32-bit elements, one column of tiles is cut as ever."""
    fits = columns < 128 if good is None else good
    judged(part(shape.replace("C", str(columns)), rows, ("d128", columns)), fits)


@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
@pytest.mark.parametrize("rows", [1, 2, 16])
def test_lanes_of_whole_tiles(rows: int, element: str) -> None:
    shape = f"{rows}x200x{element}"
    for good in ((0, 128), ("d128", 128), (128, 72)):
        check(part(shape, (0, rows), good))
    for bad in ((0, 64), ("d8", 128), (64, 128), ("d128", 72), (128, 8), (0, 72)):
        beyond(part(shape, (0, rows), bad), "unaligned-slice")
    beyond(part(f"{rows}x100x{element}", (0, rows), (0, 64)), "unaligned-slice")


def test_flat_arrays_are_cut_at_rows_of_words() -> None:
    check(part("1000xf32", ("d128", 128)))
    check(part("1000xf32", (512, 488)))
    check(part("2048xbf16", ("d256", 512)))
    check(part("2048xi8", (512, 1024)))
    beyond(part("2048xbf16", ("d128", 256)), "unaligned-slice")
    beyond(part("2048xf32", ("d8", 128)), "unaligned-slice")
    beyond(part("2048xi8", (0, 256)), "unaligned-slice")


def test_leading_dimensions_and_words_of_scalar_memory_are_cut_anywhere() -> None:
    check(part("3x20x256xf32", ("d1", 1), (8, 8), (128, 128)))
    check(part("4x1x256xf32", ("d1", 2), (0, 1), ALL))
    check(part("64xi32", ("d1", 3), space=SMEM))
    beyond(part("64xi16", ("d1", 3), space=SMEM), "unaligned-slice")


@pytest.mark.parametrize(
    ("shape", "parts", "good"),
    [
        ("1024xi32", [(128, 256)], True), ("1024xi32", [(8, 8)], False),
        ("300xi32", [(256, 44)], True), ("1024xi16", [(128, 256)], False),
        ("16x256xi32", [(1, 3), ALL], True), ("16x256xi32", [(4, 12), ALL], False),
        ("16x128xi32", [(4, 12), (0, 128)], True), ("3x5xi32", [(0, 3), (1, 1)], False),
    ],
)  # fmt: skip
def test_scalar_memory_is_copied_by_whole_tiles(
    shape: str, parts: list[tuple[int | str, int]], good: bool
) -> None:
    judged(copied(shape, parts), good)


def copied(shape: str, parts: list[tuple[int | str, int]]) -> str:
    """A copy of a part of scalar memory."""
    text = part(shape, *parts, space=SMEM)
    sizes = "x".join([*(str(size) for _, size in parts), shape.split("x")[-1]])
    source, semaphore = memref(sizes, SMEM), memref("!tpu.dma_semaphore", SEMAPHORES)
    copy = f"""
      tpu.enqueue_dma source(%w : {source}) target(%v : {memref(sizes)})
        target_semaphore(%s : {semaphore})
      return"""
    return text.replace("%x: ", f"%s: {semaphore}, %v: {memref(sizes)}, %x: ").replace(
        "\n      return", copy
    )


@pytest.mark.parametrize(("shape", "rows"), [("8xi32", [8, 1]), ("3x6xi32", [3, 3, 2])])
def test_parts_of_scalar_memory_are_rows_instead(shape: str, rows: list[int]) -> None:
    """What vectors do is no advice for scalars; the shape that is named is taken."""
    *leading, _, size = rows
    with pytest.raises(Unsupported) as caught:
        check(copied(shape, [*((0, n) for n in leading), ("d1", size)]))
    notes = " ".join(note.message for note in caught.value.notes)
    assert f"of {rows}" in notes and "ref[index]" in notes and "pltpu.roll" not in notes
    shape = "x".join([*map(str, rows), "i32"])
    check(copied(shape, [*((0, n) for n in leading), ("d1", 1), (0, size)]))


@pytest.mark.parametrize(
    ("shape", "start", "multiple", "good"),
    [
        ("64x256xi32", "0", 8, True), ("64x256xi32", "0", 4, False), ("64x256xi32", "4", 8, False),
        ("64x128xi32", "3", 1, True), ("4x256xi32", "1", 1, True), ("64x128xbf16", "4", 2, True),
        ("64x128xbf16", "4", 1, False), ("64x256xi8", "32", 8, True), ("64x256xi8", "8", 8, False),
        ("64x256xi8", "32", 4, False), ("32x256xi8", "0", 4, True),
    ],
)  # fmt: skip
def test_sizes_known_at_run_time(shape: str, start: str, multiple: int, good: bool) -> None:
    _, columns, element = shape.split("x")
    result = memref(f"?x{columns}x{element}", ANY)
    text = kernel(
        f"%t: {memref('4xi32', SMEM)}, %x: {memref(shape, ANY)}",
        f"%i = memref.load %t[%c0] : {memref('4xi32', SMEM)}\n"
        f"%n = tpu.assume_multiple %i, {multiple} : i32\n"
        f"%o = arith.constant {start} : i32\n%z = arith.constant 0 : i32\n"
        f"%w = tpu.memref_slice %x[%o, %z] <%n> : {memref(shape, ANY)} -> {result}",
    )
    judged(text, good)


def test_views_of_views() -> None:
    x = memref("4x16x256xf32", ANY)
    row, flat = memref("4x1x256xf32", ANY), memref("4x256xf32", ANY)
    body = f"""%c3 = arith.constant 3 : i32
      %z = arith.constant 0 : i32
      %r = tpu.memref_slice %x[%z, %c3, %z] : {x} -> {row}
      %s = tpu.memref_squeeze %r : {row} -> {flat}
      %w = tpu.memref_slice %s[%c3, SLICE] : {flat} -> {memref("1x128xf32", ANY)}"""
    check(kernel(f"%x: {x}", body.replace("SLICE", "%z")))
    beyond(kernel(f"%x: {x}", body.replace("SLICE", "%c3")), "unaligned-slice")


@pytest.mark.parametrize(
    ("shape", "view", "loaded", "good"),
    [
        ("4x16x256xf32", "4x1x256xf32", "4x256xf32", False),
        ("4x2x200xi32", "4x1x200xi32", "4x200xi32", False),
        ("4x16x256xf32", "4x1x256xf32", "2x128xf32", False),
        ("4x16x256xf32", "4x1x256xf32", "1x256xf32", True),
        ("4x16x256xf32", "4x1x128xf32", "4x128xf32", True),
        ("4x16x128xf32", "4x1x128xf32", "4x128xf32", True),
        ("4x1x256xf32", "4x1x256xf32", "4x256xf32", True),
    ],
)
def test_one_row_of_each_tile(shape: str, view: str, loaded: str, good: bool) -> None:
    rows = view.replace("x1x", "x")
    body = f"""%z = arith.constant 0 : i32
      %r = tpu.memref_slice %x[%z, %z, %z] : {memref(shape)} -> {memref(view)}
      %s = tpu.memref_squeeze %r : {memref(view)} -> {memref(rows)}
      %v = vector.load %s[%c0, %c0] : {memref(rows)}, vector<{loaded}>"""
    text = kernel(f"%x: {memref(shape)}", body)
    judged(text, good)


def test_slices_of_values_skip_nothing() -> None:
    def slice(strides: str, size: int) -> str:
        result = f"vector<{size}x128xf32>"
        box = f"offsets = [0, 0], sizes = [{size}, 128], strides = {strides}"
        body = load("v", "x", "16x128xf32")
        body += f"%s = vector.extract_strided_slice %v {{{box}}} : vector<16x128xf32> to {result}"
        return kernel(f"%x: {memref('16x128xf32')}", body)

    check(slice("[1, 1]", 8))
    beyond(slice("[2, 1]", 8), "strided-slice")


@pytest.mark.parametrize(
    ("array", "seen", "rows", "good"),
    [
        ("64x256xi8", "16x256xi32", (1, 9), False),
        ("64x128xi8", "16x128xi32", (1, 9), True),
        ("64x256xi8", "16x256xi32", (6, 4), True),
        ("24x256xi8", "6x256xi32", (1, 2), True),
        ("24x256xi8", "6x256xi32", (1, 3), False),
        ("16x256xi32", "64x256xi8", (28, 8), True),
        ("16x256xi32", "64x256xi8", (24, 12), False),
        ("16x128xi32", "64x128xi8", (30, 8), False),
        ("32x128xi16", "64x128xi8", (16, 8), False),
        ("32x128xi16", "64x128xi8", (0, 24), False),
        ("32x128xi16", "64x128xi8", (0, 16), True),
        ("32x128xi16", "64x128xi8", (8, 8), True),
        ("12x256xi16", "24x256xi8", (16, 8), False),
    ],
)
def test_arrays_seen_as_another_type_keep_their_tiles(
    array: str, seen: str, rows: tuple[int, int], good: bool
) -> None:
    start, size = rows
    columns, element = seen.split("x")[1:]
    result = memref(f"{size}x{columns}x{element}", ANY)
    text = kernel(
        f"%x: {memref(array, ANY)}",
        f"%b = tpu.memref_bitcast %x : {memref(array, ANY)} -> {memref(seen, ANY)}\n"
        f"%i = arith.constant {start} : i32\n%z = arith.constant 0 : i32\n"
        f"%w = tpu.memref_slice %b[%i, %z] : {memref(seen, ANY)} -> {result}",
    )
    judged(text, good)


@pytest.mark.parametrize(
    ("index", "good"),
    [
        ("%q = arith.minsi %a, %b : i32", True),
        ("%q = arith.maxsi %a, %n : i32", True),
        ("%q = arith.minsi %a, %i : i32", False),
        ("%q = arith.remsi %a, %n : i32", True),
        ("%q = arith.remsi %a, %b : i32", False),
        ("%e = arith.cmpi eq, %n, %z : i32\n%g = arith.select %e, %one, %n : i32\n"
         "%q = arith.remsi %a, %g : i32", True),
        ("%q = arith.andi %a, %b : i32", False),
    ],
)  # fmt: skip
def test_multiples_that_are_computed(index: str, good: bool) -> None:
    whole, piece = memref("8x512xf32", ANY), memref("8x128xf32", ANY)
    text = kernel(
        f"%t: {memref('4xi32', SMEM)}, %x: {whole}",
        f"%i = memref.load %t[%c0] : {memref('4xi32', SMEM)}\n"
        "%a = tpu.assume_multiple %i, 128 : i32\n%b = tpu.assume_multiple %i, 256 : i32\n"
        "%n = arith.constant 512 : i32\n%z = arith.constant 0 : i32\n"
        "%one = arith.constant 1 : i32\n"
        f"{index}\n%w = tpu.memref_slice %x[%z, %q] : {whole} -> {piece}",
    )
    judged(text, good)


@pytest.mark.parametrize(("number", "fits"), [(0, True), (5, True), (-1, False)])
def test_offsets_are_folded(number: int, fits: bool) -> None:
    """As JAX writes `number // 8`, which the TPU compiler knows: its one row starts at row 0."""
    ref, row = memref("1x256xbf16", ANY), memref("1x256xbf16", ANY)
    text = kernel(
        f"%x: {ref}",
        f"%zero = arith.constant 0 : i32\n%a = arith.constant {number} : i32\n"
        "%b = arith.constant 8 : i32\n%q = arith.divsi %a, %b : i32\n"
        "%one = arith.constant 1 : i32\n%less = arith.subi %q, %one : i32\n"
        "%negative = arith.cmpi slt, %a, %zero : i32\n%signs = arith.extui %negative : i1 to i32\n"
        "%differ = arith.cmpi ne, %signs, %zero : i32\n%rest = arith.remsi %a, %b : i32\n"
        "%some = arith.cmpi ne, %rest, %zero : i32\n%down = arith.andi %differ, %some : i1\n"
        "%floor = arith.select %down, %less, %q : i32\n"
        f"%w = tpu.memref_slice %x[%floor, %zero] : {ref} -> {row}",
    )
    judged(text, fits)


@pytest.mark.parametrize(
    ("block", "offset", "rows", "loaded", "good"),
    [
        ("64x384xi8", "%i", 8, "8x128", False), ("64x384xi8", "%c8", 8, "8x128", False),
        ("64x384xbf16", "%i", 4, "1x384", False), ("64x384xbf16", "%i", 8, "8x128", True),
        ("64x384xf32", "%i", 4, "4x256", False), ("64x384xf32", "%i", 4, "1x384", True),
        ("4x384xf32", "%c0i", 2, "2x384", False), ("64x128xi8", "%i", 8, "4x128", True),
        ("64x384xi8", "%c0i", 8, "8x384", True), ("64x384xi8", "%c32", 24, "8x128", True),
        ("64x384xi8", "%c0i", 4, "4x384", False), ("24x256xf32", "%c4", 8, "2x256", False),
        ("24x256xf32", "%c4", 8, "1x256", True), ("24x256xbf16", "%c4", 8, "1x256", False),
        ("24x256xbf16", "%c8", 16, "2x256", True),
    ],
)  # fmt: skip
def test_views_of_some_rows_of_a_tile(
    block: str, offset: str, rows: int, loaded: str, good: bool
) -> None:
    """Their columns of tiles do not follow each other: loads find single rows of words only."""
    _, columns, element = block.split("x")
    view = memref(f"{rows}x{columns}x{element}")
    text = kernel(
        f"%t: {memref('4xi32', SMEM)}, %x: {memref(block)}",
        f"""%c0i = arith.constant 0 : i32
        %c4 = arith.constant 4 : i32
        %c8 = arith.constant 8 : i32
        %c32 = arith.constant 32 : i32
        %s = memref.load %t[%c0] : {memref("4xi32", SMEM)}
        %i = tpu.assume_multiple %s, {rows} : i32
        %w = tpu.memref_slice %x[{offset}, %c0i] : {memref(block)} -> {view}
        %v = vector.load %w[%c0, %c0] : {view}, vector<{loaded}x{element}>""",
    )
    judged(text, good)


@pytest.mark.parametrize(("lanes", "good"), [(128, True), (32, False)])
def test_lanes_of_reshaped_rows_of_words(lanes: int, good: bool) -> None:
    """Rows of one column of tiles stay rows of whole tiles in another shape."""
    old, new, part = (memref(f"{n}xf32") for n in ("16x128", "8x2x128", f"8x1x{lanes}"))
    text = kernel(
        f"%x: {old}",
        f"""%i0 = arith.constant 0 : i32
        %i1 = arith.constant 1 : i32
        %r = tpu.memref_reshape %x : {old} -> {new}
        %w = tpu.memref_slice %r[%i0, %i1, %i0] : {new} -> {part}""",
    )
    judged(text, good)
