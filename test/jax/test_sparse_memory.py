"""What does not fit into the memories of subcores is refused when it is lowered, as by libtpu."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.api import parse  # noqa: E402
from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.frontend import aot  # noqa: E402
from pallasite.jax import kernels, simulate  # noqa: E402
from pallasite.targets import TARGETS  # noqa: E402

from .sparse_kernels import LANES, scalar_kernel, typed, vector_kernel  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.feature("Y15")]

i32, bf16 = jnp.int32, jnp.bfloat16
VMEM, SMEM, SHARED, DMA = pltpu.VMEM, pltpu.SMEM, pltpu.VMEM_SHARED, pltpu.SemaphoreType.DMA
LINEAR = {"compiler_params": pltpu.CompilerParams(use_tc_tiling_on_sc=False)}


@dataclass(frozen=True)
class Case:
    """A kernel with scratch that fits up to `largest` of something, on `target`."""

    name: str
    target: str
    largest: int
    kernel: Callable[[int], tuple[Callable[..., Any], tuple[Any, ...]]]
    code: str = "vmem-exhausted"


def _filled(*scratch: Callable[[int], Any], scoped: int = 0, **options: Any) -> Any:
    """Copies an array of its own into each buffer; the last `scoped` are in scopes, one after the
    other."""

    def of(size: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        types = [make(size) for make in scratch]
        split = len(types) - scoped

        def body(*refs: Any) -> None:
            arrays, buffers = refs[: len(types)], refs[len(types) + 1 :]
            for array, buffer in zip(arrays, buffers, strict=False):
                pltpu.sync_copy(array, buffer)
            for array, kind in zip(arrays[split:], types[split:], strict=True):
                pl.run_scoped(lambda buffer, array=array: pltpu.sync_copy(array, buffer), kind)

        arrays = tuple(jax.ShapeDtypeStruct(kind.shape, kind.dtype) for kind in types)
        return vector_kernel(body, typed(LANES), types[:split], **options), arrays

    return of


def _words(scalar: bool) -> Any:
    """Writes all of its SMEM."""

    def of(size: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        def copied(x: Any, o: Any, words: Any) -> None:
            pltpu.sync_copy(x, words)

        def written(x: Any, o: Any, words: Any, row: Any) -> None:
            @pl.loop(0, size)
            def _(i: Any) -> None:
                words[i] = i

            @pl.loop(0, size)
            def _(i: Any) -> None:
                row[...] = jnp.full((LANES,), words[(i * 7) % size], i32)

            pltpu.sync_copy(row, o)

        inputs = (jax.ShapeDtypeStruct((size,), i32),)
        words = SMEM((size,), i32)
        if scalar:
            return scalar_kernel(copied, typed(LANES, dtype=i32), [words], cores=1), inputs
        scratch = [words, VMEM((LANES,), i32)]
        call = vector_kernel(written, typed(LANES, dtype=i32), scratch, cores=1, **LINEAR)
        return call, inputs

    return of


def _semaphores(size: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def body(x: Any, o: Any, row: Any, done: Any) -> None:
        pltpu.async_copy(x, row, done.at[size - 1]).wait()

    scratch = [VMEM((LANES,), i32), DMA((size,))]
    return vector_kernel(body, typed(LANES), scratch, **LINEAR), (
        jax.ShapeDtypeStruct((LANES,), i32),
    )


CASES = [
    *(
        Case(f"row-{target}", target, TARGETS[target].sparse.vmem_bytes // 4,
             _filled(lambda n: VMEM((n,), i32), **LINEAR))
        for target in ("v5p", "v6e", "v7x")
    ),
    Case("padded", "v7x", 1024, _filled(lambda n: VMEM((n, 16), i32))),
    Case("rows", "v7x", 8192, _filled(lambda n: VMEM((n, 16), i32), **LINEAR)),
    Case("tiles", "v7x", 512, _filled(lambda n: VMEM((n, 3, 128), bf16))),
    Case("pieces", "v7x", 131072 - 32,
         _filled(*[lambda _: VMEM((1,), i32)] * 4, lambda n: VMEM((n,), i32), **LINEAR)),
    Case("scopes", "v7x", 65536, _filled(*[lambda n: VMEM((n,), i32)] * 2, scoped=2, **LINEAR)),
    Case("shared", "v7x", 7 * 262144,
         _filled(lambda _: VMEM((16384,), i32), lambda n: SHARED((n,), i32), **LINEAR),
         "vmem-shared-exhausted"),
    Case("words", "v7x", 2040, _words(False), "smem-exhausted"),
    Case("semaphores", "v6e", 26, _semaphores, "semaphore-mem-exhausted"),
]  # fmt: skip
NAMES = [case.name for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_largest_that_fits(case: Case) -> None:
    call, inputs = case.kernel(case.largest)
    assert kernels(call, *inputs, target=case.target, form="mosaic")
    beyond = case.largest + (2 if case.name == "semaphores" else 1)
    call, inputs = case.kernel(beyond)
    with pytest.raises(Unsupported) as raised:
        kernels(call, *inputs, target=case.target, form="mosaic")
    error = raised.value
    assert error.code == case.code
    assert error.location is not None and error.notes
    assert error.location.file.endswith("test_sparse_memory.py")


def test_the_scalar_subcore_has_more() -> None:
    for size, fits in ((16000, True), (16400, False)):
        call, inputs = _words(True)(size)
        if fits:
            assert kernels(call, *inputs, target="v7x", form="mosaic")
            continue
        with pytest.raises(Unsupported, match="a scalar subcore of v7x has"):
            kernels(call, *inputs, target="v7x", form="mosaic")


@pytest.mark.aot
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_compiler_agrees(
    case: Case, compiler: aot.Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "pallasite.passes.check_kernel.subcores.check_subcore_memory", lambda *a, **k: None
    )
    for size in (case.largest, case.largest + (2 if case.name == "semaphores" else 1)):
        call, inputs = case.kernel(size)
        with simulate(target=case.target):
            lowered = jax.jit(call).trace(*inputs).lower(lowering_platforms=("tpu",))
        verdict = aot.compile_ahead_of_time(
            parse(lowered.as_text()), topology=TARGETS[case.target].topology,
            layout_passes=True, compiler=compiler,
        )  # fmt: skip
        assert verdict.accepted == (size == case.largest), (size, verdict.message)


def test_scopes_that_follow_each_other_have_the_same_semaphores() -> None:
    def body(x: Any, o: Any, row: Any) -> None:
        for _ in range(40):
            pltpu.sync_copy(x, row)
        pltpu.sync_copy(row, o)

    call = vector_kernel(body, typed(LANES, dtype=i32), [VMEM((LANES,), i32)], **LINEAR)
    assert kernels(call, jax.ShapeDtypeStruct((LANES,), i32), target="v6e", form="mosaic")
