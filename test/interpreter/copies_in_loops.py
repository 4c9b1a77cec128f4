"""Kernels whose loops copy rows of a table, and what the drivers leave of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pallasite.diagnostics import ExecutionError
from pallasite.interpreter import compiled, reference
from pallasite.interpreter.driver import Budget
from pallasite.interpreter.machine.machine import Machine
from pallasite.interpreter.meanings import Facts
from pallasite.interpreter.values import quiet

from .driving import V5E, parse

SMEM, SEMS = "#tpu.memory_space<smem>", "#tpu.memory_space<semaphore_mem>"
TURNS, ROWS = 9, 24
INT = {8: np.int8, 16: np.int16, 32: np.int32}


def memref(bits: int, shape: str, space: str = "any") -> str:
    return f"memref<{shape}xi{bits}, #tpu.memory_space<{space}>>"


def kernel(
    bits: int = 32,
    size: int = 1,
    width: int = 128,
    space: str = "any",
    *,
    scoped: bool = False,
    squeezed: bool = False,
    before: str = "",
    after: str = "",
    within: bool = False,
    semaphores: int = 2,
    single: bool = False,
) -> str:
    """Copies `size` rows of a table from where an index says, turn by turn if that is a `single`
    one, and else in a loop that does nothing else."""
    table, out = (memref(bits, f"{ROWS}x{width}", s) for s in ("any", space))
    first, second = (memref(bits, f"{size}x{width}", s) for s in ("any", space))
    lines = f"""
      %m = arith.remui %i, %two : i32
      %all = tpu.memref_slice %sems[%m] : memref<{semaphores}x!tpu.dma_semaphore, {SEMS}>
        -> memref<1x!tpu.dma_semaphore, {SEMS}>
      %sem = tpu.memref_squeeze %all : memref<1x!tpu.dma_semaphore, {SEMS}>
        -> memref<!tpu.dma_semaphore, {SEMS}>
      %from = tpu.memref_slice %{"out" if within else "table"}[%row, %zero]
        : {out if within else table} -> {second if within else first}
      %to = tpu.memref_slice %out[%place, %zero] : {out} -> {second}"""
    ends = {"from": second if within else first, "to": second}
    if squeezed:
        for name, type in ends.items():
            rank1 = type.replace(f"{size}x", "", 1)
            lines += f"\n%{name}_row = tpu.memref_squeeze %{name} : {type} -> {rank1}"
        ends = {f"{n}_row": type.replace(f"{size}x", "", 1) for n, type in ends.items()}
    (a, one), (b, other) = ends.items()
    semaphore = f"memref<!tpu.dma_semaphore, {SEMS}>"
    lines += f"""
      tpu.enqueue_dma source(%{a} : {one}) target(%{b} : {other})
        target_semaphore(%sem : {semaphore})
      tpu.wait_dma2 semaphore(%sem : {semaphore}) src(%{a} : {one}) dst(%{b} : {other})"""
    allocated = f"%sems = tpu.sem_alloc : memref<{semaphores}x!tpu.dma_semaphore, {SEMS}>"
    if single:
        lines += f"\nmemref.store %row, %rows[%at] : memref<{TURNS}xi32, {SMEM}>"
    if scoped:
        lines = f'"tpu.region"() ({{ {allocated} {lines}\n tpu.yield }}) : () -> ()'
        allocated = ""
    return f"""
    func.func @main(%table: {table}, %out: {out}, %rows: memref<{TURNS}xi32, {SMEM}>,
                    %places: memref<{TURNS}xi32, {SMEM}>) {{
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %two = arith.constant {semaphores} : i32
      %n = arith.constant {TURNS} : i32
      {allocated}
      {before}
      scf.for %i = %zero to %n step %one : i32 {{
        %at = arith.index_cast %i : i32 to index
        %row = memref.load %rows[%at] : memref<{TURNS}xi32, {SMEM}>
        %place = memref.load %places[%at] : memref<{TURNS}xi32, {SMEM}>
        {lines}
      }}
      {after}
      return
    }}"""


def left(driver: Any, text: str, rows: Any, places: Any, **options: Any) -> list[Any]:
    """What a kernel leaves everywhere, or says."""
    machine = Machine(V5E, **options)
    core, module = machine.cores[0], parse(text)
    main: Any = module.body.block.first_op
    refs = [core.allocate(a.type) for a in main.body.block.args]
    *arrays, first, second = refs
    random = np.random.default_rng(0)
    for ref in arrays:
        ref.write(random.integers(-99, 99, ref.shape).astype(INT[ref.codec.bits]))
    for ref, array in zip((first, second), (rows, places), strict=True):
        ref.write(np.array(array, np.int32))
    program = driver.Program(module, Facts(V5E), Budget(10**6))
    said = None
    try:
        with quiet():
            machine.run([(core, program.function("main")(core, *refs))])
    except ExecutionError as error:
        said = str(error)
    engine = machine.engine
    counts = [
        (number, s.value, s.credited_by is core, s.credited_at, s.taken_at, len(s.pending))
        for number, s in sorted(core.semaphores.items())
    ]
    found = [str(finding) for finding in machine.findings]
    held = [ref.read().tobytes() for ref in refs if not ref.buffer.freed]
    return [said, held, engine.started, engine.bits, counts, found]


def numbers(seed: int, size: int, unit: int = 1) -> tuple[Any, Any]:
    """Rows and places that are multiples of `unit`."""
    random = np.random.default_rng(seed)
    return tuple(random.integers(0, (ROWS - size) // unit + 1, (2, TURNS)) * unit)


def check(text: str, rows: Any, places: Any, **options: Any) -> list[Any]:
    found = left(compiled, text, rows, places, **options)
    assert found == left(reference, text, rows, places, **options)
    return found
