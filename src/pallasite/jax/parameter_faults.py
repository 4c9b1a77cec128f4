"""Kinds of errors about parameters of a call, and about the meshes that kernels run on."""

from __future__ import annotations

import dataclasses

from jax.experimental.pallas import tpu as pltpu

from pallasite.jax.fault import Fault

_UNKNOWN = r"unexpected keyword argument "
_FIELDS = ", ".join(field.name for field in dataclasses.fields(pltpu.CompilerParams))

FAULTS_OF_PARAMETERS = (
    Fault(
        TypeError,
        _UNKNOWN + r"'(kernel_type|core_type|device_type)'",
        "for which cores a kernel is, its mesh says, and no parameter",
        (
            "leave it out: pl.pallas_call is for a TensorCore",
            "for SparseCores, pl.kernel(f, mesh=plsc.VectorSubcoreMesh(...), ...)",
        ),
    ),
    Fault(
        TypeError,
        _UNKNOWN + r"'num_(warps|stages|ctas)'",
        "warps and stages are of GPUs: a TPU core runs one program, and fetches blocks ahead",
        (
            "leave it out; pl.BlockSpec(..., pipeline_mode=pl.Buffered(2)) gives the buffers of a "
            "block",
        ),
    ),
    Fault(
        TypeError,
        _UNKNOWN,
        "the parameters of pltpu.CompilerParams are known by their names",
        (f"write one of {_FIELDS}, or leave it out",),
    ),
)
"""What Python says of `pltpu.CompilerParams(...)`."""

FAULTS_OF_NAMES = (
    Fault(
        TypeError,
        "expected string or bytes-like object",
        "the name of a kernel is a text",
        ("write name='rows', or leave it out",),
    ),
)
"""What Python says of `name=`."""

FAULTS_OF_LIMITS = (
    Fault(
        ValueError,
        "must be an int: provided with",
        "a limit is a whole number of bytes",
        ("write vmem_limit_bytes=64 * 2**20, and n // 2 instead of n / 2",),
    ),
)
"""What JAX says of numbers among the parameters, when it has lowered the kernel."""

FAULTS_OF_KERNELS = (
    Fault(
        TypeError,
        r"missing .*'mesh'",
        "a kernel of pl.kernel runs on the cores of a mesh",
        (
            "write pl.kernel(f, mesh=pltpu.create_tensorcore_mesh('core', num_cores=1), ...)",
            "pl.pallas_call has blocks, and needs no mesh",
        ),
    ),
    Fault(
        TypeError,
        _UNKNOWN + r"'(grid|in_specs|out_specs|grid_spec|num_scalar_prefetch)'",
        "a kernel of pl.kernel has whole arrays in HBM, once per core: no grid and no blocks",
        (
            "go through blocks in it: "
            "pltpu.emit_pipeline(f, grid=..., in_specs=..., out_specs=...)",
            "or call it by pl.pallas_call(f, grid=..., in_specs=..., out_specs=...)",
        ),
    ),
)
"""What Python says of the arguments of `pl.kernel`."""

FAULTS_OF_CORES = (
    Fault(
        RuntimeError,
        "does not have SparseCores",
        "v4 and v5e have no SparseCores, v5p, v6e and v7x do",
        (
            "simulate one of these: pallasite.jax.simulate(target='v6e')",
            "a TensorCore gathers rows by an index map: pl.BlockSpec((None, 1, n), lambda i, rows: "
            "(rows[i], 0, 0)), with the rows as scalar prefetch",
        ),
    ),
)
"""What JAX says of meshes of SparseCores on a chip without."""

FAULTS_OF_RESULTS = (
    Fault(
        AttributeError,
        "global_sharded_result_handler",
        "the semaphores that a kernel returns are for other kernels of the same program: they are "
        "no arrays that a program, or a call outside of one, could return",
        (
            "call the kernel that starts a transfer and the one that waits for it in one function "
            "under jax.jit, which returns neither semaphore",
        ),
    ),
)
"""What JAX says of the results of a program."""
