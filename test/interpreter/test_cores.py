"""Two cores of one device: how they share a grid, and how they talk (spec/pallas_semantics.md 2.5)."""

# ruff: noqa: E501 (MLIR)

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import pallasite
from pallasite import Diagnostic, api
from pallasite.dialects.core_split import CoreSplit, core_split
from pallasite.dialects.kernel import DYNAMIC, describe_kernel, functions_of, kernel_function

VMEM, ANY = (f"#tpu.memory_space<{space}>" for space in ("vmem", "any"))
BLOCK, WHOLE, ARRAY = (
    f"memref<8x128xf32, {VMEM}>",
    f"memref<8x128xf32, {ANY}>",
    f"memref<16x128xf32, {ANY}>",
)
SEMAPHORE = "memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>"
DMA = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"
FORMS = ("mosaic", "dma", "tiles", "vreg")


def double(grid: str, semantics: str, results: str = "%a0, %z", source: str = "") -> str:
    """Every block of an array times two; `results` is the index map over %a0, %a1, ..."""
    axes = range(grid.count(",") + 1)
    points = ", ".join(f"%a{axis}: i32" for axis in axes)
    words = ", ".join(f"#tpu.dimension_semantics<{word}>" for word in semantics.split(", "))
    window = "{transform_indices = @t, window_bounds = array<i64: 8, 128>}"
    return f"""module {{
      func.func @kernel({points}, %x: {BLOCK}, %o: {BLOCK}) attributes {{
          dimension_semantics = [{words}], iteration_bounds = array<i64: {grid}>,
          window_params = [{window}, {window}], scalar_prefetch = 0 : i64,
          scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>}} {{
        %c = arith.constant 0 : index
        %v = vector.load %x[%c, %c] : {BLOCK}, vector<8x128xf32>
        %w = arith.addf %v, %v : vector<8x128xf32>
        tpu.vector_store %o[%c, %c], %w {{strides = array<i32>}} : {BLOCK}, vector<8x128xf32>,
        return
      }}
      func.func @t({points}) -> (i32, i32) {{
        %z = arith.constant 0 : i32
        %two = arith.constant 2 : i32
        %half = arith.remsi %a0, %two : i32
        return {results} : i32, i32
      }}
    }}"""


def split_of(text: str, cores: int = 2) -> CoreSplit | None:
    module = pallasite.parse(text)
    func = kernel_function(module)
    assert func is not None
    return core_split(describe_kernel(func), functions_of(module), [1], cores)


@pytest.mark.parametrize(
    ("grid", "semantics", "results", "axis"),
    [
        ("4", "parallel", "%a0, %z", 0),
        ("4", "arbitrary", "%a0, %z", None),
        ("4", "core_parallel", "%a0, %z", "core-parallel"),
        ("2", "core_parallel", "%a0, %z", 0),
        ("3, 4", "parallel, parallel", "%a0, %a1", 1),  # the first that two divides
        ("3, 5", "parallel, parallel", "%a0, %a1", 1),  # else the longest
        ("3, 4", "parallel, arbitrary", "%a0, %a1", 0),
        ("3, 4", "arbitrary, parallel", "%a0, %a1", None),  # not in the prefix
        ("4, 4", "parallel, parallel", "%a1, %z", 1),  # the first repeats output blocks
        ("1, 1", "parallel, parallel", "%a0, %a1", None),
        (f"{DYNAMIC}, 3", "parallel, parallel", "%a0, %a1", 1),
        (f"{DYNAMIC}, 1", "parallel, parallel", "%a0, %a1", 0),
    ],
)
def test_axis(grid: str, semantics: str, results: str, axis: int | str | None) -> None:
    text = double(grid, semantics, results)
    if isinstance(axis, str):
        with pytest.raises(Diagnostic) as caught:
            split_of(text)
        assert caught.value.code == axis
        return
    found = split_of(text)
    assert (found and found.axis) == axis
    if semantics.startswith("parallel"):
        assert split_of(text, cores=1) is None


def test_parts_are_contiguous_and_even() -> None:
    assert [CoreSplit(0, 2).part(core, 5) for core in (0, 1)] == [(0, 3), (3, 2)]
    assert [CoreSplit(0, 2).part(core, 4) for core in (0, 1)] == [(0, 2), (2, 2)]
    assert [CoreSplit(0, 2).part(core, 0) for core in (0, 1)] == [(0, 0), (0, 0)]
    assert [CoreSplit(0, 4).part(core, 3) for core in range(4)] == [(0, 1), (1, 1), (2, 1), (3, 0)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("grid", "semantics", "results", "shape"),
    [
        ("4", "parallel", "%a0, %z", (32, 128)),
        ("5", "parallel", "%a0, %z", (36, 128)),  # an edge block, and an uneven split
        ("3, 2", "parallel, arbitrary", "%a0, %a1", (24, 256)),
        ("1, 4", "parallel, parallel", "%a0, %a1", (8, 512)),
        ("2", "core_parallel", "%a0, %z", (16, 128)),
        ("1", "parallel", "%a0, %z", (8, 128)),
    ],
)
def test_grids_give_the_same_on_two_cores(
    form: str, grid: str, semantics: str, results: str, shape: tuple[int, int]
) -> None:
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    module = pallasite.parse(double(grid, semantics, results))
    target = "v5p" if semantics == "core_parallel" else "v4"  # the compiler's: check_core_axes
    for seed in range(3):
        (doubled,) = pallasite.run(
            module, [array], form=form, target=target, results=[(shape, "float32")],
            checks=["all"], seed=seed,
        )  # fmt: skip
        np.testing.assert_array_equal(doubled, array * 2)


@pytest.mark.filterwarnings("ignore:.*unwritten-output")
@pytest.mark.parametrize("form", ["mosaic", "dma", "vreg"])
@pytest.mark.parametrize("size", [0, 1, 4, 5])
def test_a_bound_known_late_is_split_late(form: str, size: int) -> None:
    array = np.ones((40, 128), np.float32)
    module = pallasite.parse(double(str(DYNAMIC), "parallel"))
    (doubled,) = pallasite.run(
        module, [np.int32(size), array], form=form, target="v5p", checks=["all"],
        results=[((40, 128), "float32")],
    )  # fmt: skip
    np.testing.assert_array_equal(doubled[: 8 * size], 2)


@pytest.mark.parametrize("form", ["mosaic", "dma"])
def test_two_cores_must_not_share_an_output_block(form: str) -> None:
    module = pallasite.parse(double("4", "parallel", "%half, %z"))
    with pytest.raises(Diagnostic) as caught:
        pallasite.run(
            module, [np.ones((16, 128), np.float32)], form=form, target="v4",
            results=[((16, 128), "float32")],
        )  # fmt: skip
    assert caught.value.code == "block-revisited"


def mesh(body: str, cores: int = 2) -> str:
    """A kernel over a mesh of cores: `%me` is the core, `%other` its neighbour."""
    return f"""module {{
      func.func @kernel(%me: i32, %x: {ARRAY}, %o: {ARRAY}, %a: {BLOCK}, %b: {BLOCK}, %s: {DMA}, %t: {DMA}, %r: {SEMAPHORE}) attributes {{
          dimension_semantics = [#tpu.dimension_semantics<parallel>],
          iteration_bounds = array<i64: {cores}>, window_params = [{{}}, {{}}],
          scalar_prefetch = 0 : i64, scratch_operands = 5 : i64, tpu.core_type = #tpu.core_type<tc>}} {{
        %one = arith.constant 1 : i32
        %zero = arith.constant 0 : i32
        %eight = arith.constant 8 : i32
        %c = arith.constant 0 : index
        %other = arith.subi %one, %me : i32
        %row = arith.muli %me, %eight : i32
        %mine = tpu.memref_slice %x[%row, %zero] : {ARRAY} -> {WHOLE}
        %result = tpu.memref_slice %o[%row, %zero] : {ARRAY} -> {WHOLE}
        tpu.enqueue_dma source(%mine : {WHOLE}) target(%a : {BLOCK}) target_semaphore(%s : {DMA})
        tpu.wait_dma2 semaphore(%s : {DMA}) src(%mine : {WHOLE}) dst(%a : {BLOCK})
        {body}
        tpu.enqueue_dma source(%b : {BLOCK}) target(%result : {WHOLE}) target_semaphore(%s : {DMA})
        tpu.wait_dma2 semaphore(%s : {DMA}) src(%b : {BLOCK}) dst(%result : {WHOLE})
        return
      }}
    }}"""


HANDSHAKE = f"""
        tpu.sem_signal %r, %one core_id %other : {SEMAPHORE}
        tpu.sem_wait %r, %one : {SEMAPHORE}"""
SWAP = f"""
        tpu.enqueue_dma source(%a : {BLOCK}) target(%b : {BLOCK}) source_semaphore(%s : {DMA}) target_semaphore(%t : {DMA}) core_id(%other)
        tpu.wait_dma2 semaphore(%s : {DMA}) src(%a : {BLOCK}) dst(%a : {BLOCK})
        tpu.wait_dma2 semaphore(%t : {DMA}) src(%b : {BLOCK}) dst(%b : {BLOCK})"""


def swap(body: str, **options: Any) -> tuple[Any, Any]:
    array = np.random.default_rng(0).standard_normal((16, 128)).astype(np.float32)
    outcome = api.simulate(
        pallasite.parse(mesh(body)), [array], results=[((16, 128), "float32")], checks=["all"],
        **{"target": "v4", **options},
    )  # fmt: skip
    assert outcome.findings == []
    return outcome.outputs[0][0], np.concatenate([array[8:], array[:8]])


@pytest.mark.parametrize("driver", ["compiled", "reference"])
@pytest.mark.parametrize("form", FORMS)
def test_two_cores_swap(form: str, driver: str) -> None:
    for seed in range(4):
        result, expected = swap(HANDSHAKE + SWAP, form=form, driver=driver, seed=seed)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("form", ["mosaic", "dma"])
def test_cores_enter_a_kernel_together(form: str) -> None:
    for seed in range(8):
        result, expected = swap(SWAP, form=form, seed=seed)
        np.testing.assert_array_equal(result, expected)


def test_one_core_has_nobody_to_talk_to() -> None:
    with pytest.raises(Diagnostic) as caught:
        swap(HANDSHAKE + SWAP, target="v5e", form="mosaic")
    assert caught.value.code == "no-such-core"
    assert "two cores on v4 and v5p" in str(caught.value)


@pytest.mark.parametrize("form", ["mosaic", "dma"])
def test_cores_that_wait_for_each_other(form: str) -> None:
    wait = (
        f"tpu.sem_wait %r, %one : {SEMAPHORE}\ntpu.sem_signal %r, %one core_id %other : {SEMAPHORE}"
    )
    with pytest.raises(Diagnostic) as caught:
        swap(wait + SWAP, form=form)
    assert caught.value.code == "deadlock"
    assert "core 0 waits for core 1, which waits for core 0" in str(caught.value)


def test_warnings_of_parts_that_nobody_writes_name_the_device() -> None:
    module = pallasite.parse(
        """pallas.kernel @half
          input %x: tensor<8x128xf32> in vmem
          output %o: tensor<16x128xf32> in vmem
        {
          %a = pallas.load %x[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
          pallas.store %a, %o[ds(0, 8), :] : memref<16x128xf32, #tpu.memory_space<vmem>>
        }"""
    )
    x = np.zeros((8, 128), np.float32)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        pallasite.run(module, [[x], [x]], form="tiles", devices=2, checks=["init"])
    assert len(told) == 2
    for device, warning in enumerate(told):
        assert f"of output 0 (%o) on device {device} were never written" in str(warning.message)
