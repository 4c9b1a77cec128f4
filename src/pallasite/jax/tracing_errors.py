"""What to write instead where Python fails while JAX traces a kernel.

A kernel that asks for the truth of a value, computes with refs or stores another shape fails in
Python, before there is anything to lower. In a simulation JAX's error, which stays, gets a note:
the kernel's line, the rule and what to write.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any

import jax
from jax._src.pallas import core as pallas_core
from jax._src.pallas import mpmd, pallas_call
from jax._src.pallas.mosaic import pipeline, sc_core
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallasite.diagnostics import Diagnostic, Note, Unsupported
from pallasite.frontend.jaxprs.internals import jax_core
from pallasite.frontend.jaxprs.locations import is_users
from pallasite.jax.call_faults import (
    FAULTS_OF_ALIASES,
    FAULTS_OF_CALLS,
    FAULTS_OF_GRIDS,
    FAULTS_OF_LOWERED_KERNELS,
    FAULTS_OF_MAPS,
    FAULTS_OF_STEPS,
)
from pallasite.jax.captured import replace_function
from pallasite.jax.fault import Fault
from pallasite.jax.loop_faults import FAULTS_OF_LOOPS
from pallasite.jax.parameter_faults import (
    FAULTS_OF_CORES,
    FAULTS_OF_KERNELS,
    FAULTS_OF_LIMITS,
    FAULTS_OF_NAMES,
    FAULTS_OF_PARAMETERS,
    FAULTS_OF_RESULTS,
)
from pallasite.jax.shape_faults import FAULTS_OF_SHAPES
from pallasite.jax.source_locations import (
    beginning,
    beginning_of_function,
    calling_line,
    frames_of,
    is_within,
    line_of_primitive,
    location_in,
    said_in,
)
from pallasite.jax.sparse_faults import FAULTS_OF_SUBCORES
from pallasite.jax.tracing_faults import FAULTS


def explain_tracing(simulating: Callable[[], bool]) -> None:
    """What fails while a kernel is traced is explained, where `simulating` says so."""
    _explain_kernels(simulating)
    _explain_maps(simulating)
    _explain_meshes(simulating)
    _explain_results(simulating)
    grid_spec: Any = pallas_core.GridSpec
    result: Any = pallas_core._convert_out_shape_to_aval
    step: Any = pallas_core.axis_frame
    grid_spec.__init__ = _explained(simulating, grid_spec.__init__, FAULTS_OF_GRIDS)
    pallas_core._convert_out_shape_to_aval = _explained(simulating, result)
    pallas_core.axis_frame = _explained(simulating, step, FAULTS_OF_STEPS)
    block: Any = pipeline._ref_to_value_aval
    pipeline._ref_to_value_aval = _explained(simulating, block)
    parameters: Any = pltpu.CompilerParams
    parameters.__init__ = _explained(simulating, parameters.__init__, FAULTS_OF_PARAMETERS)
    replace_function(pl.kernel, lambda kernel: _explained(simulating, kernel, FAULTS_OF_KERNELS))
    replace_function(
        sc_core.get_sparse_core_info,
        lambda cores: _explained(simulating, cores, FAULTS_OF_CORES),
    )


def _explained(
    simulating: Callable[[], bool], function: Any, faults: tuple[Fault, ...] | None = None
) -> Any:
    """`function`, of whose errors a table is told: `faults`, or that of `explain`."""

    def of_call(error: Exception) -> Diagnostic | None:
        return explain(error) if faults is None else explain(error, faults=faults)

    @functools.wraps(function)
    def running(*args: Any, **options: Any) -> Any:
        with explaining(simulating, of_call, table=False):
            return function(*args, **options)

    return running


def _explain_kernels(simulating: Callable[[], bool]) -> None:
    """Errors in the kernels of `pallas_call`, and of what the call says of aliases."""
    trace: Any = pallas_call._trace_kernel_to_jaxpr
    call: Any = pallas_call._pallas_call

    @functools.wraps(trace)
    def tracing(
        kernel: Any, debug: jax_core.DebugInfo, grid: Any, *args: Any, **options: Any
    ) -> Any:
        def of_call(error: Exception) -> Diagnostic | None:
            return _wrong_parameters(error, grid, debug) or explain(error, debug)

        with explaining(simulating, of_call):
            return trace(kernel, debug, grid, *args, **options)

    @functools.wraps(call)
    def explained_call(*args: Any, **options: Any) -> Any:
        return _explained(simulating, call(*args, **options), FAULTS_OF_ALIASES + FAULTS_OF_NAMES)

    pallas_call._trace_kernel_to_jaxpr = tracing
    pallas_call._pallas_call = explained_call


def _explain_maps(simulating: Callable[[], bool]) -> None:
    """Errors in blocks and their index maps."""
    describe: Any = pallas_core.get_grid_mapping

    @functools.wraps(describe)
    def describing(spec: Any, *args: Any, **options: Any) -> Any:
        # The specs of a pipeline are told as such where its kernel is traced.
        table = not is_within("mosaic/pipeline.py")

        def of_map(error: Exception) -> Diagnostic | None:
            return _wrong_map(error, spec) or explain(error, faults=FAULTS_OF_MAPS)

        with explaining(simulating, of_map, table):
            return describe(spec, *args, **options)

    pallas_core.get_grid_mapping = describing


def _explain_meshes(simulating: Callable[[], bool]) -> None:
    """Errors in kernels of meshes of cores."""
    kernels: Any = mpmd._mpmd_map

    def explained_body(body: Any) -> Any:
        @functools.wraps(body)
        def running(*refs: Any, **scratch: Any) -> Any:
            def of_call(error: Exception) -> Diagnostic | None:
                return _wrong_refs(error, len(refs), tuple(scratch), body) or explain(error)

            with explaining(simulating, of_call, table=False):
                return body(*refs, **scratch)

        return running

    @functools.wraps(kernels)
    def explained_kernels(bodies: Any, *args: Any, **options: Any) -> Any:
        explained = [(mesh, explained_body(body)) for mesh, body in bodies]
        return _explained(simulating, kernels(explained, *args, **options))

    def explained_maps(mapped: Any) -> Callable[..., Any]:
        def explained_map(*args: Any, **options: Any) -> Any:
            over_cores = mapped(*args, **options)
            return lambda body: over_cores(_explained(simulating, body))

        return explained_map

    mpmd._mpmd_map = explained_kernels
    replace_function(pallas_core.core_map, explained_maps)


def _explain_results(simulating: Callable[[], bool]) -> None:
    """The error of a program that returns a semaphore: arrays of them have no values."""
    semaphores: Any = pallas_core.AbstractSemaphoreTyRules
    made = "global_sharded_result_handler"

    def array_of(*_: Any) -> Any:
        raise AttributeError(f"type object {semaphores.__name__!r} has no attribute {made!r}")

    if not hasattr(semaphores, made):
        setattr(semaphores, made, staticmethod(_explained(simulating, array_of, FAULTS_OF_RESULTS)))


_KNOWN = FAULTS_OF_SUBCORES + FAULTS_OF_SHAPES + FAULTS + FAULTS_OF_LOOPS + FAULTS_OF_CALLS
CODE = "traced-kernel"
"""The code of what these notes say."""


@contextmanager
def explaining_lowering(
    params: dict[str, Any],
    simulating: bool = True,
    faults: tuple[Fault, ...] = FAULTS_OF_LOWERED_KERNELS + FAULTS_OF_LIMITS,
) -> Generator[None]:
    """While JAX lowers a call of a kernel with `params`, in a simulation."""
    (jaxpr, *_) = jaxprs = kernels_of(params)

    def of_kernel(error: Exception) -> Diagnostic | None:
        return explain(error, jaxpr.debug_info, faults, jaxprs)

    with explaining(lambda: simulating, of_kernel, table=False):
        yield


def kernels_of(params: dict[str, Any]) -> list[Any]:
    """The kernels of a call."""
    return [params["jaxpr"]] if "jaxpr" in params else list(params["jaxprs"])


@contextmanager
def explaining(
    simulating: Callable[[], bool],
    of_call: Callable[[Exception], Diagnostic | None] = lambda error: None,
    table: bool = True,
) -> Generator[None]:
    """Notes on errors what `of_call`, or else the table, says of them."""
    try:
        yield
    except Exception as error:
        told = any(f"[{CODE}]" in note for note in getattr(error, "__notes__", ()))
        if simulating() and not told:
            explanation = of_call(error) or (explain(error) if table else None)
            if explanation is not None:
                error.add_note(str(explanation))
        raise


def explain(
    error: Exception,
    debug: jax_core.DebugInfo | None = None,
    faults: tuple[Fault, ...] = _KNOWN,
    jaxprs: Iterable[jax_core.Jaxpr] = (),
) -> Diagnostic | None:
    """The kernel's line, the rule and what to write instead, of an error that the table knows; of
    one about a whole kernel the line of the primitive in `jaxprs` that it is about, or on which
    the kernel begins, by its debug information."""
    frames = list(frames_of(error.__traceback__))
    of_users = [number for number, (file, _, _) in enumerate(frames) if is_users(file)]
    called = "\n".join(file for file, _, _ in frames[of_users[-1] + 1 :]) if of_users else ""
    for fault in faults:
        if (
            isinstance(error, fault.kind)
            and (said := re.search(fault.message, str(error)))
            and fault.applies(said)
            and any(file.endswith(fault.within) for file, _, _ in frames)
            and (not fault.called or re.search(fault.called, called))
        ):
            notes = [Note(advice) for advice in fault.advice]
            whole = line_of_primitive(jaxprs, fault.primitive) or beginning(debug)
            whole = whole or said_in(error) or calling_line()
            where = whole if fault.primitive else location_in(frames) or whole
            return Unsupported(CODE, fault.rule, where, notes)
    return None


def _wrong_parameters(error: Exception, grid: Any, debug: jax_core.DebugInfo) -> Diagnostic | None:
    """Of a kernel that takes other refs than it is given."""
    if not _is_wrong_call(error):
        return None
    given = [
        (grid.num_index_operands, "scalar prefetch", ""),
        (grid.num_inputs, "input", "s"),
        (grid.num_outputs, "output", "s"),
        (grid.num_scratch_operands, "scratch", ""),
    ]
    counts = ", ".join(
        f"{count} {name}{ending if count > 1 else ''}" for count, name, ending in given if count
    )
    rule = f"a kernel takes one ref per operand, in this order: {counts}"
    advice = [Note("give the kernel as many parameters; pytrees of operands are one")]
    if "keyword-only" in str(error):
        rule = "a kernel is called with refs, and with nothing by name"
        advice = [Note("bind what else it takes: functools.partial(kernel, name=value)")]
    return Unsupported(CODE, rule, beginning(debug) or calling_line(), advice)


def _wrong_refs(
    error: Exception, count: int, names: tuple[str, ...], body: Any
) -> Diagnostic | None:
    """Of the body of a mesh that takes other refs than it is given."""
    if not _is_wrong_call(error):
        return None
    rule = f"a kernel takes one ref per operand: inputs, outputs, then scratch, here {count} refs"
    if names:
        rule += f", and by name {', '.join(names)}"
    advice = [Note("give the kernel as many parameters; pytrees of operands are one")]
    return Unsupported(CODE, rule, beginning_of_function(body) or calling_line(), advice)


def _wrong_map(error: Exception, spec: Any) -> Diagnostic | None:
    """Of an index map that takes other numbers than it is given."""
    if not _is_wrong_call(error):
        return None
    axes, prefetched = len(spec.grid), getattr(spec, "num_scalar_prefetch", 0)
    given = axes + prefetched
    specs = jax.tree.leaves((spec.in_specs, spec.out_specs), is_leaf=_is_block)
    maps = [block.index_map for block in specs if _is_block(block) and block.index_map]
    wrong = next((index_map for index_map in maps if not _takes(index_map, given)), None)
    if wrong is None:
        return None
    rule = f"an index map takes one number per axis of the grid, which has {axes}"
    if prefetched:
        rule += f", then a ref per scalar prefetch operand, {prefetched} here"
    advice = "take what is left as *_ where the map does not need it"
    if _takes_more(wrong, given):
        advice = "give the call a grid with these axes: grid=(n,)"
    return Unsupported(CODE, rule, beginning_of_function(wrong) or calling_line(), [Note(advice)])


def _is_block(spec: Any) -> bool:
    return isinstance(spec, pallas_core.BlockSpec)


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Whether `function` can be called with `count` arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    return True


def _takes_more(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind_partial(*range(count))
    except TypeError:
        return False
    return not _takes(function, count)


def _is_wrong_call(error: Exception) -> bool:
    """Whether it is JAX whose call of a function of the user's has the wrong arguments."""
    frames = list(frames_of(error.__traceback__))
    return (
        isinstance(error, TypeError)
        and re.search(
            "positional argument|keyword-only argument|unexpected keyword argument", str(error)
        )
        is not None
        and not any(is_users(file) for file, _, _ in frames)
    )
