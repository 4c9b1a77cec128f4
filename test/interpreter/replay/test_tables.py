"""What a kernel does as a table says is replayed for that table alone."""

# ruff: noqa: E501 (MLIR)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pallasite import api
from pallasite.diagnostics import ExecutionError
from pallasite.interpreter.options import Options
from pallasite.interpreter.replay import repeats
from pallasite.interpreter.replay.repeats import BEFORE, MOST_SCRIPTS, key_of
from pallasite.interpreter.run import Outcome, Prepared, execute, prepare
from pallasite.targets import get_target

V5E = get_target("v5e")
ANY, VMEM, SMEM, SEMAPHORE = (
    f"#tpu.memory_space<{s}>" for s in ("any", "vmem", "smem", "semaphore_mem")
)
TABLE, WHOLE = f"memref<4xi32, {SMEM}>", f"memref<32x128xf32, {ANY}>"
BLOCK, BUFFER = f"memref<8x128xf32, {ANY}>", f"memref<8x128xf32, {VMEM}>"
DONE, VECTOR = f"memref<!tpu.dma_semaphore, {SEMAPHORE}>", "vector<8x128xf32>"
BLOCKS = 4


def copy(source: str, target: str, kinds: tuple[str, str]) -> str:
    first, second = kinds
    return f"""
      tpu.enqueue_dma source(%{source} : {first}) target(%{target} : {second}) target_semaphore(%done : {DONE})
      tpu.wait_dma2 semaphore(%done : {DONE}) src(%{source} : {first}) dst(%{target} : {second})
    """


TWICE = f"""
  %a = vector.load %buffer[%c0, %c0] : {BUFFER}, {VECTOR}
  %b = arith.addf %a, %a : {VECTOR}
  vector.store %b, %buffer[%c0, %c0] : {BUFFER}, {VECTOR}
"""
GATHER = f"""
  %place = memref.load %table[%step] : {TABLE}
  %first = arith.muli %place, %eight : i32
  %from = tpu.memref_slice %x[%first, %zero] : {WHOLE} -> {BLOCK}
  %row = arith.index_cast %step : index to i32
  %begin = arith.muli %row, %eight : i32
  %to = tpu.memref_slice %o[%begin, %zero] : {WHOLE} -> {BLOCK}
  {copy("from", "buffer", (BLOCK, BUFFER))}
  {TWICE}
  {copy("buffer", "to", (BUFFER, BLOCK))}
"""
"""Block `table[step]` of x, doubled, is block `step` of o."""


def kernel(body: str, before: str = "", aliases: str = "") -> Prepared:
    """Does `body` for each block of the table; `aliases` are the operand and the result of one."""
    text = f"""
    module attributes {{tpu.call = {{operands = [tensor<4xi32>, tensor<32x128xf32>], results = [tensor<32x128xf32>], aliases = array<i64{aliases}>, settings = "{{}}"}}}} {{
    func.func @main(%table: {TABLE}, %x: {WHOLE}, %o: {WHOLE}) attributes {{dimension_semantics = [], scalar_prefetch = 1 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>}} {{
      "tpu.region"() ({{
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c2 = arith.constant 2 : index
        %c3 = arith.constant 3 : index
        %c4 = arith.constant 4 : index
        %zero = arith.constant 0 : i32
        %eight = arith.constant 8 : i32
        %buffer = memref.alloca() : {BUFFER}
        %words = memref.alloca() : {TABLE}
        %done = tpu.sem_alloc : {DONE}
        {before}
        scf.for %step = %c0 to %c4 step %c1 {{
          {body}
        }}
        tpu.yield
      }}) : () -> ()
      return
    }} }}"""
    return prepare(api.lower(api.parse(text), "tiles", "v5e"), target=V5E)


def array(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((32, 128)).astype(np.float32)


def table(*places: int) -> np.ndarray:
    return np.array(places or (3, 1, 1, 0), np.int32)


def gathered(places: np.ndarray, x: np.ndarray) -> np.ndarray:
    return x.reshape(BLOCKS, 8, 128)[places].reshape(32, 128) * 2


def run(prepared: Prepared, places: Any, x: Any, **options: Any) -> Outcome:
    module, wanted = prepared.described.module, Options.of(**options)
    return execute(module, [[places, x]], wanted, target=V5E, prepared=prepared)


def recorded(prepared: Prepared, places: Any = None) -> Prepared:
    for seed in range(BEFORE + 1):
        run(prepared, table() if places is None else places, array(seed))
    return prepared


def replays(prepared: Prepared) -> int:
    return len(prepared.repeats.replays)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each run that is not replayed."""
    from pallasite.interpreter import run as module

    made: list[int] = []
    real = module.Machine

    def counted(*arguments: Any, **rest: Any) -> Any:
        made.append(1)
        return real(*arguments, **rest)

    monkeypatch.setattr(module, "Machine", counted)
    return made


def test_the_same_table_with_other_data_is_replayed(machine: list[int]) -> None:
    prepared = recorded(kernel(GATHER))
    first = len(machine)
    for seed in range(20, 24):
        found = run(prepared, table(), array(seed)).outputs[0][0]
        np.testing.assert_array_equal(found, gathered(table(), array(seed)))
    assert len(machine) == first == BEFORE + 1


def test_another_table_with_the_same_data_is_not(machine: list[int]) -> None:
    prepared = recorded(kernel(GATHER))
    for places in (table(0, 1, 2, 3), table(3, 1, 1, 1), table(3, 3, 3, 3), table()):
        found = run(prepared, places, array()).outputs[0][0]
        np.testing.assert_array_equal(found, gathered(places, array()))
    assert len(machine) == BEFORE + 1 + 3


def test_a_table_that_the_caller_changes_in_place(machine: list[int]) -> None:
    prepared, places = kernel(GATHER), table()
    recorded(prepared, places)
    for place in range(BLOCKS):
        places[2] = place
        found = run(prepared, places, array()).outputs[0][0]
        np.testing.assert_array_equal(found, gathered(places, array()))


def test_every_table_has_a_script_of_its_own(machine: list[int]) -> None:
    prepared = kernel(GATHER)
    tables = [table(0, 1, 2, 3), table(), table(2, 2, 2, 2)]
    for _ in range(BEFORE + 1):
        for places in tables:
            run(prepared, places, array())
    count = len(machine)
    assert replays(prepared) == 3
    for places in tables:
        found = run(prepared, places, array(5)).outputs[0][0]
        np.testing.assert_array_equal(found, gathered(places, array(5)))
    assert len(machine) == count


def test_few_scripts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the tables that were used last."""
    monkeypatch.setattr(repeats, "BEFORE", 0)
    prepared = kernel(GATHER)
    for number in range(4**3):
        places = table(0, number // 16, number // 4 % 4, number % 4)
        run(prepared, places, array())
        assert replays(prepared) <= MOST_SCRIPTS
        run(prepared, table(), array())
    assert replays(prepared) == MOST_SCRIPTS
    assert key_of(prepared.described.planned([])[1], [table()]) in prepared.repeats.replays


def test_long_scripts_take_the_place_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "BEFORE", 0)
    monkeypatch.setattr(repeats, "MOST_SCRIPT_LINES", 1)
    prepared = kernel(GATHER)
    for number in range(4):
        run(prepared, table(0, 1, 2, number), array())
    assert replays(prepared) == 1


def test_tables_that_are_new_each_time_are_not_counted_for_ever() -> None:
    prepared = kernel(GATHER)
    for number in range(4**4):
        run(prepared, table(*(number // 4**n % 4 for n in range(4))), array())
    assert len(prepared.repeats.counts) <= repeats.MOST_COUNTS and not replays(prepared)


def test_a_table_whose_script_was_dropped_is_not_recorded_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More tables than scripts, in turn, would have nothing but recordings."""
    monkeypatch.setattr(repeats, "BEFORE", 1)
    monkeypatch.setattr(repeats, "MOST_SCRIPTS", 1)
    made: list[Any] = []
    real = repeats.Recorder
    monkeypatch.setattr(repeats, "Recorder", lambda program: made.append(1) or real(program))
    prepared = kernel(GATHER)
    for _ in range(8):
        run(prepared, table(), array())
        run(prepared, table(0, 1, 2, 3), array())
    assert len(made) == 2


CHOICE = f"""
  %place = memref.load %table[%step] : {TABLE}
  %first = arith.muli %place, %eight : i32
  %from = tpu.memref_slice %x[%first, %zero] : {WHOLE} -> {BLOCK}
  {copy("from", "buffer", (BLOCK, BUFFER))}
  %is_first = arith.cmpi eq, %place, %zero : i32
  scf.if %is_first {{
    {TWICE}
  }}
  %to = tpu.memref_slice %o[%first, %zero] : {WHOLE} -> {BLOCK}
  {copy("buffer", "to", (BUFFER, BLOCK))}
"""


def test_branches_that_the_table_chooses(machine: list[int]) -> None:
    prepared = recorded(kernel(CHOICE), table(2, 0, 3, 1))
    for places in (table(2, 0, 3, 1), table(3, 2, 1, 0)):
        expected = array(3)
        expected[:8] *= 2
        np.testing.assert_array_equal(run(prepared, places, array(3)).outputs[0][0], expected)
    assert len(machine) == BEFORE + 2


def test_numbers_of_the_table_that_are_computed_with() -> None:
    body = GATHER.replace(
        f"%b = arith.addf %a, %a : {VECTOR}",
        f"""%n = arith.sitofp %place : i32 to f32
        %ns = vector.broadcast %n : f32 to {VECTOR}
        %b = arith.mulf %a, %ns : {VECTOR}""",
    )
    prepared = recorded(kernel(body))
    assert replays(prepared) == 1
    for places in (table(), table(1, 2, 3, 2)):
        expected = gathered(places, array(3)) / 2 * np.repeat(places, 8)[:, None].astype("f4")
        np.testing.assert_array_equal(run(prepared, places, array(3)).outputs[0][0], expected)


def test_a_table_that_the_kernel_writes() -> None:
    """Each block after the first is that before which the table has it now."""
    body = GATHER.replace(
        "%first =",
        f"""%before = arith.subi %place, %c1_i32 : i32
        memref.store %before, %table[%c2] : {TABLE}
        memref.store %before, %words[%c2] : {TABLE}
        %again = memref.load %words[%c2] : {TABLE}
        memref.store %again, %table[%c3] : {TABLE}
        %first =""",
    )
    prepared = recorded(kernel(body, "%c1_i32 = arith.constant 1 : i32"), table(3, 3, 1, 0))
    assert replays(prepared) == 1
    for places in (table(3, 3, 1, 0), table(2, 3, 1, 0), table(2, 2, 0, 0)):
        seen = [places[0], places[1], places[1] - 1, places[1] - 2]
        found = run(prepared, places, array(3)).outputs[0][0]
        np.testing.assert_array_equal(found, gathered(np.array(seen), array(3)))


FLOATS = f"memref<8x128xf32, {SMEM}>"
DATA = f"""
  %floats = memref.alloca() : {FLOATS}
  %data = tpu.memref_slice %x[%zero, %zero] : {WHOLE} -> {BLOCK}
  {copy("data", "floats", (BLOCK, FLOATS))}
"""


def test_scalars_that_are_data_are_not_frozen() -> None:
    body = GATHER.replace(
        f"%b = arith.addf %a, %a : {VECTOR}",
        f"""%n = memref.load %floats[%c0, %step] : {FLOATS}
        %ns = vector.broadcast %n : f32 to {VECTOR}
        %b = arith.mulf %a, %ns : {VECTOR}""",
    )
    prepared = kernel(body, DATA)
    for number in range(repeats.MOST_FAILURES):
        assert not prepared.repeats.hopeless
        assert not replays(recorded(prepared, table(3, 1, 1, number)))
    assert prepared.repeats.hopeless
    for seed in range(3):
        x = array(seed)
        expected = gathered(table(), x) / 2 * np.repeat(x[0, :4], 8)[:, None]
        np.testing.assert_array_equal(run(prepared, table(), x).outputs[0][0], expected)


def test_scalars_that_are_data_choose_nothing() -> None:
    body = GATHER.replace(
        TWICE,
        f"""%n = memref.load %floats[%c0, %step] : {FLOATS}
        %nought = arith.constant 0.0 : f32
        %positive = arith.cmpf ogt, %n, %nought : f32
        scf.if %positive {{ {TWICE} }}""",
    )
    prepared = recorded(kernel(body, DATA))
    assert not replays(prepared)
    for seed in range(3):
        x = array(seed)
        times = np.where(np.repeat(x[0, :4], 8)[:, None] > 0, 1, 0.5).astype("f4")
        expected = gathered(table(), x) * times
        np.testing.assert_array_equal(run(prepared, table(), x).outputs[0][0], expected)


def test_semaphores_count_the_same() -> None:
    body = GATHER.replace(
        "%first =",
        f"""%one = arith.constant 1 : i32
        tpu.sem_signal %signal, %one : memref<!tpu.semaphore, {SEMAPHORE}>
        %held = tpu.sem_read %signal : memref<!tpu.semaphore, {SEMAPHORE}> -> i32
        %first =""",
    ).replace("%place, %eight", "%left, %eight")
    body = body.replace(
        "%first =",
        "%more = arith.addi %place, %held : i32\n%three = arith.constant 3 : i32\n%left = arith.andi %more, %three : i32\n%first =",
    )
    before = f"%signal = tpu.sem_alloc : memref<!tpu.semaphore, {SEMAPHORE}>"
    prepared = recorded(kernel(body, before))
    for places in (table(), table(0, 1, 2, 3)):
        seen = (places + np.arange(1, 5)) & 3
        found = run(prepared, places, array(4)).outputs[0][0]
        np.testing.assert_array_equal(found, gathered(seen, array(4)))


def test_a_table_that_reaches_outside_says_so_each_time() -> None:
    prepared = recorded(kernel(GATHER))
    for _ in range(BEFORE + 2):
        with pytest.raises(ExecutionError, match="out"):
            run(prepared, table(3, 1, 4, 0), array())
    assert replays(prepared) == 1
    np.testing.assert_array_equal(
        run(prepared, table(), array(1)).outputs[0][0], gathered(table(), array(1))
    )


@pytest.mark.parametrize("options", [{"seed": 1}, {"checks": ("race",)}, {"poison": 1}])
def test_other_runs_go_their_way(options: dict[str, Any], machine: list[int]) -> None:
    prepared = recorded(kernel(GATHER))
    count = len(machine)
    found = run(prepared, table(), array(5), **options).outputs[0][0]
    np.testing.assert_array_equal(found, gathered(table(), array(5)))
    assert len(machine) == count + 1


def test_a_result_in_the_memory_of_an_operand(machine: list[int]) -> None:
    """Blocks that were written are read again, and the operand of the caller stays as it is."""
    prepared = recorded(kernel(GATHER, aliases=": 1, 0"))
    assert replays(prepared) == 1
    for seed in range(3):
        x = array(seed)
        expected = x.copy().reshape(BLOCKS, 8, 128)
        for step, place in enumerate(table()):
            expected[step] = expected[place] * 2
        found = run(prepared, table(), x).outputs[0][0]
        np.testing.assert_array_equal(found, expected.reshape(32, 128))
        np.testing.assert_array_equal(x, array(seed))
    assert len(machine) == BEFORE + 1


def test_tables_are_recorded_soon_where_scripts_have_paid_off(machine: list[int]) -> None:
    """As in a decoder: all layers run with the table of the step."""
    prepared = kernel(GATHER)
    for step in range(8):
        before = len(machine)
        places = table(3, 1, step // 4, step % 4)
        for layer in range(BEFORE + 1 + 2 * repeats.COST):
            found = run(prepared, places, array(layer)).outputs[0][0]
            np.testing.assert_array_equal(found, gathered(places, array(layer)))
        runs = repeats.BEFORE_MORE if step else BEFORE
        assert len(machine) == before + runs + 1


def test_tables_that_come_twice_are_not_recorded_for_ever(machine: list[int]) -> None:
    prepared = recorded(kernel(GATHER))
    for seed in range(repeats.MOST_SAVED + repeats.COST):
        run(prepared, table(), array(seed))
    assert prepared.repeats.saved == repeats.MOST_SAVED
    known: set[object] = set()
    for number in range(4**3):
        for seed in range(2):
            run(prepared, table(0, number // 16, number // 4 % 4, number % 4), array(seed))
        known.update(prepared.repeats.replays)
    assert len(known) <= 1 + repeats.MOST_SAVED // repeats.COST
    assert prepared.repeats.saved < repeats.COST
