"""Kernels that the TPU compiler refuses on SparseCores are refused; it accepts what is advised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from .since import require_jax  # noqa: E402

require_jax("0.10.1", "needs_layout_passes=")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jax.experimental.pallas import tpu_sc as plsc  # noqa: E402

from pallasite.api import parse, run  # noqa: E402
from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.frontend import aot  # noqa: E402
from pallasite.jax import kernels, simulate  # noqa: E402
from pallasite.targets import TARGETS  # noqa: E402

from .sparse_kernels import LANES, TARGET, one_subcore, scalar_kernel, typed  # noqa: E402

pytestmark = pytest.mark.jax

f32, i32, bf16 = jnp.float32, jnp.int32, jnp.bfloat16
VMEM, SMEM, SHARED = pltpu.VMEM, pltpu.SMEM, pltpu.VMEM_SHARED
FLAT = {"compiler_params": pltpu.CompilerParams(needs_layout_passes=False)}
LINEAR = {"compiler_params": pltpu.CompilerParams(use_tc_tiling_on_sc=False)}


@dataclass(frozen=True)
class Case:
    """A kernel that is refused, and one that follows the advice."""

    name: str
    message: str
    wrong: Callable[..., Any]
    right: Callable[..., Any]
    inputs: tuple[Any, ...]


def copies(*refs: Any) -> None:
    """Copies the first ref to the next, that to the one after it, and so on."""
    for source, target in pairwise(refs):
        pltpu.sync_copy(source, target)


def _through(*scratch: Any, dtype: Any = i32) -> Callable[..., Any]:
    def body(x: Any, o: Any, *between: Any) -> None:
        copies(x, *between, o)

    return one_subcore(body, typed(64, dtype=dtype), list(scratch))


def _scalar_through(*scratch: Any) -> Callable[..., Any]:
    def body(x: Any, o: Any, *between: Any) -> None:
        copies(x, *between, o)

    return scalar_kernel(body, typed(64, dtype=i32), list(scratch), cores=1)


def _part(size: int) -> Callable[..., Any]:
    def body(x: Any, o: Any, row: Any) -> None:
        copies(x.at[pl.ds(0, size)], row, o)

    return one_subcore(body, typed(size, dtype=bf16), [VMEM((size,), bf16)], **LINEAR)


def _slice(start: int, size: int) -> Callable[..., Any]:
    def body(x: Any, o: Any, row: Any) -> None:
        copies(x.at[pl.ds(start, size)], row, o)

    return one_subcore(body, typed(size, dtype=bf16), [VMEM((size,), bf16)])


def _rows(start: int, size: int) -> Callable[..., Any]:
    def body(x: Any, o: Any, row: Any) -> None:
        copies(x.at[pl.ds(start, size)], row, o)

    return one_subcore(body, typed(size, 16, dtype=bf16), [VMEM((size, 16), bf16)])


def _gather(columns: int, dtype: Any = f32, **options: Any) -> Callable[..., Any]:
    def body(x: Any, indices: Any, o: Any, where: Any, rows: Any) -> None:
        copies(indices, where)
        copies(x.at[where], rows, o)

    shape = (8, columns)
    scratch = [VMEM((8,), i32), VMEM(shape, dtype)]
    return one_subcore(body, typed(*shape, dtype=dtype), scratch, **options)


def _scatter_add(shared: bool) -> Callable[..., Any]:
    def body(x: Any, indices: Any, o: Any, where: Any, rows: Any, *table: Any) -> None:
        copies(indices, where)
        copies(x, rows)
        if table:
            copies(rows, table[0])
        pltpu.sync_copy(rows, (table[0] if table else o).at[where], add=True)
        if table:
            copies(table[0], o)

    scratch = [VMEM((LANES,), i32), VMEM((LANES,), f32)]
    return one_subcore(body, typed(LANES), [*scratch, *[SHARED((LANES,), f32)] * shared])


def _register(function: Callable[[Any, Any], Any], **options: Any) -> Callable[..., Any]:
    def body(x: Any, o: Any, row: Any) -> None:
        copies(x, row)
        row[...] = function(row[...], row)
        copies(row, o)

    return one_subcore(body, typed(LANES), [VMEM((LANES,), f32)], **options)


def _compressed(x: Any, row: Any) -> Any:
    plsc.store_compressed(row.at[...], x, mask=x > 0)
    return x


def _rolled(x: Any, row: Any) -> Any:
    return plsc.load_gather(row, [(jax.lax.iota(i32, LANES) + LANES - 1) % LANES])


INTS, FLOATS, INDICES = jnp.arange(64, dtype=i32), jnp.ones(LANES), jnp.arange(8, dtype=i32)
CASES = [
    Case("smem", "vector subcore cannot copy from hbm to smem", _through(SMEM((64,), i32)),
         _through(VMEM((64,), i32)), (INTS,)),
    Case("shared", "scalar subcore cannot copy from smem to vmem_shared",
         _scalar_through(SMEM((64,), i32), SHARED((64,), i32)), _scalar_through(SMEM((64,), i32)),
         (INTS,)),
    Case("vmem", "a scalar subcore has no VMEM", _scalar_through(VMEM((64,), i32)),
         _scalar_through(SHARED((64,), i32)), (INTS,)),
    Case("words", "rows of 7 x bf16", _part(7), _part(8), (jnp.ones(64, bf16),)),
    Case("slice", "multiple of 256 in dimension 0", _slice(64, 64), _slice(256, 256),
         (jnp.ones(1024, bf16),)),
    Case("sublanes", "multiple of 2 in dimension 0", _rows(15, 1), _rows(14, 2),
         (jnp.ones((16, 16), bf16),)),
    Case("rows", "rows of 16 elements of HBM", _gather(16), _gather(16, **LINEAR),
         (jnp.ones((64, 16)), INDICES)),
    Case("narrow", "elements of type bf16", _gather(128, bf16), _gather(128, bf16, **LINEAR),
         (jnp.ones((64, 128), bf16), INDICES)),
    Case("add", "cannot add to HBM", _scatter_add(False), _scatter_add(True),
         (FLOATS, jnp.arange(LANES, dtype=i32))),
    Case("scan", r"a scan \(tpu.scan\) is not", _register(lambda x, _: plsc.cumsum(x)),
         _register(lambda x, _: plsc.cumsum(x), **FLAT), (FLOATS,)),
    Case("mask", "tpu.vector_load with a mask", _register(_compressed),
         _register(_compressed, **FLAT), (FLOATS,)),
    Case("roll", "cannot put vectors together along lanes", _register(lambda x, _: jnp.roll(x, 1)),
         _register(_rolled, **FLAT), (FLOATS,)),
]  # fmt: skip
NAMES = [case.name for case in CASES]


def text(case: Case, call: Callable[..., Any]) -> str:
    """The program that calls the kernel, as JAX writes it."""
    with simulate(target=TARGET):
        lowered = jax.jit(call).trace(*case.inputs).lower(lowering_platforms=("tpu",))
    return lowered.as_text()


DEFAULT = pytest.mark.since_jax("0.10.2", "layout passes for SparseCores as the default")
MARKED = [
    pytest.param(case, marks=DEFAULT) if case.name in ("scan", "mask") else case for case in CASES
]


@pytest.mark.parametrize("case", MARKED, ids=NAMES)
def test_refused_and_advised(case: Case) -> None:
    with pytest.raises(Unsupported, match=case.message) as raised:
        kernels(case.wrong, *case.inputs, target=TARGET, form="mosaic")
    assert raised.value.location is not None and raised.value.notes
    with simulate(target=TARGET, checks=("race",)):
        jax.block_until_ready(jax.jit(case.right)(*case.inputs))


def test_beyond_the_reference() -> None:
    """What only the compiler refuses still runs if it is asked for."""
    case = CASES[NAMES.index("scan")]
    module = parse(text(case, case.wrong))
    inputs = [np.asarray(x) for x in case.inputs]
    (found,) = run(module, inputs, target=TARGET, allow_beyond_reference=True)
    np.testing.assert_array_equal(found, np.cumsum(inputs[0]))


@pytest.mark.aot
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_compiler_agrees(case: Case, compiler: aot.Compiler) -> None:
    for call, accepted in ((case.wrong, False), (case.right, True)):
        module = parse(text(case, call))
        verdict = aot.compile_ahead_of_time(
            module, topology=TARGETS[TARGET].topology, layout_passes=True, compiler=compiler
        )
        assert verdict.accepted == accepted, verdict.message
