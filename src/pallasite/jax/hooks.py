"""Where Pallasite meets JAX's internals: what makes kernel calls run on the modelled TPU.

A kernel call made inside a simulation carries `Simulated` settings in its `interpret` parameter.
When JAX lowers such a call for the CPU, we have JAX's own TPU rule lower it, take the
`tpu_custom_call` that comes out, and put a call back to Python in its place. Programs that contain
such callbacks are executed to their end before they return, so that a kernel's diagnostic is what
the caller catches. Outside of simulations every hook does what JAX did before.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax._src import core
from jax._src.interpreters import mlir, pxla
from jax._src.lib.mlir import ir
from jax._src.pallas import core as pallas_core
from jax._src.pallas import mpmd, pallas_call
from jax._src.pallas.mosaic import core as tpu_core
from jax._src.pallas.mosaic import pallas_call_registration as tpu_rules
from jax._src.sharding_impls import SPMDAxisContext
from jax.core import ShapedArray

from pallasite.diagnostics import Diagnostic
from pallasite.dialects.verification import verify
from pallasite.frontend.calls import TARGET
from pallasite.frontend.jaxprs.internals import jax_core
from pallasite.jax import tracing
from pallasite.jax.alone import kept_with
from pallasite.jax.call_faults import FAULTS_OF_OTHER_DEVICES, FAULTS_OF_OTHER_THREADS
from pallasite.jax.callbacks import emit_callback
from pallasite.jax.calls import Array, KernelCall, lowered_by_jax
from pallasite.jax.costs import check_estimate, counting_kernels
from pallasite.jax.derivatives import (
    explain_jacobians,
    explain_transposes,
    explaining_derivatives,
)
from pallasite.jax.devices import answer_for_target
from pallasite.jax.exported import (
    check_not_exported,
    check_not_serialized,
    run_exported_programs,
)
from pallasite.jax.failures import (
    as_jax_raises,
    call_back,
    surfacing_diagnostics,
    without_tpu_options,
)
from pallasite.jax.grid_bounds import check_bounds
from pallasite.jax.interpreted import TALLY, count_questions
from pallasite.jax.kept_counts import check_counts
from pallasite.jax.kept_pipelines import keep_pipelines
from pallasite.jax.kernel_tracing import trace_kernels, tracing_into
from pallasite.jax.loop_counters import warn_of_counters
from pallasite.jax.lost_shares import warn_of_lost_shares
from pallasite.jax.lost_tangents import check_tangents
from pallasite.jax.meshes import check_results
from pallasite.jax.no_tracing import allow_traced_programs
from pallasite.jax.partitioned import (
    keep_failure,
    partition_kernels,
    program_of,
    surfacing_refusals,
)
from pallasite.jax.pinned import pin_to_arrays
from pallasite.jax.platform_branches import take_tpu_branches
from pallasite.jax.settings import Settings, Simulated
from pallasite.jax.source_lines import keep_source_lines
from pallasite.jax.special_numbers import look_at_results
from pallasite.jax.spellings import accept_old_spellings
from pallasite.jax.subcore_addresses import check_addresses
from pallasite.jax.tracing_errors import explain_tracing, explaining_lowering
from pallasite.jax.xla_products import round_products

# Part of the key under which JAX keeps traced and compiled programs; local to the thread.
_context: Any = jax.make_user_context(None)
entered: set[Any] = set()
"""The scopes of simulations that threads are in."""
_installing = threading.Lock()
_installed = threading.Event()


def scope(settings: Settings) -> AbstractContextManager[None]:
    """Inside, this thread simulates with `settings`."""
    return _context(settings)


def set_default(settings: Settings) -> None:
    """Threads outside of every scope simulate with `settings`."""
    # Not all versions of JAX have `set_global` on the context itself.
    _context._obj.set_global(settings)


def current() -> Settings | None:
    """The settings under which this thread simulates."""
    return _context.value


def _simulating() -> bool:
    return current() is not None


def _rounds_products() -> bool:
    settings = current()
    return settings is not None and settings.products == "tpu"


def install() -> None:
    """Puts the hooks in place, once per process; without a simulation they change nothing."""
    with _installing:
        if _installed.is_set():
            return
        calls = (pallas_call.pallas_call_p, mpmd.mpmd_map_p, pallas_core.core_map_p)
        for primitive in calls:
            _mark_calls(primitive)
            look_at_results(primitive, _simulating)
            explain_transposes(_simulating, primitive)
        explain_jacobians(_simulating, calls)
        _replace_rule(pallas_call.pallas_call_p, _lower_pallas_call)
        _replace_rule(mpmd.mpmd_map_p, _lower_mpmd_map)
        round_products(_rounds_products)
        partition_kernels(current, scope)
        run_exported_programs(_simulating, _replace_exported_calls)
        trace_kernels(current)
        keep_pipelines(current)
        warn_of_lost_shares(_simulating)
        explain_tracing(_simulating)
        keep_source_lines(_simulating)
        pin_to_arrays(_simulating)
        take_tpu_branches(_simulating)
        answer_for_target(current)
        count_questions(_simulating)
        allow_traced_programs(_simulating)
        check_not_serialized()
        accept_old_spellings(_simulating)
        compiler: Any = pxla.UnloadedMeshExecutable
        plain = without_tpu_options(compiler.from_hlo, _simulating)
        compile = surfacing_refusals(plain)
        compiler.from_hlo = staticmethod(kept_with(compile))
        executor: Any = pxla.ExecuteReplicated
        executor.__call__ = surfacing_diagnostics(executor.__call__)
        executable: Any = pxla.MeshExecutable
        executable.cost_analysis = counting_kernels(executable.cost_analysis)
        _installed.set()


def _mark_calls(primitive: jax_core.Primitive) -> None:
    """Calls of `primitive` traced inside a simulation carry its settings."""
    bind = primitive.bind

    def marked(*args: Any, **params: Any) -> Any:
        settings = current()
        if settings is not None and _for_tpu(params):
            if params["interpret"]:
                TALLY.interpret()
            else:
                TALLY.simulated += 1
                params["interpret"] = Simulated(settings)
            check_estimate(params)
        with explaining_derivatives(settings is not None, params):
            return bind(*args, **params)

    primitive.bind = marked


def _for_tpu(params: dict[str, Any]) -> bool:
    kind = params["compiler_params"]
    return kind is None or isinstance(kind, tpu_core.CompilerParams)


Rule = Callable[..., Sequence[Any]]
Context = mlir.LoweringRuleContext


def _replace_rule(primitive: jax_core.Primitive, for_tpu: Rule) -> None:
    """On the CPU, simulated calls lower as `for_tpu` does, to a callback, others as before."""
    original: Rule = mlir._lowerings[primitive].rule

    @functools.wraps(original)
    def rule(ctx: Context, *operands: Any, interpret: Any, **params: Any) -> Sequence[Any]:
        settings = interpret.settings if isinstance(interpret, Simulated) else None
        if settings is None and not interpret and _for_tpu(params):
            settings = current()  # The call was traced before the simulation began.
        if settings is None:
            with _explaining_others(params):
                return original(ctx, *operands, interpret=interpret, **params)
        # JAX asks for facts about the target while it lowers, maybe outside of the simulation.
        traced = tracing.Traced() if settings.traces else None
        try:
            with scope(settings), tracing_into(traced), explaining_lowering(params):
                results = for_tpu(ctx, *operands, interpret=False, **params)
            return _replace_calls(ctx, settings, results, traced, _only_jaxpr(params))
        except Exception as error:
            # JAX's rules and our passes may raise anything; it is recorded and raised again.
            keep_failure(settings, error)
            if settings.collector is not None or not isinstance(error, Diagnostic):
                raise
            raise as_jax_raises(error) from None

    mlir.register_lowering(primitive, rule, platform="cpu")


def _explaining_others(params: dict[str, Any]) -> AbstractContextManager[None]:
    """While JAX lowers a call that is not simulated."""
    if current() is not None:
        return explaining_lowering(params, not _for_tpu(params), FAULTS_OF_OTHER_DEVICES)
    elsewhere = bool(entered) and _for_tpu(params)
    return explaining_lowering(params, elsewhere, FAULTS_OF_OTHER_THREADS)


def _lower_pallas_call(ctx: Context, *operands: Any, **params: Any) -> Sequence[Any]:
    _check([params["jaxpr"]])
    check_tangents(params)
    check_bounds(ctx.avals_in, params)
    if params["jaxpr"].constvars:
        raise ValueError("Cannot lower a pallas_call with constants.")
    return tpu_rules.pallas_call_tpu_lowering_rule(ctx, *operands, **params)


def _lower_mpmd_map(ctx: Context, *operands: Any, **params: Any) -> Sequence[Any]:
    check_results(params["meshes"], params["jaxprs"], params["out_avals"])
    _check(params["jaxprs"])
    check_addresses(params["meshes"], params["jaxprs"])
    return mpmd._mpmd_map_tpu_lowering(ctx, *operands, **params)


def _check(jaxprs: Sequence[jax_core.Jaxpr]) -> None:
    """What JAX lowers to something else, which it does not say."""
    check_counts(jaxprs)
    if current() is not None:
        warn_of_counters(jaxprs)


def _only_jaxpr(params: dict[str, Any]) -> Any:
    """The kernel of a call that has one."""
    if "jaxpr" in params:
        return params["jaxpr"]
    return params["jaxprs"][0] if len(params["jaxprs"]) == 1 else None


def _replace_calls(
    ctx: Context,
    settings: Settings,
    results: Sequence[Any],
    traced: tracing.Traced | None,
    jaxpr: jax_core.Jaxpr,
) -> Sequence[Any]:
    """Turns the TPU custom calls just emitted into callbacks; `results` after that."""
    results = list(results)
    point: Any = ir.InsertionPoint.current
    for old, new in _replace_calls_in(ctx, settings, point.block, traced, jaxpr):
        results = [new if result == old else result for result in results]
    return results


def _replace_calls_in(
    ctx: Context,
    settings: Settings,
    block: Any,
    traced: tracing.Traced | None = None,
    jaxpr: jax_core.Jaxpr | None = None,
) -> list[tuple[Any, Any]]:
    """Replaces the TPU custom calls of a block; pairs of old and new results."""
    replaced: list[tuple[Any, Any]] = []
    for op in list(block.operations):
        if op.operation.name != "stablehlo.custom_call":
            continue
        if ir.StringAttr(op.attributes["call_target_name"]).value != TARGET:
            continue
        check_not_exported(ctx)
        text, name = op.operation.get_asm(), _kernel_name(op)
        module = None if traced is None else traced.finish(text, name)
        if settings.collector is not None:
            if module is None:
                module = lowered_by_jax(text, name, settings, jaxpr).module
            else:
                # Lowering, which is left out here, verifies a traced kernel before anything else.
                verify(module)
            settings.collector.modules.append(module)
            op.attributes["call_target_name"] = ir.StringAttr.get(_COLLECTED)
            continue
        old = list(op.operation.results)
        with ir.InsertionPoint(op), op.operation.location:
            devices, position = _position(ctx)
            call = KernelCall(text, name, settings, devices=devices, traced=module, jaxpr=jaxpr)
            new = _emit_callback(ctx, call, position, op.operation)
        for before, after in zip(old, new, strict=True):
            before.replace_all_uses_with(after)
            replaced.append((before, after))
        op.operation.erase()
    return replaced


def _replace_exported_calls(ctx: Context, block: Any, mesh: Any = None) -> None:
    """Replaces the TPU custom calls of a program that was exported, for the devices of `mesh`."""
    settings = current()
    assert settings is not None
    if settings.traces:
        # Nothing above the Mosaic module is left of a kernel.
        settings = replace(settings, form="mosaic")
    axes: list[tuple[Any, int]] = []
    if mesh is not None:
        context = SPMDAxisContext(mesh, frozenset(mesh.axis_names))
        ctx = ctx.replace(module_context=ctx.module_context.replace(axis_context=context))
        axes = list(mesh.shape.items())
    try:
        with core.extend_axis_env_nd(axes):
            _replace_calls_in(ctx, settings, block)
    except Diagnostic as error:
        raise as_jax_raises(error) from None


_COLLECTED = "pallasite_kernel"
"""The target of calls whose kernel was collected; their program is never compiled."""


def _emit_callback(ctx: Context, call: KernelCall, position: Any, op: Any) -> Sequence[Any]:
    avals_in = [ShapedArray((), np.dtype(np.int32))]
    avals_in += [ShapedArray(shape, dtype) for shape, dtype in call.operands]
    avals_out = [ShapedArray(shape, dtype) for shape, dtype in call.results]
    ctx = ctx.replace(avals_in=avals_in, avals_out=avals_out)
    effectful = "has_side_effect" in op.attributes and bool(
        ir.BoolAttr(op.attributes["has_side_effect"]).value
    )
    operands = [position, *op.operands]
    called: Any = functools.partial(call_back, call)
    sharded = call.devices > 1
    program = program_of(call.settings)
    if program is None:
        ctx.module_context.add_keepalive(call)
        call.callback = len(ctx.module_context.host_callbacks)
    else:
        # A rule of custom_partitioning: its program is lowered, and has a callback for all of it.
        sharded = False
        program.keepalives.append(call)
        call.callback = program.slot
        number = mlir.ir_constant(np.int32(program.count))
        avals_in, operands = [avals_in[0], *avals_in], [number, *operands]
        called = functools.partial(_call_numbered, call)
        slots: list[Any] = [None] * program.slot
        ctx = ctx.replace(
            avals_in=avals_in, module_context=ctx.module_context.replace(host_callbacks=slots)
        )
    values, kernel = emit_callback(
        ctx,
        called,
        operands,
        effectful=effectful or call.collective or not avals_out,
        sharded=sharded,
    )
    if program is not None:
        program.add(kernel)
    return values


def _call_numbered(
    call: KernelCall, results: Sequence[Array] | None, number: Array, *operands: Array
) -> Sequence[Array]:
    """`call_back` for a kernel of a rule, whose `number` was for its program to find it."""
    return call_back(call, results, *operands)


def _kernel_name(op: Any) -> str:
    if "kernel_name" in op.attributes:
        return ir.StringAttr(op.attributes["kernel_name"]).value
    return "kernel"


def _position(ctx: Context) -> tuple[int, Any]:
    """How many devices run the program, and the number of the one that executes it, a value."""
    context = ctx.module_context.axis_context
    names: tuple[Any, ...] = ()
    devices = 1
    if isinstance(context, SPMDAxisContext):
        names = tuple(context.mesh.axis_names)
        devices = int(context.mesh.size)

    def position() -> Any:
        index = jax.lax.axis_index(names) if devices > 1 else 0
        return jax.numpy.asarray(index, dtype=jax.numpy.int32)

    aval = ShapedArray((), np.dtype(np.int32))
    inner = ctx.replace(avals_in=[], avals_out=[aval], primitive=None)
    (value,) = mlir.lower_fun(position, multiple_results=False)(inner)
    return devices, value
