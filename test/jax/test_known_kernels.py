"""Simulations share what they lowered, as far as it is the same, and keep a bounded part of it."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import Diagnostic, KernelWarning  # noqa: E402
from pallasite.jax import calls, simulate, trace  # noqa: E402

pytestmark = pytest.mark.jax
X = np.arange(1024, dtype=np.float32).reshape(8, 128)


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    simulate().settings.kernels.clear()


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often kernels are parsed, lowered and prepared."""
    count: Counter[str] = Counter()

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def calling(*args: Any, **options: Any) -> Any:
            count[name] += 1
            return function(*args, **options)

        return calling

    for name in ("parse", "lower_telling", "prepare"):
        monkeypatch.setattr(calls, name, counted(name, getattr(calls, name)))
    return count


def body(x: Any, o: Any) -> None:
    o[...] = x[...] * 2


def doubled(x: Any, body: Any = body) -> Any:
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def run(**settings: Any) -> None:
    """One simulation of a function that JAX has never seen."""
    with simulate(**settings):
        np.testing.assert_array_equal(jax.jit(lambda x: doubled(x))(X), 2 * X)


@pytest.mark.parametrize(("form", "parsed"), [("tiles", 1), ("vreg", 1), ("pallas", 0)])
def test_a_kernel_of_many_simulations_is_lowered_and_prepared_once(
    form: str, parsed: int, counts: Counter[str]
) -> None:
    for _ in range(5):
        run(form=form)
    assert counts == {"lower_telling": 1, "prepare": 1, **({"parse": 1} if parsed else {})}


@pytest.mark.parametrize(
    ("settings", "lowered"),
    [
        ({"seed": 1, "checks": ("race",), "max_steps": 10**6, "unordered": True}, 1),
        ({"products": "tpu"}, 1),
        ({"target": "v6e"}, 2),
        ({"form": "dma"}, 2),
        ({"allow_beyond_reference": True}, 2),
        ({"max_memory": 1 << 24}, 2),
    ],
)
def test_what_lowering_does_not_depend_on_is_shared(
    settings: dict[str, Any], lowered: int, counts: Counter[str]
) -> None:
    run()
    run(**settings)
    assert counts["lower_telling"] == counts["prepare"] == lowered


@pytest.mark.parametrize("form", ["tiles", "pallas"])
def test_a_kernel_that_ran_unchecked_is_checked(form: str, counts: Counter[str]) -> None:
    def early(x: Any, o: Any, copied: Any, arrived: Any) -> None:
        copy = pltpu.make_async_copy(x, copied, arrived)
        copy.start()
        o[...] = copied[...]
        copy.wait()

    scratch = [pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA]
    for checks, code in (((), None), (("race",), "data-race"), (("init",), "uninitialised-read")):
        call = pl.pallas_call(
            early,
            out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            scratch_shapes=scratch,
        )
        found = None
        with simulate(form=form, checks=checks):
            try:
                call(X)
            except Diagnostic as error:
                found = error.code
        assert found == code
    assert counts["lower_telling"] == 1


def test_functions_that_jax_knows_are_not_even_lowered_by_jax(counts: Counter[str]) -> None:
    f = jax.jit(lambda x: doubled(x))
    for _ in range(3):
        with simulate():
            f(X)
        simulate().settings.kernels.clear()
    assert counts["lower_telling"] == 1


def test_kernels_of_one_text_have_the_names_of_their_own_arguments() -> None:
    settings = simulate(form="mosaic").settings
    names: list[list[str | None]] = []
    for first, second in (("left", "out"), ("right", "sum"), ("left", "out")):
        space: dict[str, Any] = {}
        source = f"def kernel({first}, {second}): {second}[...] = {first}[...] + 1"
        exec(compile(source, "kernel.py", "exec"), space)
        with simulate(form="mosaic"):
            doubled(X, space["kernel"])
        (known, _), *_ = reversed(settings.kernels._kept.values())
        func = next(op for op in known.module.walk() if op.name == "func.func")
        names.append([argument.name_hint for argument in func.regions[0].block.args])
    assert names == [["left", "out"], ["right", "sum"], ["left", "out"]]


def test_what_is_odd_is_told_in_every_simulation() -> None:
    def ignoring(x: Any, y: Any, o: Any) -> None:
        o[...] = x[...] + y[...]

    block = pl.BlockSpec((8, 128), lambda i, k: (i, 0))
    for form in ("tiles", "tiles", "pallas", "pallas"):
        call = pl.pallas_call(
            ignoring,
            out_shape=jax.ShapeDtypeStruct((16, 384), jnp.float32),
            grid=(2, 3),
            in_specs=[block, pl.BlockSpec((8, 128), lambda i, k: (i, k))],
            out_specs=block,
            input_output_aliases={0: 0},
        )
        x = jnp.zeros((16, 384))
        with pytest.warns(KernelWarning, match="aliased-block-read-again"):
            _lower(call, x, form)
    assert len(simulate().settings.kernels) == 2


def _lower(call: Any, x: Any, form: str) -> None:
    with simulate(form=form):
        jax.jit(lambda x: call(x, x)).lower(x)


@dataclass(frozen=True)
class Nothing(ModulePass):
    name = "nothing"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pass


def test_what_passes_of_the_users_made_stays_with_their_settings(counts: Counter[str]) -> None:
    run()
    run(passes=[Nothing()])
    simulation = simulate(passes=[Nothing()])
    for _ in range(2):
        with simulation:
            jax.jit(lambda x: doubled(x))(X)
    assert len(simulation.settings.kernels) == 1
    assert len(simulate().settings.kernels) == 1
    assert counts["lower_telling"] == 3


def test_modules_that_are_given_out_are_nobody_elses() -> None:
    run(form="mosaic")
    for form in ("mosaic", "pallas"):
        one, other = (trace(doubled, X, form=form) for _ in range(2))
        assert one is not other
    assert len(simulate().settings.kernels) == 1


@pytest.mark.parametrize("form", ["tiles", "pallas"])
def test_no_array_and_no_function_is_kept(form: str) -> None:
    class Held(np.ndarray[Any, Any]):
        pass

    def call() -> list[weakref.ref[Any]]:
        held = np.full((8, 128), 2.0, np.float32).view(Held)

        def kernel(x: Any, o: Any) -> None:
            o[...] = x[...] * float(held[0, 0])

        with simulate(form=form):
            doubled(held, kernel)
        return [weakref.ref(held), weakref.ref(kernel)]

    left = call()
    jax.clear_caches()
    gc.collect()
    assert [ref() for ref in left] == [None, None]
    assert len(simulate().settings.kernels) == 1


def test_kernels_are_kept_by_the_number_of_their_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run()
    kernels = simulate().settings.kernels
    (one,) = [size for _, size in kernels._kept.values()]
    assert 10 < one == kernels.total < 100
    monkeypatch.setattr(kernels, "_most", 3 * one)
    for factor in range(10):

        def times(x: Any, o: Any, factor: int = factor) -> None:
            o[...] = x[...] * float(factor + 3)

        with simulate():
            doubled(X, times)
    assert 2 <= len(kernels) <= 3
    assert kernels.total <= 3 * one
