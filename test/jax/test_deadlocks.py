"""What deadlocks and findings call buffers and semaphores, and what is advised."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import ExecutionError  # noqa: E402
from pallasite.jax import kernels, simulate  # noqa: E402

pytestmark = pytest.mark.jax
FORMS = ("pallas", "mosaic", "dma", "tiles", "vreg")


def test_deadlock() -> None:
    def body(x: Any, o: Any, semaphore: Any) -> None:
        pl.semaphore_wait(semaphore, 1)  # the wait
        o[...] = x[...]

    x = jnp.ones((8, 128))
    with simulate(), pytest.raises(ExecutionError) as caught:
        pl.pallas_call(body, out_shape=x, scratch_shapes=[pltpu.SemaphoreType.REGULAR])(x)
    assert caught.value.code == "deadlock"
    assert "on scratch 0 (%semaphore) of core 0" in caught.value.message
    assert "pl.semaphore_signal(sem, n)" in str(caught.value)


@pytest.mark.parametrize(
    ("copies", "advice"),
    [
        (lambda copy, part: copy.wait(), "copy.start(), then copy.wait()"),
        (lambda copy, part: (copy.start(), copy.wait(), copy.wait()), "once for each copy"),
        (lambda copy, part: (part.start(), copy.wait()), "as many bytes as were copied"),
    ],
)
def test_deadlock_of_a_copy(copies: Callable[..., Any], advice: str) -> None:
    def body(x: Any, o: Any, unused: Any, buffer: Any, semaphore: Any) -> None:
        half = pl.ds(0, 8)
        whole = pltpu.make_async_copy(x, buffer, semaphore)
        copies(whole, pltpu.make_async_copy(x.at[half], buffer.at[half], semaphore))
        o[...] = buffer[...]

    memory = pltpu.VMEM((16, 128), jnp.float32)
    x = jnp.ones((16, 128))
    call = pl.pallas_call(
        body, out_shape=x, in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[memory, memory, pltpu.SemaphoreType.DMA],
    )  # fmt: skip
    with simulate(), pytest.raises(ExecutionError) as caught:
        call(x)
    assert caught.value.code == "deadlock"
    assert "on scratch 2 (%semaphore) of core 0" in caught.value.message
    assert advice in str(caught.value)
    assert "a DMA that core 0 could still receive" in str(caught.value)


def names_them(numbers: Any, x: Any, y: Any, o: Any, p: Any) -> None:
    o[...] = x[...] + y[...] + p[...]  # nobody wrote p


def numbers_them(*refs: Any) -> None:
    names_them(*refs)


@pytest.mark.filterwarnings("ignore::pallasite.diagnostics.KernelWarning")
@pytest.mark.parametrize(
    ("body", "names"),
    [
        (names_them, ("x", "y", "o", "p")),
        (numbers_them, ("input1", "input2", "output0", "output1")),
    ],
)
def test_buffers_are_called_by_the_name_or_number_of_their_operand(
    body: Callable[..., None], names: tuple[str, ...]
) -> None:
    x = jnp.ones((16, 128))
    block = pl.BlockSpec((8, 128), lambda i, numbers: (i, 0))
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(2,), in_specs=[block] * 2, out_specs=[block] * 2
    )
    call = pl.pallas_call(body, grid_spec=spec, out_shape=[x, x])
    title = "block of output 1" + (" (%p)" if names[3] == "p" else "")
    for form in FORMS:
        with (
            simulate(form=form, checks=("init",)),
            pytest.raises(pallasite.Diagnostic, match=f"of {re.escape(title)} that"),
        ):
            call(jnp.zeros(1, jnp.int32), x, x)
    (kernel,) = kernels(call, jnp.zeros(1, jnp.int32), x, x, form="mosaic")
    text = str(pallasite.lower(kernel, form="dma"))
    assert f"%{names[0]}_window = " in text and f"%{names[1]}_window = " in text
    assert f"%{names[2]}_sems = " in text


@pytest.mark.parametrize("form", ["pallas", "mosaic", "tiles"])
def test_what_nobody_wrote_is_where_it_is_allocated(form: str) -> None:
    def scoped(x: Any, o: Any) -> None:
        def through(buffer: Any) -> None:
            o[...] = x[...] + buffer[...]

        pl.run_scoped(through, pltpu.VMEM((8, 128), jnp.float32))  # the scope

    def whole(x: Any, o: Any, buffer: Any) -> None:
        o[...] = x[...] + buffer[...]

    x = jnp.ones((8, 128))
    memory = pltpu.VMEM((8, 128), jnp.float32)
    with simulate(form=form, checks=("init",)):
        with pytest.raises(pallasite.Diagnostic) as caught:
            pl.pallas_call(whole, out_shape=x, scratch_shapes=[memory])(x)
        note = caught.value.notes[-1]
        assert "buffer" in note.message and "belongs to the kernel here" in note.message
        assert note.location is not None and note.location.line == whole.__code__.co_firstlineno
        with pytest.raises(pallasite.Diagnostic) as caught:
            pl.pallas_call(scoped, out_shape=x)(x)
        note = caught.value.notes[-1]
        assert note.message == "%buffer is allocated here"
        assert (
            note.location is not None and note.location.line == scoped.__code__.co_firstlineno + 4
        )
