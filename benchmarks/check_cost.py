"""What checks cost: processor time of runs with all checks on and off, side by side.

    python benchmarks/check_cost.py [--print]

A pipelined kernel over 64, 512 and 4096 grid steps, in every form; the same on two cores; a kernel
that copies its blocks itself; and rings of 8 to 256 devices. Writes docs/check_cost.md.
"""

# ruff: noqa: E501 (MLIR)

from __future__ import annotations

import argparse
import gc
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from corpus import machine, publish, table
from devices import gather

from pallasite import api, arguments
from pallasite.interpreter.options import Options
from pallasite.interpreter.run import execute, prepare
from pallasite.targets import get_target

STEPS = (64, 512, 4096)
REPEATS, LONG_REPEATS = 5, 3
"""Of rings of more than 100 devices the latter."""
FORMS = ("mosaic", "dma", "tiles", "vreg")
VMEM, ANY = (f"#tpu.memory_space<{space}>" for space in ("vmem", "any"))
BLOCK, WHOLE = f"memref<8x128xf32, {VMEM}>", f"memref<8x128xf32, {ANY}>"
DMA = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"


def windows(steps: int) -> str:
    """Adds two arrays, a block a step."""
    window = "{transform_indices = @t, window_bounds = array<i64: 8, 128>}"
    return f"""module {{
      func.func @kernel(%i: i32, %x: {BLOCK}, %y: {BLOCK}, %o: {BLOCK}) attributes {{
          dimension_semantics = [#tpu.dimension_semantics<parallel>],
          iteration_bounds = array<i64: {steps}>, window_params = [{window}, {window}, {window}],
          scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>}} {{
        %c = arith.constant 0 : index
        %v = vector.load %x[%c, %c] : {BLOCK}, vector<8x128xf32>
        %w = vector.load %y[%c, %c] : {BLOCK}, vector<8x128xf32>
        %s = arith.addf %v, %w : vector<8x128xf32>
        tpu.vector_store %o[%c, %c], %s {{strides = array<i32>}} : {BLOCK}, vector<8x128xf32>,
        return
      }}
      func.func @t(%i: i32) -> (i32, i32) {{
        %z = arith.constant 0 : i32
        return %i, %z : i32, i32
      }}
    }}"""


def copies(steps: int) -> str:
    """Doubles an array, a block a step, with transfers of the kernel's own."""
    array = f"memref<{8 * steps}x128xf32, {ANY}>"
    return f"""module {{
      func.func @kernel(%x: {array}, %y: {array}, %o: {array}, %a: {BLOCK}, %s: {DMA}) attributes {{
          dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 2 : i64,
          tpu.core_type = #tpu.core_type<tc>}} {{
        %c = arith.constant 0 : index
        %zero = arith.constant 0 : i32
        %one = arith.constant 1 : i32
        %eight = arith.constant 8 : i32
        %n = arith.constant {steps} : i32
        scf.for %i = %zero to %n step %one : i32 {{
          %row = arith.muli %i, %eight : i32
          %x1 = tpu.memref_slice %x[%row, %zero] : {array} -> {WHOLE}
          %o1 = tpu.memref_slice %o[%row, %zero] : {array} -> {WHOLE}
          tpu.enqueue_dma source(%x1 : {WHOLE}) target(%a : {BLOCK}) target_semaphore(%s : {DMA})
          tpu.wait_dma2 semaphore(%s : {DMA}) src(%x1 : {WHOLE}) dst(%a : {BLOCK})
          %v = vector.load %a[%c, %c] : {BLOCK}, vector<8x128xf32>
          %w = arith.addf %v, %v : vector<8x128xf32>
          tpu.vector_store %a[%c, %c], %w {{strides = array<i32>}} : {BLOCK}, vector<8x128xf32>,
          tpu.enqueue_dma source(%a : {BLOCK}) target(%o1 : {WHOLE}) target_semaphore(%s : {DMA})
          tpu.wait_dma2 semaphore(%s : {DMA}) src(%a : {BLOCK}) dst(%o1 : {WHOLE})
        }}
        return
      }}
    }}"""


@dataclass(frozen=True)
class Case:
    """A kernel for some number of steps, and where it runs."""

    name: str
    text: Any
    target: str = "v5e"
    forms: tuple[str, ...] = FORMS
    devices: int = 1

    def times(self, form: str, steps: int) -> tuple[float, float]:
        """Milliseconds with checks off and on, the least of some runs each, alternating."""
        ring = self.devices > 1
        shape = (8, 128) if ring else (8 * steps, 128)
        one = [np.ones(shape, np.float32)] * (1 if ring else 2)
        inputs = [one] * self.devices
        result = ((8 * self.devices, 128) if ring else shape), "float32"
        module = api.with_call(api.parse(self.text(steps)), one, [result])
        lowered = api.lower(module, form, self.target)
        model = get_target(self.target)
        prepared = prepare(lowered, target=model)
        best = [float("inf"), float("inf")]
        for _ in range(REPEATS if self.devices < 100 else LONG_REPEATS):
            for n, checks in enumerate(((), arguments.CHECKS)):
                gc.collect()
                began = time.process_time()
                outcome = execute(
                    lowered, inputs, Options.of(checks=checks, max_steps=1 << 40), target=model,
                    prepared=prepared,
                )  # fmt: skip
                best[n] = min(best[n], (time.process_time() - began) * 1e3)
                assert not outcome.findings, str(outcome.findings[0])
        return best[0], best[1]


CASES = (
    Case("windows", windows),
    Case("windows, two cores", windows, "v4", ("dma", "vreg")),
    Case("copies", copies, forms=("dma", "vreg")),
)
RINGS = tuple(
    Case(f"ring of {devices} devices", lambda _, n=devices: gather(n), devices=devices)
    for devices in (8, 32, 128, 256)
)


def main() -> None:
    """Measures, and writes the page."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--print", action="store_true", help="print instead of writing docs/")
    options = p.parse_args()
    rows: list[list[Any]] = []
    for case in CASES:
        for form in case.forms:
            times = [case.times(form, steps) for steps in STEPS]
            ratios = [on / off for off, on in times]
            growth = times[-1][1] / times[0][1] / (STEPS[-1] / STEPS[0])
            rows.append([case.name, form, *(t for pair in times for t in pair), *ratios, growth])
            print(rows[-1], flush=True)
    rings = [[case.name, *(times := case.times("dma", 0)), times[1] / times[0]] for case in RINGS]
    header = ["kernel", "form"]
    header += [f"{steps} steps, {kind}" for steps in STEPS for kind in ("off", "on")]
    header += [f"{steps} steps, on / off" for steps in STEPS] + ["growth"]
    worst = max(*(max(row[8:11]) for row in rows), *(ring[-1] for ring in rings))
    publish(options, "check_cost.md", f"""# What checks cost

Written by `benchmarks/check_cost.py` on one computer ({machine()}).
Milliseconds of processor time of one run with checks off and on (`race`, `init`, `bounds`, `sync`),
measured alternately; the least of {REPEATS} ({LONG_REPEATS} of rings of more than 100 devices). *growth* is
the time with checks at {STEPS[-1]} steps over that at {STEPS[0]}, divided by {STEPS[-1] // STEPS[0]}: 1 is linear. The most that checks cost is
{worst:.2f} times the run without.

{table(header, rows)}

In a ring of N devices every device sends N - 1 blocks to its neighbour, N (N - 1) transfers in total.

{table(["kernel", "off", "on", "on / off"], rings)}
""")  # fmt: skip


if __name__ == "__main__":
    main()
