"""Random programs of vector subcores give what NumPy gives, and the TPU compiler takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from .since import require_jax  # noqa: E402

require_jax("0.10.1", "needs_layout_passes=")

import jax.numpy as jnp  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.api import parse  # noqa: E402
from pallasite.frontend import aot  # noqa: E402
from pallasite.jax import simulate  # noqa: E402
from pallasite.targets import TARGETS  # noqa: E402

from . import random_sparse as programs  # noqa: E402
from .sparse_kernels import check, one_subcore, typed  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.feature("Y17")]

i32, f32, VMEM = jnp.int32, jnp.float32, pltpu.VMEM
FLAT = pltpu.CompilerParams(needs_layout_passes=False, use_tc_tiling_on_sc=False)
KINDS = ("words", "floats")


def kernel(seed: int, lanes: int) -> Callable[..., Any]:
    """The program of a seed: arrays of registers in, arrays out, with the table."""
    statements = programs.program(seed, lanes)
    count, size = programs.REGISTERS, programs.TABLE * lanes

    def body(*refs: Any) -> None:
        words, floats, table, rows, words_out, floats_out, table_out, *buffers = refs
        names = ("words", "floats", "table", "numbers", "row")
        held = dict(zip(names, buffers, strict=True), rows=rows)
        for source, name in ((words, "words"), (floats, "floats"), (table, "table")):
            pltpu.sync_copy(source, held[name])
        state = {kind: [held[kind][n] for n in range(count)] for kind in KINDS}
        for statement in statements:
            statement.kernel(state, held)
        for kind, out in (("words", words_out), ("floats", floats_out)):
            for n in range(count):
                held[kind][n] = state[kind][n]
            pltpu.sync_copy(held[kind], out)
        pltpu.sync_copy(held["table"], table_out)

    shape = (count, lanes)
    out = [typed(*shape, dtype=i32), typed(*shape), typed(size, dtype=i32)]
    scratch = [
        VMEM(shape, i32), VMEM(shape, f32), VMEM((size,), i32), VMEM((lanes,), i32),
        VMEM((lanes,), i32),
    ]  # fmt: skip
    return one_subcore(body, out, scratch, compiler_params=FLAT)


@pytest.mark.parametrize("seed", range(12))
def test_program(seed: int) -> None:
    target = ("v7x", "v6e", "v5p")[seed % 3]
    lanes = TARGETS[target].sparse.lanes
    state = programs.start(seed, lanes)
    inputs = [state[name] for name in ("words", "floats", "table", "rows")]
    found = programs.meaning(programs.program(seed, lanes), state)
    want = [found[name] for name in ("words", "floats", "table")]
    check(kernel(seed, lanes), *inputs, want=want, target=target)


@pytest.mark.aot
@pytest.mark.parametrize("seed", range(0, 12, 3))
def test_the_compiler_takes_it(seed: int, compiler: aot.Compiler) -> None:
    state = programs.start(seed, 16)
    inputs = [np.asarray(state[name]) for name in ("words", "floats", "table", "rows")]
    with simulate(target="v7x"):
        lowered = jax.jit(kernel(seed, 16)).trace(*inputs).lower(lowering_platforms=("tpu",))
    verdict = aot.compile_ahead_of_time(
        parse(lowered.as_text()), topology=TARGETS["v7x"].topology, layout_passes=True,
        compiler=compiler,
    )  # fmt: skip
    assert verdict.accepted, verdict.message
