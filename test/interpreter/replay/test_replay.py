"""Which kernels are recorded, what a script holds, and what has it not run."""

# ruff: noqa: E501 (MLIR)

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from pallasite import api
from pallasite.diagnostics import ExecutionError
from pallasite.dialects import tpu
from pallasite.interpreter.machine.order import IN_ORDER, Order
from pallasite.interpreter.machine.spare import Spare
from pallasite.interpreter.options import Options
from pallasite.interpreter.replay import recorder, repeats
from pallasite.interpreter.replay.repeats import BEFORE, Replay
from pallasite.interpreter.replay.script import Script
from pallasite.interpreter.run import Outcome, Prepared, execute, prepare
from pallasite.targets import get_target

V5E = get_target("v5e")
ANY, VMEM, SMEM, SEMAPHORE = (
    f"#tpu.memory_space<{s}>" for s in ("any", "vmem", "smem", "semaphore_mem")
)
WHOLE, BUFFER = f"memref<16x256xf32, {ANY}>", f"memref<16x256xf32, {VMEM}>"
DONE, VECTOR = f"memref<!tpu.dma_semaphore, {SEMAPHORE}>", "vector<16x256xf32>"


def copy(source: str, target: str, kinds: tuple[str, str]) -> str:
    first, second = kinds
    return f"""
      tpu.enqueue_dma source(%{source} : {first}) target(%{target} : {second}) target_semaphore(%done : {DONE})
      tpu.wait_dma2 semaphore(%done : {DONE}) src(%{source} : {first}) dst(%{target} : {second})
    """


def kernel(body: str, times: int = 1) -> Prepared:
    """Copies x to VMEM, does `body` with it so many times, and copies what that leaves to o."""
    text = f"""
    module attributes {{tpu.call = {{operands = [tensor<16x256xf32>], results = [tensor<16x256xf32>], aliases = array<i64>, settings = "{{}}"}}}} {{
    func.func @main(%x: {WHOLE}, %o: {WHOLE}) attributes {{dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>}} {{
      "tpu.region"() ({{
        %c0 = arith.constant 0 : index
        %buffer = memref.alloca() : {BUFFER}
        %done = tpu.sem_alloc : {DONE}
        {copy("x", "buffer", (WHOLE, BUFFER))}
        {body * times}
        {copy("buffer", "o", (BUFFER, WHOLE))}
        tpu.yield
      }}) : () -> ()
      return
    }} }}"""
    return prepare(api.lower(api.parse(text), "tiles", "v5e"), target=V5E)


def twice(n: int = 0) -> str:
    return f"""
      %a{n} = vector.load %buffer[%c0, %c0] : {BUFFER}, {VECTOR}
      %b{n} = arith.addf %a{n}, %a{n} : {VECTOR}
      vector.store %b{n}, %buffer[%c0, %c0] : {BUFFER}, {VECTOR}
    """


CHOICE = f"""
  %a = vector.load %buffer[%c0, %c0] : {BUFFER}, {VECTOR}
  %first = vector.extract %a[0, 0] : f32 from {VECTOR}
  %zero = arith.constant 0.0 : f32
  %positive = arith.cmpf ogt, %first, %zero : f32
  scf.if %positive {{
    %b = arith.addf %a, %a : {VECTOR}
    vector.store %b, %buffer[%c0, %c0] : {BUFFER}, {VECTOR}
  }}
"""
"""What the kernel does depends on the operand."""


def array(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((16, 256)).astype(np.float32)


def run(prepared: Prepared, x: Any, *, spare: Spare | None = None, **options: Any) -> Outcome:
    module, wanted = prepared.described.module, Options.of(**options)
    return execute(module, [[x]], wanted, target=V5E, prepared=prepared, spare=spare)


def recorded(prepared: Prepared, **options: Any) -> Prepared:
    for _ in range(BEFORE + 1):
        run(prepared, array(), **options)
    return prepared


def replay_of(prepared: Prepared) -> Replay:
    (replay,) = prepared.repeats.replays.values()
    return replay


def is_replayed(prepared: Prepared) -> bool:
    return bool(prepared.repeats.replays)


def test_a_script_runs_in_place_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = kernel(twice())
    for _ in range(BEFORE):
        run(prepared, array())
        assert not is_replayed(prepared)
    first = run(prepared, array())
    assert is_replayed(prepared)
    monkeypatch.setattr("pallasite.interpreter.run.Machine", None)
    later = run(prepared, array(7))
    np.testing.assert_array_equal(later.outputs[0][0], array(7) * 2)
    assert (later.memory, later.transfers) == (first.memory, first.transfers)


def test_other_orders_of_transfers_have_no_script() -> None:
    """What is stored while a copy is in flight is there after it, or is not."""
    start, wait = copy("x", "buffer", (WHOLE, BUFFER)).strip().split("\n")
    zeros = f"%zeros = arith.constant dense<0.0> : {VECTOR}"
    store = f"vector.store %zeros, %buffer[%c0, %c0] : {BUFFER}, {VECTOR}"
    prepared = recorded(kernel(f"{start}\n{zeros}\n{store}\n{wait}"))
    assert is_replayed(prepared)
    for order, left in ((Order("eager"), 0), (IN_ORDER, array(7)), (Order("eager"), 0)):
        found = execute(
            prepared.described.module, [[array(7)]], Options(order=order), target=V5E,
            prepared=prepared,
        )  # fmt: skip
        np.testing.assert_array_equal(found.outputs[0][0], left)


def test_rows_are_loaded_and_stored_as_views() -> None:
    """A register of which one row is there, and the rest poison."""
    row = "vector<1x256xf32>"
    body = f"""
      %c3 = arith.constant 3 : index
      %c9 = arith.constant 9 : index
      %a = vector.load %buffer[%c3, %c0] : {BUFFER}, {row}
      %b = arith.addf %a, %a : {row}
      vector.store %b, %buffer[%c9, %c0] : {BUFFER}, {row}
    """
    replay = replay_of(recorded(kernel(body)))
    assert "m0)" not in replay.script.text.partition("\n")[2]
    x = array(7)
    (found,), _ = replay.script.run([x], None)
    x[9] = x[3] * 2
    np.testing.assert_array_equal(found, x)


def test_joined_parts_are_what_they_were() -> None:
    """Loads of one memory that lie one behind the other are joined, and the memory is written
    before that is used."""
    wide, half, tall = f"memref<64x128xf32, {VMEM}>", "vector<32x128xf32>", "vector<64x128xf32>"
    body = f"""
      %c32 = arith.constant 32 : index
      %s = memref.alloca() : {wide}
      %row = vector.load %buffer[%c0, %c0] : {BUFFER}, vector<1x128xf32>
      %rows = vector.broadcast %row : vector<1x128xf32> to {tall}
      vector.store %rows, %s[%c0, %c0] : {wide}, {tall}
      %a = vector.load %s[%c0, %c0] : {wide}, {half}
      %b = vector.load %s[%c32, %c0] : {wide}, {half}
      %ab = tpu.concatenate %a, %b in 0 : {half}, {half} -> {tall}
      %twice = arith.addf %rows, %rows : {tall}
      vector.store %twice, %s[%c0, %c0] : {wide}, {tall}
      %now = vector.load %s[%c0, %c0] : {wide}, {tall}
      %sum = arith.addf %ab, %now : {tall}
      %first = vector.extract_strided_slice %sum {{offsets = [0, 0], sizes = [16, 128], strides = [1, 1]}} : {tall} to vector<16x128xf32>
      vector.store %first, %buffer[%c0, %c0] : {BUFFER}, vector<16x128xf32>
    """
    prepared = recorded(kernel(body))
    assert is_replayed(prepared)
    found = run(prepared, array(7)).outputs[0][0]
    np.testing.assert_array_equal(found[:, :128], np.tile(array(7)[:1, :128] * 3, (16, 1)))


def test_what_depends_on_operands_is_not_recorded() -> None:
    prepared = recorded(kernel(CHOICE))
    assert prepared.repeats.hopeless and not is_replayed(prepared)
    for x in (np.abs(array()), -np.abs(array())):
        expected = x * 2 if x[0, 0] > 0 else x
        np.testing.assert_array_equal(run(prepared, x).outputs[0][0], expected)


def test_effects_are_those_of_the_written_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program is written as it runs for the first time: until then it has none."""
    monkeypatch.setattr(repeats, "BEFORE", 0)
    monkeypatch.setattr(repeats, "REPEATABLE", repeats.REPEATABLE - {tpu.StoreOp})
    prepared = kernel(twice())
    run(prepared, array())
    assert prepared.repeats.hopeless and not is_replayed(prepared)


def test_long_runs_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MOST_LINES", 3)
    assert not is_replayed(recorded(kernel(twice())))


def test_arrays_that_are_not_contiguous() -> None:
    prepared = recorded(kernel(twice()))
    x = np.asfortranarray(array(3))
    np.testing.assert_array_equal(run(prepared, x).outputs[0][0], array(3) * 2)


def test_results_are_the_callers_and_operands_too() -> None:
    prepared, spare = recorded(kernel(twice())), Spare()
    x = array(1)
    before = run(prepared, x, spare=spare).outputs[0][0]
    kept = before.copy()
    after = run(prepared, array(2), spare=spare).outputs[0][0]
    assert before.tobytes() == kept.tobytes() and x.tobytes() == array(1).tobytes()
    before[...] = 0
    assert after.tobytes() == (array(2) * 2).tobytes()


def test_a_script_holds_no_array_of_a_call() -> None:
    prepared = kernel(twice())
    held = []
    for seed in range(BEFORE + 2):
        x = array(seed)
        result = run(prepared, x).outputs[0][0]
        held += [weakref.ref(x), weakref.ref(result)]
        del x, result
    gc.collect()
    assert is_replayed(prepared) and not any(ref() is not None for ref in held)


@pytest.mark.filterwarnings("ignore:.*uninitialised-read")
@pytest.mark.parametrize("before", ["", copy("other", "other", (BUFFER, BUFFER))])
def test_what_nobody_wrote_is_poison_in_every_run(before: str) -> None:
    """The buffer is not written, or only with itself, and has memory that an earlier run filled."""
    text = f"""
      %other = memref.alloca() : {BUFFER}
      {before}
      %a = vector.load %other[%c0, %c0] : {BUFFER}, {VECTOR}
      vector.store %a, %buffer[%c0, %c0] : {BUFFER}, {VECTOR}
      %zero = arith.constant dense<0.0> : {VECTOR}
      vector.store %zero, %other[%c0, %c0] : {BUFFER}, {VECTOR}
    """
    prepared, spare = kernel(text), Spare()
    recorded(prepared, spare=spare)
    assert is_replayed(prepared)
    for _ in range(2):
        assert np.isnan(run(prepared, array(), spare=spare).outputs[0][0]).all()


@pytest.mark.parametrize(
    "options", [{"seed": 1}, {"checks": ("race",)}, {"poison": 1}, {"max_memory": 1 << 30}]
)
def test_other_runs_go_their_way(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = recorded(kernel(twice()))
    monkeypatch.setattr(Script, "run", None)
    run(prepared, array(5), **options)
    assert is_replayed(prepared)


def test_the_limit_of_steps_holds() -> None:
    prepared = recorded(kernel(twice()))
    replay = replay_of(prepared)
    assert run(prepared, array(), max_steps=replay.limits.steps).outputs
    with pytest.raises(ExecutionError, match="steps"):
        run(prepared, array(), max_steps=replay.limits.steps - 1)


def test_a_script_that_fails_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = recorded(kernel(twice()))

    def fails(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(Script, "run", fails)
    np.testing.assert_array_equal(run(prepared, array(4)).outputs[0][0], array(4) * 2)
    assert prepared.repeats.hopeless and not is_replayed(prepared)


def test_a_script_that_cannot_be_written_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise IndexError

    monkeypatch.setattr(Script, "of", fails)
    prepared = recorded(kernel(twice()))
    np.testing.assert_array_equal(run(prepared, array(4)).outputs[0][0], array(4) * 2)
    assert prepared.repeats.hopeless and not is_replayed(prepared)
