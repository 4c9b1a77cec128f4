"""What to write instead where Python fails while JAX traces a kernel.

A kernel that asks for the truth of a value, computes with refs or stores another shape fails in
Python, before there is anything to lower. In a simulation JAX's error, which stays, gets a note:
the kernel's line, the rule and what to write.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

import jax
from jax._src.pallas import core as pallas_core
from jax._src.pallas import mpmd, pallas_call
from jax.experimental import pallas as pl

from pallasite.diagnostics import Diagnostic, Note, SourceLocation, Unsupported
from pallasite.frontend.jaxprs.locations import is_users


@dataclass(frozen=True)
class Fault:
    """A kind of error: its type, a pattern of its message, the file of JAX that must be involved;
    and what a note says of it."""

    kind: type[BaseException]
    message: str
    rule: str
    advice: tuple[str, ...]
    within: str = ""


_READ = "read it first: ref[...], of a ref in SMEM ref[i]"
_INDEXING = "state/indexing.py"
_TRUTH = (
    "guard stores with @pl.when(condition)",
    "choose values with jnp.where or lax.cond, combine conditions with &, | and ~",
    "repeat with lax.fori_loop, lax.while_loop or @pl.loop",
)
_FAULTS = (
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
        ("use the function of jax.numpy",),
    ),
    Fault(
        TypeError,
        "Shapes must be 1D sequences of concrete values",
        "the shape of a vector is known when the kernel is traced",
        ("take the largest one and mask the rest: jnp.where(index < n, x, 0)",),
    ),
    Fault(
        jax.errors.ConcretizationTypeError,
        "",
        "Python numbers are made when the kernel is traced, and this value is known when it runs",
        ("convert with x.astype(dtype)",),
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
        AttributeError,
        "no attribute 'inner_aval'",
        "a pipeline copies blocks of refs",
        ("pass the ref, and not its value ref[...]",),
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
        "does not have a corresponding jaxpr input",
        "what pl.run_scoped allocates is gone when its function returns",
        ("use the ref in that function, and return values",),
    ),
    Fault(
        AttributeError,
        "no attribute 'get_ref_aval'",
        "scratch says which memory it is in",
        ("write pltpu.VMEM(shape, dtype) or pltpu.SMEM(shape, dtype)",),
    ),
    Fault(
        ValueError,
        "captures constants",
        "a kernel gets its arrays as operands",
        (
            "pass the array to the call, with a BlockSpec of its own",
            "compute what a formula gives inside, with jnp.full or lax.broadcasted_iota",
            "hand on what a loop computes: lax.fori_loop(0, n, body, init), or a ref",
        ),
    ),
    Fault(
        ValueError,
        "should return None",
        "a kernel returns nothing",
        ("store the result to the ref of the output: out[...] = value",),
    ),
    Fault(
        ValueError,
        r"Invalid dtype for `swap`.*Ref dtype: (float|int|uint)64",
        "a TPU kernel has no elements of 64 bits",
        ("give the output a type of 32 bits",),
    ),
    Fault(
        ValueError,
        "Invalid dtype for `swap`",
        "values are stored as they are",
        ("convert it first: ref[...] = value.astype(ref.dtype)",),
    ),
    Fault(
        ValueError,
        "Invalid shape for `swap`",
        "values are stored as they are, and not broadcast",
        (
            "reduce with keepdims=True to keep the rank",
            "broadcast it first: ref[...] = jnp.broadcast_to(value, ref.shape)",
        ),
    ),
    Fault(
        ValueError,
        "`indices` must not be longer than `shape`|not enough values to unpack",
        "a ref is indexed by a number, a slice or pl.ds in each of its dimensions",
        ("read it, and reshape the value: ref[...][:, None]",),
        _INDEXING,
    ),
    Fault(
        ValueError,
        r"slice must have a step >= 1",
        "a ref is read forwards",
        ("multiply the value with a permutation matrix, or gather with jnp.take_along_axis",),
    ),
    Fault(
        ValueError,
        "shift must be non-negative",
        "pltpu.roll goes towards higher indices",
        ("write shift % x.shape[axis]",),
    ),
)


def explain_tracing(simulating: Callable[[], bool]) -> None:
    """What fails while a kernel is traced is explained, where `simulating` says so."""
    trace: Any = pallas_call._trace_kernel_to_jaxpr
    describe: Any = pallas_core.get_grid_mapping
    kernels: Any = mpmd._mpmd_map
    mapped: Any = pallas_core.core_map

    @functools.wraps(trace)
    def tracing(kernel: Any, debug: Any, grid: Any, *args: Any, **options: Any) -> Any:
        def of_call(error: Exception) -> Diagnostic | None:
            return _wrong_parameters(error, grid, debug) or explain(error, debug)

        with _explaining(simulating, of_call):
            return trace(kernel, debug, grid, *args, **options)

    @functools.wraps(describe)
    def describing(spec: Any, *args: Any, **options: Any) -> Any:
        with _explaining(simulating, lambda error: _wrong_map(error, spec)):
            return describe(spec, *args, **options)

    def explained(body: Any) -> Any:
        @functools.wraps(body)
        def running(*args: Any, **options: Any) -> Any:
            with _explaining(simulating):
                return body(*args, **options)

        return running

    @functools.wraps(kernels)
    def explained_kernels(bodies: Any, *args: Any, **options: Any) -> Any:
        return kernels([(mesh, explained(body)) for mesh, body in bodies], *args, **options)

    @functools.wraps(mapped)
    def explained_map(*args: Any, **options: Any) -> Any:
        over_cores = mapped(*args, **options)
        return lambda body: over_cores(explained(body))

    pallas_call._trace_kernel_to_jaxpr = tracing
    pallas_core.get_grid_mapping = describing
    mpmd._mpmd_map = explained_kernels
    pallas_core.core_map = explained_map
    pl.core_map = explained_map


_CODE = "traced-kernel"


@contextmanager
def _explaining(
    simulating: Callable[[], bool],
    of_call: Callable[[Exception], Diagnostic | None] = lambda error: None,
) -> Generator[None]:
    """Notes on errors what `of_call`, or else the table, says of them."""
    try:
        yield
    except Exception as error:
        told = any(f"[{_CODE}]" in note for note in getattr(error, "__notes__", ()))
        if simulating() and not told:
            explanation = of_call(error) or explain(error)
            if explanation is not None:
                error.add_note(str(explanation))
        raise


def explain(error: Exception, debug: Any = None) -> Diagnostic | None:
    """The kernel's line, the rule and what to write instead, of an error that the table knows; of
    one about a whole kernel the line on which that begins, by its debug information."""
    frames = list(_frames(error.__traceback__))
    for fault in _FAULTS:
        if (
            isinstance(error, fault.kind)
            and re.search(fault.message, str(error))
            and any(file.endswith(fault.within) for file, _, _ in frames)
        ):
            notes = [Note(advice) for advice in fault.advice]
            where = _place(frames) or _beginning(debug) or _caller()
            return Unsupported(_CODE, fault.rule, where, notes)
    return None


def _wrong_parameters(error: Exception, grid: Any, debug: Any) -> Diagnostic | None:
    """Of a kernel that takes other refs than it is given."""
    if not _is_wrong_call(error):
        return None
    given = {
        "scalar prefetch": grid.num_index_operands,
        "inputs": grid.num_inputs,
        "outputs": grid.num_outputs,
        "scratch": grid.num_scratch_operands,
    }
    counts = ", ".join(f"{count} {name}" for name, count in given.items() if count)
    rule = f"a kernel takes one ref per operand, in this order: {counts}"
    advice = [Note("give the kernel as many parameters; pytrees of operands are one")]
    return Unsupported(_CODE, rule, _beginning(debug) or _caller(), advice)


def _wrong_map(error: Exception, spec: Any) -> Diagnostic | None:
    """Of an index map that takes other numbers than it is given."""
    if not _is_wrong_call(error):
        return None
    rule = f"an index map takes one number per axis of the grid, which has {len(spec.grid)}"
    if prefetched := getattr(spec, "num_scalar_prefetch", 0):
        rule += f", then the {prefetched} scalar prefetch operands"
    advice = [Note("take what is left as *_ where the map does not need it")]
    return Unsupported(_CODE, rule, _caller(), advice)


def _is_wrong_call(error: Exception) -> bool:
    """Whether it is JAX whose call of a function of the user's has the wrong arguments."""
    frames = list(_frames(error.__traceback__))
    return (
        isinstance(error, TypeError)
        and "positional argument" in str(error)
        and not any(is_users(file) for file, _, _ in frames)
    )


def _frames(traceback: TracebackType | None) -> Generator[tuple[str, int, int]]:
    """File, line and column of what was running, from the outermost."""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        positions = list(code.co_positions())
        column = positions[traceback.tb_lasti // 2][2]
        yield code.co_filename, traceback.tb_lineno, 0 if column is None else column + 1
        traceback = traceback.tb_next


def _place(frames: list[tuple[str, int, int]]) -> SourceLocation | None:
    for frame in reversed(frames):
        if is_users(frame[0]) and frame[0] != "<string>":  # written by `dataclass`
            return SourceLocation(*frame)
    return None


def _beginning(debug: Any) -> SourceLocation | None:
    file = getattr(debug, "func_filename", None)
    return None if file is None else SourceLocation(file, debug.func_lineno or 0)


def _caller() -> SourceLocation | None:
    """The user's line that calls the kernel."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else SourceLocation(frame.f_code.co_filename, frame.f_lineno)
