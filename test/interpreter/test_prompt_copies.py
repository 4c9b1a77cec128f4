"""Copies that loops await at once leave what a start and a wait leave, and fail as these do."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from pallasite.interpreter import compiled
from pallasite.interpreter.driver import Budget
from pallasite.interpreter.machine.machine import Machine
from pallasite.interpreter.machine.order import Order
from pallasite.interpreter.meanings import Facts

from .copies_in_loops import ROWS, SEMS, TURNS, check, kernel, memref, numbers
from .driving import V5E, parse


@pytest.mark.parametrize("space", ["any", "vmem"])
@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("size", [1, 3, 8])
@pytest.mark.parametrize("single", [False, True])
def test_they_leave_the_same(
    bits: int, size: int, space: str, single: bool, started: list[Any]
) -> None:
    for width in (128, 256):
        text = kernel(bits, size, width, space, single=single)
        unit = 8 if size == 8 else 1
        check(text, *numbers(size, size, unit))
        # The reference's; of 3 rows, which may lie in two tiles, ours as well.
        assert len(started) == TURNS or size == 3
        started.clear()


@pytest.mark.parametrize("options", [{"scoped": True}, {"squeezed": True}, {"within": True}])
def test_scopes_squeezes_and_copies_within_a_buffer(options: Any, started: list[Any]) -> None:
    for space, single in product(("any", "vmem"), (False, True)):
        check(kernel(**options, space=space, single=single), *numbers(1, 1))
    # The reference's.
    assert len(started) == 4 * TURNS


def test_overlapping_copies_within_a_buffer() -> None:
    check(kernel(size=8, within=True), *numbers(3, 8))


@pytest.mark.parametrize(("row", "place"), [(ROWS, 0), (-1, 0), (0, ROWS), (2**31 - 1, -5)])
def test_what_is_out_of_bounds_is_told(row: int, place: int) -> None:
    rows, places = numbers(4, 1)
    rows[5], places[5] = row, place
    for single in (False, True):
        said, *_ = check(kernel(single=single), rows, places)
        assert "out-of-bounds" in said
        said, *_ = check(kernel(squeezed=True, space="vmem", single=single), rows, places)
        assert "out-of-bounds" in said


@pytest.mark.parametrize("rows", [8, 7])
def test_promises_hold_in_every_turn(rows: int) -> None:
    text = kernel(size=8).replace(
        "%from =", f"%kept = tpu.assume_multiple %row, {rows} : i32\n%from ="
    )
    text = text.replace("[%row, %zero]", "[%kept, %zero]")
    said, *_ = check(text, *numbers(3, 8, 8))
    assert ("broken-promise" in str(said)) == (rows == 7)


def test_so_is_a_semaphore_out_of_bounds() -> None:
    for single in (False, True):
        text = kernel(single=single).replace("constant 2 : i32", "constant 3 : i32")
        said, *_ = check(text, *numbers(5, 1))
        assert "out-of-bounds" in said


PENDING = f"""
  %some = tpu.memref_slice %sems[%one] : memref<2x!tpu.dma_semaphore, {SEMS}>
    -> memref<1x!tpu.dma_semaphore, {SEMS}>
  %other = tpu.memref_squeeze %some : memref<1x!tpu.dma_semaphore, {SEMS}>
    -> memref<!tpu.dma_semaphore, {SEMS}>
  OP"""
ENDS = f"(%table : {memref(32, f'{ROWS}x128')})", f"(%out : {memref(32, f'{ROWS}x128')})"
START = (
    f"tpu.enqueue_dma source{ENDS[0]} target{ENDS[1]} "
    f"target_semaphore(%other : memref<!tpu.dma_semaphore, {SEMS}>)"
)
WAIT = (
    f"tpu.wait_dma2 semaphore(%other : memref<!tpu.dma_semaphore, {SEMS}>) src{ENDS[0]} "
    f"dst{ENDS[1]}"
)


def test_other_copies_in_flight_land_when_they_did() -> None:
    """The one before the loop lands when somebody waits for it, over what was copied there."""
    before = PENDING.replace("OP", START)
    for after in (WAIT, ""):
        for single in (False, True):
            text = kernel(before=before, after=after, single=single)
            *_, counts, _ = check(text, *numbers(6, 1))
        assert all(count[1] == (0 if after else 4 * 128 * ROWS) for count in counts[-1:])


def test_so_do_they_if_one_has_landed() -> None:
    check(kernel(before=PENDING.replace("OP", f"{START}\n{WAIT}")), *numbers(6, 1))


AHEAD = f"""
  %slot = arith.remui %i, %two : i32
  %all = tpu.memref_slice %sems[%slot] : memref<2x!tpu.dma_semaphore, {SEMS}>
    -> memref<1x!tpu.dma_semaphore, {SEMS}>
  %sem = tpu.memref_squeeze %all : memref<1x!tpu.dma_semaphore, {SEMS}>
    -> memref<!tpu.dma_semaphore, {SEMS}>
  %from = tpu.memref_slice %table[%row, %zero] : {memref(32, f"{ROWS}x128")}
    -> {memref(32, "1x128")}
  %to = tpu.memref_slice %out[%place, %zero] : {memref(32, f"{ROWS}x128", "vmem")}
    -> {memref(32, "1x128", "vmem")}
  OP"""
WAY = f"source(%from : {memref(32, '1x128')}) target(%to : {memref(32, '1x128', 'vmem')})"
SEM = f"(%sem : memref<!tpu.dma_semaphore, {SEMS}>)"
STARTED = AHEAD.replace("OP", f"tpu.enqueue_dma {WAY} target_semaphore{SEM}")
AWAITED = AHEAD.replace(
    "OP", f"tpu.wait_dma2 semaphore{SEM} {WAY.replace('source', 'src').replace('target', 'dst')}"
)


def in_turns(*bodies: str) -> str:
    """A loop for each of `bodies`, one behind the other."""
    text = kernel(space="vmem")
    first, end = text.index("scf.for"), text.index("return")
    loop = text[first:end]
    begin = loop.index("%m = ")
    return text[:first] + "".join(f"{loop[:begin]}{body}\n}}\n" for body in bodies) + text[end:]


@pytest.mark.parametrize(
    "bodies",
    [
        (STARTED, AWAITED),
        (STARTED, AWAITED, STARTED, AWAITED),
        (STARTED, STARTED.replace("%slot = arith.remui %i, %two", "%slot = arith.andi %i, %zero")),
        (STARTED,),
        (STARTED, AWAITED, AWAITED),
    ],
    ids=["awaited", "again", "two of them", "never awaited", "deadlock"],
)
def test_copies_that_fly_for_a_while_land_as_others_do(bodies: Any, started: list[Any]) -> None:
    for seed in range(3):
        said, *_ = check(in_turns(*bodies), *numbers(seed, 1))
        assert ("deadlock" in str(said)) == (bodies[-2:] == (AWAITED, AWAITED))
    # The reference's.
    assert len(started) == 3 * TURNS * sum("enqueue" in body for body in bodies)


@pytest.mark.parametrize(("row", "place"), [(ROWS, 0), (0, -1)])
@pytest.mark.parametrize("which", [STARTED, AWAITED])
def test_what_is_out_of_bounds_of_these_is_told(row: int, place: int, which: str) -> None:
    rows, places = numbers(4, 1)
    rows[5], places[5] = row, place
    changed = which.replace("%row,", f"%{'row' if row else 'i'},")
    other = {STARTED: AWAITED, AWAITED: STARTED}[which]
    other = other.replace("%row,", "%i,").replace("%place,", "%i,")
    bodies = (changed, other) if which is STARTED else (other, changed)
    said, *_ = check(in_turns(*bodies), rows, places)
    assert "out-of-bounds" in said


def test_views_that_others_use_too_are_taken_once() -> None:
    """A copy, what is started behind it, and their waits, all of the same views."""
    wait = AWAITED[AWAITED.index("tpu.wait_dma2") :]
    again = STARTED[STARTED.index("tpu.enqueue_dma") :]
    for body in (f"{STARTED}\n{again}\n{wait}\n{wait}", f"{STARTED}\n{wait}\n{again}"):
        check(in_turns(body), *numbers(8, 1))


def test_views_of_copies_of_both_kinds_are_there() -> None:
    """A copy from where a table says, and one that is not worth a call, have one target."""
    wait = AWAITED[AWAITED.index("tpu.wait_dma2") :]
    again = STARTED[STARTED.index("tpu.enqueue_dma") :].replace("%from", "%first")
    first = "%first = tpu.memref_slice %table[%i, %zero]"
    first += f" : {memref(32, f'{ROWS}x128')} -> {memref(32, '1x128')}"
    started = STARTED.replace("%place", "%i").replace("%from =", f"{first}\n%from =")
    for order in ((started, again), (started, wait, again, wait.replace("%from", "%first"))):
        check(in_turns("\n".join(order)), *numbers(10, 1))


def test_a_copy_whose_end_is_gone_is_told() -> None:
    vmem = memref(32, f"{ROWS}x128", "vmem")
    body = f"%own = memref.alloca() : {vmem}\n{STARTED}".replace("%out", "%own")
    text = in_turns(f'"tpu.region"() ({{ {body}\n tpu.yield }}) : () -> ()', AWAITED)
    said, *_ = check(text, *numbers(9, 1))
    assert "use-after-free" in said


@pytest.mark.parametrize(
    "options",
    [{"checks": ("init",)}, {"checks": ("race",)}, {"order": Order.seeded(3)}, {"poison": 1}],
)
def test_checks_and_orders_see_all(options: Any) -> None:
    for text in (kernel(), kernel(within=True), in_turns(STARTED, AWAITED)):
        check(text, *numbers(7, 1), **options)


def test_a_run_that_keeps_time_has_every_transfer() -> None:
    program = compiled.Program(parse(kernel()), Facts(V5E, profile=True), Budget(10**6))
    program.function("main")
    program.compile("main")
    (source,) = program.sources.values()
    assert "if not c" not in source


def test_nothing_of_a_run_stays() -> None:
    """What copies know of the memory of a run goes with its machine."""
    machine = Machine(V5E)
    (core,), module = machine.cores, parse(kernel())
    main: Any = module.body.block.first_op
    refs = [core.allocate(a.type) for a in main.body.block.args]
    for ref in refs:
        ref.write(np.zeros(ref.shape, np.int32))
    program = compiled.Program(module, Facts(V5E), Budget(10**6))
    machine.run([(core, program.function("main")(core, *refs))])
    assert core.sessions
    machine.drop()
    assert not core.sessions
