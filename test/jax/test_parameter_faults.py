"""Parameters and meshes as they are mistaken: what a note says, its line, and that the rewrite
works."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")

from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jax.experimental.pallas import tpu_sc as plsc  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

from .mistakes import Fault, X, call, check, scaled  # noqa: E402

pytestmark = pytest.mark.jax

ANYWHERE = pl.BlockSpec(memory_space=pl.ANY)
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
OUT = jax.ShapeDtypeStruct(X.shape, X.dtype)


def parameters(**given: Any) -> Any:
    return call(scaled, X, compiler_params=pltpu.CompilerParams(**given))


def copies(x: Any, o: Any) -> None:
    pltpu.sync_copy(x, o)


def on_cores(body: Any = copies, **given: Any) -> Any:
    return pl.kernel(body, out_type=OUT, **given)(X)


def core_mesh() -> Any:
    return pltpu.create_tensorcore_mesh("core", num_cores=1)


def one_core(body: Any = copies) -> Any:
    return on_cores(body, mesh=core_mesh())


def copies_its_part(index: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        start = pl.multiple_of(16 * index(), 8)
        pltpu.sync_copy(x.at[pl.ds(start, 16)], o.at[pl.ds(start, 16)])

    return body


def with_buffers(buffers: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        pipeline, make = pltpu.emit_pipeline_with_allocations(
            scaled, grid=(2,), in_specs=[ROWS], out_specs=[ROWS]
        )
        pl.run_scoped(lambda made: pipeline(x, o, allocations=made), buffers(make, x, o))

    return call(body, X, in_specs=[ANYWHERE], out_specs=ANYWHERE)


def copies_with(*semaphores: Any) -> Any:
    def body(x: Any, o: Any, *given: Any) -> None:
        copy = pltpu.make_async_copy(x, o, *given)
        copy.start()
        copy.wait()

    return call(body, X, in_specs=[ANYWHERE], out_specs=ANYWHERE, scratch_shapes=semaphores)


def adds_in_place(add: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...]
        add(x, o)

    return call(body, X)


def added(x: Any, o: Any) -> None:
    o[...] += x[...]


def guarded(guard: Any) -> Any:
    def body(x: Any, o: Any) -> None:
        guard(pl.program_id(0) >= 0, lambda: scaled(x, o))

    return call(body, X, grid=(2,), in_specs=[ROWS], out_specs=ROWS)


def guards_like_a_context(condition: Any, store: Any) -> None:
    with pl.when(condition):
        store()


def copied(take: Any) -> Any:
    def body(x: Any, o: Any, to: Any, done: Any) -> None:
        o[...] = take(pltpu.async_copy(x, to, done), to)

    scratch = [pltpu.VMEM(X.shape, X.dtype), pltpu.SemaphoreType.DMA]
    return call(body, X, in_specs=[ANYWHERE], scratch_shapes=scratch)


def waited_for(copy: Any, to: Any) -> Any:
    copy.wait()
    return to[...]


LIMIT = 64 * 2**20
COST = {"flops": 2048, "transcendentals": 0, "bytes_accessed": 16384}
FAULTS: dict[str, Fault] = {
    "a parameter of GPUs": (
        lambda: parameters(num_warps=4), "leave it out; pl.BlockSpec(", parameters, 2 * X,
    ),
    "the kind of core": (
        lambda: parameters(kernel_type=pltpu.CoreType.TC), "leave it out: pl.pallas_call",
        parameters, 2 * X,
    ),
    "no parameter": (
        lambda: parameters(vmem_limit=LIMIT), "vmem_limit_bytes, ",
        lambda: parameters(vmem_limit_bytes=LIMIT), 2 * X,
    ),
    "a limit in words": (
        lambda: parameters(vmem_limit_bytes="64MB"), "vmem_limit_bytes=64 * 2**20",
        lambda: parameters(vmem_limit_bytes=LIMIT), 2 * X,
    ),
    "a cost that is a dictionary": (
        lambda: call(scaled, X, cost_estimate=COST), "cost_estimate=pl.CostEstimate(flops=",
        lambda: call(scaled, X, cost_estimate=pl.CostEstimate(**COST)), 2 * X,
    ),
    "a cost that is a number": (
        lambda: jax.jit(lambda x: call(scaled, x, cost_estimate=8))(X),
        "expected a pl.CostEstimate as cost_estimate, got int",
        lambda: call(scaled, X, cost_estimate=pl.CostEstimate(**COST)), 2 * X,
    ),
    "a cost of a mesh that is a dictionary": (
        lambda: on_cores(mesh=core_mesh(), cost_estimate=COST),
        "cost_estimate=pl.CostEstimate(flops=",
        lambda: on_cores(mesh=core_mesh(), cost_estimate=pl.CostEstimate(**COST)), X,
    ),
    "a name that is no text": (
        lambda: call(scaled, X, name=3), "name='rows'", lambda: call(scaled, X, name="rows"), 2 * X,
    ),
    "no mesh": (on_cores, "mesh=pltpu.create_tensorcore_mesh('core', num_cores=1)", one_core, X),
    "a grid of a mesh": (
        lambda: on_cores(grid=(2,)), "pltpu.emit_pipeline(f, grid=..., in_specs=..., out_specs=",
        lambda: one_core(pltpu.emit_pipeline(
            scaled, grid=(2,), in_specs=[ROWS], out_specs=[ROWS])), 2 * X,
    ),
    "a mesh of cores has no steps": (
        lambda: one_core(copies_its_part(lambda: pl.program_id(0))), "lax.axis_index(name)",
        lambda: one_core(copies_its_part(lambda: lax.axis_index("core"))), X,
    ),
    "a kernel of a mesh that returns": (
        lambda: one_core(lambda x, o: x.shape), "store the result to the ref", one_core, X,
    ),
    "a kernel of a mesh that returns a ref": (
        lambda: one_core(lambda x, o: o), "store the result to the ref", one_core, X,
    ),
    "buffers that nobody made": (
        lambda: with_buffers(lambda make, x, o: make), "make_allocations(x, out))",
        lambda: with_buffers(lambda make, x, o: make(x, o)), 2 * X,
    ),
    "a copy without a semaphore": (
        copies_with, "scratch_shapes=[pltpu.SemaphoreType.DMA]",
        lambda: copies_with(pltpu.SemaphoreType.DMA), X,
    ),
    "a semaphore of no kind": (
        lambda: copies_with(pl.semaphore), "for a semaphore pltpu.SemaphoreType.DMA",
        lambda: copies_with(pltpu.SemaphoreType.DMA), X,
    ),
    "a guard like a context": (
        lambda: guarded(guards_like_a_context), "write @pl.when(condition) above def _(): ...",
        lambda: guarded(lambda condition, store: pl.when(condition)(store)), 2 * X,
    ),
    "a copy as a value": (
        lambda: copied(lambda copy, to: copy), "start() and wait(), then target[...]",
        lambda: copied(waited_for), X,
    ),
    "a ref of the program": (
        lambda: call(scaled, jax.new_ref(X)), "pass what the ref holds, ref[...]",
        lambda: call(scaled, jax.new_ref(X)[...]), 2 * X,
    ),
    "a pipeline outside of a kernel": (
        lambda: pltpu.emit_pipeline(scaled, grid=(2,), in_specs=[ROWS], out_specs=[ROWS])(X, X),
        "a pipeline is for a kernel, and copies blocks of refs",
        lambda: call(pltpu.emit_pipeline(scaled, grid=(2,), in_specs=[ROWS], out_specs=[ROWS]),
            X, in_specs=[ANYWHERE], out_specs=ANYWHERE), 2 * X,
    ),
    "a ref as JAX's arrays are changed": (
        lambda: adds_in_place(lambda x, o: o.at[...].add(x[...])), "ref[i] += value",
        lambda: adds_in_place(added), 2 * X,
    ),
}  # fmt: skip


@pytest.mark.since_jax("0.10.2", "meshes and their parameters by these names")
@pytest.mark.parametrize("name", FAULTS)
def test_the_rewrite_works(name: str) -> None:
    check(FAULTS[name], Path(__file__).name)


SUBCORES = {
    "all of them": functools.partial(
        plsc.VectorSubcoreMesh, core_axis_name="core", subcore_axis_name="subcore"
    ),
    "some of them": functools.partial(
        plsc.VectorSubcoreMesh, core_axis_name="core", subcore_axis_name="subcore",
        num_cores=1, num_subcores=16,
    ),
    "their scalar ones": functools.partial(plsc.ScalarSubcoreMesh, axis_name="core"),
}  # fmt: skip


@pytest.mark.since_jax("0.10.2", "meshes and their parameters by these names")
@pytest.mark.parametrize("name", SUBCORES)
def test_chips_without_sparse_cores_are_told_of_those_with(name: str) -> None:
    with simulate(target="v5e"), pytest.raises(RuntimeError, match="SparseCores") as caught:
        SUBCORES[name]()
    told = "\n".join(caught.value.__notes__)
    assert "v5p, v6e and v7x do" in told and f"{Path(__file__).name}:" in told
    with simulate(target="v6e"):
        SUBCORES[name]()
