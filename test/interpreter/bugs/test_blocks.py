"""Transfers that meet the blocks of a grid or a pipeline: a race in every form, whether these are
copied by DMAs, or at once."""

from __future__ import annotations

import numpy as np
import pytest

import pallasite
from pallasite import api

FORMS = ("pallas", "mosaic", "dma", "tiles", "vreg")
VMEM, ANY = "#tpu.memory_space<vmem>", "#tpu.memory_space<any>"
SEMAPHORE = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"
BLOCK, WHOLE, ARRAY = (
    f"memref<8x128xf32, {VMEM}>", f"memref<16x128xf32, {VMEM}>", f"memref<16x128xf32, {ANY}>"
)  # fmt: skip


def started(source: str, target: str, types: tuple[str, str]) -> str:
    return (
        f"tpu.enqueue_dma source({source} : {types[0]}) target({target} : {types[1]}) "
        f"target_semaphore(%s : {SEMAPHORE})\n"
    )


def waited(source: str, target: str, types: tuple[str, str]) -> str:
    return (
        f"tpu.wait_dma2 semaphore(%s : {SEMAPHORE}) src({source} : {types[0]}) "
        f"dst({target} : {types[1]})\n"
    )


def gridded(now: str, later: str) -> str:
    """Copies scratch to the block of an output; the wait comes `now`, in the step, or `later`, in
    the next one."""
    ends = ("%a", "%o", (BLOCK, BLOCK))
    last = waited(*ends) if later else ""
    return f"""pallas.kernel @k grid (i = 4)
      input %x: tensor<32x128xf32> in vmem block (8, 128) at (i, 0)
      output %o: tensor<32x128xf32> in vmem block (8, 128) at (i, 0)
      scratch %a: {BLOCK}
      scratch %s: {SEMAPHORE}
    {{
      %i = pallas.program_id 0
      %zero = arith.constant 0 : i32
      %three = arith.constant 3 : i32
      %later = arith.cmpi ne, %i, %zero : i32
      %last = arith.cmpi eq, %i, %three : i32
      scf.if %later {{ {waited(*ends) if later else ""} }}
      %v = pallas.load %x[...] : {BLOCK}
      pallas.store %v, %a[...] : {BLOCK}
      {started(*ends)}
      {waited(*ends) if now else ""}
      scf.if %last {{ {last} }}
    }}"""


def piped(before: str, behind: str, cores: int = 1, offset: str = "") -> str:
    """A pipeline from %x to %o, `before` and `behind` which something else happens; on two cores,
    each of which has blocks of its own from `offset` on, or all."""
    grid = f"grid (c = {cores} parallel)" if cores > 1 else ""
    steps = 1 if offset else 2
    return f"""pallas.kernel @k {grid}
      input %x: tensor<16x128xf32> in any
      output %o: tensor<16x128xf32> in any
      scratch %a: {WHOLE}
      scratch %s: {SEMAPHORE}
    {{
      %ones = arith.constant dense<1.0> : vector<16x128xf32>
      pallas.store %ones, %a[...] : {WHOLE}
      {before}
      pallas.emit_pipeline grid ({steps}) {offset}
        input %xb = %x: {ARRAY} in vmem block (8, 128) at (d0, 0)
        output %ob = %o: {ARRAY} in vmem block (8, 128) at (d0, 0)
      {{
        %v = pallas.load %xb[...] : {BLOCK}
        pallas.store %v, %ob[...] : {BLOCK}
      }}
      {behind}
    }}"""


OUT = ("%a", "%o", (WHOLE, ARRAY))
IN = ("%x", "%a", (ARRAY, WHOLE))
CORE = "%c = pallas.program_id 0\n"
RACES = {
    "a block is written back before its copy is there": (gridded("", "later"), "v5e"),
    "a pipeline writes where a copy goes": (piped(started(*OUT), waited(*OUT)), "v5e"),
    "two cores do all steps": (piped("", "", 2), "v4"),
}
SOUND = {
    "a block is waited for": (gridded("now", ""), "v5e"),
    "a pipeline comes after a copy": (piped(started(*OUT) + waited(*OUT), ""), "v5e"),
    "a pipeline reads what a copy reads": (piped(started(*IN), waited(*IN)), "v5e"),
    "two cores share the steps": (piped(CORE, "", 2, "offset (%c)"), "v4"),
}


def findings(text: str, target: str, form: str, seed: int) -> list[pallasite.Diagnostic]:
    x = np.ones((32 if "32x128" in text else 16, 128), np.float32)
    module = pallasite.parse(text, name="kernel.mlir")
    outcome = api.simulate(module, [x], form=form, target=target, checks=["all"], seed=seed)
    return outcome.findings


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", RACES)
def test_a_race_in_every_form(name: str, form: str) -> None:
    for seed in range(2):
        found = findings(*RACES[name], form, seed)
        assert {finding.code for finding in found} == {"data-race"}
        first = found[0]
        missing = next(note for note in first.notes if note.message.startswith("missing: "))
        assert first.location is not None and first.notes[0].location is not None
        assert "copy.wait()" in missing.message or "pl.semaphore_signal" in missing.message


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SOUND)
def test_no_race_where_it_is_waited_for(name: str, form: str) -> None:
    for seed in range(2):
        assert not findings(*SOUND[name], form, seed)
