"""Scalars that decide what a run does: those of other types, those that a kernel writes, and those
that nobody can know before."""

# ruff: noqa: E501 (MLIR)

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pallasite import api
from pallasite.interpreter.options import Options
from pallasite.interpreter.replay.repeats import BEFORE, key_of
from pallasite.interpreter.run import Outcome, Prepared, execute, prepare
from pallasite.targets import get_target

V5E = get_target("v5e")
ANY, VMEM, SMEM = (f"#tpu.memory_space<{s}>" for s in ("any", "vmem", "smem"))
ARRAY, VECTOR = f"memref<8x128xf32, {VMEM}>", "vector<8x128xf32>"
STEPS = 3


def kernel(table: str, body: str, scratch: str = "") -> Prepared:
    """Has `body` make %b of %a, a block of 8 rows, with a table of the shape and type `table`."""
    memory = f"memref<{table}, {SMEM}>"
    more = f", %kept: {scratch}" if scratch else ""
    text = f"""
    module attributes {{tpu.call = {{operands = [tensor<{table}>, tensor<24x128xf32>], results = [tensor<24x128xf32>], aliases = array<i64>, settings = "{{}}"}}}} {{
    func.func @main(%i: i32, %table: {memory}, %x: {ARRAY}, %o: {ARRAY}{more}) attributes {{dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: {STEPS}>, scalar_prefetch = 1 : i64, scratch_operands = {int(bool(scratch))} : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{{transform_indices = @at, window_bounds = array<i64: 8, 128>}}, {{transform_indices = @at, window_bounds = array<i64: 8, 128>}}]}} {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %zero = arith.constant 0 : i32
      %step = arith.index_cast %i : i32 to index
      %a = vector.load %x[%c0, %c0] : {ARRAY}, {VECTOR}
      {body}
      vector.store %b, %o[%c0, %c0] : {ARRAY}, {VECTOR}
      return
    }}
    func.func @at(%i: i32, %table: {memory}) -> (i32, i32) {{
      %c0 = arith.constant 0 : i32
      return %i, %c0 : i32, i32
    }} }}"""
    return prepare(api.lower(api.parse(text), "tiles", "v5e"), target=V5E)


def run(kernel: Prepared, table: Any, x: Any, again: bool = True) -> Outcome:
    prepared = kernel if again else None
    module = kernel.described.module
    return execute(module, [[table, x]], Options.of(), target=V5E, prepared=prepared)


def told(outcome: Outcome) -> object:
    return outcome.outputs[0][0].tobytes(), outcome.memory, outcome.transfers


def array(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((24, 128)).astype(np.float32)


def recorded(kernel: Prepared, table: Any) -> Prepared:
    for seed in range(BEFORE + 1):
        run(kernel, table, array(seed))
    return kernel


def check(kernel: Prepared, *tables: Any) -> None:
    """Runs with the first of the `tables` are replayed, and all are right, whatever comes first."""
    recorded(kernel, tables[0])
    assert len(kernel.repeats.replays) == 1
    for seed, table in enumerate((*tables, *tables), 20):
        assert told(run(kernel, table, array(seed))) == told(run(kernel, table, array(seed), False))


TIMES = f"""
  %ns = vector.broadcast %n : f32 to {VECTOR}
  %b = arith.mulf %a, %ns : {VECTOR}
"""


def test_tables_of_f32_are_told_apart_by_their_bits() -> None:
    body = f"%n = memref.load %table[%step] : memref<3xf32, {SMEM}>" + TIMES
    other_nan = np.array([0x7FC00001], np.uint32).view(np.float32)[0]
    prepared = kernel("3xf32", body)
    tables = [np.array(t, np.float32) for t in ((np.nan, 1, 0), (other_nan, 1, 0), (1, 1, -0.0))]
    check(prepared, *tables, np.array([np.nan, 1, -0.0], np.float32))
    # A table of NaN is equal to itself, though no number in it is.
    assert key_of(prepared.described.planned([])[1], [tables[0].copy()]) in prepared.repeats.replays


@pytest.mark.parametrize(
    "type, dtype, convert",
    [
        ("i8", np.int8, "%n = arith.sitofp %s : i8 to f32"),
        ("i16", np.int16, "%n = arith.sitofp %s : i16 to f32"),
        ("bf16", ml_dtypes.bfloat16, "%n = arith.extf %s : bf16 to f32"),
    ],
)
def test_tables_of_narrow_types(type: str, dtype: Any, convert: str) -> None:
    body = f"%s = memref.load %table[%step] : memref<3x{type}, {SMEM}>\n{convert}" + TIMES
    tables = [np.array(t, dtype) for t in ((1, -2, 3), (1, -2, 4), (-1, -2, 3))]
    check(kernel(f"3x{type}", body), *tables)


def test_tables_of_booleans() -> None:
    body = f"""
      %s = memref.load %table[%step] : memref<3xi32, {SMEM}>
      %is = arith.cmpi ne, %s, %zero : i32
      %c = arith.addf %a, %a : {VECTOR}
      %b = arith.select %is, %c, %a : {VECTOR}
    """
    prepared = kernel("3xi32", body)
    plan = prepared.described.planned([])[1]
    one, other = (np.array(t, np.bool_) for t in ((True, False, True), (False, True, True)))
    assert key_of(plan, [one]) == key_of(plan, [one.copy()]) != key_of(plan, [other])
    check(prepared, *(t.astype(np.int32) for t in (one, other)))


def test_tables_without_elements_have_a_key() -> None:
    """Calls with one are refused, but not for that."""
    plan = kernel("3xi32", f"%b = arith.addf %a, %a : {VECTOR}").described.planned([])[1]
    empty = [np.zeros(shape, np.int32) for shape in ((0,), (0, 4), (4, 0))]
    assert len({key_of(plan, [table]) for table in (*empty, np.zeros(1, np.int32))}) == 2


def test_tables_that_lie_otherwise_are_equal() -> None:
    body = f"%n = memref.load %table[%step, %c1] : memref<3x4xf32, {SMEM}>" + TIMES
    prepared = kernel("3x4xf32", body)
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    check(prepared, table, np.asfortranarray(table), table[::-1], table.T.copy().T)
    assert len(prepared.repeats.replays) == 1


COUNTS = f"memref<2xi32, {SMEM}>"
COUNTED = f"""
  %first = arith.cmpi eq, %i, %zero : i32
  scf.if %first {{
    %begin = memref.load %table[%c1] : memref<3xi32, {SMEM}>
    memref.store %begin, %kept[%c1] : {COUNTS}
  }}
  %before = memref.load %kept[%c1] : {COUNTS}
  %more = memref.load %table[%step] : memref<3xi32, {SMEM}>
  %now = arith.addi %before, %more : i32
  memref.store %now, %kept[%c1] : {COUNTS}
  %again = memref.load %kept[%c1] : {COUNTS}
  %n = arith.sitofp %again : i32 to f32
"""


def test_counts_that_scratch_keeps_from_step_to_step() -> None:
    prepared = kernel("3xi32", COUNTED + TIMES, COUNTS)
    tables = [np.array(t, np.int32) for t in ((1, 2, 3), (1, 2, 4), (-2, 2, 0))]
    check(prepared, *tables)
    for table in tables:
        expected = array(3).reshape(STEPS, 8, 128) * (table[1] + np.cumsum(table))[:, None, None]
        found = run(prepared, table, array(3)).outputs[0][0]
        np.testing.assert_array_equal(found.reshape(STEPS, 8, 128), expected.astype(np.float32))


def test_counts_that_choose_a_branch() -> None:
    body = f"""{COUNTED}
      %limit = arith.constant 4 : i32
      %late = arith.cmpi sgt, %again, %limit : i32
      %c = arith.addf %a, %a : {VECTOR}
      %b = scf.if %late -> {VECTOR} {{
        scf.yield %c : {VECTOR}
      }} else {{
        scf.yield %a : {VECTOR}
      }}
    """
    tables = [np.array(t, np.int32) for t in ((1, 2, 3), (3, 2, -3), (0, 0, 0))]
    check(kernel("3xi32", body, COUNTS), *tables)


def test_random_bits_are_not_replayed() -> None:
    body = f"""
      %seed = memref.load %table[%step] : memref<3xi32, {SMEM}>
      "tpu.prng_set_seed_32"(%seed) : (i32) -> ()
      %bits = "tpu.prng_random_bits"() : () -> vector<8x128xi32>
      %floats = arith.sitofp %bits : vector<8x128xi32> to {VECTOR}
      %b = arith.addf %a, %floats : {VECTOR}
    """
    prepared, table = kernel("3xi32", body), np.array([1, 2, 3], np.int32)
    recorded(prepared, table)
    assert prepared.repeats.hopeless and not prepared.repeats.replays
    assert told(run(prepared, table, array(9))) == told(run(prepared, table, array(9), False))


def test_what_is_printed_is_not_replayed() -> None:
    body = f"""
      %count = memref.load %table[%step] : memref<3xi32, {SMEM}>
      "tpu.log"(%count) <{{tag = "count", formatted = false}}> : (i32) -> ()
      %b = arith.addf %a, %a : {VECTOR}
    """
    prepared, table = kernel("3xi32", body), np.array([4, 5, 6], np.int32)
    recorded(prepared, table)
    assert prepared.repeats.hopeless and not prepared.repeats.replays
    log = run(prepared, table, array(9)).log
    assert len(log) == STEPS and all(str(n) in line for n, line in zip(table, log, strict=True))


TABLE = f"memref<8x128xi32, {SMEM}>"
WHOLE, BUFFER = f"memref<8x128xi32, {ANY}>", f"memref<8x128xi32, {VMEM}>"
INTS = "vector<8x128xi32>"
DONE = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"


def in_place(more: str = "") -> Prepared:
    """A kernel whose result is in the memory of its table, to which it adds x, as often as the
    first number of the table says."""

    def copy(source: str, target: str, kinds: tuple[str, str]) -> str:
        return f"""
          tpu.enqueue_dma source(%{source} : {kinds[0]}) target(%{target} : {kinds[1]}) target_semaphore(%done : {DONE})
          tpu.wait_dma2 semaphore(%done : {DONE}) src(%{source} : {kinds[0]}) dst(%{target} : {kinds[1]})
        """

    text = f"""
    module attributes {{tpu.call = {{operands = [tensor<8x128xi32>, tensor<8x128xi32>], results = [tensor<8x128xi32>], aliases = array<i64: 0, 0>, settings = "{{}}"}}}} {{
    func.func @main(%table: {TABLE}, %x: {WHOLE}, %o: {WHOLE}) attributes {{dimension_semantics = [], scalar_prefetch = 1 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>}} {{
      "tpu.region"() ({{
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %one = memref.alloca() : {BUFFER}
        %other = memref.alloca() : {BUFFER}
        %done = tpu.sem_alloc : {DONE}
        {copy("x", "other", (WHOLE, BUFFER))}
        %times = memref.load %table[%c0, %c0] : {TABLE}
        %count = arith.index_cast %times : i32 to index
        scf.for %step = %c0 to %count step %c1 {{
          {copy("o", "one", (WHOLE, BUFFER))}
          %a = vector.load %one[%c0, %c0] : {BUFFER}, {INTS}
          %b = vector.load %other[%c0, %c0] : {BUFFER}, {INTS}
          %c = arith.addi %a, %b : {INTS}
          vector.store %c, %one[%c0, %c0] : {BUFFER}, {INTS}
          {copy("one", "o", (BUFFER, WHOLE))}
        }}
        {more}
        tpu.yield
      }}) : () -> ()
      return
    }} }}"""
    return prepare(api.lower(api.parse(text), "tiles", "v5e"), target=V5E)


@pytest.mark.parametrize("times", [2, 1, 0])
def test_a_result_in_the_memory_of_a_table(times: int) -> None:
    """Its scalars are those from before, and the table of the caller stays as it is."""
    prepared = in_place()
    random = np.random.default_rng(times)
    table, x = random.integers(-9, 9, (2, 8, 128)).astype(np.int32)
    table[0, 0] = times
    for _ in range(BEFORE + 1):
        run(prepared, table, x)
    assert len(prepared.repeats.replays) == 1
    for number in range(4):
        given, data = table.copy(), random.integers(-9, 9, (8, 128)).astype(np.int32)
        # One other number of the table, which decides nothing, or the one that does.
        given[0, 0 if number == 2 else 5] += number
        before = given.copy()
        found = run(prepared, given, data).outputs[0][0]
        np.testing.assert_array_equal(found, before + before[0, 0] * data)
        np.testing.assert_array_equal(given, before)
