"""One fault has one code, and one line of the kernel, in whatever form it is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import Diagnostic  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from .mistakes import X, call  # noqa: E402

pytestmark = pytest.mark.jax

FORMS = ("pallas", "mosaic", "dma", "tiles", "vreg")
NUMBERS = np.array([20, 3, -1, 100, 7, 8, 0, 1], np.int32)
ANY = pl.BlockSpec(memory_space=pl.ANY)
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
BUFFER = pltpu.VMEM((8, 128), jnp.float32)
DMA, REGULAR = pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.REGULAR
Program = Callable[[], Any]


def loads(body: Any, *scratch: Any) -> Program:
    """`body` of numbers, a block and a result in VMEM."""
    specs: list[Any] = [SMEM, pl.BlockSpec()]
    return lambda: call(body, NUMBERS, X, in_specs=specs, scratch_shapes=scratch)


def copies(body: Any, *scratch: Any) -> Program:
    """`body` of numbers, and of operands where the program has them."""
    specs = [SMEM, ANY]
    return lambda: call(body, NUMBERS, X, in_specs=specs, out_specs=ANY, scratch_shapes=scratch)


def moves(x: Any, o: Any) -> None:
    o[...] = x[...]


def rows(place: Any) -> Any:
    return pl.BlockSpec((8, 128), lambda i: (place(i), 0))


def blocks(taken: Any, given: Any, steps: int = 2) -> Program:
    specs: dict[str, Any] = {"in_specs": [rows(taken)], "out_specs": rows(given)}
    return lambda: call(moves, X, grid=(steps,), **specs)


def pipeline(taken: Any, given: Any) -> Program:
    specs: dict[str, Any] = {"in_specs": [rows(taken)], "out_specs": [rows(given)]}
    return copies(lambda n, x, o: pltpu.emit_pipeline(moves, grid=(2,), **specs)(x, o))


def value(n: Any, o: Any) -> None:
    o[...] = jnp.broadcast_to(n, o.shape).astype(o.dtype)


def stores_outside(n: Any, x: Any, o: Any) -> None:
    o[...] = x[...]
    o[pl.ds(n[0], 1)] = x[0:1]


def stores_over_the_end(n: Any, x: Any, o: Any) -> None:
    o[...] = x[...]
    o[pl.ds(n[4], 16)] = x[...]


def waits_twice(n: Any, x: Any, o: Any, buffer: Any, done: Any) -> None:
    copy = pltpu.make_async_copy(x.at[pl.ds(0, 8)], buffer, done)
    copy.start()
    copy.wait()
    copy.wait()


def waits_for_more(n: Any, x: Any, o: Any, buffer: Any, done: Any) -> None:
    pltpu.make_async_copy(x.at[pl.ds(0, 8)], buffer, done).start()
    pltpu.make_async_copy(x, o, done).wait()


def reads_early(n: Any, x: Any, o: Any, buffer: Any, done: Any) -> None:
    copy = pltpu.make_async_copy(x.at[pl.ds(0, 8)], buffer, done)
    buffer[...] = jnp.zeros((8, 128), jnp.float32)
    copy.start()
    pltpu.sync_copy(buffer, o.at[pl.ds(0, 8)])
    copy.wait()


def copies_twice(n: Any, x: Any, o: Any, buffer: Any, done: Any) -> None:
    for first in (0, 8):
        pltpu.make_async_copy(x.at[pl.ds(first, 8)], buffer, done).start()
    pltpu.make_async_copy(x, o, done).wait()


def never_ends(n: Any, x: Any, o: Any) -> None:
    value(lax.while_loop(lambda i: i >= 0, lambda i: (i + 1) % 7, n[6]), o)


def halves() -> Any:
    def body(x: Any, o: Any) -> None:
        o[...] = jnp.dot(x[...], x[...].T).astype(jnp.int32)

    x = jnp.ones((16, 128), jnp.int16)
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((16, 16), jnp.int32))(x)


FAULTS: dict[str, tuple[Program, str]] = {
    "a load behind the end": (
        loads(lambda n, x, o: value(x[pl.ds(n[0], 1)], o)), "out-of-bounds",
    ),
    "a load before the beginning": (
        loads(lambda n, x, o: value(x[pl.ds(n[2], 1)], o)), "out-of-bounds",
    ),
    "a strided load": (
        loads(lambda n, x, o: value(x[pl.ds(n[4] + 2, 8, stride=2)][0:1], o)), "out-of-bounds",
    ),
    "a number": (loads(lambda n, x, o: value(n[n[3]], o)), "out-of-bounds"),
    "a known number": (loads(lambda n, x, o: value(n[8], o)), "out-of-bounds"),
    "a store behind the end": (loads(stores_outside), "out-of-bounds"),
    "a store over the end": (loads(stores_over_the_end), "out-of-bounds"),
    "a copy": (
        copies(lambda n, x, o: pltpu.sync_copy(x.at[pl.ds(n[0], 1)], o.at[pl.ds(0, 1)])),
        "out-of-bounds",
    ),
    "a known semaphore": (
        copies(lambda n, x, o, s: pl.semaphore_signal(s.at[4], 1), REGULAR((4,))),
        "out-of-bounds",
    ),
    "a semaphore": (
        copies(lambda n, x, o, s: pl.semaphore_signal(s.at[n[4]], 1), REGULAR((4,))),
        "out-of-bounds",
    ),
    "a block behind the end": (blocks(lambda i: i + 1, lambda i: i), "block-out-of-bounds"),
    "a block before the beginning": (blocks(lambda i: i - 1, lambda i: i), "block-out-of-bounds"),
    "a block of a result": (blocks(lambda i: 0, lambda i: i, 3), "block-out-of-bounds"),
    "a pipeline's block": (pipeline(lambda i: i + 1, lambda i: i), "block-out-of-bounds"),
    "a pipeline's block of a result": (
        pipeline(lambda i: i, lambda i: i - 1), "block-out-of-bounds",
    ),
    "a block that returns": (blocks(lambda i: i % 2, lambda i: i % 2, 4), "block-revisited"),
    "a promise": (
        loads(lambda n, x, o: value(x[pl.ds(pl.multiple_of(n[1], 8), 8)][0:1], o)),
        "broken-promise",
    ),
    "two waits": (copies(waits_twice, BUFFER, DMA), "deadlock"),
    "a wait for more": (copies(waits_for_more, BUFFER, DMA), "deadlock"),
    "a wait for a signal": (
        copies(lambda n, x, o, s: pl.semaphore_wait(s, 1), REGULAR), "deadlock",
    ),
    "a negative signal": (
        copies(lambda n, x, o, s: pl.semaphore_signal(s, n[2]), REGULAR), "semaphore-amount",
    ),
    "an unwritten buffer": (
        loads(lambda n, x, o, b: value(b[0:1], o), BUFFER), "uninitialised-read",
    ),
    "an unwritten result": (
        loads(lambda n, x, o: value(o[...] + x[...], o)), "uninitialised-read",
    ),
    "a read before the wait": (copies(reads_early, BUFFER, DMA), "data-race"),
    "two copies to one place": (copies(copies_twice, BUFFER, DMA), "data-race"),
    "an endless loop": (loads(never_ends), "step-limit"),
    "a buffer that is too large": (
        loads(lambda n, x, o, b: value(b[0:1, 0:128], o), pltpu.VMEM((40960, 1024), jnp.float32)),
        "vmem-exhausted",
    ),
    "a buffer in HBM": (
        loads(lambda n, x, o, b: value(n[0], o), pltpu.HBM((8, 128), jnp.float32)),
        "scratch-space",
    ),
    "a sort": (loads(lambda n, x, o: value(jnp.sort(x[...])[0:1], o)), "unsupported-primitive"),
    "a copy that converts": (
        copies(
            lambda n, x, o, b: pltpu.sync_copy(x.at[pl.ds(0, 8)], b),
            pltpu.VMEM((8, 128), jnp.int32),
        ),
        "unequal-copy",
    ),
    "a product of half words": (halves, "matmul-type"),
    "a load from HBM": (copies(lambda n, x, o: value(x[0:1], o)), "load-from-hbm"),
}  # fmt: skip


def found(program: Program, form: Any) -> tuple[str, int | None]:
    """The code of a fault and its line; the latter of what JAX itself does not refuse."""
    checked = simulate(form=form, checks=("race", "init"), max_steps=100_000)
    with checked, pytest.raises(Exception) as caught:
        program()
    error = caught.value
    if isinstance(error, Diagnostic):
        return error.code, error.location.line if error.location else None
    told = "\n".join([str(error), *getattr(error, "__notes__", ())])
    codes = re.findall(r"error: .* \[([a-z-]+)\]", told)
    return codes[0] if codes else told, None


@pytest.mark.filterwarnings("ignore::pallasite.diagnostics.KernelWarning")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_has_one_code(fault: str) -> None:
    program, code = FAULTS[fault]
    told = {form: found(program, form) for form in FORMS}
    assert {form: one for form, (one, _) in told.items()} == dict.fromkeys(FORMS, code)
    assert len({line for _, line in told.values() if line is not None}) <= 1
