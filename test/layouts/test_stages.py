"""Movements in stages: what bounds the cost of a plan, and the work of finding it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pallasite.diagnostics import Unsupported
from pallasite.layouts.move import Move, Reshape, Transpose
from pallasite.layouts.plan import Plan
from pallasite.layouts.planner import planner, whole
from pallasite.layouts.planner.check import performs
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.demand import ALL_LANES
from pallasite.layouts.planner.planner import plan
from pallasite.layouts.planner.trace import Trace
from pallasite.layouts.strategies.stages import Stages
from pallasite.layouts.strategies.transpose import Planner
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.targets import get_target

V5E = Costs.of(get_target("v5e"))
N2, N3 = VectorLayout.native(2, 8), VectorLayout.native(3, 8)


def test_stages_lie_in_native_tiles():
    few, turned = VectorLayout(8, 1, 2, tile_rows=4), VectorLayout(8, 1, 0)
    shape, result = (64, 16, 515), (160, 3296)
    steps = Transpose((16, 515, 64), (1, 2, 0)), Reshape((16, 515, 64), result)
    stages = Stages.of(Move(((few, shape),), (turned, result), steps))
    assert stages.several
    assert stages.before == (Move.relayout(few, shape, N3),)
    assert [m.steps for m in stages.between] == [steps[:1], steps[1:]]
    assert all(m.sources[0][0] == N3 for m in stages.between)
    assert stages.after == Move.relayout(N2, result, turned)


def test_one_stage_is_none():
    for move in (
        Move.transpose((N2, (40, 300)), N2, (1, 0)),
        Move.relayout(VectorLayout(8, 0, 1, tile_rows=4), (40, 300), N2),
    ):
        stages = Stages.of(move)
        assert not stages.several and stages.best(plan, V5E) is None


def test_steps_of_units_are_no_stages():
    few = VectorLayout(8, 0, 1, tile_rows=4)
    steps = (
        Reshape((40, 300), (40, 1, 300)),
        Transpose((300, 1, 40), (2, 1, 0)),
        Reshape((300, 1, 40), (300, 40)),
        Reshape((300, 40), (600, 20)),
    )
    stages = Stages.of(Move(((few, (40, 300)),), (N2, (600, 20)), steps))
    assert [m.steps for m in stages.between] == [steps[:3], steps[3:]]
    assert stages.steps == 2


def test_short_rows_become_columns_at_once():
    steps = Transpose((40, 6, 300), (1, 2, 0)), Reshape((40, 6, 300), (240, 300))
    for bits, before in ((16, (None,)), (8, None)):
        few = VectorLayout(bits, 1, 2, tile_rows=2)
        shape = (300, 40, 6)
        move = Move(((few, shape),), (VectorLayout.native(2, bits), (240, 300)), steps)
        native = Move.relayout(few, shape, VectorLayout.native(3, bits))
        assert Stages.of(move).before == (before or (native,))


def test_stages_come_first_where_rows_are_cut_anew():
    few = VectorLayout(32, 0, 1, tile_rows=4)
    native = VectorLayout.native(2, 32)
    cases = [((100, 30), (30, 100), True), ((100, 30), (50, 60), True), ((100, 1), (1, 100), False)]
    for shape, result, first in cases:
        stages = Stages.of(Move.reshape((few, shape), native, result))
        assert stages.several and stages.come_first == first
    assert not Stages.of(Move.transpose((few, (100, 30)), native, (1, 0))).come_first


def test_stages_are_all_where_the_transpose_unit_takes_other_elements():
    few, shape, turned = VectorLayout(8, 0, 1, tile_rows=4), (40, 300), (300, 40)
    stages = Stages.of(Move.transpose((few, shape), N2, (1, 0)))
    assert stages.are_all(V5E) and not stages.are_all(Costs.of(get_target("v6e")))
    assert not Stages.of(Move.transpose((N2, shape), N2, (1, 0))).are_all(V5E)
    assert not Stages.of(Move.reshape((few, shape), N2, turned)).are_all(V5E)
    assert plan(stages.move, V5E).how.startswith("stages")


def test_stages_of_copies_repeat_those_of_one():
    few, native = VectorLayout(8, 1, 2, tile_rows=4), VectorLayout.native(2, 8)

    def stages(count: int, shape: tuple[int, int]) -> Stages:
        source = (few, (count, 12, 30))
        return Stages.of(Move.reshape(source, N3, (count, *shape)))

    assert stages(50, (30, 12)).repeat(stages(1, (30, 12)))
    assert not stages(50, (30, 12)).repeat(stages(1, (20, 18)))
    assert not stages(50, (30, 12)).repeat(
        Stages.of(Move.reshape((N3, (1, 12, 30)), native, (30, 12)))
    )


def test_replication_lasts():
    spread = VectorLayout(8, 0, 1, 3, None)
    stages = Stages.of(Move.broadcast((spread, (40, 1)), N2, (40, 300)))
    assert stages.before == (Move.relayout(spread, (40, 1), spread.with_offsets(0, None)),)
    # Along other dimensions it would be lost.
    turned = VectorLayout(8, 1, 0, None, 0)
    assert Stages.of(Move.broadcast((turned, (40, 1)), N2, (40, 300))).before == (None,)


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        (VectorLayout(8, 0, 1, None, 0), (40, 300)),
        (VectorLayout(8, 0, 1, 3, None), (40, 1)),
        (VectorLayout(8, 1, 0, None, None), (1, 1)),
    ],
    ids=str,
)
def test_replication_is_given_up_where_it_leaves_no_plan(
    layout: VectorLayout, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
):
    move = Move.relayout(layout, shape, VectorLayout(8, 0, 1, 5, 7))
    found = whole.trace

    def placed_only(asked: Move, *most: float) -> Trace:
        if asked == move:
            raise Unsupported("movement", "not planned")
        return found(asked, *most)

    monkeypatch.setattr(whole, "trace", placed_only)
    planner.plan_or_none.cache_clear()
    made = plan(move, V5E)
    planner.plan_or_none.cache_clear()
    assert made.how.startswith("stages")
    assert performs(made, move, ALL_LANES)
    with pytest.raises(Unsupported, match="no instruction sequence known"):
        plan(move, replace(V5E, stages=False))
    planner.plan_or_none.cache_clear()


@pytest.mark.parametrize(
    ("move", "most"),
    [
        # Without stages: some 960, 44,000 and 48,000.
        (
            Move.roll((VectorLayout(4, 0, 1, tile_rows=1), (128, 144)),
                      VectorLayout(4, 0, 1, 0, 14), 0, 40), 400),
        (
            Move.reshape((VectorLayout(16, 1, 2, tile_rows=2), (108, 31, 17)),
                         VectorLayout(16, 2, 1), (3, 3162, 6)), 18000),
        (
            Move.reshape((VectorLayout.native(3, 16), (4, 621, 11)), VectorLayout(16, 1, 0),
                         (198, 138)), 3700),
    ],
    ids=str,
)  # fmt: skip
def test_stages_cost_less(move: Move, most: float):
    assert plan(move, V5E).cost <= most


@pytest.mark.parametrize("tile_rows", [32, 8])
def test_several_steps_may_be_one_simple_movement(tile_rows: int):
    """Heads that are split and transposed are parts of lanes side by side, which no stage sees."""
    source = VectorLayout(8, 0, 1, tile_rows=tile_rows)
    result = VectorLayout(8, 1, 2, tile_rows=tile_rows)
    steps = Reshape((64, 256), (64, 4, 64)), Transpose((4, 64, 64), (1, 0, 2))
    move = Move(((source, (64, 256)),), (result, (4, 64, 64)), steps)
    stages = Stages.of(move)
    staged = stages.best(plan, V5E)
    assert stages.come_first and stages.steps == 2 and staged is not None
    assert plan(move, V5E).cost < staged.cost / 5


@pytest.mark.parametrize("column", [0, 70])
def test_what_begins_within_a_tile_is_planned_in_stages_first(
    monkeypatch: pytest.MonkeyPatch, column: int
):
    """Several steps of few registers that do not are one simple movement, as a rule."""
    steps = Transpose((187, 2, 299), (1, 2, 0)), Reshape((187, 2, 299), (299, 374))
    source = replace(VectorLayout.native(3, 4), column=column), (299, 187, 2)
    move = Move((source,), (VectorLayout.native(2, 4), (299, 374)), steps)
    asked: list[str] = []

    def at_once(_move: Move, _costs: Costs) -> Plan:
        asked.append("at once")
        raise Unsupported("movement", "nothing is found")

    def in_stages(_self: Stages, _plan: Planner, _costs: Costs, _steps: int = 0) -> None:
        asked.append("stages")

    monkeypatch.setattr(planner, "_at_once", at_once)
    monkeypatch.setattr(Stages, "best", in_stages)
    planner.plan_or_none.cache_clear()
    with pytest.raises(Unsupported):
        plan(move, V5E)
    assert asked[0] == ("stages" if column else "at once")


FINELY_CUT = Move.reshape(
    (VectorLayout(16, 0, 1, tile_rows=8), (331, 30)), VectorLayout(16, 0, 1, 0, 42), (30, 331)
)
TURNED_NARROW = Move(
    ((VectorLayout(8, 1, 2, 0, 132, 4), (506, 4, 4)),),
    (VectorLayout(8, 1, 2, 0, 7), (4, 253, 8)),
    (Transpose((4, 4, 506), (2, 1, 0)), Reshape((4, 4, 506), (4, 253, 8))),
)


@pytest.mark.parametrize("move", [FINELY_CUT, TURNED_NARROW], ids=str)
def test_stages_are_not_compared_with_what_cannot_cost_less(
    move: Move, monkeypatch: pytest.MonkeyPatch
):
    """Rows that are cut finely repeat nothing; elements that the transpose unit does not take go
    through native tiles in any case."""
    name, asked = "_at_once", list[Move]()
    right: Planner = getattr(planner, name)

    def at_once(part: Move, costs: Costs) -> Plan:
        asked.append(part)
        return right(part, costs)

    monkeypatch.setattr(planner, name, at_once)
    planner.plan_or_none.cache_clear()
    assert plan(move, V5E).how.startswith("stages")
    assert move not in asked


def test_columns_that_become_rows_are_not_planned_in_stages_again():
    columns = VectorLayout(4, 1, 2, 25), (277, 87, 1)
    move = Move.reshape(columns, VectorLayout(4, 0, 1, 10, 163, 16), (3, 8033))
    known = plan(move, V5E)

    def never(asked: Move, _costs: Costs) -> Plan:
        raise AssertionError(asked)

    assert Stages.of(move).several
    assert Stages.of(move).better(never, V5E, known) is None
