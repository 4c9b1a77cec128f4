"""Kinds of errors about what a kernel is called with: specs, maps, scratch, captured arrays."""

from __future__ import annotations

import jax

from pallasite.jax.fault import Fault

_PER_DEVICE = "every device runs its own kernel, and JAX cuts no arrays for it"
_SHARD_MAP = (
    "jax.shard_map(f, mesh=mesh, in_specs=..., out_specs=..., check_vma=False) around the call, "
    "over all axes of the mesh: axis_names= leaves none out",
    "for one device: call it outside of jax.set_mesh, with arrays that lie on one device",
)

FAULTS_OF_CALLS = (
    Fault(
        TypeError,
        "'int' object is not iterable",
        "a grid has one size per axis",
        ("write grid=(n,)",),
        "mosaic/pipeline.py",
    ),
    Fault(
        ValueError,
        "emit_pipeline body function must return None",
        "what a pipeline repeats returns nothing",
        ("store to the ref of the output block: out[...] = value",),
    ),
    Fault(
        TypeError,
        "^Argument 'AsyncCopyDescriptor",
        "a copy is no value: what it copies is in its target, when it was waited for",
        ("write pltpu.make_async_copy(source, target, sem), start() and wait(), then target[...]",),
    ),
    Fault(
        ValueError,
        "Invalid out_shape type",
        "a result has a shape and a type",
        ("write jax.ShapeDtypeStruct(shape, dtype), of several results a list of them",),
    ),
    Fault(
        AttributeError,
        "no attribute '__getattr__'",
        "scratch has a shape and a type",
        ("write pltpu.VMEM(shape, dtype) instead of pltpu.VMEM",),
        "pallas/mosaic/core.py",
    ),
    Fault(
        TypeError,
        r"SemaphoreType\.get_ref_aval\(\) missing",
        "a semaphore is of one kind",
        ("write pltpu.SemaphoreType.DMA, of several pltpu.SemaphoreType.DMA((n,))",),
    ),
    Fault(
        TypeError,
        "'function' object is not iterable",
        "a BlockSpec has the shape of its block first, then its index map",
        ("write pl.BlockSpec(block_shape, index_map)",),
        "pallas/core.py",
    ),
    Fault(
        ValueError,
        "Unsupported block dimension type.*Tracer",
        "the size of a block is known when the kernel is traced, the number of blocks need not be",
        (
            "take a size that the program knows, with jax.jit(f, static_argnums=...)",
            "give the call a grid of a size known when it runs: grid=(pl.cdiv(n, size),)",
        ),
    ),
    Fault(
        ValueError,
        "Index map function.* must not capture constants",
        "an index map computes with the numbers of the grid and what is prefetched",
        (
            "pass what it reads first, jnp.reshape(n, (1,)) for a number, with "
            "grid_spec=pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, ...)",
            "the kernel and all index maps then get one ref more: lambda i, n: (n[0], 0)",
        ),
    ),
    Fault(
        ValueError,
        r"captures constants \[\w+\[\]\]",
        "a kernel gets its numbers as operands",
        (
            "pass jnp.reshape(n, (1,)), with pl.BlockSpec(memory_space=pltpu.SMEM): ref[0]",
            "what Python knows may stay as it is: 2.0 instead of jnp.float32(2.0)",
        ),
    ),
    Fault(
        AttributeError,
        "'functools.partial' object has no attribute 'get_ref_aval'",
        "pltpu.emit_pipeline_with_allocations gives a pipeline, and a function that is given the "
        "same refs and makes its buffers",
        (
            "call it: pl.run_scoped(lambda buffers: pipeline(x, out, allocations=buffers), "
            "make_allocations(x, out))",
        ),
    ),
    Fault(
        AttributeError,
        "no attribute 'get_ref_aval'",
        "scratch says which memory it is in",
        (
            "write pltpu.VMEM(shape, dtype) or pltpu.SMEM(shape, dtype), "
            "for a semaphore pltpu.SemaphoreType.DMA or .REGULAR",
        ),
    ),
    Fault(
        ValueError,
        "captures constants",
        "a kernel gets its arrays as operands",
        (
            "pass the array to the call, with a BlockSpec of its own",
            "compute what a formula gives inside, with jnp.full or lax.broadcasted_iota",
            "hand on what a loop computes: lax.fori_loop(0, n, body, init), or a ref",
            "store what @pl.when computes to a ref, or choose it with jnp.where or lax.cond",
        ),
    ),
    Fault(
        ValueError,
        "When `check_vma=True` on `jax.shard_map`",
        "a result of a kernel says over which axes of the mesh it differs, or nobody checks that",
        ("write jax.shard_map(..., check_vma=False)",),
    ),
    Fault(
        ValueError,
        "should return None|mpmd_map returned a mutable array reference",
        "a kernel returns nothing",
        ("store the result to the ref of the output: out[...] = value",),
    ),
    Fault(
        ValueError,
        "must return integer scalars",
        "an index map returns the number of a block in each dimension, an integer: an int32",
        (
            "write i // 2 instead of i / 2, and (...).astype(jnp.int32) of other integers",
            "make a table that it reads int32: x.astype(jnp.int32)",
        ),
    ),
    Fault(
        ValueError,
        "Index map function.* to match block_shape",
        "an index map returns the number of a block in each dimension",
        ("write lambda i: (i, 0) for rows of blocks, with as many numbers as dimensions",),
    ),
    Fault(
        ValueError,
        r"safe_zip\(\) argument",
        "a block has a size in each dimension of its array",
        (
            "write as many sizes, and numbers in the index map, as the ref has dimensions",
            "write None for a dimension of size 1 that the kernel shall not see: (None, 8, 128)",
        ),
        "mosaic/pipeline.py",
    ),
    Fault(
        ValueError,
        "Block shape for.* same number of dimensions as the array",
        "a block has a size in each dimension of its array",
        (
            "write None for a dimension of size 1 that the kernel shall not see: (None, 8, 128)",
            "what num_scalar_prefetch counts comes first in the call, and has no BlockSpec",
        ),
    ),
    Fault(
        ValueError,
        "pytree structure error: different lengths|Tuple arity mismatch"
        "|Pytree for `(in|out)_specs` and",
        "a pipeline has one BlockSpec per ref that it is called with, inputs first",
        ("give as many in in_specs and out_specs together",),
        "mosaic/pipeline.py",
    ),
    Fault(
        ValueError,
        "Pytree for `in_specs` and",
        "each operand has one BlockSpec",
        (
            "give as many, nested as the operands are; scalar prefetch operands have none",
            "write pl.BlockSpec() for an operand that is one block",
        ),
    ),
    Fault(
        ValueError,
        "Pytree for `out_specs` and",
        "each result has one BlockSpec",
        ("give one for one result, a list for a list of results",),
    ),
)

FAULTS_OF_GRIDS = (
    Fault(
        (ValueError, TypeError),
        "Grid must be a tuple of integers|object is not (subscriptable|iterable)",
        "a grid has one size per axis, an integer",
        ("write pl.cdiv(n, size) for as many blocks as cover n, n // size instead of n / size",),
    ),
)
"""What JAX says of a grid, before there are kernels."""

FAULTS_OF_STEPS = (
    Fault(
        AssertionError,
        "^$",
        "only a kernel that runs is at a step of a grid",
        (
            "call pl.program_id and pl.num_programs in the kernel of a pl.pallas_call",
            "an index map takes the step as its parameter: lambda i: (i, 0)",
            "a kernel of pl.kernel has no grid: lax.axis_index(name) is its core in the mesh, and "
            "@pl.loop(0, n) or pltpu.emit_pipeline goes through blocks",
        ),
    ),
)
"""What JAX says where a step is asked for outside of kernels: an assertion without words."""

FAULTS_OF_LOWERED_KERNELS = (
    Fault(
        ValueError,
        "collective_id has to be specified",
        "kernels that wait for each other at a barrier say which they are by a number",
        ("give the call compiler_params=pltpu.CompilerParams(collective_id=0)",),
        primitive="get_barrier_semaphore",
    ),
    Fault(
        ValueError,
        "collective_id has to be unspecified",
        "a collective id is for the barrier that a kernel waits at, and this one has none",
        (
            "leave out collective_id",
            "or have the devices wait for each other: pltpu.get_barrier_semaphore(), which each of "
            "them signals and waits for",
        ),
    ),
    Fault(
        ValueError,
        "Number of device ids must match the number of mesh axes",
        "a device id has a number per axis of the mesh, which a kernel only knows if it names one",
        ("name the axis: device_id={'x': i}, with the name that it has in the mesh",),
        primitive="dma_start",
    ),
    Fault(
        NotImplementedError,
        "cannot be automatically partitioned",
        _PER_DEVICE,
        _SHARD_MAP,
    ),
)
"""What JAX says of a kernel that it has lowered."""

FAULTS_OF_OTHER_DEVICES = (
    Fault(
        ValueError,
        "Only interpret mode is supported on CPU",
        "the call is for another kind of device, by its compiler_params",
        ("write compiler_params=pltpu.CompilerParams(...), or leave them out",),
    ),
)
"""What JAX says of a call that is not for a TPU."""

FAULTS_OF_OTHER_THREADS = (
    Fault(
        ValueError,
        "Only interpret mode is supported on CPU",
        "a simulation belongs to the thread that enters it, and this is another one",
        (
            "enter it in what the thread runs: 'with pallasite.jax.simulate():', or as a decorator",
            "or switch the whole process over: python -m pallasite.jax PROGRAM, or the environment "
            "variable PALLASITE_SIMULATE=v5e",
        ),
    ),
)
"""What JAX says of a call outside of the simulations that other threads are in."""

FAULTS_OF_MAPS = (
    Fault(
        TypeError,
        r"AbstractRef\.update\(\) got an unexpected keyword",
        "a pl.pallas_call takes arrays, and gives its kernel refs to them",
        (
            "pass what the ref holds, ref[...], and set it to the result",
            "or change it in a kernel of pl.kernel or pl.core_map, which takes refs",
        ),
    ),
    Fault(
        ValueError,
        "index_map returned a mutable array reference",
        "an index map returns numbers, of a prefetched table one that it reads",
        ("write lambda i, table: (table[i], 0)",),
    ),
    Fault(
        TypeError,
        r"^object of type 'NoneType' has no len\(\)|is not a valid JAX type",
        "an index map returns the number of a block in each dimension",
        ("write lambda i: (i, 0): the block has its size from pl.BlockSpec, not from a slice",),
    ),
    Fault(
        jax.errors.TracerBoolConversionError,
        "",
        "Python decides when an index map is traced, and the numbers of the grid are known later",
        ("choose with jnp.where: lambda i: (jnp.where(i == 0, 1, 0), 0)",),
    ),
    Fault(
        (jax.errors.TracerIntegerConversionError, jax.errors.TracerArrayConversionError),
        "",
        "Python looks up when an index map is traced, and the numbers of the grid are known later",
        (
            "pass the table as an array, the first in the call, with "
            "grid_spec=pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, ...)",
            "the kernel and all index maps then get one ref more: lambda i, table: (table[i], 0)",
        ),
    ),
    Fault(
        AttributeError,
        "'(Slice|slice)' object has no attribute 'shape'",
        "an index map returns the number of a block in each dimension",
        (
            "write the number: lambda i: (i, 0)",
            "for blocks that begin anywhere, sizes of pl.Element, in all dimensions, and the first "
            "elements: pl.BlockSpec((pl.Element(8), pl.Element(128)), lambda i: (8 * i, 0))",
        ),
    ),
    Fault(
        AttributeError,
        "'NoneType' object has no attribute 'shape'",
        "an index map returns the number of a block in each dimension",
        ("write 0 for a dimension that is one block: lambda i: (i, 0)",),
    ),
)
"""What goes on in index maps, before what goes on in kernels."""

FAULTS_OF_ALIASES = (
    Fault(
        jax.errors.UnexpectedTracerError,
        "with type Ref<",
        "a ref is memory of the kernel that is given it",
        ("pass what it holds to this kernel too: what one kernel leaves for another is a result",),
    ),
    Fault(
        TypeError,
        "'AbstractRef' object is not iterable",
        "scratch is a list, with a ref for each in it",
        ("write scratch_shapes=[pltpu.VMEM(shape, dtype)]",),
        "pallas/pallas_call.py",
    ),
    Fault(
        AttributeError,
        "object has no attribute 'items'",
        "aliases are a dictionary, from the number of an operand to that of a result",
        ("write input_output_aliases={0: 0} for the first operand and the first result",),
        "pallas/pallas_call.py",
    ),
    Fault(
        ValueError,
        "outside the range",
        "an alias is between an operand and a result, counted from 0, prefetched scalars first",
        ("write input_output_aliases={0: 0} for the first operand and the first result",),
    ),
    Fault(
        ValueError,
        "with a different abstract value",
        "an operand and a result that share their memory have one shape and type",
        (
            "make them equal: out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype)",
            "operands are counted from 0, prefetched scalars first",
        ),
    ),
)
"""What JAX says of `input_output_aliases`, scratch and refs of other kernels."""

FAULTS_OF_MAPPING = (
    Fault(
        ValueError,
        "requires all mesh axes to be Manual",
        _PER_DEVICE,
        _SHARD_MAP,
    ),
    Fault(
        NotImplementedError,
        "mpmd_map only supports batching",
        "a kernel of a mesh of cores has no grid to which jax.vmap could add an axis",
        (
            "call it in turn, jax.lax.map(f, xs), or in a loop",
            "or give it all the examples, and loop over them in the kernel",
        ),
    ),
)
"""What JAX says of a kernel over several devices, or under `jax.vmap`."""
