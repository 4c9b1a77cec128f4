"""Many devices in one process: a ring all-gather on 256, a barrier and a permute on 1,024.

    python benchmarks/devices.py [--gather 256] [--permute 1024] [--check NAMES] [--profile]

Blocks are (8, 128) f32. The all-gather passes every block around the ring until every device has
all of them. Prints seconds of wall and processor time, and the largest memory of the
process so far.
"""

# ruff: noqa: E501 (MLIR)

from __future__ import annotations

import argparse
import cProfile
import resource
import time

import numpy as np
from corpus import machine

from pallasite import api, arguments
from pallasite.interpreter.options import Options
from pallasite.interpreter.run import execute
from pallasite.targets import get_target

BLOCK = "memref<8x128xf32, #tpu.memory_space<any>>"
SEMAPHORE = "memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>"
DMA = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"
ATTRIBUTES = """attributes {dimension_semantics = [], scalar_prefetch = 0 : i64,
          scratch_operands = 2 : i64, tpu.core_type = #tpu.core_type<tc>}"""


def neighbours(devices: int) -> str:
    """`%me`, `%left` and `%right`, and a barrier with both neighbours."""
    return f"""
        %me = tpu.device_id : i32
        %zero = arith.constant 0 : i32
        %one = arith.constant 1 : i32
        %two = arith.constant 2 : i32
        %n = arith.constant {devices} : i32
        %less = arith.constant {devices - 1} : i32
        %r1 = arith.addi %me, %one : i32
        %right = arith.remsi %r1, %n : i32
        %l1 = arith.addi %me, %less : i32
        %left = arith.remsi %l1, %n : i32
        %bar = tpu.sem_barrier : {SEMAPHORE}
        tpu.sem_signal %bar, %one device_id %left : {SEMAPHORE}
        tpu.sem_signal %bar, %one device_id %right : {SEMAPHORE}
        tpu.sem_wait %bar, %two : {SEMAPHORE}"""


def permute(devices: int) -> str:
    """Every device sends its block to the right."""
    return f"""module {{
      func.func @kernel(%x: {BLOCK}, %o: {BLOCK}, %s: {DMA}, %r: {DMA}) {ATTRIBUTES} {{
        {neighbours(devices)}
        tpu.enqueue_dma source(%x : {BLOCK}) target(%o : {BLOCK}) source_semaphore(%s : {DMA}) target_semaphore(%r : {DMA}) device_id(%right)
        tpu.wait_dma2 semaphore(%s : {DMA}) src(%x : {BLOCK}) dst(%x : {BLOCK})
        tpu.wait_dma2 semaphore(%r : {DMA}) src(%o : {BLOCK}) dst(%o : {BLOCK})
        return
      }}
    }}"""


def gather(devices: int) -> str:
    """Every device passes on what it received last, until all have all blocks.

    A semaphore per step tells which block has come: the left neighbour may be several steps ahead.
    """
    came = f"memref<{devices}x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"
    one = "memref<1x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"
    whole = f"memref<{8 * devices}x128xf32, #tpu.memory_space<any>>"
    return f"""module {{
      func.func @kernel(%x: {BLOCK}, %o: {whole}, %s: {DMA}, %came: {came}) {ATTRIBUTES} {{
        {neighbours(devices)}
        %eight = arith.constant 8 : i32
        %row = arith.muli %me, %eight : i32
        %own = tpu.memref_slice %o[%row, %zero] : {whole} -> {BLOCK}
        tpu.enqueue_dma source(%x : {BLOCK}) target(%own : {BLOCK}) target_semaphore(%s : {DMA})
        tpu.wait_dma2 semaphore(%s : {DMA}) src(%x : {BLOCK}) dst(%own : {BLOCK})
        scf.for %step = %zero to %less step %one : i32 {{
          %a = arith.subi %me, %step : i32
          %b = arith.addi %a, %n : i32
          %slot = arith.remsi %b, %n : i32
          %start = arith.muli %slot, %eight : i32
          %here = tpu.memref_slice %came[%step] : {came} -> {one}
          %r = tpu.memref_squeeze %here : {one} -> {DMA}
          %block = tpu.memref_slice %o[%start, %zero] : {whole} -> {BLOCK}
          tpu.enqueue_dma source(%block : {BLOCK}) target(%block : {BLOCK}) source_semaphore(%s : {DMA}) target_semaphore(%r : {DMA}) device_id(%right)
          tpu.wait_dma2 semaphore(%s : {DMA}) src(%block : {BLOCK}) dst(%block : {BLOCK})
          tpu.wait_dma2 semaphore(%r : {DMA}) src(%block : {BLOCK}) dst(%block : {BLOCK})
        }}
        return
      }}
    }}"""


def measure(name: str, text: str, devices: int, rows: int, checks: tuple[str, ...]) -> None:
    """Runs a kernel whose device d gives a block of d, and checks what everybody ends with."""
    inputs = [[np.full((8, 128), d, np.float32)] for d in range(devices)]
    module = api.with_call(api.parse(text), inputs[0], [((rows, 128), "float32")])
    began, worked = time.perf_counter(), time.process_time()
    outcome = execute(module, inputs, Options.of(checks=checks), target=get_target("v5e"))
    seconds, processor = time.perf_counter() - began, time.process_time() - worked
    assert not outcome.findings, str(outcome.findings[0])
    for d, (result,) in enumerate(outcome.outputs):
        blocks = result[::8, 0]
        expected = [(d - 1) % devices] if rows == 8 else np.arange(devices)
        assert (blocks == expected).all()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{name} on {devices} devices: {seconds:.1f} s, {processor:.1f} s of processor time, "
        f"{peak} MiB at most"
    )


def main() -> None:
    """Measures, and prints."""
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--gather", type=int, default=256)
    p.add_argument("--permute", type=int, default=1024)
    p.add_argument("--check", default="", help="sanitizers")
    p.add_argument("--profile", action="store_true")
    o = p.parse_args()
    checks = arguments.checks(o.check)
    profile = cProfile.Profile()
    if o.profile:
        profile.enable()
    if o.permute:
        measure("barrier and permute", permute(o.permute), o.permute, 8, checks)
    if o.gather:
        measure("ring all-gather", gather(o.gather), o.gather, 8 * o.gather, checks)
    if o.profile:
        profile.disable()
        profile.print_stats("tottime")
    print(machine())


if __name__ == "__main__":
    main()
