"""Runs of one program use the same refs again, and see nothing of each other."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from xdsl.dialects.builtin import Float32Type, MemRefType
from xdsl.parser import Parser

from pallasite.api import lower, with_call
from pallasite.diagnostics import ExecutionError
from pallasite.dialects import make_context
from pallasite.dialects.tpu import MemorySpaceAttr
from pallasite.interpreter.machine import dma
from pallasite.interpreter.machine.machine import Machine
from pallasite.interpreter.machine.register_access import access
from pallasite.interpreter.machine.renewal import MOST_ACCESSES, MOST_REFS
from pallasite.interpreter.machine.rows import pattern
from pallasite.interpreter.options import Options
from pallasite.interpreter.run import Prepared, execute, prepare
from pallasite.targets import get_target

TARGET = get_target("v5e")
# Row %n of scratch is stored to, if it is not negative; all of it, and what it held before, goes to
# the output.
SCRATCH = """
func.func @main(%n: memref<1xi32, #tpu.memory_space<smem>>,
                %x: memref<8x128xf32, #tpu.memory_space<vmem>>,
                %o: memref<16x128xf32, #tpu.memory_space<vmem>>)
    attributes {tpu.core_type = #tpu.core_type<tc>} {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %none = arith.constant 0 : i32
  %held = memref.alloca() : memref<8x128xf32, #tpu.memory_space<vmem>>
  %before = vector.load %held[%c0, %c0]
      : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  vector.store %before, %o[%c0, %c0]
      : memref<16x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  %row = memref.load %n[%c0] : memref<1xi32, #tpu.memory_space<smem>>
  %some = arith.cmpi sge, %row, %none : i32
  scf.if %some {
    %place = arith.index_cast %row : i32 to index
    %v = vector.load %x[%c0, %c0]
        : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<1x128xf32>
    vector.store %v, %held[%place, %c0]
        : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<1x128xf32>
  }
  %after = vector.load %held[%c0, %c0]
      : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  vector.store %after, %o[%c8, %c0]
      : memref<16x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  return
}
"""


def prepared(driver: str = "compiled", poison: int = 0, form: str = "mosaic") -> Prepared:
    module = Parser(make_context(), SCRATCH, "kernel.mlir").parse_module()
    if form != "mosaic":
        module = lower(with_call(module, inputs(0, 0), [((16, 128), np.float32)]), form, "v5e")
    return prepare(module, Options(poison=poison), target=TARGET, driver=driver)


def inputs(row: int, value: float) -> list[np.ndarray]:
    return [np.array([row], np.int32), np.full((8, 128), value, np.float32)]


def run(kernel: Prepared, row: int, value: float, devices: int = 1, **options: int) -> np.ndarray:
    outcome = execute(
        kernel.described.module, [inputs(row, value)] * devices, Options.of(**options),
        target=TARGET, prepared=kernel,
    )  # fmt: skip
    assert outcome.memory["vmem_peak_bytes"] == (8 + 16 + 8) * 512
    return outcome.outputs[-1][0]


@pytest.mark.filterwarnings("ignore:.*uninitialised-read")
@pytest.mark.parametrize("driver", ["compiled", "reference"])
@pytest.mark.parametrize("poison", [0, 1])
@pytest.mark.parametrize("form", ["mosaic", "tiles", "vreg"])
def test_every_run_is_like_the_first(driver: str, poison: int, form: str) -> None:
    kernel = prepared(driver, poison, form)
    for row, value in ((0, 1.0), (3, 2.0), (-1, 3.0), (3, 4.0)):
        fresh = run(prepared(driver, poison, form), row, value, poison=poison)
        again = run(kernel, row, value, poison=poison)
        assert again.tobytes() == fresh.tobytes()
        assert not (again[:8] == value).any()


def test_results_are_the_callers() -> None:
    kernel = prepared()
    first = run(kernel, 0, 1.0)
    kept = first.copy()
    run(kernel, 0, 2.0)
    assert first.tobytes() == kept.tobytes()


def test_as_many_devices_as_there_are() -> None:
    kernel = prepared()
    for devices in (1, 2, 1):
        assert (run(kernel, 2, 5.0, devices)[10] == 5).all()
        assert len(kernel.left) == devices


def test_a_failed_run_leaves_nothing() -> None:
    kernel = prepared()
    run(kernel, 0, 1.0)
    with pytest.raises(ExecutionError, match="outside"):
        run(kernel, 8, 1.0)
    assert not kernel.left
    assert (run(kernel, 7, 6.0)[15] == 6).all()


def test_no_array_of_the_call_stays() -> None:
    kernel = prepared()
    x = np.ones((8, 128), np.float32)
    row = np.zeros(1, np.int32)
    execute(kernel.described.module, [[row, x]], target=TARGET, prepared=kernel)
    gc.collect()
    arrays = [a for a in gc.get_referrers(x) if isinstance(a, np.ndarray)]
    assert not arrays


VECTORS = MemRefType(Float32Type(), (64, 128), memory_space=MemorySpaceAttr("vmem"))


def machine(before: Machine | None = None) -> Machine:
    earlier = () if before is None else [c.allocations.retire() for c in before.cores]
    return Machine(TARGET, earlier=earlier)


def test_refs_know_what_was_done_with_them() -> None:
    first = machine()
    ref = first.cores[0].allocate(VECTORS, "first")
    part = ref.slice((8, 0), (8, 128))
    part.write(np.ones((8, 128), np.float32))
    second = machine(first)
    again = second.cores[0].allocate(VECTORS, "second")
    assert again is ref and again.slice((8, 0), (8, 128)) is part
    assert again.buffer.memory is second.cores[0].vmem and again.buffer.name == "second"
    assert np.isnan(again.read()).all()


def test_other_allocations_get_other_refs() -> None:
    first = machine()
    refs = [first.cores[0].allocate(VECTORS) for _ in range(3)]
    second = machine(first)
    core = second.cores[0]
    assert core.allocate(VECTORS) is refs[0]
    core.allocate(VECTORS, zero=True)
    third = core.allocate(VECTORS)
    assert third is not refs[2] and third.buffer is not refs[2].buffer


def test_a_ref_at_another_address_has_another_buffer() -> None:
    first = machine()
    ref = first.cores[0].allocate(VECTORS)
    second = machine(first)
    second.cores[0].vmem.allocate(512, "in front")
    again = second.cores[0].allocate(VECTORS)
    assert again is not ref and again.buffer is not ref.buffer
    assert (again.shape, again.digits) == (ref.shape, ref.digits)
    assert again.address == 512


def test_too_many_views_are_forgotten() -> None:
    first = machine()
    ref = first.cores[0].allocate(VECTORS)
    for row in range(32):
        part = ref.slice((row, 0), (32, 128))
        for column in range(32):
            part.slice((0, column), (32, 1)).slice((0, 0), (16, 1))
    machine(first)
    assert 1 + 32 + 2 * 32 * 32 > MOST_REFS
    assert not ref.views


LARGE = MemRefType(Float32Type(), (4096, 128), memory_space=MemorySpaceAttr("vmem"))


@pytest.mark.parametrize("type", [VECTORS, LARGE])
def test_accesses_find_the_memory_of_each_run(type: MemRefType) -> None:
    one = pattern((8, 128))
    first = machine()
    ref = first.cores[0].allocate(type)
    found = access(ref, "store", (8, 0), one, None)
    found.store(ref, np.ones((8, 128), np.float32))
    assert (found.load(ref) == 1).all() and (found.look(ref) == 1).all()
    second = machine(first)
    again = second.cores[0].allocate(type)
    assert access(again, "load", (8, 0), one, None) is found
    assert np.isnan(found.look(again)).all() and np.isnan(found.load(again)).all()
    found.store(again, np.full((8, 128), 2, np.float32))
    assert (again.load((8, 0), (8, 128)) == 2).all() and np.isnan(again.load((16, 0), (8, 8))).all()


@pytest.mark.parametrize("type", [VECTORS, LARGE])
def test_transfers_find_the_memory_of_each_run(type: MemRefType) -> None:
    one = two = before = None
    for value in (1, 2):
        before = machine(before)
        one, two = (before.cores[0].allocate(type) for _ in range(2))
        part, other = one.slice((8, 0), (8, 128)), two.slice((16, 0), (8, 128))
        for number in (value, value + 0.5):
            part.write(np.full((8, 128), number, np.float32))
            dma.copy(part, other)
            assert (other.read() == number).all()
        assert np.isnan(two.load((0, 0), (16, 128))).all()
    large = type is LARGE
    machine(before)
    assert (part.moved is None) == (other.moved is None) == large, "held by the next run only"


def test_transfers_of_a_ref_go_where_each_of_them_goes() -> None:
    core = machine().cores[0]
    first, second = (core.allocate(VECTORS) for _ in range(2))
    whole = core.allocate(MemRefType(Float32Type(), (64, 256), memory_space=VECTORS.memory_space))
    first.write(np.ones((64, 128), np.float32))
    second.write(np.full((64, 128), 2, np.float32))
    for source, column in ((first, 0), (second, 128), (second, 0), (first, 128)):
        place = whole.slice((0, column), (64, 128))
        dma.copy(source, place)
        assert (place.read() == source.read()).all()
    assert (whole.read()[:, :128] == 2).all() and (whole.read()[:, 128:] == 1).all()


def test_too_many_accesses_are_forgotten() -> None:
    first = machine()
    refs = [first.cores[0].allocate(LARGE) for _ in range(3)]
    for ref in refs:
        for row in range(0, 4096, 8):
            access(ref, "load", (row, 0), pattern((8, 128)), None)
    machine(first)
    kept = [len(ref.registers or ()) for ref in refs]
    assert kept == [512, 512, 0] and sum(kept) <= MOST_ACCESSES
