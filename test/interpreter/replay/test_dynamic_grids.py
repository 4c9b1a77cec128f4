"""Runs of a grid whose size the call tells are replayed, for each size by itself."""

# ruff: noqa: E501 (MLIR)

from __future__ import annotations

import numpy as np
import pytest

from pallasite import api
from pallasite.interpreter.options import Options
from pallasite.interpreter.replay.repeats import BEFORE
from pallasite.interpreter.run import Outcome, Prepared, execute, prepare
from pallasite.targets import get_target

V5E = get_target("v5e")
BLOCK = "memref<8x128xf32, #tpu.memory_space<vmem>>"
ROWS, COLUMNS = 40, 256


def kernel(index: str = "%i, %zero") -> Prepared:
    """Doubles as many blocks as the call says; the block of step i is at `index`."""
    window = "{transform_indices = @at, window_bounds = array<i64: 8, 128>}"
    array = f"tensor<{ROWS}x{COLUMNS}xf32>"
    text = f"""
    module attributes {{tpu.call = {{operands = [tensor<i32>, {array}], results = [{array}], aliases = array<i64>, settings = "{{}}"}}}} {{
    func.func @main(%i: i32, %x: {BLOCK}, %o: {BLOCK}) attributes {{dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: -9223372036854775808>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{window}, {window}]}} {{
      %c0 = arith.constant 0 : index
      %a = vector.load %x[%c0, %c0] : {BLOCK}, vector<8x128xf32>
      %b = arith.addf %a, %a : vector<8x128xf32>
      vector.store %b, %o[%c0, %c0] : {BLOCK}, vector<8x128xf32>
      return
    }}
    func.func @at(%i: i32) -> (i32, i32) {{
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      return {index} : i32, i32
    }} }}"""
    return prepare(api.lower(api.parse(text), "tiles", "v5e"), target=V5E)


def run(kernel: Prepared, size: int, x: np.ndarray, again: bool, poison: int = 0) -> Outcome:
    shape = kernel.described.planned([])[1].operands[0].shape
    given = [np.full(shape, size, np.int32), x]
    prepared = kernel if again else None
    module = kernel.described.module
    return execute(module, [given], Options.of(poison=poison), target=V5E, prepared=prepared)


def told(outcome: Outcome) -> object:
    return outcome.outputs[0][0].tobytes(), outcome.memory, outcome.transfers


def array(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((ROWS, COLUMNS)).astype(np.float32)


@pytest.mark.parametrize("index", ["%i, %zero", "%i, %one", "%one, %zero"])
def test_every_size_is_replayed_and_what_it_leaves_out_is_poison(index: str) -> None:
    prepared = kernel(index)
    sizes = (3, 5, 1, 0)
    for number, size in enumerate(sizes, 1):
        for seed in range(BEFORE + 1):
            run(prepared, size, array(seed), True)
        assert len(prepared.repeats.replays) == number
    for seed, size in enumerate((*sizes, 4, 2)):
        x = array(20 + seed)
        assert told(run(prepared, size, x, True)) == told(run(prepared, size, x, False))


@pytest.mark.parametrize("poison", [0, 1])
def test_poison_is_that_of_the_run(poison: int) -> None:
    prepared = prepare(kernel().described.module, Options.of(poison=poison), target=V5E)
    for seed in range(BEFORE + 1):
        run(prepared, 2, array(seed), True, poison)
    assert len(prepared.repeats.replays) == 1
    replayed = run(prepared, 2, array(9), True, poison).outputs[0][0]
    np.testing.assert_array_equal(replayed[:16, :128], array(9)[:16, :128] * 2)
    assert replayed.tobytes() == run(prepared, 2, array(9), False, poison).outputs[0][0].tobytes()
    other = run(prepared, 2, array(9), True, 1 - poison).outputs[0][0]
    assert other.tobytes() != replayed.tobytes()
