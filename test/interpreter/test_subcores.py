"""Subcores as text: ids that JAX does not write, the same in every form, and through the tools."""

from __future__ import annotations

import numpy as np
import pytest

from pallasite.api import lower, parse, run
from pallasite.diagnostics import Diagnostic, UsageError
from pallasite.dialects import make_context
from pallasite.dialects.kernel import form_of
from pallasite.lowering.pipelines import STEPS
from pallasite.passes.registry import get_all_passes
from pallasite.tools import tpu_run

HBM, VMEM = "#tpu.memory_space<hbm>", "#tpu.memory_space<vmem>"
SEMAPHORE = "memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>"
DMA = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"
ROW, FLAT = f"memref<16xf32, {VMEM}>", f"memref<16xf32, {HBM}>"
ROWS, ARRAY = f"memref<1x16xf32, {HBM}>", f"memref<32x16xf32, {HBM}>"


def ring(subcore: str = "%next", core: str = "%core") -> str:
    """Every subcore sends its row to the next one of its core; %x and %o are arrays of rows."""

    def copy(source: str, target: str, types: tuple[str, str], semaphore: str) -> str:
        ends = f"({source} : {types[0]}) target({target} : {types[1]})"
        wait = f"src({source} : {types[0]}) dst({target} : {types[1]})"
        return (
            f"tpu.enqueue_dma source{ends} target_semaphore({semaphore} : {DMA})\n"
            f"tpu.wait_dma2 semaphore({semaphore} : {DMA}) {wait}\n"
        )

    def row(name: str, array: str) -> str:
        return (
            f"%{name}_ = tpu.memref_slice {array}[%row, %zero] : {ARRAY} -> {ROWS}\n"
            f"%{name} = tpu.memref_squeeze %{name}_ : {ROWS} -> {FLAT}\n"
        )

    return f"""
    module attributes {{tpu.call = {{operands = [tensor<32x16xf32>], results = [tensor<32x16xf32>],
        aliases = array<i64>, settings = "{{}}"}}}} {{
      func.func @ring(%core: i32, %subcore: i32, %x: {ARRAY}, %o: {ARRAY}, %mine: {ROW},
          %came: {ROW}, %dma: {DMA}, %sent: {DMA}, %arrived: {DMA}, %ready: {SEMAPHORE})
          attributes {{
          dimension_semantics = [#tpu.dimension_semantics<core_parallel>,
            #tpu.dimension_semantics<subcore_parallel>],
          iteration_bounds = array<i64: 2, 16>, scalar_prefetch = 0 : i64,
          scratch_operands = 6 : i64, tpu.core_type = #tpu.core_type<sc_vector_subcore>}} {{
        %zero = arith.constant 0 : i32
        %one = arith.constant 1 : i32
        %all = arith.constant 16 : i32
        %last = arith.constant 15 : i32
        %first = arith.muli %core, %all : i32
        %row = arith.addi %first, %subcore : i32
        %up = arith.addi %subcore, %one : i32
        %next = arith.remsi %up, %all : i32
        %down = arith.addi %subcore, %last : i32
        %previous = arith.remsi %down, %all : i32
        {row("from", "%x")}
        {row("to", "%o")}
        {copy("%from", "%mine", (FLAT, ROW), "%dma")}
        tpu.sem_signal %ready, %one core_id %core subcore_id %previous : {SEMAPHORE}
        tpu.sem_wait %ready, %one : {SEMAPHORE}
        tpu.enqueue_dma source(%mine : {ROW}) target(%came : {ROW})
          source_semaphore(%sent : {DMA}) target_semaphore(%arrived : {DMA})
          core_id({core}) subcore_id({subcore})
        tpu.wait_dma2 semaphore(%sent : {DMA}) src(%mine : {ROW}) dst(%mine : {ROW})
        tpu.wait_dma2 semaphore(%arrived : {DMA}) src(%came : {ROW}) dst(%came : {ROW})
        {copy("%came", "%to", (ROW, FLAT), "%dma")}
        return
      }}
    }}"""


X = np.arange(512, dtype=np.float32).reshape(32, 16)
WANT = np.roll(X.reshape(2, 16, 16), 1, 1).reshape(32, 16)
CHECKS = ("race", "init", "bounds", "sync")


@pytest.mark.parametrize("driver", ["compiled", "reference"])
@pytest.mark.parametrize("form", ["mosaic", "dma", "tiles", "vreg"])
def test_rows_go_round(form: str, driver: str) -> None:
    module = parse(ring())
    for seed in (0, 3):
        (found,) = run(
            module, [X], form=form, target="v7x", checks=CHECKS, seed=seed, driver=driver
        )
        np.testing.assert_array_equal(found, WANT)


def test_the_text_is_the_same_in_every_form() -> None:
    module = parse(ring())
    lowered = lower(module, "vreg", "v7x")
    assert form_of(lowered) == "vreg"
    lowered.attributes.clear()
    bare = module.clone()
    bare.attributes.clear()
    assert str(lowered) == str(bare)
    with pytest.raises(UsageError, match="below form"):
        lower(lower(module, "vreg", "v7x"), "dma", "v7x")


@pytest.mark.parametrize("name", [name for names in STEPS.values() for name in names][1:])
def test_single_steps_leave_it_alone(name: str) -> None:
    module = parse(ring())
    before = str(next(iter(module.body.block.ops)))
    get_all_passes()[name]()().apply(make_context(), module)
    assert str(next(iter(module.body.block.ops))) == before


def test_a_subcore_that_is_not_there() -> None:
    for text in (ring(subcore="%all"), ring(core="%last")):
        with pytest.raises(Diagnostic) as raised:
            run(parse(text), [X], form="mosaic", target="v7x")
        assert raised.value.code == "no-such-core"


def test_tpu_run(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    (folder / "ring.mlir").write_text(ring())
    np.savez(folder / "in.npz", arr_0=X)
    files = [str(folder / name) for name in ("ring.mlir", "in.npz", "out.npz")]
    code = tpu_run.main(
        [files[0], "--inputs", files[1], "--outputs", files[2], "--form", "vreg", "--target", "v7x"]
    )
    assert code == 0, capsys.readouterr()
    np.testing.assert_array_equal(np.load(files[2])["arr_0"], WANT)
