"""Rows in tiles of an array of the call, which need not be laid out in tiles itself.

Layout passes see rows of tiles by a `tpu.reinterpret_cast` of the whole array. All runs here are
compared with those of the reference driver whose arrays are laid out as on the chip.
"""

# ruff: noqa: E501 (MLIR)

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from pallasite.api import lower, with_call
from pallasite.frontend import read
from pallasite.interpreter import binding
from pallasite.interpreter.in_order import Use, uses_of
from pallasite.interpreter.machine.spare import Spare
from pallasite.interpreter.options import Options
from pallasite.interpreter.run import execute, find_kernel, prepare
from pallasite.targets import get_target

V5E = get_target("v5e")
DTYPES = {"f32": np.float32, "i32": np.int32, "bf16": bfloat16, "i8": np.int8}
COUNT = 12
"""Copies of each kernel."""


def ref(shape: Sequence[int], element: str, space: str = "any", tiles: str = "") -> str:
    sizes = "".join(f"{n}x" for n in shape)
    layout = f"#tpu.tiled<{tiles}>, " if tiles else ""
    return f"memref<{sizes}{element}, {layout}#tpu.memory_space<{space}>>"


DONE = ref((), "!tpu.dma_semaphore", "semaphore_mem")


def box(name: str, array: tuple[str, str], starts: str, kind: str, kept: str = "") -> str:
    """`name` is the part of an array of type `kind` at `starts`, then seen as `kept`."""
    whole, type = array
    if not kept:
        return f"%{name} = tpu.memref_slice %{whole}[{starts}] : {type} -> {kind}\n"
    return (
        box(f"{name}_box", array, starts, kind)
        + f"%{name} = tpu.memref_squeeze %{name}_box : {kind} -> {kept}\n"
    )


def copy(source: str, target: str, kinds: tuple[str, str]) -> str:
    one, other = kinds
    return (
        f"tpu.enqueue_dma source(%{source} : {one}) target(%{target} : {other}) target_semaphore(%done : {DONE})\n"
        f"tpu.wait_dma2 semaphore(%done : {DONE}) src(%{source} : {one}) dst(%{target} : {other})\n"
    )


def kernel(types: tuple[str, str], body: str, more: str = "", step: int = 3) -> str:  # fmt: skip
    """`body` for each %from in a table, and for %to = 0, step, and so on; then `more`."""
    x, o = types
    table = ref((COUNT,), "i32", "smem")
    return f"""
    func.func @main(%table: {table}, %x: {x}, %o: {o}, %done: {DONE})
        attributes {{dimension_semantics = [], scalar_prefetch = 1 : i64, scratch_operands = 1 : i64, tpu.core_type = #tpu.core_type<tc>}} {{
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c8 = arith.constant 8 : i32
      %step = arith.constant {step} : i32
      %count = arith.constant {COUNT} : i32
      scf.for %i = %c0 to %count step %c1 : i32 {{
        %place = arith.index_cast %i : i32 to index
        %from = memref.load %table[%place] : {table}
        %to = arith.muli %i, %step : i32
        {body}
      }}
      {more}
      return
    }}"""


def rows(shape: tuple[int, ...], element: str, more: str = "", step: int = 3) -> str:
    """Copies single rows."""
    whole, kept = ref(shape, element), ref(shape[-1:], element)
    kind = ref((1,) * (len(shape) - 1) + shape[-1:], element)
    body = f"%rows = arith.constant {shape[-2]} : i32\n"
    for name, array, place in (("source", "x", "%from"), ("target", "o", "%to")):
        starts = f"{place}, %c0"
        if len(shape) == 3:
            starts = f"{place}_outer, {place}_inner, %c0"
            body += f"{place}_outer = arith.divui {place}, %rows : i32\n"
            body += f"{place}_inner = arith.remui {place}, %rows : i32\n"
        body += box(name, (array, whole), starts, kind, kept)
    return kernel((whole, whole), body + copy("source", "target", (kept, kept)), more, step=step)


def inputs(shape: Sequence[int], element: str, seed: int) -> list[Any]:
    generator = np.random.default_rng(seed)
    dtype = np.dtype(DTYPES[element])
    # Among them are NaNs whose payload no arithmetic would keep.
    numbers = generator.integers(0, 256, prod(shape) * dtype.itemsize, np.uint8)
    table = generator.integers(0, prod(shape[:-1]), COUNT).astype(np.int32)
    return [table, numbers.view(dtype).reshape(shape)]


def called(text: str, arrays: Sequence[Any]) -> Any:
    x = arrays[1]
    return with_call(read(text), arrays, [(x.shape, x.dtype)])


def laid_out_anew(_: Any) -> None:
    """In the place of `in_order`: no operand is the caller's array."""


def compare(module: Any, runs: Sequence[list[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs `module` with the arrays of each of `runs`, twice, as a simulation does."""
    plan, spare = prepare(module, target=V5E), Spare()
    for arrays in [*runs, *runs]:
        before = [array.copy() for array in arrays]
        for poison in (0, 1):
            options = Options.of(poison=poison)
            kept: dict[str, Any] = {"prepared": plan, "spare": spare} if not poison else {}
            found = execute(module, [arrays], options, target=V5E, **kept)
            with monkeypatch.context() as patch:
                patch.setattr(binding, "in_order", laid_out_anew)
                expected = execute(module, [before], options, target=V5E, driver="reference")
            assert found.outputs[0][0].tobytes() == expected.outputs[0][0].tobytes()
            assert found.transfers == expected.transfers
        for array, was in zip(arrays, before, strict=True):
            assert array.tobytes() == was.tobytes()


READ, ANEW = [Use.READS, Use.FILLS], [Use.LAYOUT] * 2


@pytest.mark.parametrize("form", ["tiles", "vreg"])
@pytest.mark.parametrize("element", ["f32", "i32"])
@pytest.mark.parametrize(
    ("shape", "uses"),
    [
        ((40, 256), READ), ((40, 128), READ), ((40, 200), ANEW), ((36, 256), ANEW),
        ((5, 8, 256), READ), ((3, 16, 384), READ), ((10, 4, 128), READ), ((5, 9, 100), ANEW),
    ],
)  # fmt: skip
def test_rows_at_places_in_a_table(
    shape: tuple[int, ...], uses: list[Use], element: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    runs = [inputs(shape, element, seed) for seed in range(3)]
    module = lower(called(rows(shape, element), runs[0]), form)
    assert list(uses_of(find_kernel(module)))[1:] == uses
    compare(module, runs, monkeypatch)


@pytest.mark.parametrize("shape", [(16, 256), (2, 8, 128), (12, 1, 128)])
def test_results_that_are_filled_row_by_row(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "COUNT", prod(shape[:-1]))
    runs = [inputs(shape, "f32", seed) for seed in range(2)]
    compare(lower(called(rows(shape, "f32", step=1), runs[0]), "tiles"), runs, monkeypatch)


SHAPE = (40, 256)
WHOLE, TILE = ref(SHAPE, "f32"), ref((8, 256), "f32")
RESHAPED = ref((5, 8, 256), "f32")
SEEN = f"""
    %seen = tpu.memref_reshape %x : {WHOLE} -> {RESHAPED}
    {box("third", ("seen", RESHAPED), "%c1, %c0, %c0", ref((1, 8, 256), "f32"), TILE)}
    {box("there", ("o", WHOLE), "%c0, %c0", TILE)}
    """ + copy("third", "there", (TILE, TILE))  # fmt: skip
TILES = (
    box("tile", ("x", WHOLE), "%c8, %c0", TILE) + box("there", ("o", WHOLE), "%c0, %c0", TILE)
    + copy("tile", "there", (TILE, TILE))
)  # fmt: skip
BACK = (
    box("tile", ("o", WHOLE), "%c8, %c0", TILE) + box("there", ("x", WHOLE), "%c0, %c0", TILE)
    + copy("tile", "there", (TILE, TILE))
)  # fmt: skip


@pytest.mark.parametrize("form", ["tiles", "vreg"])
@pytest.mark.parametrize(
    ("more", "uses"),
    [
        (SEEN, [Use.LAYOUT, Use.BOTH]),
        (TILES, [Use.READS, Use.BOTH]),
        (BACK, [Use.BOTH, Use.BOTH]),
    ],
)
def test_rows_and_other_parts(
    more: str, uses: list[Use], form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [inputs(SHAPE, "f32", seed) for seed in range(2)]
    module = lower(called(rows(SHAPE, "f32", more), runs[0]), form)
    assert list(uses_of(find_kernel(module)))[1:] == uses
    compare(module, runs, monkeypatch)


@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
@pytest.mark.parametrize("columns", [256, 200])
@pytest.mark.parametrize("outer", [(), (3,)])
def test_words_of_rows_in_tiles(
    outer: tuple[int, ...], columns: int, element: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = {"f32": 1, "bf16": 2, "i8": 4}[element]
    words, across = f"({packed},1)" if packed > 1 else "", -(-columns // 128)
    shape, groups = (*outer, 40, columns), 8 // packed
    strides = [*([5 * across] if outer else []), across, 1]
    whole = ref(shape, element, tiles=f"(8,128){words},{strides}".replace(" ", ""))
    split = [n * groups for n in strides[:-1]] + [1, groups]
    # All rows of one word of a tile: [..., tile, word, row of the word, column].
    tiled = f"({packed},128){words},"
    seen_shape = (*outer, 5, groups, packed, columns)
    seen_strides = [*split[:-2], 1, groups, groups]
    seen = ref(seen_shape, element, tiles=f"{tiled}{seen_strides}".replace(" ", ""))
    lead = len(seen_shape) - 2
    kind = ref((1,) * lead + (packed, columns), element, tiles=f"{tiled}{seen_strides}".replace(" ", ""))  # fmt: skip
    kept = ref((packed, columns), element, tiles=f"{tiled}{seen_strides[-2:]}".replace(" ", ""))
    body = f"""
        %groups = arith.constant {groups} : i32
        %five = arith.constant 5 : i32
        %seen_x = tpu.reinterpret_cast %x : {whole} -> {seen}
        %seen_o = tpu.reinterpret_cast %o : {whole} -> {seen}
        %a = arith.remui %from, %five : i32
        %b = arith.remui %from, %groups : i32
        %c = arith.remui %i, %five : i32
        %d = arith.remui %i, %groups : i32
        """
    first = "%c1, " if outer else ""
    body += box("source", ("seen_x", seen), f"{first}%a, %b, %c0, %c0", kind, kept)
    body += box("target", ("seen_o", seen), f"{first}%c, %d, %c0, %c0", kind, kept)
    text = kernel((whole, whole), body + copy("source", "target", (kept, kept)))
    runs = [inputs(shape, element, seed) for seed in range(2)]
    module = called(text, runs[0])
    expected = READ if columns == 256 else ANEW
    assert list(uses_of(find_kernel(module)))[1:] == expected
    compare(module, runs, monkeypatch)
