"""Prints and checks inside kernels: what comes out, and what is refused with what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import checkify  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

from .support import equal, ramp, told  # noqa: E402

pytestmark = pytest.mark.jax

Statement = Callable[[Any, Any], Any]
FORMS = ["pallas", "mosaic"]
NUMBERS = jnp.asarray([3, -5], jnp.int32)


def run(statement: Statement) -> None:
    """A kernel with `statement` of a ref in VMEM and one of two numbers in SMEM."""

    def body(x: Any, n: Any, o: Any) -> None:
        statement(x, n)
        o[...] = x[...]

    specs = [pl.BlockSpec(), pl.BlockSpec(memory_space=pltpu.SMEM)]
    x = ramp(8, 128)
    equal(pl.pallas_call(body, out_shape=x, in_specs=specs)(x, NUMBERS), x)


PRINTED: dict[str, tuple[Statement, str]] = {
    "text": (lambda x, n: pl.debug_print("here"), "here\n"),
    "a number without placeholder": (lambda x, n: pl.debug_print("n", n[1]), "n s32[] -5\n"),
    "a float without placeholder": (
        lambda x, n: pl.debug_print("n", n[0].astype(jnp.float32) / 2),
        "n f32[] 1.5\n",
    ),
    "two numbers": (lambda x, n: pl.debug_print("{} of {}!", n[0], n[1]), "3 of -5!\n"),
    "braces": (lambda x, n: pl.debug_print("{} {{a}}", n[0]), "3 {a}\n"),
    "a number of Python": (lambda x, n: pl.debug_print("{}", 7), "7\n"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", PRINTED)
def test_what_is_printed(name: str, form: Any, capsys: pytest.CaptureFixture[str]) -> None:
    statement, wanted = PRINTED[name]
    with simulate(form=form):
        run(statement)
    assert capsys.readouterr().err == wanted


@pytest.mark.parametrize("form", FORMS)
def test_a_vector_is_printed_after_its_text(form: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with simulate(form=form):
        run(lambda x, n: pl.debug_print("rows {}", x[0:2, 0:2].astype(jnp.bfloat16)))
    printed = capsys.readouterr().err
    assert printed.startswith("rows ") and printed.split() == "rows {{0, 1}, {128, 129}}".split()


def copied_in_blocks(index_map: Callable[[Any], Any]) -> Any:
    """Two blocks of rows, copied by a kernel that finds its input by `index_map`."""
    x = ramp(16, 128)

    def body(x: Any, o: Any) -> None:
        o[...] = x[...]

    return pl.pallas_call(
        body,
        out_shape=x,
        grid=(2,),
        in_specs=[pl.BlockSpec((8, 128), index_map)],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
    )(x)


@pytest.mark.parametrize("form", ["pallas", "mosaic", "dma", "vreg"])
def test_an_index_map_prints(form: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def index_map(i: Any) -> Any:
        pl.debug_print("block {}", i)
        return 1 - i, 0

    with simulate(form=form):
        equal(copied_in_blocks(index_map), jnp.roll(ramp(16, 128), 8, 0))
    assert set(capsys.readouterr().err.splitlines()) == {"block 0", "block 1"}


@pytest.mark.parametrize("form", ["pallas", "mosaic", "dma", "vreg"])
def test_an_index_map_checks(form: Any) -> None:
    def index_map(i: Any) -> Any:
        pl.debug_check(i < 1, "too far")
        return i, 0

    with simulate(form=form), pl.enable_debug_checks(True):
        with pytest.raises(jax.errors.JaxRuntimeError, match="too far"):
            jax.block_until_ready(copied_in_blocks(index_map))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("whole", [True, False])
def test_a_branch_of_an_index_map_prints(
    whole: bool, form: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def numbered(i: Any) -> Any:
        @pl.when(i == 1)
        def _() -> None:
            pl.debug_print("step {}", i)

        return (0, 0) if whole else (i, 0)

    def body(x: Any, o: Any) -> None:
        o[...] = x[...]

    x = ramp(16, 128)
    spec = pl.BlockSpec((16 if whole else 8, 128), numbered)
    with simulate(form=form):
        equal(pl.pallas_call(body, out_shape=x, grid=2, in_specs=[spec], out_specs=spec)(x), x)
    assert set(capsys.readouterr().err.splitlines()) == {"step 1"}


REFUSED: dict[str, tuple[Statement, str, str]] = {
    "a string": (
        lambda x, n: pl.debug_print("x {}", "text"),
        "a print of 'text', no number",
        "write it into the text",
    ),
    "a ref": (
        lambda x, n: pl.debug_print("x {}", x),
        "a print of a ref",
        "print what it holds: ref[...], or ref[0] in SMEM",
    ),
    "a vector before the end": (
        lambda x, n: pl.debug_print("{} x", x[...]),
        "a vector is printed where the text ends with {}",
        "end it with {}",
    ),
    "vectors and numbers": (
        lambda x, n: pl.debug_print("{} {}", n[0], x[...]),
        "a print of several values, some of them vectors",
        "print scalars, or one vector at a time",
    ),
    "a format": (
        lambda x, n: pl.debug_print("{:d}", n[0]),
        "placeholders with names or formats: '{:d}'",
        "write {} only",
    ),
    "too few numbers": (
        lambda x, n: pl.debug_print("{} {}", n[0]),
        "2 placeholders for 1 values",
        "write {} per value",
    ),
    "a float in a placeholder": (
        lambda x, n: pl.debug_print("{}", n[0].astype(jnp.float32)),
        "placeholders are filled with 32-bit integers only",
        "leave out the placeholders: pl.debug_print('x', x)",
    ),
    "an order": (
        lambda x, n: jax.debug.print("{}", n[0], ordered=True),
        "an ordered print",
        "use pl.debug_print",
    ),
    "a keyword": (
        lambda x, n: jax.debug.print("{n}", n=n[0]),
        "a print of keyword arguments",
        "give them in order",
    ),
    "a check that stays": (
        lambda x, n: checkify.check(n[0] > 4, "small"),
        "a check that is not for debugging",
        "write pl.debug_check(condition, text)",
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_printed(name: str, form: Any) -> None:
    statement, rule, advice = REFUSED[name]
    with simulate(form=form), pytest.raises(Exception) as caught:
        run(statement)
    text = told(caught.value)
    assert rule in text and advice in text and "test_prints_and_checks.py:" in text


@pytest.mark.parametrize("form", [*FORMS, "vreg"])
def test_checks_count_where_they_are_enabled(form: Any) -> None:
    def holds(x: Any, n: Any) -> None:
        pl.debug_check(n[0] > 2, "first is small")

    def fails(x: Any, n: Any) -> None:
        pl.debug_check(n[1] > 2, "second is small")

    with simulate(form=form):
        run(fails)
        with pl.enable_debug_checks():
            run(holds)
            with pytest.raises(Exception, match="second is small"):
                run(fails)
