"""Kinds of errors that Python raises while JAX traces a kernel, and what notes say of them."""

from __future__ import annotations

import jax

from pallasite.diagnostics import WITHOUT_X64
from pallasite.frontend.jaxprs.advice import REVERSING
from pallasite.jax.fault import Fault

_READ = "read it first: ref[...], of a ref in SMEM ref[i]"
_INDEXING = "state/indexing.py"
_TRUTH = (
    "guard stores with @pl.when(condition)",
    "choose values with jnp.where or lax.cond, combine conditions with &, | and ~",
    "repeat with lax.fori_loop, lax.while_loop or @pl.loop",
)
FAULTS = (
    Fault(
        jax.errors.TracerBoolConversionError,
        "",
        "the size of a slice of a ref is known when the kernel is traced",
        ("write ref[pl.ds(start, size)], where only start may be computed",),
        _INDEXING,
    ),
    Fault(
        jax.errors.TracerBoolConversionError,
        "",
        "Python decides when the kernel is traced, and this condition is known when it runs",
        _TRUTH,
    ),
    Fault(
        NotImplementedError,
        "with multi-ref TransformedRef",
        "a ref that pl.select_ref chooses is for copies",
        (
            "copy from or to it: pltpu.sync_copy(pl.select_ref(i, a, b), ref)",
            "load from both and choose, jnp.where(i == 0, a[...], b[...]); store under @pl.when",
        ),
    ),
    Fault(
        TypeError,
        r"same pytree structure[\s\S]*pallas/helpers.py",
        "what pl.when guards returns nothing",
        ("store in it, or choose values with jnp.where or lax.cond",),
    ),
    Fault(
        TypeError,
        "Pred must be a scalar",
        "a branch is taken for the whole kernel",
        ("choose element by element: jnp.where(condition, a, b)",),
    ),
    Fault(
        TypeError,
        "branches must have equal output types",
        "all branches give values of one type and shape",
        ("write value.astype(dtype), and jnp.full(shape, value) for a number",),
    ),
    Fault(
        TypeError,
        "arguments should be callable",
        "a branch is a function",
        ("write lambda: value, or choose values with jnp.where(condition, a, b)",),
    ),
    Fault(
        TypeError,
        "positional argument|unexpected keyword argument",
        "JAX calls this function with other arguments than it takes",
        (
            "lax.fori_loop and @pl.loop give it the index, then what is carried, in one value",
            "lax.while_loop gives what is carried, in one value; lax.cond its operands",
            "pl.run_scoped gives one ref per allocation, pltpu.emit_pipeline one per operand",
            "@pl.when gives nothing",
        ),
        called=r"/control_flow/|pallas/(helpers|primitives)\.py|mosaic/pipeline\.py",
    ),
    Fault(
        TypeError,
        "arrays are immutable and do not support in-place item assignment",
        "values do not change, memory does",
        (
            "store to a ref: ref[i] = value",
            "or choose, with index = lax.broadcasted_iota(jnp.int32, x.shape, 0): "
            "jnp.where(index == i, value, x)",
        ),
    ),
    Fault(
        ValueError,
        "truth value of an array",
        "Python decides when the kernel is traced, and for whole vectors",
        ("use jnp.where, jnp.maximum and jnp.minimum, combine conditions with &, | and ~",),
    ),
    Fault(
        jax.errors.TracerIntegerConversionError,
        "",
        "Python counts when the kernel is traced, and this number is known when it runs",
        (
            "repeat with lax.fori_loop(0, n, body, init) or @pl.loop(0, n)",
            "keep tables in SMEM instead of lists: ref[i]",
        ),
    ),
    Fault(
        jax.errors.TracerArrayConversionError,
        "",
        "NumPy computes when the kernel is traced, and this value is known when it runs",
        (
            "use the function of jax.numpy",
            "keep tables in SMEM instead of arrays of NumPy: ref[i]",
        ),
    ),
    Fault(
        jax.errors.ConcretizationTypeError,
        r"in the item\(\) method",
        "Python numbers are made when the kernel is traced, and this value is known when it runs",
        ("compute with the value as it is",),
    ),
    Fault(
        jax.errors.ConcretizationTypeError,
        "",
        "Python numbers are made when the kernel is traced, and this value is known when it runs",
        ("convert with x.astype(dtype)", "use the functions of jax.numpy instead of math"),
    ),
    Fault(
        AttributeError,
        r"'(AbstractRef|TransformedRef)' object has no attribute",
        "a ref is memory; only values are computed with",
        (_READ,),
    ),
    Fault(
        TypeError,
        "requires ndarray or scalar arguments"
        "|unsupported operand type.*Tracer|Tracer'> is not iterable",
        "a ref is memory; only values are computed with",
        (_READ,),
    ),
    Fault(
        TypeError,
        "(list|tuple) indices must be integers or slices, not (ellipsis|tuple|Slice)",
        "an operand that is a list is as many operands, which the kernel gets as a list of refs",
        ("make an array of its numbers before the call: jnp.asarray(x)",),
    ),
    Fault(
        TypeError,
        "'MemoryRef' object",
        "what is allocated is a ref within the function that pl.run_scoped calls",
        ("write pl.run_scoped(f, pltpu.VMEM(shape, dtype)): f gets the ref",),
    ),
    Fault(
        TypeError,
        "'RefIndexer' object is not callable",
        "a part of a ref is chosen like an element",
        ("write ref.at[i] instead of ref.at(i)",),
    ),
    Fault(
        NameError,
        "unbound axis name",
        "only meshes and grids with names have axes of a name",
        (
            "write pl.program_id(0) for the first axis of the grid",
            "for cores, pl.kernel(f, mesh=pltpu.create_tensorcore_mesh(name), ...)",
            "for devices, call the kernel within jax.shard_map over a mesh with this axis",
        ),
    ),
    Fault(
        ValueError,
        "must be called on `Ref` types|Expected cotangent type Ref",
        "what JAX maps or differentiates is a function of values",
        ("read the ref first, and hand on its value: jax.vmap(f)(ref[...])",),
    ),
    Fault(
        TypeError,
        "'NoneType' object is not callable",
        "a block of a pipeline has an index map",
        ("write pl.BlockSpec(block, lambda i: (i, 0)), with a number per axis of its grid",),
        "mosaic/pipeline.py",
    ),
    Fault(
        AttributeError,
        "no attribute 'inner_aval'",
        "a pipeline is for a kernel, and copies blocks of refs",
        ("pass the ref, and not its value ref[...]",),
    ),
    Fault(
        AttributeError,
        r"has no attribute (add|set|get|multiply|mul|min|max|apply|divide|power|subtract)$",
        "a ref is written in place",
        ("write ref[i] += value, ref[i] = value or x = ref[i]",),
    ),
    Fault(
        Exception,
        "TransformedRefs cannot be abstractified",
        "a view of a ref is memory; only values are computed with",
        (_READ,),
    ),
    Fault(
        ValueError,
        "Cannot store a Ref into another Ref",
        "a ref is memory; only values are stored",
        (_READ,),
    ),
    Fault(
        ValueError,
        "DMA source/destination/semaphore arguments must be Refs",
        "a copy is from a ref to a ref, and takes a semaphore by its ref",
        ("write ref.at[...] instead of ref[...], of several semaphores sems.at[i]",),
    ),
    Fault(
        TypeError,
        r"(async|make_async)(_remote)?_copy\(\) missing .*'(recv_)?sem'",
        "a copy counts its bytes on a semaphore, a remote one on one of each side",
        (
            "give the kernel scratch_shapes=[pltpu.SemaphoreType.DMA], and the copy its ref",
            "pltpu.sync_copy(source, target) brings its own, and waits",
        ),
    ),
    Fault(
        ValueError,
        r"non-\(\)-shaped semaphore",
        "a copy, a signal and a wait take one semaphore",
        ("write sems.at[i]",),
    ),
    Fault(
        ValueError,
        "requires a DMA semaphore",
        "copies count on semaphores of their own kind",
        ("give the kernel scratch_shapes=[pltpu.SemaphoreType.DMA]",),
    ),
    Fault(
        ValueError,
        "Must (signal|wait|read).* semaphores of the following types",
        "signals count on semaphores of their own kind",
        ("give the kernel scratch_shapes=[pltpu.SemaphoreType.REGULAR]",),
    ),
    Fault(
        ValueError,
        "Invalid dtype for `swap`.*Ref dtype: (semaphore|dma_sem|barrier)",
        "semaphores count, and are not stored to",
        ("write pl.semaphore_signal(sem, n), and pl.semaphore_wait(sem, n) to take it away",),
    ),
    Fault(
        ValueError,
        "dtype=.*sem.* is not a valid dtype",
        "semaphores are not loaded, nor computed with",
        ("write pl.semaphore_read(sem) for the count of a regular semaphore",),
    ),
    Fault(
        IndexError,
        "",
        "JAX sees refs of one dimension as no other type",
        ("see the value so: lax.bitcast_convert_type(ref[...], dtype)",),
        "state/utils.py",
    ),
    Fault(
        NotImplementedError,
        "Bitcast 1D ref with bitwidth change",
        "words are split, and joined, along the dimension before the last",
        (
            "give the value rows: pltpu.bitcast(ref[...].reshape(-1, 128), dtype)",
            "or pass the array as rows of 128",
        ),
    ),
    Fault(
        ValueError,
        "same after multiplying the second-minor dimension by the bitwidths",
        "words are joined of whole groups of rows",
        (
            "pad the value: pltpu.bitcast(jnp.pad(ref[...], ((0, n), (0, 0))), dtype)",
            "or see fewer rows: ref.at[pl.ds(0, rows)].bitcast(dtype)",
        ),
    ),
    Fault(
        ValueError,
        "Non-static stride in `dslice`",
        "the distance of the rows that are loaded is known when the kernel is traced",
        (
            "load them one by one: jnp.concatenate([ref[pl.ds(start + i * stride, 1), :] for i in "
            "range(n)])",
        ),
    ),
    Fault(
        ValueError,
        "does not have (a )?corresponding jaxpr input",
        "what pl.run_scoped allocates is gone when its function returns",
        ("use the ref in that function, and return values",),
    ),
    Fault(
        ValueError,
        r"Invalid dtype for `swap`.*Ref dtype: (float|int|uint)64",
        "a TPU kernel has no elements of 64 bits",
        ("give the output a type of 32 bits",),
    ),
    Fault(
        ValueError,
        r"Invalid dtype for `swap`.*Value dtype: (float|int|uint)64",
        "a TPU kernel has no elements of 64 bits",
        ("write jnp.float32(number) for NumPy's numbers, " + WITHOUT_X64,),
    ),
    Fault(
        TypeError,
        r"requires arguments to have the same dtypes, got .*(float|int|uint)64",
        "a TPU kernel has no elements of 64 bits",
        ("write jnp.int32(number) for a number, " + WITHOUT_X64,),
    ),
    Fault(
        OverflowError,
        "",
        "a number of Python's is an int32 among arrays, at most 2147483647",
        (
            "write jnp.uint32(n) for all 32 bits, and convert what it meets: x.astype(jnp.uint32)",
            "write a mask of all bits, 0xFFFFFFFF, as -1",
            "keep what has more bits in two arrays",
        ),
    ),
    Fault(
        ValueError,
        "Invalid dtype for `swap`",
        "values are stored as they are",
        ("convert it first: ref[...] = value.astype(ref.dtype)",),
    ),
    Fault(
        ValueError,
        r"`indices` must not be longer than `shape`.*shape=\(\)",
        "a ref of rank 0 has no places to choose from",
        ("read it with ref[...]", "or pass an array of one element, jnp.reshape(x, (1,)): ref[0]"),
        _INDEXING,
    ),
    Fault(
        ValueError,
        "`indices` must not be longer than `shape`|not enough values to unpack",
        "a ref is indexed by a number, a slice or pl.ds in each of its dimensions",
        ("read it, and reshape the value: ref[...][:, None]",),
        _INDEXING,
    ),
    Fault(
        (ValueError, TypeError),
        "too many values to unpack|is not a valid JAX type",
        "a ref is indexed by a number, a slice or pl.ds in each of its dimensions",
        ("read one row after the other: jnp.concatenate([ref[i : i + 1] for i in rows])",),
        _INDEXING,
    ),
    Fault(
        ValueError,
        "Out of bound slice",
        "a part of a ref lies within it",
        (
            "take no more than there is: ref[pl.ds(start, size)] ends at start + size",
            "where blocks do not fill an array, let the grid cut the last: pl.cdiv(n, size)",
        ),
        _INDEXING,
    ),
    Fault(
        (TypeError, AssertionError),
        r"^'float' object cannot be interpreted as an integer|^DShapedArray\(.*\(float",
        "places and sizes are integers",
        ("write n // 2 instead of n / 2",),
    ),
    Fault(
        AssertionError,
        r"^DShapedArray\(",
        "the size of what is loaded is known when the kernel is traced",
        ("load as many as there can be, and mask the rest: jnp.where(index < n, x, 0)",),
    ),
    Fault(
        ValueError,
        "is out of bounds for grid",
        "a kernel has one program_id per axis of its grid, counted from 0",
        ("give the call a grid with this axis: grid=(n,)",),
    ),
    Fault(
        TypeError,
        "indices must be integers or slices, not str",
        "the axes of a grid are counted, from 0",
        ("write pl.program_id(0); lax.axis_index(name) is for the axes of a mesh",),
        "pallas/core.py",
    ),
    Fault(
        ValueError,
        r"slice must have a step >= 1",
        "a ref is read forwards",
        REVERSING,
    ),
    Fault(
        ValueError,
        "shift must be non-negative",
        "pltpu.roll goes towards higher indices",
        ("write shift % x.shape[axis]",),
    ),
    Fault(
        NotImplementedError,
        "Cannot partition over cores without parallel grid dimensions.*'",
        "a pipeline knows the kinds of its axes by the names of Pallas",
        ("write pltpu.PARALLEL and pltpu.ARBITRARY, not strings",),
    ),
    Fault(
        NotImplementedError,
        "Buffer count >2 not supported for output",
        "an output of a pipeline has one buffer or two",
        ("write pl.Buffered(2) in its spec",),
    ),
)
