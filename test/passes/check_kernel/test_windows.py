"""Blocks as libtpu 0.0.51 takes and refuses them; it was asked about each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ..checking import SMEM, VMEM, beyond, check, memref

TABLE = memref("4xi32", SMEM)


def windowed(block: str, *index: str, low: Sequence[int] | None = None, space: str = VMEM) -> str:
    """A kernel whose only block lies at the values `index`, of the grid index `%i` and a table."""
    *bounds, _ = block.split("x")
    padding = ", ".join(map(str, low or [0] * len(bounds)))
    behind = ", ".join(["0"] * len(bounds))
    lines = [
        f"%{n} = {f'arith.constant {term} : i32' if term.isdigit() else term}"
        for n, term in enumerate(index)
    ]
    results = ", ".join(f"%{n}" for n in range(len(index)))
    types = ", ".join(["i32"] * len(index))
    body = "\n".join(lines)
    return f"""
    func.func @kernel(%i: i32, %t: {TABLE}, %x: {memref(block, space)}) attributes {{
        dimension_semantics = [#tpu.dimension_semantics<arbitrary>],
        iteration_bounds = array<i64: 2>, scalar_prefetch = 1 : i64, scratch_operands = 0 : i64,
        window_params = [{{transform_indices = @at, window_bounds = array<i64: {", ".join(bounds)}>,
          window_kind = #tpu.element_window<[{padding}], [{behind}]>}}],
        tpu.core_type = #tpu.core_type<tc>}} {{
      return
    }}
    func.func @at(%i: i32, %t: {TABLE}) -> ({types}) {{
      %c0 = arith.constant 0 : index
      %c3 = arith.constant 3 : i32
      %c8 = arith.constant 8 : i32
      %c16 = arith.constant 16 : i32
      %c32 = arith.constant 32 : i32
      %c128 = arith.constant 128 : i32
      %e = memref.load %t[%c0] : {TABLE}
      %first = arith.cmpi eq, %i, %c3 : i32
      %rows = arith.muli %i, %c8 : i32
      {body}
      return {results} : {types}
    }}"""


def times(number: int) -> str:
    return f"arith.muli %i, %c{number} : i32"


CHOICE = "scf.if %first -> (i32) {{ {} scf.yield {} : i32 }} else {{ scf.yield %c8 : i32 }}"


@pytest.mark.parametrize("target", ["v4", "v5e", "v7x"])
@pytest.mark.parametrize(
    ("block", "index"),
    [
        # Rows of whole tiles of the block, which has larger ones of bytes where they divide it.
        ("16x128xf32", [times(8), "0"]),
        ("8x128xbf16", [times(8), "0"]),
        ("16x128xi8", [times(8), "0"]),
        ("32x128xi8", [times(32), "0"]),
        ("8x128xf32", ["24", times(128)]),
        ("1x128xf32", [times(3), "0"]),
        ("4x8x128xf32", [times(3), times(8), "0"]),
        ("128xf32", [times(128)]),
        ("2048xi8", ["512"]),
        # What is known of the index.
        ("8x128xf32", ["arith.muli %e, %c16 : i32", "0"]),
        ("8x128xf32", ["arith.subi %c16, %rows : i32", "0"]),
        ("8x128xf32", ["arith.maxsi %rows, %c8 : i32", "0"]),
        ("8x128xf32", [CHOICE.format("", "%rows"), "0"]),
        ("8x128xf32", [CHOICE.format("%a = arith.addi %c8, %c8 : i32", "%a"), "0"]),
    ],
)
def test_blocks_at_whole_tiles(block: str, index: Sequence[str], target: str) -> None:
    check(windowed(block, *index), target)


@pytest.mark.parametrize("target", ["v4", "v5e", "v7x"])
@pytest.mark.parametrize(
    ("block", "index"),
    [
        ("8x128xf32", ["4", "0"]),
        ("8x128xf32", [times(3), "0"]),
        ("32x128xi8", [times(8), "0"]),
        ("64x128xi4", [times(32), "0"]),
        ("1x128xi8", [times(3), "0"]),
        ("8x128xf32", ["0", "64"]),
        ("8x100xf32", ["0", "32"]),
        ("4x8x128xf32", ["0", times(3), "0"]),
        ("512xbf16", [times(128)]),
        ("8x128xf32", ["arith.addi %e, %c8 : i32", "0"]),
        ("8x128xf32", [CHOICE.format("%a = arith.muli %i, %c8 : i32", "%a"), "0"]),
    ],
)
def test_blocks_that_may_begin_within_a_tile(block: str, index: Sequence[str], target: str) -> None:
    beyond(windowed(block, *index), "element-window", target)


def test_blocks_in_scalar_memory() -> None:
    check(windowed("256xi32", times(128), space=SMEM))
    beyond(windowed("256xi32", times(8), space=SMEM), "element-window")


@pytest.mark.parametrize("low", [(1, 0), (0, 128), (8, 0)])
def test_padding_in_front(low: Sequence[int]) -> None:
    beyond(windowed("8x128xf32", "0", "0", low=low), "element-window")


def test_padding_in_front_of_leading_dimensions() -> None:
    beyond(windowed("2x8x128xf32", "0", "0", "0", low=(1, 0, 0)), "element-window")


def gridded(operand: str, window: str, result: str = "") -> str:
    """A kernel of one grid step whose only operand, in SMEM, has this block."""
    return f"""
    func.func @kernel(%i: i32, %x: {memref(operand, SMEM)}) attributes {{
        dimension_semantics = [#tpu.dimension_semantics<arbitrary>],
        iteration_bounds = array<i64: 1>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
        window_params = [{{transform_indices = @at, window_bounds = {window}}}],
        tpu.core_type = #tpu.core_type<tc>}} {{
      return
    }}
    func.func @at(%i: i32) -> ({"i32" if result else ""}) {{
      {result or "return"}
    }}"""


@pytest.mark.parametrize("target", ["v4", "v5e", "v7x"])
@pytest.mark.parametrize("element", ["f32", "i32", "bf16"])
def test_blocks_without_dimensions(element: str, target: str) -> None:
    beyond(gridded(element, "array<i64>"), "scalar-window", target)


def test_blocks_of_one_element() -> None:
    zero = "%z = arith.constant 0 : i32\n return %z : i32"
    check(gridded("1xf32", "array<i64: 1>", zero))


@pytest.mark.parametrize(("operand", "good"), [("f16", False), ("f8E4M3", False), ("f8E5M2", True)])
def test_floats_of_operands(operand: str, good: bool) -> None:
    """Operands of some types are not taken, even if nobody reads them; results are."""
    shape = f"8x128x{operand}"
    text = f"""
    module attributes {{tpu.call = {{operands = [tensor<{shape}>], results = [tensor<{shape}>],
                                   aliases = array<i64>, settings = "{{}}"}}}} {{
      func.func @kernel(%x: {memref(shape)}, %o: {memref(shape)}) attributes {{
          dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
          tpu.core_type = #tpu.core_type<tc>}} {{
        return
      }}
    }}"""
    if good:
        check(text)
    else:
        beyond(text, "operand-type")
    check(text.replace(f"operands = [tensor<{shape}>]", "operands = [tensor<8x128xf32>]"))


def scalar_block(array: str, block: str) -> str:
    """A kernel that reads blocks of rows of an array in scalar memory."""
    rows, columns, _ = block.split("x")
    window = f"array<i64: {rows}, {columns}>"
    text = gridded(block, window, "%z = arith.constant 0 : i32\n return %i, %z : i32, i32")
    return f"""
    module attributes {{tpu.call = {{operands = [tensor<{array}>], results = [],
                                   aliases = array<i64>, settings = "{{}}"}}}} {{
      {text.replace("-> (i32)", "-> (i32, i32)")}
    }}"""


@pytest.mark.parametrize("target", ["v4", "v5e", "v7x"])
@pytest.mark.parametrize(
    ("array", "block", "good"),
    [
        ("64x128xi8", "32x128xi8", True),
        ("64x128xi8", "16x128xi8", False),
        ("64x200xi8", "8x200xi8", False),
        ("24x128xi8", "8x128xi8", True),
        ("64x8xi8", "16x8xi8", True),
        ("64x128xi4", "32x128xi4", False),
        ("96x128xi4", "32x128xi4", True),
        ("64x128xi16", "8x128xi16", True),
    ],
)
def test_tiles_of_blocks_in_scalar_memory(array: str, block: str, good: bool, target: str) -> None:
    """What the way to SMEM does not change is equal in array and block, of 16 columns and more."""
    text = scalar_block(array, block)
    if good:
        check(text, target)
    else:
        beyond(text, "scalar-tiles", target)


def placed(array: str, block: str, *index: int, kind: str = "") -> str:
    """A kernel of one block of the array, always the same one."""
    *bounds, _ = block.split("x")
    names = ", ".join(f"%{n}" for n in range(len(index)))
    types = ", ".join(["i32"] * len(index))
    constants = "\n".join(f"%{n} = arith.constant {i} : i32" for n, i in enumerate(index))
    window = f"array<i64: {', '.join(bounds)}>{kind}"
    text = gridded(block, window, f"{constants}\n return {names} : {types}")
    return f"""
    module attributes {{tpu.call = {{operands = [tensor<{array}>], results = [],
                                   aliases = array<i64>, settings = "{{}}"}}}} {{
      {text.replace(SMEM, VMEM).replace("-> (i32)", f"-> ({types})")}
    }}"""


ELEMENTS = ", window_kind = #tpu.element_window<[0, 0], [0, 0]>"


@pytest.mark.parametrize("target", ["v4", "v5e", "v7x"])
@pytest.mark.parametrize(
    ("array", "block", "index", "kind", "good"),
    [
        ("64x128xf32", "48x128xf32", (1, 0), "", True),
        ("64x128xf32", "48x128xf32", (2, 0), "", False),
        ("64x128xf32", "64x128xf32", (1, 0), "", False),
        ("64x200xf32", "64x128xf32", (0, 1), "", True),
        ("64x200xf32", "64x128xf32", (0, 2), "", False),
        ("24x128xbf16", "8x128xbf16", (3, 0), "", False),
        ("2x8x128xf32", "1x8x128xf32", (2, 0, 0), "", False),
        ("300xf32", "128xf32", (2,), "", True),
        ("300xf32", "128xf32", (3,), "", False),
        ("64x128xf32", "32x128xf32", (-1, 0), "", False),
        ("64x128xf32", "16x128xf32", (56, 0), ELEMENTS, True),
        ("64x128xf32", "16x128xf32", (64, 0), ELEMENTS, False),
        ("2x128xf32", "1x128xf32", (2, 0), "", False),
    ],
)
def test_blocks_behind_the_array(
    array: str, block: str, index: Sequence[int], kind: str, good: bool, target: str
) -> None:
    """A block that is known, and outside of its array, is outside in every step."""
    text = placed(array, block, *index, kind=kind)
    if good:
        check(text, target)
    else:
        beyond(text, "block-outside", target)


def test_blocks_of_results_without_elements() -> None:
    """A call whose results have none is dropped, wherever its blocks lie."""
    text = placed("256x0xf32", "256x256xf32", 0, 0)
    check(text.replace("operands = [tensor<256x0xf32>], results = []",
                       "operands = [], results = [tensor<256x0xf32>]"))  # fmt: skip
