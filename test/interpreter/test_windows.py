"""Windows by their sequential meaning (spec/pallas_semantics.md 1.3 to 1.9), on small kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pallasite
from pallasite.api import with_call
from pallasite.diagnostics import Diagnostic, ExecutionError
from pallasite.frontend import read
from pallasite.interpreter.run import execute
from pallasite.targets import get_target

V5E = get_target("v5e")
# ruff: noqa: E501 (MLIR)
VMEM, SMEM, ANY = (f"#tpu.memory_space<{s}>" for s in ("vmem", "smem", "any"))
DYNAMIC = -(1 << 63)


def window(transform: int, bounds: str, extra: str = "") -> str:
    return f"{{{extra}transform_indices = @transform_{transform}, window_bounds = array<i64: {bounds}>}}"


def kernel(
    arguments: str, body: str, *, grid: str, windows: str = "", transforms: str = "",
    prefetch: int = 0, scratch: int = 0,
) -> str:  # fmt: skip
    steps = grid.count(",") + 1 if grid else 0
    indices = "".join(f"%i{d}: i32, " for d in range(steps))
    semantics = ", ".join(["#tpu.dimension_semantics<arbitrary>"] * steps)
    bounds = f"iteration_bounds = array<i64: {grid}>, window_params = [{windows}]," if grid else ""
    return f"""
    module {{
      func.func @kernel({indices}{arguments}) attributes {{
          dimension_semantics = [{semantics}], {bounds} scalar_prefetch = {prefetch} : i64,
          scratch_operands = {scratch} : i64, tpu.core_type = #tpu.core_type<tc>}} {{
        %c0 = arith.constant 0 : index
        %z = arith.constant 0 : i32
        {body}
        return
      }}
      {transforms}
    }}"""


def transform(number: int, arguments: str, body: str, *results: str) -> str:
    types = ", ".join(["i32"] * len(results))
    return (
        f"func.func @transform_{number}({arguments}) -> ({types}) {{\n"
        f"  %z = arith.constant 0 : i32\n  {body}\n"
        f"  return {', '.join(results)} : {types}\n}}\n"
    )


def run(
    text: str, *inputs: Any, results: Any, aliases: Any = None, driver: str = "compiled"
) -> Any:
    module = read(text)
    if results is not None:
        module = with_call(module, inputs, results, aliases)
    return execute(module, [inputs], target=V5E, driver=driver).outputs[0]


BLOCK = f"memref<8x128xf32, {VMEM}>"
COPY = f"""
        %v = vector.load %x[%c0, %c0] : {BLOCK}, vector<8x128xf32>
        tpu.vector_store %o[%c0, %c0], %v {{strides = array<i32>}} : {BLOCK}, vector<8x128xf32>,
"""
ROW = "8, 128"


@pytest.fixture(params=["compiled", "reference"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_last_grid_dimension_is_fastest_and_blocks_move(driver: str) -> None:
    text = kernel(
        f"%x: {BLOCK}, %o: {BLOCK}", COPY, grid="2, 3",
        windows=f"{window(0, ROW)}, {window(1, ROW)}",
        transforms=transform(0, "%i: i32, %j: i32", "", "%i", "%j")
        + transform(1, "%i: i32, %j: i32", "", "%j", "%i"),
    )  # fmt: skip
    x = np.arange(16 * 384, dtype=np.float32).reshape(16, 384)
    (out,) = run(text, x, results=[((24, 256), "float32")], driver=driver)
    expected = x.reshape(2, 8, 3, 128).transpose(2, 1, 0, 3).reshape(24, 256)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", ["bfloat16", "int32", "float16"])
def test_arrays_have_the_elements_of_the_ref(dtype: str) -> None:
    text = kernel(f"%x: {BLOCK}, %o: {BLOCK}", COPY, grid="")
    with pytest.raises(Diagnostic, match="kernel sees elements of type f32") as caught:
        run(text, np.zeros((8, 128), np.float32), results=[((8, 128), dtype)])
    assert caught.value.code == "call-mismatch"


def test_arrays_have_at_most_the_shape_of_the_ref() -> None:
    array = f"memref<8x128xf32, {ANY}>"
    text = kernel(f"%x: {array}, %o: {array}", "", grid="")
    with pytest.raises(Diagnostic, match=r"shape \[16, 128\] where the kernel sees") as caught:
        run(text, np.zeros((8, 128), np.float32), results=[((16, 128), "float32")])
    assert caught.value.code == "call-mismatch" and caught.value.location is not None


@pytest.mark.parametrize("rows", [7, 16])
@pytest.mark.parametrize("space", ["vmem", "smem", "any"])
def test_arrays_without_blocks_have_the_shape_of_the_ref(space: str, rows: int) -> None:
    """What is missing would be undefined, what is left over lost."""
    array = f"memref<8x128xf32, #tpu.memory_space<{space}>>"
    text = kernel(f"%x: {array}, %o: {array}", "", grid="")
    for given, made in ((rows, 8), (8, rows)):
        with pytest.raises(Diagnostic, match=rf"shape \[{rows}, 128\] where the kernel") as caught:
            run(text, np.zeros((given, 128), np.float32), results=[((made, 128), "float32")])
        assert caught.value.code == "call-mismatch" and caught.value.location is not None


@pytest.mark.parametrize("block", ["8, 64", "16, 128", "8, 0", "128"])
def test_a_block_has_the_shape_of_the_ref(block: str) -> None:
    index = ["%i", "%z"][: block.count(",") + 1]
    text = kernel(
        f"%x: {BLOCK}, %o: {BLOCK}", COPY, grid="3",
        windows=f"{window(0, block)}, {window(1, ROW)}",
        transforms=transform(0, "%i: i32", "", *index) + transform(1, "%i: i32", "", "%i", "%z"),
    )  # fmt: skip
    with pytest.raises(
        Diagnostic, match=r"the block is .* shape \(8, 128\)|must be positive"
    ) as caught:
        run(text, np.zeros((24, 128), np.float32), results=[((24, 128), "float32")])
    assert caught.value.code == "window-bounds"


def test_edge_blocks_copy_the_part_inside(driver: str) -> None:
    text = kernel(
        f"%x: {BLOCK}, %o: {BLOCK}", COPY, grid="3",
        windows=f"{window(0, ROW)}, {window(1, ROW)}",
        transforms=transform(0, "%i: i32", "", "%i", "%z") + transform(1, "%i: i32", "", "%i", "%z"),
    )  # fmt: skip
    x = np.random.default_rng(0).standard_normal((20, 100)).astype(np.float32)
    (out,) = run(text, x, results=[((20, 100), "float32")], driver=driver)
    np.testing.assert_array_equal(out, x)


def test_outputs_accumulate_while_their_block_stays(driver: str) -> None:
    body = f"""
        %first = arith.cmpi eq, %i1, %z : i32
        scf.if %first {{
          %zero = arith.constant dense<0.0> : vector<8x128xf32>
          tpu.vector_store %o[%c0, %c0], %zero {{strides = array<i32>}} : {BLOCK}, vector<8x128xf32>,
        }}
        %a = vector.load %o[%c0, %c0] : {BLOCK}, vector<8x128xf32>
        %v = vector.load %x[%c0, %c0] : {BLOCK}, vector<8x128xf32>
        %s = arith.addf %a, %v : vector<8x128xf32>
        tpu.vector_store %o[%c0, %c0], %s {{strides = array<i32>}} : {BLOCK}, vector<8x128xf32>,
    """
    text = kernel(
        f"%x: {BLOCK}, %o: {BLOCK}", body, grid="2, 3",
        windows=f"{window(0, ROW)}, {window(1, ROW)}",
        transforms=transform(0, "%i: i32, %j: i32", "", "%i", "%j")
        + transform(1, "%i: i32, %j: i32", "", "%i", "%z"),
    )  # fmt: skip
    x = np.arange(16 * 384, dtype=np.float32).reshape(16, 384)
    (out,) = run(text, x, results=[((16, 128), "float32")], driver=driver)
    np.testing.assert_array_equal(out, x.reshape(16, 3, 128).sum(1))


def test_returning_to_an_output_block_is_an_error() -> None:
    text = kernel(
        f"%x: {BLOCK}, %o: {BLOCK}", COPY, grid="2, 2",
        windows=f"{window(0, ROW)}, {window(1, ROW)}",
        transforms=transform(0, "%i: i32, %j: i32", "", "%i", "%z")
        + transform(1, "%i: i32, %j: i32", "", "%j", "%z"),
    )  # fmt: skip
    with pytest.raises(
        ExecutionError, match=r"block \[0, 0\] of output 0 \(%o\) is visited again at grid"
    ):
        run(text, np.zeros((16, 128), np.float32), results=[((16, 128), "float32")])


def test_revisit_any_reloads_the_block() -> None:
    revisits = (
        "pipeline_mode = #tpu.pipeline_mode<synchronous>, revisit_mode = #tpu.revisit_mode<any>, "
    )
    body = f"""
        %first = arith.cmpi eq, %i0, %z : i32
        scf.if %first {{
          %zero = arith.constant dense<0.0> : vector<8x128xf32>
          tpu.vector_store %o[%c0, %c0], %zero {{strides = array<i32>}} : {BLOCK}, vector<8x128xf32>,
        }}
        %a = vector.load %o[%c0, %c0] : {BLOCK}, vector<8x128xf32>
        %one = arith.constant dense<1.0> : vector<8x128xf32>
        %s = arith.addf %a, %one : vector<8x128xf32>
        tpu.vector_store %o[%c0, %c0], %s {{strides = array<i32>}} : {BLOCK}, vector<8x128xf32>,
    """
    text = kernel(
        f"%o: {BLOCK}", body, grid="3, 2", windows=window(0, ROW, revisits),
        transforms=transform(0, "%i: i32, %j: i32", "", "%j", "%z"),
    )  # fmt: skip
    (out,) = run(text, results=[((16, 128), "float32")])
    np.testing.assert_array_equal(out, 3)


@pytest.mark.parametrize("index", ["%two", "%minus"])
def test_a_block_outside_is_an_error(index: str) -> None:
    constants = "%two = arith.constant 2 : i32\n  %minus = arith.constant -1 : i32"
    text = kernel(
        f"%x: {BLOCK}, %o: {BLOCK}", COPY, grid="1",
        windows=f"{window(0, ROW)}, {window(1, ROW)}",
        transforms=transform(0, "%i: i32", constants, index, "%z")
        + transform(1, "%i: i32", "", "%i", "%z"),
    )  # fmt: skip
    with pytest.raises(ExecutionError, match=r"of input 0 \(%x\) lies outside the array"):
        run(text, np.zeros((16, 128), np.float32), results=[((8, 128), "float32")])


def test_element_windows_start_anywhere_and_pad(driver: str) -> None:
    element = "window_kind = #tpu.element_window<[4, 0], [8, 0]>, "
    text = kernel(
        f"%x: {BLOCK}, %o: {BLOCK}", COPY, grid="3",
        windows=f"{window(0, ROW, element)}, {window(1, ROW)}",
        transforms=transform(
            0, "%i: i32", "%c8 = arith.constant 8 : i32\n %r = arith.muli %i, %c8 : i32", "%r", "%z"
        )
        + transform(1, "%i: i32", "", "%i", "%z"),
    )  # fmt: skip
    x = np.arange(18 * 128, dtype=np.float32).reshape(18, 128)
    (out,) = run(text, x, results=[((24, 128), "float32")], driver=driver)
    np.testing.assert_array_equal(out[4:22], x)


def test_scalar_prefetch_steers_the_blocks(driver: str) -> None:
    table = f"memref<3xi32, {SMEM}>"
    look_up = f"%n = arith.index_cast %i : i32 to index\n %b = memref.load %t[%n] : {table}"
    text = kernel(
        f"%t: {table}, %x: {BLOCK}, %o: {BLOCK}", COPY, grid="3", prefetch=1,
        windows=f"{window(0, ROW)}, {window(1, ROW)}",
        transforms=transform(0, f"%i: i32, %t: {table}", look_up, "%b", "%z")
        + transform(1, f"%i: i32, %t: {table}", "", "%i", "%z"),
    )  # fmt: skip
    x = np.arange(24 * 128, dtype=np.float32).reshape(24, 128)
    order = np.array([2, 0, 1], np.int32)
    (out,) = run(text, order, x, results=[((24, 128), "float32")], driver=driver)
    np.testing.assert_array_equal(out, x.reshape(3, 8, 128)[order].reshape(24, 128))


def test_dynamic_bounds_are_leading_operands(driver: str) -> None:
    body = f"""
        %n = tpu.iteration_bound 0 : i32
        %f = arith.sitofp %n : i32 to f32
        %b = vector.broadcast %f : f32 to vector<8x128xf32>
        tpu.vector_store %o[%c0, %c0], %b {{strides = array<i32>}} : {BLOCK}, vector<8x128xf32>,
    """
    text = kernel(
        f"%o: {BLOCK}", body, grid=str(DYNAMIC), windows=window(0, ROW),
        transforms=transform(0, "%i: i32", "", "%i", "%z"),
    )  # fmt: skip
    (out,) = run(text, np.int32(2), results=[((24, 128), "float32")], driver=driver)
    np.testing.assert_array_equal(out[:16], 2)
    assert not np.any(out[16:] == 2)


def test_an_empty_grid_runs_nothing() -> None:
    text = kernel(
        f"%x: {BLOCK}, %o: {BLOCK}", COPY, grid="0",
        windows=f"{window(0, ROW)}, {window(1, ROW)}",
        transforms=transform(0, "%i: i32", "", "%i", "%z") + transform(1, "%i: i32", "", "%i", "%z"),
    )  # fmt: skip
    x = np.ones((8, 128), np.float32)
    (out,) = run(text, x, results=[((8, 128), "float32")])
    assert not np.any(out == 1)
    (kept,) = run(text, x, results=[((8, 128), "float32")], aliases={0: 0})
    np.testing.assert_array_equal(kept, 1)


def test_aliased_outputs_keep_unvisited_blocks(driver: str) -> None:
    text = kernel(
        f"%x: {BLOCK}, %o: {BLOCK}", COPY, grid="1",
        windows=f"{window(0, ROW)}, {window(1, ROW)}",
        transforms=transform(0, "%i: i32", "", "%i", "%z")
        + transform(1, "%i: i32", "%c1 = arith.constant 1 : i32", "%c1", "%z"),
    )  # fmt: skip
    x = np.arange(24 * 128, dtype=np.float32).reshape(24, 128)
    (out,) = run(text, x, results=[((24, 128), "float32")], aliases={0: 0}, driver=driver)
    np.testing.assert_array_equal(out.reshape(3, 8, 128), x.reshape(3, 8, 128)[[0, 0, 2]])
    np.testing.assert_array_equal(x[8:16], np.arange(8 * 128, 16 * 128).reshape(8, 128))


def test_scratch_persists_between_steps(driver: str) -> None:
    counter = f"memref<1xi32, {SMEM}>"
    body = f"""
        %first = arith.cmpi eq, %i0, %z : i32
        scf.if %first {{
          memref.store %z, %s[%c0] : {counter}
        }}
        %n = memref.load %s[%c0] : {counter}
        %one = arith.constant 1 : i32
        %m = arith.addi %n, %one : i32
        memref.store %m, %s[%c0] : {counter}
        memref.store %m, %o[%c0] : {counter}
    """
    text = kernel(
        f"%o: {counter}, %s: {counter}", body, grid="5", windows=window(0, "1"), scratch=1,
        transforms=transform(0, "%i: i32", "", "%z"),
    )  # fmt: skip
    (out,) = run(text, results=[((1,), "int32")], driver=driver)
    assert out.tolist() == [5]


def test_without_a_grid_whole_arrays_go_in_and_out(driver: str) -> None:
    text = kernel(f"%x: {BLOCK}, %o: {BLOCK}", COPY, grid="")
    x = np.random.default_rng(0).standard_normal((8, 128)).astype(np.float32)
    (out,) = run(text, x, results=None, driver=driver)
    np.testing.assert_array_equal(out, x)


def test_operands_anywhere_are_seen_in_place(driver: str) -> None:
    there, sem = f"memref<8x128xf32, {ANY}>", "#tpu.memory_space<semaphore_mem>"
    dma = f"memref<!tpu.dma_semaphore, {sem}>"
    body = f"""
        tpu.enqueue_dma source(%x : {there}) target(%o : {there}) target_semaphore(%s : {dma})
        tpu.wait_dma2 semaphore(%s : {dma}) src(%x : {there}) dst(%o : {there})
    """
    text = kernel(
        f"%x: {there}, %o: {there}, %s: {dma}", body, grid="1", windows="{}, {}", scratch=1
    )
    x = np.random.default_rng(0).standard_normal((8, 128)).astype(np.float32)
    (out,) = run(text, x, results=None, driver=driver)
    np.testing.assert_array_equal(out, x)


def test_padded_and_tiled_blocks_hold_smaller_arrays(driver: str) -> None:
    padded = f"memref<16x256xf32, #tpu.tiled<(8,128),[2,1]>, {VMEM}>"
    body = f"""
        %v = vector.load %x[%c0, %c0] : {padded}, vector<16x256xf32>
        tpu.vector_store %o[%c0, %c0], %v {{strides = array<i32>}} : {padded}, vector<16x256xf32>,
    """
    text = kernel(f"%x: {padded}, %o: {padded}", body, grid="")
    x = np.random.default_rng(0).standard_normal((13, 200)).astype(np.float32)
    (out,) = run(text, x, results=[((13, 200), "float32")], driver=driver)
    np.testing.assert_array_equal(out, x)


S = "pipeline_mode = #tpu.pipeline_mode<synchronous>, "


@pytest.mark.parametrize("form", ["mosaic", "dma"])
@pytest.mark.parametrize(
    ("back", "input_mode", "output_mode", "refused"),
    [(0, "", "", False), (1, "", "", True), (2, "", "", True), (3, "", "", False),
     (1, S, "", True), (1, "", S, True), (1, S, S, False), (2, S, "", False), (2, "", S, False)],
)  # fmt: skip
def test_an_input_must_not_read_what_its_alias_just_wrote(
    form: str, back: int, input_mode: str, output_mode: str, refused: bool
) -> None:
    """In step i the input is block max(i - back, 0) of the array whose block i is written."""
    earlier = f"%k = arith.constant {back} : i32\n%d = arith.subi %i0, %k : i32\n%m = arith.maxsi %d, %z : i32"
    text = kernel(
        f"%x: {BLOCK}, %o: {BLOCK}", COPY, grid="6",
        windows=f"{window(0, ROW, input_mode)}, {window(1, ROW, output_mode)}",
        transforms=transform(0, "%i0: i32", earlier, "%m", "%z") + transform(1, "%i0: i32", "", "%i0", "%z"),
    )  # fmt: skip
    array = np.arange(48 * 128, dtype=np.float32).reshape(48, 128)

    def result() -> Any:
        return pallasite.run(
            read(text), [array], form=form, results=[((48, 128), "float32")], aliases={0: 0}
        )[0]

    if refused:
        with pytest.raises(Diagnostic) as caught:
            result()
        assert caught.value.code == "broken-promise"
        return
    expected = array.copy()
    for i in range(6):
        source = max(i - back, 0)
        expected[8 * i : 8 * i + 8] = expected[8 * source : 8 * source + 8]
    np.testing.assert_array_equal(result(), expected)
