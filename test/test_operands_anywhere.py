"""What a kernel computes does not depend on where its operands lie in memory.

A script reads values where memory has them, where the run that was recorded had copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from pallasite import api
from pallasite.interpreter.meanings import Staged, many_of
from pallasite.interpreter.ops.grid import Joined
from pallasite.interpreter.replay import repeats
from pallasite.interpreter.replay.recorder import Recorder
from pallasite.interpreter.run import execute, prepare
from pallasite.interpreter.values import Array
from pallasite.targets import get_target

from .conformance import CASES, accepted, program

V5E = get_target("v5e")
NAMES = [name for name, case in CASES.items() if case["devices"] == 1 and accepted(name, "v5e")]
ORDERS = 8
"""Of axes that are tried of arrays with more than three."""


def elsewhere(x: Array) -> Iterator[Array]:
    """Arrays with the elements of `x` that lie otherwise."""
    orders = list(permutations(range(x.ndim)))
    for order in orders[:: max(1, len(orders) // ORDERS)]:
        yield x.transpose(order).copy().transpose(np.argsort(order))
    room = np.zeros([n + 3 for n in x.shape], x.dtype)
    part = tuple(slice(1, 1 + n) for n in x.shape)
    room[part] = x
    yield room[part]
    room = np.zeros([2 * n for n in x.shape], x.dtype)
    room[(slice(None, None, 2),) * x.ndim] = x
    yield room[(slice(None, None, 2),) * x.ndim]


def results(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def words(found: Any) -> list[tuple[Any, ...]]:
    return [(np.shape(x), np.asarray(x).tobytes()) for x in results(found)]


def share(found: Any, operand: Array) -> bool:
    return any(
        isinstance(x, np.ndarray) and np.may_share_memory(x, operand) for x in results(found)
    )


class Trial(Recorder):
    """A recorder that tries every function on operands that lie elsewhere."""

    def call(self, fn: Any, *arguments: Any, **rest: Any) -> Any:
        if not rest and not (isinstance(fn, Staged) and self.plain):
            self._try(fn, arguments)
            try_many(fn, arguments)
        return super().call(fn, *arguments, **rest)

    def _try(self, fn: Any, arguments: tuple[Any, ...]) -> None:
        found = fn(*arguments)
        looks = isinstance(fn, Joined) or len(arguments) == len(results(found)) == 1
        for number, operand in enumerate(arguments):
            if not isinstance(operand, np.ndarray) or not operand.ndim:
                continue
            for other in elsewhere(operand):
                again = fn(*arguments[:number], other, *arguments[number + 1 :])
                assert words(again) == words(found), fn
                # Those that may look at their only operand are tried when a script is written.
                assert looks or share(again, other) <= share(found, operand), fn


def others(x: Array) -> list[Array]:
    """Arrays of the same kind, the first of which is `x`."""
    flat = np.ascontiguousarray(x).reshape(-1)
    return [x, flat[::-1].reshape(x.shape), np.roll(flat, 5).reshape(x.shape)]


def stacks(parts: list[Array]) -> Iterator[Array]:
    """One array of all `parts`, which lies in memory in some ways."""
    yield np.stack(parts)
    order = np.argsort([-step for step in parts[0].strides], kind="stable")
    yield np.stack([x.transpose(order) for x in parts]).transpose(0, *(np.argsort(order) + 1))
    yield np.stack(parts, 1).swapaxes(0, 1)
    room = np.zeros((2 * len(parts), *parts[0].shape), parts[0].dtype)
    room[::2] = parts
    yield room[::2]


def try_many(fn: Any, arguments: tuple[Any, ...]) -> None:
    """Tries that `fn` computes several at once, if it says so, as it computes each."""
    many = many_of(fn)
    arrays = [n for n, x in enumerate(arguments) if isinstance(x, np.ndarray) and x.ndim]
    if many is None or not arrays:
        return
    several = {n: others(arguments[n]) for n in arrays}
    choices = [arrays]
    if many.spreads:
        rank = max(arguments[n].ndim for n in arrays)
        choices = [[n] for n in arrays if arguments[n].ndim == rank] + [arrays] * (
            all(arguments[n].ndim == rank for n in arrays)
        )
    for chosen in choices:
        each = [
            results(fn(*(several[n][k] if n in chosen else x for n, x in enumerate(arguments))))
            for k in range(3)
        ]
        for laid in zip(*(stacks(several[n]) for n in chosen), strict=True):
            given = dict(zip(chosen, laid, strict=True))
            found = results(many.call(*(given.get(n, x) for n, x in enumerate(arguments))))
            for k, wanted in enumerate(each):
                assert words(tuple(x[k] for x in found)) == words(wanted), (fn, chosen)


def with_nans(x: Array, random: np.random.Generator) -> Array:
    """`x`, of whose elements some are NaNs of any bits, if it has floats of 32 bits."""
    if x.dtype != np.float32 or not x.ndim:
        return x
    nans = random.integers(0, 1 << 22, x.shape).astype(np.uint32) | 0x7FC00000
    return np.where(random.random(x.shape) < 0.1, nans.view(np.float32), x)


@pytest.mark.parametrize("name", NAMES[::3])
def test_operands_may_lie_anywhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "BEFORE", 0)
    monkeypatch.setattr(repeats, "Recorder", Trial)
    module = api.parse(program(name).read_text(), name=name)
    kernel = prepare(api.lower(module, "tiles", "v5e"), target=V5E)
    assert kernel.described.plan is not None
    random, deciding = np.random.default_rng(0), kernel.described.plan.deciding
    inputs = [
        x if number in deciding else with_nans(x, random)
        for number, x in enumerate(api.random_inputs(module, 0))
    ]
    execute(kernel.described.module, [inputs], target=V5E, prepared=kernel)
