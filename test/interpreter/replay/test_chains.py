"""Views of views are made at once, whatever the layout of what they are views of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pallasite.interpreter.call_plan import ArrayType
from pallasite.interpreter.ops.grid import Joined
from pallasite.interpreter.replay import chains
from pallasite.interpreter.replay.chains import Chain, chained
from pallasite.interpreter.replay.direct import Kind, direct
from pallasite.interpreter.replay.lines import STORE, Box, Line
from pallasite.interpreter.replay.script import Script

from .test_direct import Random

LEFT: Any = lambda x: x.reshape(2, 2, 8)[:, :1]  # noqa: E731
RIGHT: Any = lambda x: x.reshape(2, 2, 8)[:, 1:]  # noqa: E731
FLAT: Any = lambda x: x.reshape(4, 8)  # noqa: E731


def look(fn: Any, taken: tuple[int, ...], number: int) -> Line:
    text = f"{{{len(taken)}}} = f({', '.join(f'{{{n}}}' for n in range(len(taken)))})"
    return Line(text, taken, (number,), seen_through=taken, look=fn)


def apart_and_together() -> list[Line]:
    joined = Joined(1)
    return [
        look(LEFT, (0,), 1),
        look(RIGHT, (0,), 2),
        look(joined.look, (1, 2), 3),
        look(FLAT, (3,), 4),
        Line("tell({0})", (4,)),
    ]


def named(prefix: str, value: Any) -> str:
    return prefix


def test_a_chain_is_one_look() -> None:
    one, tell = chained(apart_and_together(), named)
    assert one.takes == one.seen_through == (0,) and one.makes == (4,)
    assert isinstance(one.look, Chain) and tell.takes == (4,)
    x = np.arange(32.0, dtype=np.float32).reshape(4, 8)
    for array in (x, x.T.copy().T, np.zeros((8, 8), np.float32)[::2], x[:, ::-1]):
        for _ in range(2):
            found = one.look(array)
            assert found is not None and found.tobytes() == array.tobytes()


def test_what_is_used_in_between_is_made_too() -> None:
    *looks, tell = apart_and_together()
    left = chained([*looks, Line("tell({0})", (2,)), tell], named)
    assert [line.makes for line in left] == [(2,), (4,), (), ()]


def test_a_view_of_a_copy_is_none() -> None:
    chain = chained([look(lambda x: x.T, (0,), 1), look(lambda x: x.reshape(32), (1,), 2),
                     Line("tell({0})", (2,))], named)[0]  # fmt: skip
    x = np.arange(32.0, dtype=np.float32).reshape(4, 8)
    assert chain.look is not None
    for array in (x, x.T.copy().T):
        assert np.array_equal(chain.look(array), array.T.reshape(32))  # pyright: ignore


def test_random_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = 0
    for seed in range(300):
        random = Random(seed)
        for _ in range(30):
            random.line()
            if random.alive and random.random.random() < 0.5:
                random.look(max(random.alive))
        expected = results(random, monkeypatch, False)
        assert results(random, monkeypatch, True) == expected, seed
        fewer += len(chained(random.lines, random.bind)) < len(random.lines)
    assert fewer > 100


def results(random: Random, patch: pytest.MonkeyPatch, at_once: bool) -> Any:
    seen: list[bytes] = []
    random.bound["seen"] = seen
    with patch.context() as only:
        if not at_once:
            script = "pallasite.interpreter.replay.script.chained"
            only.setattr(script, lambda lines, *rest: lines)
        made = Script.of(random, 1, [ArrayType((3, 128), np.dtype(np.uint8))])  # pyright: ignore[reportArgumentType]
    x = np.random.default_rng(0).integers(-9, 9, (3, 32)).astype(np.float32)
    made.run([x], None)
    return seen


def test_parts_of_one_value_that_are_stored_together() -> None:
    parts, target = (
        apart_and_together()[:3],
        Box("m0", (2, 2, 8), np.dtype(np.float32), 0, (64, 32, 4)),
    )
    kinds = [Kind(shape, target.dtype) for shape in ((4, 8), (2, 1, 8), (2, 1, 8), (2, 2, 8))]
    lines = [Line("{} = make()", (), (0,)), *parts, Line(STORE, (3,), write=target)]
    assert direct(lines, kinds, named)[0] == lines


def test_layouts_are_found_out_once() -> None:
    calls: list[Any] = []

    def counted(x: Any) -> Any:
        calls.append(x.strides)
        return x[1:]

    chain = Chain(chains._Seen(0, counted, (chains._Seen(0, counted, (None,)),)))  # pyright: ignore
    x = np.zeros((6, 4), np.float32)
    for _ in range(3):
        assert chain(x).shape == (4, 4) and chain(np.asfortranarray(x)).shape == (4, 4)
    assert len(calls) == 4
