"""Kernels of SparseCores in form `pallas`, which `sparse_kernels` compares with what JAX lowers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from xdsl.dialects.builtin import ModuleOp  # noqa: E402

from pallasite import api  # noqa: E402
from pallasite.diagnostics import Diagnostic, UsageError  # noqa: E402
from pallasite.dialects.kernel_call import CALL, call_of  # noqa: E402
from pallasite.jax import kernels, simulate, trace  # noqa: E402

from .sparse_kernels import (  # noqa: E402
    CHECKS,
    LANES,
    LINEAR,
    TARGET,
    handed_over,
    one_subcore,
    same_as_lowered,
    scalar_kernel,
    typed,
    vector_kernel,
    worker,
)

pytestmark = pytest.mark.jax

f32, i32 = jnp.float32, jnp.int32
FLAT = pltpu.CompilerParams(needs_layout_passes=False)

SUMS = """\
  pallas.kernel @sums mesh (c = 2 core_parallel, s = 16 subcore_parallel) on sc_vector_subcore
    input %table: tensor<64x16xf32> in hbm
    input %numbers: tensor<256xi32> in hbm
    output %out: tensor<32x16xf32> in hbm
    scratch %places: memref<8xi32, #tpu.memory_space<vmem>>
    scratch %rows: memref<8x16xf32, #tpu.memory_space<vmem>>
    params {needs_layout_passes = true, use_tc_tiling_on_sc = false}
"""


def sums(table: Any, numbers: Any, out: Any, places: Any, rows: Any) -> None:
    """Each subcore adds up the eight rows of a table that its numbers name."""
    pltpu.sync_copy(numbers.at[pl.ds(worker() * 8, 8)], places)
    pltpu.sync_copy(table.at[places], rows)

    @pl.loop(1, 8)
    def _(n: Any) -> None:
        rows[0, :] = rows[0, :] + rows[n, :]

    pltpu.sync_copy(rows.at[0], out.at[worker()])


def without_call(module: ModuleOp) -> ModuleOp:
    bare = module.clone()
    del bare.attributes[CALL]
    return bare


@pytest.mark.feature("Y19")
@pytest.mark.since_jax("0.10.2", "layout passes for SparseCores as the default")
def test_it_reads_like_the_source() -> None:
    scratch = [pltpu.VMEM((8,), i32), pltpu.VMEM((8, 16), f32)]
    call = vector_kernel(sums, typed(32, 16), scratch, compiler_params=LINEAR)
    table = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)
    numbers = np.arange(256, dtype=np.int32) % 64
    module = trace(call, table, numbers, target=TARGET)
    text = str(module)
    assert SUMS in text
    recorded, told = call_of(module), call_of(without_call(module))
    assert recorded is not None and told is not None and recorded.settings == told.settings
    assert "tpu.enqueue_indirect_dma source(%table" in text and "offsets(%places" in text
    assert "= pallas.load %rows[0, :] :" in text and ", %rows[0, :] :" in text
    (found,) = api.run(module, [table, numbers], form="pallas", target=TARGET, checks=CHECKS)
    np.testing.assert_array_equal(found, table[numbers].reshape(32, 8, 16).sum(1))


@pytest.mark.feature("Y19")
@pytest.mark.since_jax("0.10.2", "addresses of subcores")
def test_every_kind_of_subcore_has_a_kernel() -> None:
    x = jnp.arange(256, dtype=f32).reshape(16, 16)
    traced, lowered = (
        trace(handed_over, x, target=TARGET, form=form) for form in ("pallas", "mosaic")
    )
    same_as_lowered(traced, lowered)
    names = [op.sym_name.data for op in traced.body.block.ops]
    assert names == ["scalar", "vector"]
    with simulate(target=TARGET, form="pallas", checks=CHECKS):
        np.testing.assert_array_equal(jax.jit(handed_over)(x), jnp.tile(x, (2, 1)))


def test_a_scalar_that_the_kernel_closes_over() -> None:
    """It is one word of a register, of which the kernel takes no other."""

    @jax.jit
    def program(x: Any, n: Any) -> Any:
        def body(x: Any, o: Any, row: Any) -> None:
            pltpu.sync_copy(x, row)
            row[...] = row[...] * n
            pltpu.sync_copy(row, o.at[worker()])

        scratch = [pltpu.VMEM((LANES,), i32)]
        return vector_kernel(body, typed(32, LANES, dtype=i32), scratch)(x)

    x = jnp.arange(LANES, dtype=i32)
    with simulate(target=TARGET, form="pallas", checks=CHECKS):
        found = program(x, jnp.int32(3))
    np.testing.assert_array_equal(found, jnp.tile(x * 3, (32, 1)))


Body = Callable[..., None]


def _of_register(function: Callable[[Any], Any]) -> Body:
    def body(x: Any, o: Any, row: Any) -> None:
        pltpu.sync_copy(x, row)
        row[...] = function(row[...])
        pltpu.sync_copy(row, o)

    return body


def _whole_add(x: Any, o: Any, row: Any) -> None:
    pltpu.sync_copy(x, row, add=True)


def _two_sided(x: Any, o: Any, row: Any) -> None:
    places = jax.lax.iota(i32, LANES)
    pltpu.sync_copy(x.at[places], row.at[places])


def _scalar_of_vmem(x: Any, o: Any, row: Any) -> None:
    row[...] = jnp.full((LANES,), row[3], f32)


def _of_hbm(x: Any, o: Any, row: Any) -> None:
    row[...] = x[...]


REFUSED: dict[str, tuple[Body, str, str]] = {
    "root": (_of_register(jnp.sqrt), "'sqrt' is not lowered for subcores", "TensorCore"),
    "square": (_of_register(lambda x: x**2), "'integer_pow' is not lowered", "x * x"),
    "iota": (
        _of_register(lambda x: x + jnp.arange(8, dtype=f32)[0]), "counts the 16 lanes", "in a loop",
    ),
    "add": (_whole_add, "a copy that adds whole refs", "index the first dimension"),
    "sides": (_two_sided, "from HBM to VMEM, both indexed", "index the side in HBM"),
    "scalar": (_scalar_of_vmem, "scalars in SMEM and vectors in VMEM", "ref[pl.ds(start, lanes)]"),
    "hbm": (_of_hbm, "the ref is in HBM", "copy it to VMEM first"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_at_the_line(name: str) -> None:
    body, message, advice = REFUSED[name]
    call = one_subcore(body, typed(LANES), [pltpu.VMEM((LANES,), f32)], compiler_params=FLAT)
    with pytest.raises(Diagnostic) as raised:
        kernels(call, typed(LANES), target=TARGET)
    error = raised.value
    assert message in error.message and advice in error.notes[0].message
    assert error.location is not None and "test_sparse_traces" in str(error.location)


def test_a_register_of_another_size() -> None:
    def body(x: Any, o: Any, row: Any) -> None:
        row[...] = row[...] + 1

    scratch = [pltpu.VMEM((2, LANES), f32)]
    call = one_subcore(body, typed(LANES), scratch, compiler_params=FLAT)
    with pytest.raises(Diagnostic, match=r"is one register, \(16,\), got \(2, 16\)"):
        kernels(call, typed(LANES), target=TARGET)


def test_no_time_is_kept() -> None:
    def body(x: Any, o: Any, words: Any) -> None:
        pltpu.sync_copy(x, words)
        pltpu.sync_copy(words, o)

    x = np.zeros(16, np.int32)
    call = scalar_kernel(body, typed(16, dtype=i32), [pltpu.SMEM((16,), i32)], cores=1)
    module = trace(call, x, target=TARGET)
    with pytest.raises(UsageError, match="in forms tiles and vreg"):
        api.simulate(module, [x], form="pallas", target=TARGET, profile=True)
