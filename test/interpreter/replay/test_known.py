"""What a script computes beforehand, and what it selects by known conditions."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from pallasite.interpreter.meanings import many_of
from pallasite.interpreter.ops.choice import Put, chooser
from pallasite.interpreter.replay import known
from pallasite.interpreter.replay.choices import with_known_conditions
from pallasite.interpreter.replay.direct import Kind
from pallasite.interpreter.replay.in_place import out_of_place, put_in_place
from pallasite.interpreter.replay.known import with_known
from pallasite.interpreter.replay.lines import STORE, Box, Line
from pallasite.interpreter.replay.values import Values

F32 = np.dtype(np.float32)
KIND = Kind((4, 8), F32)
ONES = np.ones(KIND.shape, np.float32)


def split(x: Any) -> Any:
    return x[:2], x[2:]


class Bound(dict[str, Any]):
    def bind(self, prefix: str, value: Any) -> str:
        name = f"{prefix}{len(self) + 100}"
        self[name] = value
        return name


def bound() -> Bound:
    return Bound(f0=operator.add, f1=split, f2=np.where, f3=np.negative, c0=ONES, c1=2)


def test_what_constants_make_is_a_constant() -> None:
    names = bound()
    store = Line(STORE, (1,), write=Box("o0", *KIND, 0, (32, 4)))
    lines = [
        Line("{0} = f0(c0, c1)", (), (0,)),
        Line("{2} = f0({0}, {1})", (0, 7), (1,), seen_through=(0, 7)),
        Line("{1} = f0({0}, c1)", (0,), (2,)),
        Line("{1} = f0({0}, c0)", (2,), (3,)),
        store,
    ]
    left, last = with_known(lines, names, names.bind)
    (name,) = {x for x in names if int(x[1:]) >= 100} & {left.text[9:-6]}
    assert left.text == f"{{1}} = f0({name}, {{0}})" and left.takes == left.seen_through == (7,)
    np.testing.assert_array_equal(names[name], ONES * 3)
    assert last == store


def test_what_is_written_over_or_large_is_computed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    names = bound()
    make = Line("{0} = f0(c0, c1)", (), (0,))
    over = Line("f3({0}, out={1})", (0, 0), overwritten=0, ufunc=np.negative)
    assert with_known([make, over], names, names.bind) == [make, over]
    monkeypatch.setattr(known, "MOST_BYTES", 64)
    assert with_known([make], names, names.bind) == [make]
    fails = Line("{0} = f1(c1)", (), (0,))
    assert with_known([fails], names, names.bind) == [fails]


def masks() -> list[np.ndarray]:
    row, column = np.indices(KIND.shape)
    boxes = [row == 2, column != 3, (row > 1) & (column < 5), row < 0, row >= 0]
    return [*boxes, (row + column) % 2 > 0]


def drawn(*seeds: int) -> list[Any]:
    return [np.random.default_rng(s).standard_normal(KIND.shape).astype(np.float32) for s in seeds]


@pytest.mark.parametrize("number", range(6))
def test_a_known_condition_selects(number: int) -> None:
    names = bound()
    names["c2"] = masks()[number]
    line = Line("{2} = f2(c2, {0}, {1})", (0, 1), (2,))
    (found,) = with_known_conditions([line], [KIND] * 3, names, names.bind)
    assert found != line
    fn = names[found.text.partition(" = ")[2].partition("(")[0]]
    assert isinstance(fn, Put) == (number < 5)
    a, b = drawn(0, 1)
    expected = np.where(names["c2"], a, b)
    np.testing.assert_array_equal(fn(a, b), expected)
    many = many_of(fn)
    assert many is not None
    several = many.call(np.stack([a, b, a]), np.stack([b, a, a]))
    np.testing.assert_array_equal(several, [expected, np.where(names["c2"], b, a), a])


def test_a_condition_of_another_shape_or_type_stays() -> None:
    names = bound()
    names["c2"] = masks()[0]
    line = Line("{2} = f2(c2, {0}, {1})", (0, 1), (2,))
    for kinds in ([KIND, Kind((1, 8), F32), KIND], [KIND._replace(dtype=np.dtype(bool))] * 3):
        found = with_known_conditions([line], kinds, names, names.bind)
        assert found == [line] or isinstance(names[found[0].text[6:10]], Put)
    one = Line("{1} = f2({0}, c0, c0)", (0,), (1,))
    assert with_known_conditions([one], [KIND] * 2, names, names.bind) == [one]


def test_parts_are_put_into_arrays_that_nobody_else_uses() -> None:
    names = bound()
    put = names["f4"] = chooser(F32, masks()[0], None, None)
    assert isinstance(put, Put)
    made = Line("{2} = f0({0}, {1})", (0, 1), (2,))
    first = Line("{2} = f4({0}, {1})", (0, 2), (3,))
    found = put_in_place([made, first], names, names.bind)
    assert found[1] != first
    a, b, kept = drawn(0, 1, 1)
    name = found[1].text.partition(" = ")[2].partition("(")[0]
    assert names[name](a, b) is b
    np.testing.assert_array_equal(b, np.where(masks()[0], a, kept))
    again = Line(STORE, (2,), write=Box("o0", *KIND, 0, (32, 4)))
    for lines in ([first], [made, first, again], [made, again, first]):
        assert put_in_place(lines, names, names.bind) == lines


def test_small_results_are_new_values() -> None:
    over = Line("f3({0}, out={1})", (0, 0), overwritten=0, ufunc=np.negative)
    after = Line(STORE, (0,), write=Box("o0", *KIND, 0, (32, 4)))
    first, last = out_of_place([over, after], Values([KIND], {}))
    assert first.text == "{1} = f3({0})" and first.takes == (0,) and last.takes == first.makes
    look = Line("{1} = f1({0})", (0,), (1,), seen_through=(0,))
    for lines in ([look, over, after], [over._replace(ufunc=None), after]):
        assert out_of_place(lines, Values([KIND] * 2, {})) == lines
    assert out_of_place([over], Values([KIND], {0: Box("i0", *KIND, 0, (32, 4))})) == [over]
