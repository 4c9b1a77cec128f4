"""Loops that count for themselves: what JAX takes for their counter, and does not lower of them."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from pallasite.diagnostics import KernelWarning  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from .support import equal, told  # noqa: E402
from .test_traced_control import X, call, counted, f32, i32, scanned  # noqa: E402

pytestmark = pytest.mark.jax


def next_in_scan(x: Any, n: Any) -> Any:
    def turn(carry: Any, _: None) -> Any:
        i, total = carry
        following = i + 1
        return (following, total * 2 + following.astype(f32)), None

    return lax.scan(turn, (n[0], x), None, length=4)[0][1]


def next_in_while(x: Any, n: Any) -> Any:
    def turn(carry: Any) -> Any:
        i, end, total = carry
        following = i + 1
        return following, end, total * 2 + following.astype(f32)

    return lax.while_loop(lambda c: c[0] < c[1], turn, (n[0], n[1], x))[2]


def end_in_while(x: Any, n: Any) -> Any:
    def turn(carry: Any) -> Any:
        i, end, total = carry
        return i + 1, end, total + end.astype(f32)

    return lax.while_loop(lambda c: c[0] < c[1], turn, (n[0], n[1], x))[2]


@pytest.mark.parametrize("program", [next_in_scan, next_in_while, end_in_while])
def test_turns_may_use_the_next_count_and_the_end(program: Any) -> None:
    for numbers in (jnp.asarray([1, 4], i32), jnp.asarray([5, 2], i32)):
        with simulate(form="pallas"):
            equal(call(program, numbers), program(X, numbers))
    with simulate(), pytest.raises(KeyError) as caught:
        call(program, jnp.asarray([1, 4], i32))
    assert "use lax.fori_loop" in told(caught.value)


@pytest.mark.parametrize(
    "program, given",
    [
        (lambda x, n: counted(n[0], n[1], x), "the end"),
        (lambda x, n: counted(jnp.int32(5), jnp.int32(2), x), "the end"),
        (lambda x, n: scanned(n[0], 4, x), "the number of turns"),
        (lambda x, n: scanned(jnp.int32(3), 4, x), "the number of turns"),
    ],
)
def test_counters_that_jax_lowers_to_other_numbers(program: Any, given: str) -> None:
    numbers = jnp.asarray([5, 2], i32)
    with simulate(form="dma"), pytest.warns(KernelWarning, match=f"it is {given}") as seen:
        call(program, numbers)
    line = str(seen[0].message)
    assert "test_traced_control.py" in line and "loop-counter" in line


def test_counters_that_are_right_are_not_told() -> None:
    numbers = jnp.asarray([0, 3], i32)
    programs: list[Any] = [
        lambda x, n: counted(jnp.int32(2), jnp.int32(5), x),
        lambda x, n: scanned(jnp.int32(0), 4, x),
        lambda x, n: lax.fori_loop(n[0], n[1], lambda i, x: x + i.astype(f32), x),
        lambda x, n: lax.fori_loop(2, 6, lambda i, x: x + i, x),
        lambda x, n: x + lax.while_loop(lambda i: i < 5, lambda i: i + 2, n[0]).astype(f32),
    ]
    with warnings.catch_warnings(), simulate(form="dma"):
        warnings.simplefilter("error", KernelWarning)
        for program in programs:
            equal(call(program, numbers), program(X, numbers))
