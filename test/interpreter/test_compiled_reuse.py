"""Results that are written over operands have the bits of new arrays, and nothing else changes."""

# ruff: noqa: E501 (MLIR)

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from pallasite.interpreter import compiled, reference
from pallasite.interpreter.driver import Budget
from pallasite.interpreter.machine.machine import Machine
from pallasite.interpreter.meanings import Facts
from pallasite.interpreter.values import quiet

from .driving import V5E, finish, parse, source_of

GRID = "vector<8x2x8x128xf32>"
REGISTER = "vector<8x128xf32>"


def call(driver: Any, text: str, *arguments: Any) -> tuple[tuple[Any, ...], str]:
    core, module = Machine(V5E).cores[0], parse(text)
    program = driver.Program(module, Facts(V5E), Budget(10**6))
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    with quiet():
        results = finish(program.function("main")(core, *copies))
    for copy, argument in zip(copies, arguments, strict=True):
        assert np.asarray(copy).tobytes() == np.asarray(argument).tobytes()
    return results, source_of(program)


def check(text: str, *arguments: Any) -> str:
    """Calls by both drivers; the generated Python."""
    found, source = call(compiled, text, *arguments)
    expected, _ = call(reference, text, *arguments)
    for one, other in zip(found, expected, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    return source


def grids(count: int = 2, shape: tuple[int, ...] = (8, 2, 8, 128)) -> list[Any]:
    """Any bit patterns, among them pairs of NaNs with payloads, and of zeros with signs."""
    found: list[Any] = []
    for seed in range(count):
        bits = np.random.default_rng(seed).integers(0, 1 << 32, shape, np.uint32)
        bits[0, 0] |= 0x7F800001
        bits[1:2, 0] &= 0x80000000
        found.append(bits.view(np.float32))
    return found


def writes_over(source: str) -> int:
    return source.count(", out=")


BINARY = (
    "arith.addf",
    "arith.subf",
    "arith.mulf",
    "arith.divf",
    "arith.maximumf",
    "arith.minimumf",
)
UNARY = ("arith.negf", "math.exp", "math.tanh", "math.log", "math.absf", "math.sqrt", "math.floor")


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("swapped", [False, True])
def test_binary_functions_give_the_same_bits(name: str, swapped: bool) -> None:
    operands = "%b, %n" if swapped else "%n, %b"
    source = check(
        f"""
        func.func @main(%a: {GRID}, %b: {GRID}) -> {GRID} {{
          %n = arith.negf %a : {GRID}
          %r = {name} {operands} : {GRID}
          return %r : {GRID}
        }}""",
        *grids(),
    )
    assert writes_over(source) == 1


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_operand_give_the_same_bits(name: str) -> None:
    source = check(
        f"""
        func.func @main(%a: {GRID}, %b: {GRID}) -> {GRID} {{
          %s = arith.addf %a, %b : {GRID}
          %r = {name} %s : {GRID}
          return %r : {GRID}
        }}""",
        *grids(),
    )
    assert writes_over(source) == 1


KEPT = {
    "it is used later": """
        %s = arith.addf %a, %b : {0}
        %m = math.exp %s : {0}
        %r = arith.subf %m, %s : {0}
        return %r, %r : {0}, {0}""",
    "it is returned": """
        %s = arith.addf %a, %b : {0}
        %r = math.exp %s : {0}
        return %s, %r : {0}, {0}""",
    "a view of it is used": """
        %s = arith.addf %a, %b : {0}
        %v = grid.transpose %s [0, 1] : {0} -> {0}
        %r = math.exp %s : {0}
        return %v, %r : {0}, {0}""",
    "it is the caller's": """
        %r = math.exp %a : {0}
        return %r, %r : {0}, {0}""",
}


@pytest.mark.parametrize("why", KEPT)
def test_a_value_that_is_needed_stays(why: str) -> None:
    body = KEPT[why].format(GRID)
    text = f"func.func @main(%a: {GRID}, %b: {GRID}) -> ({GRID}, {GRID}) {{ {body} }}"
    source = check(text, *grids())
    assert writes_over(source) == (why == "it is used later")


def test_values_from_outside_of_a_loop_stay() -> None:
    source = check(
        f"""
        func.func @main(%a: {GRID}, %b: {GRID}, %n: i32) -> {GRID} {{
          %c0 = arith.constant 0 : i32
          %c1 = arith.constant 1 : i32
          %s = arith.addf %a, %b : {GRID}
          %r = scf.for %i = %c0 to %n step %c1 iter_args(%t = %a) -> ({GRID}) : i32 {{
            %e = arith.mulf %s, %t : {GRID}
            %f = math.tanh %e : {GRID}
            scf.yield %f : {GRID}
          }}
          return %r : {GRID}
        }}""",
        *grids(),
        3,
    )
    assert writes_over(source) == 1


def test_reductions_read_before_a_value_is_written_over() -> None:
    source = check(
        f"""
        func.func @main(%a: {GRID}, %b: {GRID}) -> {GRID} {{
          %s = arith.addf %a, %b : {GRID}
          %e = math.tanh %s : {GRID}
          %g = grid.reduce %e dim 1 kind "arith.addf" : {GRID} -> vector<8x1x8x128xf32>
          %t = tpu.all_reduce %g {{dim = 3 : i64, kind = #tpu.reduction_kind<sum>}} : vector<8x1x8x128xf32> -> vector<8x1x8x128xf32>
          %w = grid.broadcast %t : vector<8x1x8x128xf32> -> {GRID}
          %r = arith.divf %e, %w : {GRID}
          return %r : {GRID}
        }}""",
        *grids(),
    )
    assert writes_over(source) == 2


@pytest.mark.parametrize("shifted", [0, 1])
def test_packs_are_written_over(shifted: int) -> None:
    count, matrix = 8, "vector<64x128xf32>"
    kinds = ", ".join([REGISTER] * count)
    lines = [f"%{n}:{count} = tpu.unroll_vectors %{n}0 : {matrix} -> {kinds}" for n in "ab"]
    lines = [line.replace(f"%{n}:", f"%{n}s:") for n, line in zip("ab", lines, strict=True)]
    for target, source in (("n", "as"), ("m", "bs")):
        lines += [f"%{target}{k} = arith.negf %{source}#{k} : {REGISTER}" for k in range(count)]
    # Shifted, the registers of one operand are those of the other one, too.
    other = "n" if shifted else "m"
    lines += [
        f"%r{k} = arith.subf %n{k}, %{other}{(k + shifted) % count} : {REGISTER}"
        for k in range(count)
    ]
    results = ", ".join(f"%r{k}" for k in range(count))
    text = (
        f"func.func @main(%a0: {matrix}, %b0: {matrix}) -> ({kinds}) {{\n"
        + "\n".join([*lines, f"return {results} : {kinds}"])
        + "\n}"
    )
    source = check(text, *(g.reshape(64, 128) for g in grids(2, (64, 2, 64))))
    assert writes_over(source) == 1 - shifted


MEMORY = "memref<64x256xf32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>"
SUBLANES = "sublanes [true, true, true, true, true, true, true, true]"


def in_memory(lines: str, step: int = 0, add: str = "") -> str:
    """Stores `%a` and then `%r`, which `lines` make of the first half of it and of another one that
    begins `step` rows further."""
    steps = "{grid.steps = array<i64: 8, 128>}"
    half = "vector<4x2x8x128xf32>"
    return f"""
        func.func @main(%a: {GRID}) -> {GRID} {{
          %c0 = arith.constant 0 : index
          %c = arith.constant {step} : index
          %m = memref.alloca() : {MEMORY}
          tpu.store %m[%c0, %c0], %a {SUBLANES} {steps} : {MEMORY}, {GRID},
          %x = tpu.load %m[%c0, %c0] {SUBLANES} {steps} : {MEMORY}, {half}
          %y = tpu.load %m[%c, %c0] {SUBLANES} {steps} : {MEMORY}, {half}
          {lines.format(half)}
          tpu.store %m[%c0, %c0], %r {SUBLANES} {{{add}grid.steps = array<i64: 8, 128>}} : {MEMORY}, {half},
          %all = tpu.load %m[%c0, %c0] {SUBLANES} {steps} : {MEMORY}, {GRID}
          return %all : {GRID}
        }}"""


def stored_results(source: str) -> int:
    """Stores of a function of two arrays."""
    return len(re.findall(r"e\d+_fn_main\(core, v\d+, v\d+, v\d+, 0, 0\)", source))


@pytest.mark.parametrize("step", [0, 8, 32])
@pytest.mark.parametrize("name", BINARY)
def test_a_result_is_computed_where_it_is_stored(name: str, step: int) -> None:
    """Its operands may be views of the same memory, there or elsewhere."""
    source = check(in_memory(f"%r = {name} %x, %y : {{0}}", step), *grids(1))
    assert stored_results(source) == 1


def test_a_slim_operand_of_a_stored_result() -> None:
    lines = """
        %g = grid.reduce %y dim 1 kind "arith.maximumf" : {0} -> vector<4x1x8x128xf32>
        %t = tpu.all_reduce %g {{dim = 3 : i64, kind = #tpu.reduction_kind<max>}} : vector<4x1x8x128xf32> -> vector<4x1x8x128xf32>
        %w = grid.broadcast %t : vector<4x1x8x128xf32> -> {0}
        %r = arith.subf %x, %w : {0}"""
    assert stored_results(check(in_memory(lines), *grids(1))) == 1


def test_a_result_that_is_needed_elsewhere_is_stored_by_itself() -> None:
    lines = """
        %r = arith.addf %x, %y : {0}
        tpu.store %m[%c0, %c0], %r SUBLANES {{grid.steps = array<i64: 8, 128>}} : MEMORY, {0},"""
    lines = lines.replace("SUBLANES", SUBLANES).replace("MEMORY", MEMORY)
    assert stored_results(check(in_memory(lines), *grids(1))) == 0


def test_a_result_that_is_added_is_stored_by_itself() -> None:
    text = in_memory("%r = arith.addf %x, %y : {0}", add="add = true, ")
    assert stored_results(check(text, *grids(1))) == 0


@pytest.mark.parametrize("checks", [(), ("init",)])
def test_checks_are_told_of_stored_results(checks: tuple[str, ...]) -> None:
    core, module = (
        Machine(V5E, checks=checks).cores[0],
        parse(in_memory("%r = arith.addf %x, %y : {0}")),
    )
    program = compiled.Program(module, Facts(V5E), Budget(10**6))
    (a,) = grids(1)
    with quiet():
        (found,) = finish(program.function("main")(core, a))
        assert found[:4].tobytes() == (a[:4] + a[:4]).tobytes()
    assert not core.machine.findings
