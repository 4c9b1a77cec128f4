"""Values through the DMA form: which part of an array each block transfer moves.

Kernels copy input blocks to output blocks, so the result is known from the index maps alone
(spec/pallas_semantics.md section 2.4). Every run is watched by all sanitizers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i64

import pallasite
from pallasite.dialects import make_context
from pallasite.dialects.kernel import WRITTEN_ONCE
from pallasite.lowering.windows_to_dma import WindowsToDmaPass

from ..jaxlib_context import mosaic_context
from ..printing import printed
from .index_terms import evaluate, term

DATA = Path(__file__).parents[1] / "data"
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Copy:
    """A kernel that copies block after block; maps are terms over `d0`, `d1`, ... and integers."""

    array: Shape
    block: Shape
    grid: Shape
    index: Sequence[str]
    out_array: Shape | None = None
    out_index: Sequence[str] = ()
    element: str = "f32"
    kind: str = ""
    """Extra window attributes of the input."""
    rows: tuple[int, int] | None = None
    """The rows of the block that are copied (all, if None)."""
    space: str = "vmem"
    table: Sequence[int] = field(default=())
    """A prefetched table; `t` in a term reads it at `d0`."""


CASES = {
    "divisible": Copy((32, 256), (8, 128), (4, 2), ["d0", "d1"]),
    "three_dimensions": Copy((4, 16, 128), (2, 8, 128), (2, 2), ["d0", "d1", "0"]),
    "squeezed": Copy((4, 16, 128), (1, 8, 128), (4, 2), ["d0", "d1", "0"]),
    "rows_cut": Copy((20, 128), (8, 128), (3,), ["d0", "0"]),
    "rows_cut_by_tiles": Copy((40, 128), (32, 128), (2,), ["d0", "0"]),
    "rows_and_columns_cut": Copy((20, 300), (8, 128), (3, 3), ["d0", "d1"]),
    "leading_cut": Copy((3, 8, 128), (2, 8, 128), (2,), ["d0", "0", "0"]),
    "less_than_a_block": Copy((3, 100), (8, 128), (1,), ["d0", "0"]),
    "less_than_a_block_in_steps": Copy((3, 256), (8, 128), (2,), ["0", "d0"]),
    "bf16_cut": Copy((40, 128), (16, 128), (3,), ["d0", "0"], element="bf16"),
    "i8_in_parts": Copy((96, 256), (48, 128), (2, 2), ["d0", "d1"], element="i8"),
    "i8_in_parts_cut": Copy((64, 200), (40, 128), (2, 2), ["d0", "d1"], element="i8"),
    "i8_in_parts_leading": Copy((3, 64, 256), (1, 24, 256), (3, 3), ["d0", "d1", "0"],
                                element="i8"),
    "i8_cut": Copy((72, 128), (32, 128), (3,), ["d0", "0"], element="i8"),
    "one_dimension": Copy((4096,), (1024,), (4,), ["d0"]),
    "one_dimension_small": Copy((512,), (128,), (4,), ["d0"]),
    "one_dimension_cut": Copy((3000,), (1024,), (3,), ["d0"]),
    "one_dimension_bf16": Copy((1024,), (256,), (4,), ["d0"], element="bf16"),
    "unaligned_whole": Copy((13, 200), (13, 200), (1,), ["d0", "d0"]),
    "repeated": Copy((16, 128), (8, 128), (4,), ["d0/2", "0"], (32, 128), ["d0", "0"]),
    "prefetched": Copy(
        (40, 128), (8, 128), (4,), ["t", "0"], (32, 128), ["d0", "0"], table=[4, 0, 2, 2]
    ),
    "elements": Copy(
        (40, 128), (8, 128), (4,), ["d0*8+8", "0"], (32, 128), ["d0", "0"],
        kind="#tpu.element_window<[0, 0], [0, 0]>",
    ),
    "elements_unaligned": Copy(
        (40, 128), (8, 128), (4,), ["d0*4+4", "0"], (32, 128), ["d0", "0"],
        kind="#tpu.element_window<[0, 0], [0, 0]>",
    ),
    "elements_overlap_and_overrun": Copy(
        (36, 128), (16, 128), (4,), ["d0*8", "0"], (32, 128), ["d0", "0"],
        kind="#tpu.element_window<[0, 0], [0, 0]>", rows=(0, 8),
    ),
    "elements_padded_above": Copy(
        (32, 128), (16, 128), (4,), ["d0*8", "0"], (32, 128), ["d0", "0"],
        kind="#tpu.element_window<[0, 0], [8, 0]>", rows=(0, 8),
    ),
    "elements_padded_below": Copy(
        (32, 128), (16, 128), (4,), ["d0*8", "0"], (32, 128), ["d0", "0"],
        kind="#tpu.element_window<[8, 0], [0, 0]>", rows=(8, 16),
    ),
    "elements_padded_by_part_of_a_tile": Copy(
        (32, 128), (16, 128), (4,), ["d0*8", "0"], (32, 128), ["d0", "0"],
        kind="#tpu.element_window<[4, 0], [4, 0]>", rows=(4, 12),
    ),
}  # fmt: skip


def text_of(case: Copy) -> str:
    out_array, out_index = case.out_array or case.array, case.out_index or case.index
    rows = case.rows or (0, case.block[-2] if len(case.block) > 1 else 0)
    out_block = (*case.block[:-2], rows[1] - rows[0], *case.block[-1:])[-len(case.block) :]
    dims = [f"%d{n}: i32" for n in range(len(case.grid))]
    prefetch = ["%t: !table"] if case.table else []
    zeros = ", ".join("%c0" for _ in case.block)
    start = ["%c0"] * len(case.block)
    if len(start) > 1:
        start[-2] = "%first"

    def shaped(shape: Shape, *, tail: str = "") -> str:
        return "x".join(map(str, shape)) + f"x{case.element}{tail}"

    def window(n: int, block: Shape, kind: str = "") -> str:
        kind = f"window_kind = {kind}, " if kind else ""
        bounds = ", ".join(map(str, block))
        return f"{{{kind}transform_indices = @t{n}, window_bounds = array<i64: {bounds}>}}"

    functions: list[str] = []
    for n, index in enumerate((case.index, out_index)):
        lines: list[str] = []
        values = [term(t, "x", lines) for t in index]
        types = ", ".join("i32" for _ in index)
        results = f"({types})" if len(index) > 1 else "i32"
        functions.append(
            f"func.func @t{n}({', '.join(dims + prefetch)}) -> {results} {{\n"
            + "\n".join(lines)
            + f"\nfunc.return {', '.join(values)} : {types} }}"
        )
    operands = f"tensor<{len(case.table)}xi32>, " if case.table else ""
    tail = f", #tpu.memory_space<{case.space}>"
    return f"""
!table = memref<{len(case.table)}xi32, #tpu.memory_space<smem>>
!in = memref<{shaped(case.block, tail=tail)}>
!out = memref<{shaped(out_block, tail=tail)}>
!vector = vector<{shaped(out_block)}>
module attributes {{tpu.call = {{operands = [{operands}tensor<{shaped(case.array)}>],
    results = [tensor<{shaped(out_array)}>], aliases = array<i64>, settings = "{{}}"}}}} {{
  func.func @copy({", ".join([*dims, *prefetch, "%x: !in", "%o: !out"])}) attributes {{
      dimension_semantics = [{", ".join("#tpu.dimension_semantics<arbitrary>" for _ in dims)}],
      iteration_bounds = array<i64: {", ".join(map(str, case.grid))}>,
      scalar_prefetch = {len(prefetch)} : i64, scratch_operands = 0 : i64,
      tpu.core_type = #tpu.core_type<tc>,
      window_params = [{window(0, case.block, case.kind)}, {window(1, out_block)}]}} {{
    %c0 = arith.constant 0 : index
    %first = arith.constant {rows[0]} : index
    %v = vector.load %x[{", ".join(start)}] : !in, !vector
    tpu.vector_store %o[{zeros}], %v {{strides = array<i32>}} : !out, !vector,
    func.return
  }}
  {chr(10).join(functions)}
}}"""


def expected(case: Copy, source: NDArray[np.float64]) -> NDArray[np.float64]:
    """The copied array; NaN where the value is not specified."""
    out_array, out_index = case.out_array or case.array, case.out_index or case.index
    rows = case.rows or (0, case.block[-2] if len(case.block) > 1 else 0)
    low = _padding(case.kind) or [0] * len(case.array)
    result = np.full(out_array, np.nan)
    for point in np.ndindex(*case.grid):
        block = np.full(case.block, np.nan)
        starts: list[int] = []
        for d, text in enumerate(case.index):
            value = evaluate(text, point, case.table)
            starts.append(value - low[d] if case.kind else value * case.block[d])
        for inner in np.ndindex(*case.block):
            place = tuple(s + i for s, i in zip(starts, inner, strict=True))
            if all(0 <= p < n for p, n in zip(place, case.array, strict=True)):
                block[inner] = source[place]
        if case.rows:
            block = block[..., rows[0] : rows[1], :]
        for inner in np.ndindex(*block.shape):
            place = tuple(
                evaluate(text, point, case.table) * n + i
                for text, n, i in zip(out_index, block.shape, inner, strict=True)
            )
            if all(p < n for p, n in zip(place, out_array, strict=True)):
                result[place] = block[inner]
    return result


def _padding(kind: str) -> list[int]:
    return [int(n) for n in kind.split("[")[1].split("]")[0].split(",")] if kind else []


def lowered(case: Copy) -> ModuleOp:
    module = pallasite.parse(text_of(case))
    WindowsToDmaPass().apply(make_context(), module)
    module.verify()
    return module


@pytest.mark.parametrize("name", CASES)
def test_copied_values(name: str) -> None:
    case = CASES[name]
    source = np.random.default_rng(0).integers(-100, 100, case.array)
    array = source.astype({"f32": np.float32, "i8": np.int8}.get(case.element, np.float32))
    if case.element == "bf16":
        import ml_dtypes

        array = array.astype(ml_dtypes.bfloat16)
    inputs = [np.array(case.table, np.int32)] if case.table else []
    module = pallasite.parse(text_of(case))
    (out,) = pallasite.run(
        module, [*inputs, array], form="dma", checks=("all",), allow_beyond_reference=True
    )
    want = expected(case, source.astype(np.float64))
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.asarray(out).astype(np.float64)[known], want[known])


@pytest.mark.parametrize("name", ["divisible", "squeezed", "one_dimension", "elements"])
def test_sizes_are_static_when_blocks_fit(name: str) -> None:
    assert "?" not in str(lowered(CASES[name]))
    assert "tpu.unspecified" not in str(lowered(CASES[name]))


def test_starts_of_a_spanning_block_are_known_to_be_aligned() -> None:
    # A number that is surely 0 is left out; here the third step would be told that it is not.
    case = Copy((13, 200), (13, 200), (3,), ["d0/2", "0"], (39, 200), ["d0", "0"])
    assert "tpu.assume_multiple" in str(lowered(case))
    assert "tpu.assume_multiple" not in str(lowered(CASES["divisible"]))


def test_padding_of_a_block_is_no_finding_but_scratch_is() -> None:
    text = text_of(CASES["rows_cut"])
    array = np.ones((20, 128), np.float32)
    pallasite.run(pallasite.parse(text), [array], form="dma", checks=("init",))
    reading_output = (
        text.replace("vector.load %x[", "vector.load %o[")
        .replace(": !in, !vector", ": !out, !vector")
        .replace("tpu.vector_store", "%w = arith.addf %v, %v : !vector\n    tpu.vector_store")
        .replace("%v {strides", "%w {strides")
    )
    with pytest.raises(pallasite.Diagnostic) as caught:
        pallasite.run(pallasite.parse(reading_output), [array], form="dma", checks=("init",))
    assert caught.value.code == "uninitialised-read"


def generic(module: ModuleOp) -> str:
    for attribute in ("tpu.call", "tpu.form"):
        module.attributes.pop(attribute, None)
    return printed(module, generic=True)


REAL = ("flash_bf16", "io_alias", "emit_pipeline_mm", "remote_ring_logical")


def real(name: str) -> ModuleOp:
    module = pallasite.parse((DATA / f"{name}.stablehlo.mlir").read_bytes(), name=name)
    WindowsToDmaPass().apply(make_context(), module)
    module.verify()
    return module


MODULES: dict[str, Callable[[], ModuleOp]] = {
    **{name: (lambda case=case: lowered(case)) for name, case in CASES.items()},
    **{name: (lambda name=name: real(name)) for name in REAL},
}


@pytest.mark.jax
@pytest.mark.parametrize("name", MODULES)
def test_jaxlib_verifies(name: str) -> None:
    ir = pytest.importorskip("jaxlib.mlir.ir")
    with mosaic_context(), ir.Location.unknown():
        assert ir.Module.parse(generic(MODULES[name]())).operation.verify()


def test_outputs_that_do_not_revisit_their_blocks_are_written_once() -> None:
    ref = "memref<8x128xf32, #tpu.memory_space<vmem>>"
    module = pallasite.parse(f"""
pallas.kernel @k grid (i = 2 arbitrary, j = 3 arbitrary)
  input %x: tensor<16x128xf32> in vmem block (8, 128) at (i, 0)
  output %a: tensor<24x128xf32> in vmem block (8, 128) at (j, 0) revisits
  output %b: tensor<16x128xf32> in vmem block (8, 128) at (i, 0)
{{
  %v = pallas.load %x[...] : {ref}
  pallas.store %v, %a[...] : {ref}
  pallas.store %v, %b[...] : {ref}
}}
""")
    (kernel,) = pallasite.lower(module, "dma").body.block.ops
    assert kernel.attributes[WRITTEN_ONCE] == DenseArrayBase.from_list(i64, [2])
