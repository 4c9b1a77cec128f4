"""Loops whose copies fly together leave what each start and each wait leave, whatever the order."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pallasite.interpreter.machine.bulk_copies import CopyLoop
from pallasite.interpreter.machine.order import Order

from .copies_in_loops import ROWS, SEMS, TURNS, check, kernel, memref, numbers

TABLE, ROW = (memref(32, f"{size}x128") for size in (ROWS, 1))
SEM, SEM1 = (f"memref<{size}!tpu.dma_semaphore, {SEMS}>" for size in ("", "1x"))


def flight(
    copies: list[tuple[str, str, str, int]], waits: list[int], sizes: tuple[int, ...] = (1,)
) -> str:
    """A loop that starts `copies`, each from and to rows of two arrays by index and on a semaphore,
    and then waits for them in that order."""
    starts, awaits = "", ""
    for n, (row, place, out, semaphore) in enumerate(copies):
        size = sizes[n % len(sizes)]
        part = ROW.replace("1x", f"{size}x", 1)
        starts += f"""
          %s{n} = arith.constant {semaphore} : i32
          %all{n} = tpu.memref_slice %sems[%s{n}] : {SEM1.replace("1x", "2x")} -> {SEM1}
          %sem{n} = tpu.memref_squeeze %all{n} : {SEM1} -> {SEM}
          %from{n} = tpu.memref_slice %table[{row}, %zero] : {TABLE} -> {part}
          %to{n} = tpu.memref_slice {out}[{place}, %zero] : {TABLE} -> {part}
          tpu.enqueue_dma source(%from{n} : {part}) target(%to{n} : {part})
            target_semaphore(%sem{n} : {SEM})"""
    for n in waits:
        part = ROW.replace("1x", f"{sizes[n % len(sizes)]}x", 1)
        awaits += f"""
          tpu.wait_dma2 semaphore(%sem{n} : {SEM}) src(%from{n} : {part}) dst(%to{n} : {part})"""
    text = kernel()
    begin, end = text.index("%m = arith.remui"), text.index("return")
    head = text[:begin].replace("%rows:", f"%other: {TABLE}, %rows:")
    more = f"""%next = arith.addi %row, %one : i32
      %last = arith.constant {ROWS - 1} : i32
      %far = arith.subi %last, %place : i32"""
    return f"{head} {more} {starts} {awaits}\n}}\n{text[end:]}"


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each loop of copies that begins, whether all its turns are done together."""
    seen: list[bool] = []
    call = CopyLoop.__call__

    def noted(loop: CopyLoop, *given: Any) -> bool:
        seen.append(call(loop, *given))
        return seen[-1]

    monkeypatch.setattr(CopyLoop, "__call__", noted)
    return seen


STARTS = ("%row", "%place", "%far", "%next")


def indices(seed: int) -> tuple[Any, Any]:
    rows, places = numbers(seed, 2)
    return rows, places


@pytest.mark.parametrize("seed", range(24))
def test_they_leave_the_same(seed: int, together: list[bool]) -> None:
    random = Random(seed)
    count, same = random.randint(2, 5), random.random() < 0.7
    outs = ("%out", "%other") if random.random() < 0.4 else ("%out",)
    copies = [
        (random.choice(STARTS), random.choice(STARTS), random.choice(outs),
         0 if same else random.randrange(2))
        for _ in range(count)
    ]  # fmt: skip
    waits = random.sample(range(count), count)
    check(flight(copies, waits), *indices(seed))
    if same:
        assert together == [True]


def test_of_two_to_one_place_the_older_one_lands_last(together: list[bool]) -> None:
    copies = [("%row", "%place", "%out", 0), ("%far", "%place", "%out", 0)]
    for waits in ([0, 1], [1, 0]):
        check(flight(copies, waits), *indices(1))
    assert together == [True, True]
    # Those of two semaphores land in the order of the waits.
    copies[1] = (*copies[1][:3], 1)
    for waits in ([0, 1], [1, 0]):
        check(flight(copies, waits), *indices(1))
    assert together == [True, True, False, False]


def test_parts_that_overlap_or_differ_in_size_go_one_by_one(together: list[bool]) -> None:
    copies = [("%row", "%place", "%out", 0), ("%row", "%i", "%out", 0)]
    for sizes in ((2,), (1, 2), (2, 1)):
        check(flight(copies, [1, 0], sizes), *indices(2))
    assert together == [False] * 3


def test_copies_of_two_sizes_to_two_arrays(together: list[bool]) -> None:
    copies = [("%row", "%place", "%out", 0), ("%row", "%place", "%other", 0)]
    rows, places = indices(3)
    for sizes in ((1, 8), (8, 1)):
        for waits in ([0, 1], [1, 0]):
            check(flight(copies, waits, sizes), rows // 8 * 8, places // 8 * 8)
    assert together == [True] * 4


@pytest.mark.parametrize(
    ("rows", "places"), [({5: ROWS}, {}), ({}, {3: -1}), ({0: -2}, {}), ({8: ROWS - 1}, {})]
)
def test_what_is_out_of_bounds_is_told(rows: Any, places: Any, together: list[bool]) -> None:
    at = indices(4)
    for array, changes in zip(at, (rows, places), strict=True):
        for turn, number in changes.items():
            array[turn] = number
    copies = [("%place", "%far", "%out", 0), ("%next", "%place", "%out", 0)]
    said, *_ = check(flight(copies, [0, 1]), *at)
    assert "out-of-bounds" in str(said)
    assert together == [False]


@pytest.mark.parametrize("waits", [[0], [0, 0, 1], [1, 1]])
def test_waits_for_others_are_not_theirs(waits: list[int], together: list[bool]) -> None:
    copies = [("%row", "%place", "%out", 0), ("%far", "%next", "%out", 1)]
    check(flight(copies, waits), *indices(5))
    assert not together


def test_one_that_reads_what_another_writes(together: list[bool]) -> None:
    text = flight([("%row", "%place", "%out", 0), ("%far", "%next", "%other", 0)], [0, 1])
    text = text.replace("%from1 = tpu.memref_slice %table", "%from1 = tpu.memref_slice %out")
    check(text, *indices(6))
    assert together == [False]


@pytest.mark.parametrize(
    "options",
    [{"checks": ("init",)}, {"checks": ("race",)}, {"order": Order.seeded(3)}, {"poison": 1}],
)
def test_checks_and_orders_see_all(options: Any) -> None:
    copies = [("%row", "%place", "%out", 0), ("%far", "%next", "%out", 0)]
    check(flight(copies, [1, 0]), *indices(7), **options)


def test_more_than_may_fly(monkeypatch: pytest.MonkeyPatch, together: list[bool]) -> None:
    monkeypatch.setattr("pallasite.interpreter.machine.dma.MOST_IN_FLIGHT", 2)
    copies = [("%row", "%place", "%out", 0)] * 3
    said, *_ = check(flight(copies, [0, 1, 2]), *indices(8))
    assert "too-many-dmas" in str(said)
    assert together == [False]


def test_none_is_started_alone(started: list[Any]) -> None:
    copies = [("%row", "%place", "%out", 0), ("%far", "%next", "%out", 0)]
    check(flight(copies, [0, 1]), *indices(9))
    # The reference's.
    assert len(started) == 2 * TURNS
