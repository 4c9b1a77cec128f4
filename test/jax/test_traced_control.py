"""Loops, branches and comparisons traced from jaxprs compute what the same JAX program does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import Diagnostic, KernelWarning  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from .support import equal, ramp, told  # noqa: E402

pytestmark = pytest.mark.jax

f32, i32 = jnp.float32, jnp.int32
X = ramp(8, 128) % 7
TRACED = ("pallas",)
"""JAX's own lowering takes the end, or the start, for the place where a loop stops."""
Program = Callable[[Any, Any], Any]


def call(program: Program, numbers: Any) -> Any:
    def body(x: Any, n: Any, o: Any) -> None:
        o[...] = program(x[...], n)

    specs = [pl.BlockSpec(), pl.BlockSpec(memory_space=pltpu.SMEM)]
    return pl.pallas_call(body, out_shape=X, in_specs=specs)(X, numbers)


def same(program: Program, *numbers: int, forms: Sequence[Any] = ("pallas", "dma")) -> None:
    given = jnp.asarray(numbers, i32)
    for form in forms:
        with simulate(form=form):
            equal(call(program, given), program(X, given))


def counted(start: Any, end: Any, x: Any) -> Any:
    """A loop whose counter is used after it: JAX says where it ends, be it without a turn."""

    def turn(carry: Any) -> Any:
        i, end, total = carry
        return i + 1, end, total * 2 + i.astype(f32)

    i, _, total = lax.while_loop(lambda c: c[0] < c[1], turn, (start, end, x))
    return total + i.astype(f32)


def scanned(start: Any, length: int, x: Any, unroll: int = 1) -> Any:
    def turn(carry: Any, _: None) -> Any:
        i, total = carry
        return (i + 1, total * 2 + i.astype(f32)), None

    (i, total), _ = lax.scan(turn, (start, x), None, length=length, unroll=unroll)
    return total + i.astype(f32)


@pytest.mark.filterwarnings("ignore:.*the counter of this loop")
@pytest.mark.parametrize("numbers", [(3, 5), (2, -1), (4, 4), (-2, 1)])
def test_where_a_loop_of_unknown_length_stops(numbers: tuple[int, int]) -> None:
    same(lambda x, n: counted(n[0], n[1], x), *numbers, forms=TRACED)
    same(lambda x, n: counted(jnp.int32(2), n[1], x), *numbers, forms=TRACED)
    same(lambda x, n: counted(n[0], jnp.int32(2), x), *numbers, forms=TRACED)


@pytest.mark.filterwarnings("ignore:.*the counter of this loop")
@pytest.mark.parametrize("ends", [(2, 5), (5, 2), (3, 3)])
def test_where_a_loop_of_known_length_stops(ends: tuple[int, int]) -> None:
    same(lambda x, n: counted(jnp.int32(ends[0]), jnp.int32(ends[1]), x), 0, forms=TRACED)


@pytest.mark.filterwarnings("ignore:.*the counter of this loop")
@pytest.mark.parametrize("length, unroll", [(0, 1), (4, 1), (4, 4), (7, 3), (2, 3)])
def test_a_scan_that_counts(length: int, unroll: int) -> None:
    same(lambda x, n: scanned(n[0], length, x, unroll), 3, forms=TRACED)
    same(lambda x, n: scanned(jnp.int32(3), length, x, unroll), 3, forms=TRACED)


@pytest.mark.parametrize("which", [-1, 0, 1, 2, 9])
def test_branches(which: int) -> None:
    two: list[Any] = [lambda x: x, lambda x: x * 2]
    three: list[Any] = [*two, lambda x: x * 3]
    same(lambda x, n: lax.switch(n[0], two, x) + lax.switch(n[0], three, x), which)
    same(lambda x, n: lax.switch(which, two, x) + lax.switch(which, three, x), which)
    same(lambda x, n: lax.cond(n[0], lambda: x, lambda: x * 2), which)


COMPARISONS = [lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge]


@pytest.mark.parametrize("compare", COMPARISONS, ids=lambda f: f.__name__)
def test_booleans_compare(compare: Any) -> None:
    same(lambda x, n: jnp.where(compare(x > 2, x % 2 > 0), x, -x), 0)
    same(lambda x, n: jnp.where(compare(n[0] > 0, n[1] > 0), x, -x), 1, 0)
    same(lambda x, n: jnp.where(compare(n[0] > 0, n[1] > 0), x, -x), 1, 1)
    same(lambda x, n: jnp.where(compare(n[0] > 0, n[1] > 0), x, -x), 0, 1)


def test_a_choice_by_a_number() -> None:
    same(lambda x, n: lax.select_n(x.astype(i32) % 2, x, -x), 0)
    same(lambda x, n: x + lax.select_n(n[0], n[1], n[1] * 3).astype(f32), 1, 5)
    with simulate(), pytest.raises(Exception) as caught:
        call(lambda x, n: x + lax.select_n(n[0], n[0], n[0], n[0]).astype(f32), jnp.asarray([1]))
    assert "nest jnp.where, or use lax.switch" in told(caught.value)


def test_a_branch_for_kernels() -> None:
    numbers = jnp.asarray([0], i32)

    def program(**branches: Any) -> Any:
        return call(lambda x, n: lax.platform_dependent(x, **branches), numbers)

    with simulate():
        equal(program(cpu=lambda x: x, mosaic=lambda x: x * 3, default=lambda x: x * 2), X * 3)
        equal(program(cpu=lambda x: x, default=lambda x: x * 2), X * 2)
        with pytest.raises(Exception) as caught:
            program(cpu=lambda x: x, tpu=lambda x: x * 2)
    assert "add a branch `mosaic`, or a default" in told(caught.value)


@pytest.mark.parametrize("form", ["pallas", "dma"])
def test_the_counter_behind_a_loop_that_starts_too_far(form: str) -> None:
    """JAX lowers it to the bound, which differs where the loop makes no turn; that is told."""

    def program(x: Any, n: Any) -> Any:
        return counted(n[0], n[1], x)

    for numbers, right in (((2, 5), True), ((5, 2), form == "pallas")):
        given = jnp.asarray(numbers, i32)
        with pytest.warns(UserWarning, match="the counter of this loop is used after it") as warned:
            with simulate(form=form):
                found = call(program, given)
        assert "test_traced_control.py" in str(warned[0].message)
        assert bool(jnp.all(found == program(X, given))) == right
        with simulate(form=form):
            equal(call(lambda x, n: jnp.minimum(x, n[1]), given), jnp.minimum(X, given[1]))


def behind(x: Any, n: Any, o: Any) -> None:
    """The block after the last, which is there only if a number says so."""
    o[...] = x[...]

    @pl.when(n[0] > 1)
    def _() -> None:
        o[0] = x[9]


def test_what_is_guarded_may_lie_behind_the_end() -> None:
    """The TPU compiler takes it: the branch may never be taken. We warn of it."""
    specs = [pl.BlockSpec(), pl.BlockSpec(memory_space=pltpu.SMEM)]
    program = pl.pallas_call(behind, out_shape=X, in_specs=specs)
    for form in ("pallas", "mosaic", "vreg"):
        with simulate(form=form), pytest.warns(KernelWarning, match="position 9 of"):
            equal(program(X, jnp.asarray([1], i32)), X)
            with pytest.raises(Diagnostic) as raised:
                program(X, jnp.asarray([2], i32))
        message = told(raised.value)
        assert "load of shape [1, 128] at [9, 0] is outside memref of shape [8, 128]" in message
