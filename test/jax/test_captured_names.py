"""Names of JAX that a program took before its first simulation, as most programs do at their top:
what is called by them is simulated, in every form with the same numbers and findings."""

from __future__ import annotations

import subprocess
import sys

import pytest

jax = pytest.importorskip("jax")

pytestmark = pytest.mark.jax

PROGRAM = """
import warnings
import jax, jax.numpy as jnp, numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import core_map, kernel, pallas_call, run_scoped
from jax.experimental.pallas import tpu as pltpu, tpu_sc as plsc
from jax.experimental.pallas.tpu import create_tensorcore_mesh, emit_pipeline, sync_copy

ANY = pl.BlockSpec(memory_space=pl.ANY)
x = np.arange(20 * 128, dtype=np.float32).reshape(20, 128)

def step(x, o):
    o[...] = x[...] * 2 + pl.program_id(0).astype(jnp.float32) * 0

def step_alone(x, o):
    o[...] = x[...] * 2

def over_the_end(x, o):
    rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
    emit_pipeline(step, grid=(3,), in_specs=[rows], out_specs=[rows])(x, o)

def bounded(x, o):
    def some(i):
        return pl.ds(i * 8, jnp.minimum(8, 20 - i * 8)), 0
    rows = pl.BlockSpec((pl.BoundedSlice(8), 128), some)
    emit_pipeline(step, grid=(3,), in_specs=[rows], out_specs=[rows])(x, o)

def in_hbm(x, o):
    def step(x, o):
        sync_copy(x, o)
    rows = pl.BlockSpec((4, 128), lambda i: (i, 0), memory_space=pltpu.HBM)
    emit_pipeline(step, grid=(5,), in_specs=[rows], out_specs=[rows])(x, o)

def scratch(x, o):
    def whole(held):
        sync_copy(x, held)
        held[...] *= 2
        sync_copy(held, o)
    run_scoped(whole, pltpu.VMEM(x.shape, jnp.float32))

def lost(x, o):
    rows = pl.BlockSpec((4, 128), lambda i: (i, 0))
    emit_pipeline(step, grid=(5,), in_specs=[rows], out_specs=[rows], no_pipelining=True,
                  core_axis_name="core", dimension_semantics=(pltpu.PARALLEL,))(x, o)

def grid(body):
    return pallas_call(body, out_shape=x, in_specs=[ANY], out_specs=ANY)(x)

def mesh(body):
    return kernel(body, out_type=x, mesh=create_tensorcore_mesh("core"))(x)

def old(body):
    params = dict(mosaic=dict(vmem_limit_bytes=1 << 20))
    return pallas_call(body, out_shape=x, compiler_params=params)(x)

def old_mesh(body):
    return kernel(body, out_shape=x, mesh=create_tensorcore_mesh("core"))(x)

def subcores(body):
    def filled(x):
        x, o = jax.new_ref(x), jax.new_ref(jnp.zeros_like(x))
        mesh = plsc.VectorSubcoreMesh(core_axis_name="c", subcore_axis_name="s", num_cores=1)
        core_map(mesh)(lambda: pl.when(jax.lax.axis_index("s") == 0)(lambda: body(x, o)))
        return jax.freeze(o)
    return jax.jit(filled)(x)

def in_registers(x, o):
    def step(x, o):
        for row in range(4):
            for lane in range(0, 128, 16):
                o[row, pl.ds(lane, 16)] = x[row, pl.ds(lane, 16)] * 2
    rows = pl.BlockSpec((4, 128), lambda i: (i, 0))
    emit_pipeline(step, grid=(5,), in_specs=[rows], out_specs=[rows])(x, o)

import pallasite.jax

for target, call, bodies in (
    ("v5e", grid, (over_the_end, bounded, in_hbm, scratch)),
    ("v5e", mesh, (over_the_end, bounded)),
    ("v5p", mesh, (lost,)),
    ("v5e", old, (step_alone,)),
    ("v5e", old_mesh, (over_the_end,)),
    ("v7x", subcores, (in_registers,)),
):
    for body in bodies:
        told = []
        for form in ("pallas", "mosaic", "tiles"):
            with warnings.catch_warnings(record=True) as met:
                warnings.simplefilter("always")
                with pallasite.jax.simulate(target, form, "init"):
                    sum = float(np.asarray(call(body)).astype(np.float64).sum())
            firsts = [str(one.message).partition(chr(10))[0] for one in met]
            codes = [first.rpartition("[")[2][:-1] for first in firsts if first.endswith("]")]
            codes += [one.category.__name__ for one in met if one.category is DeprecationWarning]
            told.append([str(sum), codes])
        assert told[0] == told[1] == told[2], (body, told)
        print(call.__name__, body.__name__, *told[0])
"""


EXPECTED = """\
grid over_the_end 6551040.0 []
grid bounded 6551040.0 []
grid in_hbm 3275520.0 []
grid scratch 6551040.0 []
mesh over_the_end 6551040.0 []
mesh bounded 6551040.0 []
mesh lost nan ['core-share-lost', 'unwritten-output']
old step_alone 6551040.0 ['DeprecationWarning']
old_mesh over_the_end 6551040.0 ['DeprecationWarning']
subcores in_registers 6551040.0 []
"""


@pytest.mark.since_jax("0.10.2", "pipelines as one operation")
def test_all_forms_say_the_same() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert not done.returncode, done.stderr[-2000:]
    assert done.stdout == EXPECTED
