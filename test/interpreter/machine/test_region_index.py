"""Regions are found by what they overlap, whatever view they are of, and few others are."""

from __future__ import annotations

import random
from typing import Any

import pytest
from xdsl.dialects.builtin import MemRefType, f32

from pallasite.dialects.tpu import MemorySpaceAttr
from pallasite.interpreter.machine import recast
from pallasite.interpreter.machine.machine import Machine
from pallasite.interpreter.machine.region_index import RegionIndex
from pallasite.interpreter.machine.regions import Region, box_region, whole_region
from pallasite.interpreter.machine.spans import Spans
from pallasite.targets import get_target


@pytest.fixture(name="array")
def hbm_array() -> Any:
    core = Machine(get_target("v5e")).cores[0]
    return core.allocate(MemRefType(f32, (64, 1024), memory_space=MemorySpaceAttr("any")))


def test_what_overlaps_is_near_while_regions_come_and_go(array: Any) -> None:
    draw = random.Random(3)
    planes = recast.reshape(array, (8, 8, 1024))

    def region() -> Region:
        row, column = draw.randrange(8) * 8, draw.randrange(8) * 128
        rows, columns = draw.randrange(1, 9 - row // 8) * 8, draw.randrange(1, 9 - column // 128)
        match draw.randrange(5):
            case 0:
                return box_region(array, (row, column), (4, 64), (2, 2))
            case 1:
                part = planes.slice((row // 8, 0, column), (rows // 8, 8, columns * 128))
                return whole_region(part)
            case 2:
                one = planes.slice((row // 8, 0, column), (1, 8, columns * 128))
                return whole_region(one.keep((1, 2)))
            case _:
                return whole_region(array.slice((row, column), (rows, columns * 128)))

    index: RegionIndex[int] = RegionIndex()
    held: dict[int, Region] = {}
    for number in range(150):
        if held and draw.random() < 0.4:
            gone = draw.choice(list(held))
            index.remove(gone, held.pop(gone))
        held[number] = region()
        index.add(number, held[number])
        searched = region()
        overlapping = {n for n, other in held.items() if searched.overlaps(other)}
        assert overlapping <= set(index.near(searched))


@pytest.mark.parametrize("dimension", [0, 1])
def test_blocks_of_rows_and_of_columns_are_told_apart(array: Any, dimension: int) -> None:
    shape = (8, 1024) if dimension == 0 else (64, 128)
    starts = [(8 * n, 0) if dimension == 0 else (0, 128 * n) for n in range(8)]
    blocks = [whole_region(array.slice(start, shape)) for start in starts]
    index: RegionIndex[int] = RegionIndex()
    for number, block in enumerate(blocks):
        index.add(number, block)
    for number, block in enumerate(blocks):
        assert index.near(block) == [number]
    odd = whole_region(array.slice((0, 0), (64, 1024)))
    assert set(index.near(odd)) == set(range(8))
    index.add(8, odd)
    for number, block in enumerate(blocks):
        # Among other boxes, the first block tells nothing about itself.
        assert {number, 8} <= set(index.near(block)) <= {0, number - 1, number, number + 1, 8}
        index.remove(number, block)
        assert number not in index.near(block)


def test_rows_taken_by_an_index_are_not_searched_one_by_one(
    array: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [whole_region(array.slice((n, 0), (1, 1024)).keep((1,))) for n in range(64)]
    assert len({row.array for row in rows}) == 64
    index: RegionIndex[int] = RegionIndex()
    for number, row in enumerate(rows):
        index.add(number, row)
    searched: list[Any] = []
    near: Any = Spans.near

    def noted(*at: Any) -> Any:
        searched.append(at)
        return near(*at)

    monkeypatch.setattr(Spans, "near", noted)
    for number, row in enumerate(rows):
        assert number in index.near(row)
    assert len(searched) <= 2 * len(rows)
