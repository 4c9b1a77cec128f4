"""Where Pallasite meets JAX's internals; JAX's private interface is used here and in `devices`.

A kernel call made inside a simulation carries `Simulated` settings in its `interpret` parameter.
When JAX lowers such a call for the CPU, we have JAX's own TPU rule lower it, take the
`tpu_custom_call` that comes out, and put a call back to Python in its place. Programs that contain
such callbacks are executed to their end before they return, so that a kernel's diagnostic is what
the caller catches. Outside of simulations every hook does what JAX did before.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import itertools
import re
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from pallasite.diagnostics import Diagnostic, ExecutionError, Note, Unsupported
from pallasite.jax.calls import KernelCall, lowered_by_jax
from pallasite.jax.settings import Settings, Simulated

JAX_VERSION = "0.10.2"


try:
    import jax
except ImportError as missing:
    raise Unsupported(
        "jax-version",
        f"pallasite.jax needs JAX {JAX_VERSION}, which is not installed",
        notes=[Note("pip install 'pallasite[jax]'")],
    ) from missing


def check_version(version: str = jax.__version__) -> None:
    """Raises `Unsupported` for a JAX whose internals we have not seen."""
    if version != JAX_VERSION:
        raise Unsupported(
            "jax-version",
            f"expected JAX {JAX_VERSION}, got {version}",
            notes=[Note(f"pip install jax=={JAX_VERSION} jaxlib=={JAX_VERSION}")],
        )


check_version()

from jax._src import callback as jax_callback  # noqa: E402
from jax._src import dispatch  # noqa: E402
from jax._src.config import use_emit_pipeline_primitive  # noqa: E402
from jax._src.interpreters import mlir, pxla  # noqa: E402
from jax._src.lib.mlir import ir  # noqa: E402  # pyright: ignore[reportPrivateImportUsage]
from jax._src.pallas import core as pallas_core  # noqa: E402
from jax._src.pallas import mpmd, pallas_call  # noqa: E402
from jax._src.pallas.mosaic import core as tpu_core  # noqa: E402
from jax._src.pallas.mosaic import pallas_call_registration as tpu_rules  # noqa: E402
from jax._src.pallas.mosaic import pipeline as tpu_pipeline  # noqa: E402
from jax._src.pallas.mosaic.error_handling import MosaicError  # noqa: E402
from jax._src.sharding_impls import SPMDAxisContext  # noqa: E402
from jax.core import ShapedArray  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.jax import tracing  # noqa: E402
from pallasite.jax.devices import answer_for_target  # noqa: E402
from pallasite.jax.spellings import accept_old_spellings  # noqa: E402

# Part of the key under which JAX keeps traced and compiled programs; local to the thread.
_context: Any = jax.make_user_context(None)
_installing = threading.Lock()
_installed = threading.Event()


def scope(settings: Settings) -> AbstractContextManager[None]:
    """Inside, this thread simulates with `settings`."""
    return _context(settings)


def set_default(settings: Settings) -> None:
    """Threads outside of every scope simulate with `settings`."""
    _context.set_global(settings)


def current() -> Settings | None:
    """The settings under which this thread simulates."""
    return _context.value


def install() -> None:
    """Puts the hooks in place, once per process; without a simulation they change nothing."""
    with _installing:
        if _installed.is_set():
            return
        for primitive in (pallas_call.pallas_call_p, mpmd.mpmd_map_p, pallas_core.core_map_p):
            _mark_calls(primitive)
        _replace_rule(pallas_call.pallas_call_p, _lower_pallas_call)
        _replace_rule(mpmd.mpmd_map_p, mpmd._mpmd_map_tpu_lowering)
        _trace_kernels()
        _keep_pipelines()
        answer_for_target(current)
        accept_old_spellings(lambda: current() is not None)
        compiler: Any = pxla.UnloadedMeshExecutable
        compiler.from_hlo = staticmethod(_without_tpu_options(compiler.from_hlo))
        executor: Any = pxla.ExecuteReplicated
        executor.__call__ = _surfacing_diagnostics(executor.__call__)
        _installed.set()


def _mark_calls(primitive: Any) -> None:
    """Calls of `primitive` traced inside a simulation carry its settings."""
    bind = primitive.bind

    def marked(*args: Any, **params: Any) -> Any:
        settings = current()
        if settings is not None and not params["interpret"] and _for_tpu(params):
            params["interpret"] = Simulated(settings)
        return bind(*args, **params)

    primitive.bind = marked


def _for_tpu(params: dict[str, Any]) -> bool:
    kind = params["compiler_params"]
    return kind is None or isinstance(kind, tpu_core.CompilerParams)


Rule = Callable[..., Sequence[Any]]


def _replace_rule(primitive: Any, for_tpu: Rule) -> None:
    """On the CPU, simulated calls lower as `for_tpu` does, to a callback, others as before."""
    original: Rule = mlir._lowerings[primitive].rule

    @functools.wraps(original)
    def rule(ctx: Any, *operands: Any, interpret: Any, **params: Any) -> Sequence[Any]:
        settings = interpret.settings if isinstance(interpret, Simulated) else None
        if settings is None and not interpret and _for_tpu(params):
            settings = current()  # The call was traced before the simulation began.
        if settings is None:
            return original(ctx, *operands, interpret=interpret, **params)
        # JAX asks for facts about the target while it lowers, maybe outside of the simulation.
        traced = tracing.Traced() if settings.traces else None
        try:
            with scope(settings), _tracing(traced):
                results = for_tpu(ctx, *operands, interpret=False, **params)
            return _replace_calls(ctx, settings, results, traced)
        except Diagnostic as error:
            if settings.collector is not None:
                raise
            raise _as_jax_raises(error) from None

    mlir.register_lowering(primitive, rule, platform="cpu")


def _lower_pallas_call(ctx: Any, *operands: Any, **params: Any) -> Sequence[Any]:
    if params["jaxpr"].constvars:
        raise ValueError("Cannot lower a pallas_call with constants.")
    return tpu_rules.pallas_call_tpu_lowering_rule(ctx, *operands, **params)


def _replace_calls(
    ctx: Any, settings: Settings, results: Sequence[Any], traced: tracing.Traced | None
) -> Sequence[Any]:
    """Turns the TPU custom calls just emitted into callbacks; `results` after that."""
    results = list(results)
    point: Any = ir.InsertionPoint.current
    block = point.block
    for op in list(block.operations):
        if op.operation.name != "stablehlo.custom_call":
            continue
        if ir.StringAttr(op.attributes["call_target_name"]).value != "tpu_custom_call":
            continue
        text, name = op.operation.get_asm(), _kernel_name(op)
        module = None if traced is None else traced.finish(text, name)
        if settings.collector is not None:
            settings.collector.modules.append(module or lowered_by_jax(text, name, settings)[0])
            op.attributes["call_target_name"] = ir.StringAttr.get(_COLLECTED)
            continue
        old = list(op.operation.results)
        with ir.InsertionPoint(op), op.operation.location:
            devices, position = _position(ctx)
            call = KernelCall(text, name, settings, devices, module)
            new = _emit_callback(ctx, call, position, op.operation)
        for before, after in zip(old, new, strict=True):
            before.replace_all_uses_with(after)
            results = [after if result == before else result for result in results]
        op.operation.erase()
    return results


_COLLECTED = "pallasite_kernel"
"""The target of calls whose kernel was collected; their program is never compiled."""


def _emit_callback(ctx: Any, call: KernelCall, position: Any, op: Any) -> Sequence[Any]:
    avals_in = [ShapedArray((), np.dtype(np.int32))]
    avals_in += [ShapedArray(shape, dtype) for shape, dtype in call.operands]
    avals_out = [ShapedArray(shape, dtype) for shape, dtype in call.results]
    ctx = ctx.replace(avals_in=avals_in, avals_out=avals_out)
    effectful = "has_side_effect" in op.attributes and bool(
        ir.BoolAttr(op.attributes["has_side_effect"]).value
    )
    ctx.module_context.add_keepalive(call)
    values, _, _ = jax_callback.emit_python_callback(
        ctx,
        functools.partial(_call_back, call),
        None,
        [position, *op.operands],
        avals_in,
        avals_out,
        has_side_effect=effectful or call.collective or not avals_out,
        returns_token=False,
        sharding=jax_callback._callback_op_sharding(
            ctx.module_context.axis_context, None, avals_out
        )
        if call.devices > 1
        else None,
    )
    return list(values)


def _kernel_name(op: Any) -> str:
    if "kernel_name" in op.attributes:
        return ir.StringAttr(op.attributes["kernel_name"]).value
    return "kernel"


def _position(ctx: Any) -> tuple[int, Any]:
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


# What went wrong inside callbacks, by the number that XLA's error message carries. Entries live
# from the callback until the call of the same program returns.
_failures: dict[int, Exception] = {}
_numbers = itertools.count(1)
_MARK = re.compile(r"pallasite-failure-(\d+);")


def _as_jax_raises(error: Exception) -> Exception:
    """`error`, also caught as what JAX raises when a TPU program does not compile or run.

    Programs that try several block sizes catch `jax.errors.JaxRuntimeError` for those that do not
    fit.
    """
    if isinstance(error, Diagnostic) and not isinstance(error, jax.errors.JaxRuntimeError):
        error.__class__ = _jax_kind(type(error))
    return error


@functools.cache
def _jax_kind(kind: type[Diagnostic]) -> type[Diagnostic]:
    bases: tuple[type, ...] = (kind, jax.errors.JaxRuntimeError)
    if not issubclass(kind, ExecutionError):
        bases += (MosaicError,)
    return type(kind.__name__, bases, {"__module__": kind.__module__, "__doc__": kind.__doc__})


class _KernelFailure(Exception):
    """Ends an XLA program; its message names the entry of `_failures`."""


def _call_back(call: KernelCall, device: Any, *inputs: Any) -> tuple[Any, ...]:
    try:
        return tuple(call(int(np.asarray(device)), [np.asarray(array) for array in inputs]))
    except Exception as error:
        if call.devices > 1:
            # The other devices may wait for this one in a collective of XLA.
            call.failure = call.failure or error
            return tuple(call.nothing())
        number = next(_numbers)
        _failures[number] = error
        raise _KernelFailure(f"pallasite-failure-{number};") from None


def _surfacing_diagnostics(execute: Callable[..., Any]) -> Callable[..., Any]:
    """Executes programs with simulated kernels to their end; raises what went wrong in a kernel."""

    @functools.wraps(execute)
    def call(self: Any, *args: Any) -> Any:
        calls = [item for item in self.keepalive or () if isinstance(item, KernelCall)]
        if not calls:
            return execute(self, *args)
        self.has_unordered_effects = True  # keeps JAX from going past us when called again
        with ExitStack() as stack:
            if calls[0].devices > 1:
                # Devices of two executions of one program must not meet each other.
                stack.enter_context(calls[0].executing)
                for item in calls:
                    item.meeting.restart()
                    item.failure = None
            try:
                out = execute(self, *args)
                jax.block_until_ready(out)
                for device in self._local_devices:
                    if token := dispatch.runtime_tokens.output_runtime_tokens.get(device):
                        token.block_until_ready()
            except (jax.errors.JaxRuntimeError, ValueError) as error:
                for device in self._local_devices:
                    dispatch.runtime_tokens.output_runtime_tokens.pop(device, None)
                numbers = [int(number) for number in _MARK.findall(str(error))]
                known = [_failures.pop(n) for n in numbers if n in _failures]
                if not known:
                    raise
                raise _as_jax_raises(known[0]) from None
            for item in calls:
                if item.failure is not None:
                    raise _as_jax_raises(item.failure) from None
            return out

    return call


def _without_tpu_options(compile: Callable[..., Any]) -> Callable[..., Any]:
    """Programs with simulated kernels may carry options of the TPU compiler (`xla_tpu_...`)."""

    @functools.wraps(compile)
    def without(*args: Any, compiler_options_kvs: Any, keepalive: Any, **rest: Any) -> Any:
        if any(isinstance(item, KernelCall) for item in keepalive or ()):
            compiler_options_kvs = tuple(
                (name, value)
                for name, value in compiler_options_kvs
                if not name.startswith("xla_tpu_")
            )
        return compile(
            *args, compiler_options_kvs=compiler_options_kvs, keepalive=keepalive, **rest
        )

    return without


def _trace_kernels() -> None:
    """Kernels in `pallas` form are traced by us where JAX would lower them (`tracing`)."""
    lowering: Any = tpu_rules.lowering
    pipelined = lowering.lower_jaxpr_to_pipelined_module
    unpipelined = lowering.lower_jaxpr_into_unpipelined_module

    @functools.wraps(pipelined)
    def lower_pipelined(ctx: Any, grid_mapping: Any, jaxpr: Any, **options: Any) -> Any:
        traced = _traced.get()
        if traced is None:
            return pipelined(ctx, grid_mapping, jaxpr, **options)
        stub = traced.take_call(
            jaxpr,
            grid_mapping,
            semantics=options["dimension_semantics"],
            mesh=options["mesh"],
            fused=options["fuse_transposed_lhs_in_matmul"],
        )
        return ir.Module.parse(stub)

    @functools.wraps(unpipelined)
    def lower_unpipelined(ctx: Any, module: Any, jaxpr: Any, **options: Any) -> Any:
        traced = _traced.get()
        if traced is None:
            return unpipelined(ctx, module, jaxpr, **options)
        stub = traced.take_mesh(
            jaxpr,
            options["pallas_mesh"],
            device_mesh=options["jax_mesh"],
            scratch=options["num_scratch"],
            fused=options.get("fuse_transposed_lhs_in_matmul", False),
        )
        for op in ir.Module.parse(stub).body.operations:
            module.body.append(op.operation.clone())

    lowering.lower_jaxpr_to_pipelined_module = lower_pipelined
    lowering.lower_jaxpr_into_unpipelined_module = lower_unpipelined


_traced: ContextVar[tracing.Traced | None] = ContextVar("traced", default=None)


@contextmanager
def _tracing(traced: tracing.Traced | None) -> Generator[None]:
    """Inside, `traced` receives the kernel that JAX lowers."""
    token = _traced.set(traced)
    try:
        yield
    finally:
        _traced.reset(token)


def _keep_pipelines() -> None:
    """Kernels in `pallas` form keep each `emit_pipeline` whole where the form can say it."""
    expanding: Any = tpu_pipeline.emit_pipeline

    @functools.wraps(expanding)
    def emit_pipeline(body: Any, **options: Any) -> Any:
        expanded = expanding(body, **options)
        settings = current()
        if settings is None or not settings.traces or not _can_be_kept(options):
            return expanded
        with use_emit_pipeline_primitive(True):
            kept = expanding(body, **options)

        @functools.wraps(expanded)
        def pipeline(*refs: Any, **more: Any) -> Any:
            # Scratch and buffers of the caller's are JAX's own business: loops and DMAs.
            given = any(value is not None for value in more.values())
            if given or _has_bounded_views(options, refs):
                return expanded(*refs, **more)
            return kept(*refs)

        return pipeline

    tpu_pipeline.emit_pipeline = emit_pipeline
    pltpu.emit_pipeline = emit_pipeline


def _can_be_kept(options: dict[str, Any]) -> bool:
    """Whether `lower-to-mosaic` knows a pipeline with these options; JAX expands the others."""
    if options.get("tiling") or options.get("_explicit_indices"):
        return False
    inputs, outputs = (jax.tree.leaves(options.get(name, ())) for name in ("in_specs", "out_specs"))
    if any(spec.pipeline_mode and spec.pipeline_mode.buffer_count > 2 for spec in outputs):
        return False
    dims = [dim for spec in (*inputs, *outputs) for dim in spec.block_shape or ()]
    return not any(
        isinstance(dim, pallas_core.Indirect)
        or (isinstance(dim, pallas_core.Element) and any(dim.padding))
        for dim in dims
    )


def _has_bounded_views(options: dict[str, Any], refs: Sequence[Any]) -> bool:
    """Whether blocks of sizes known at run time are parts of refs in VMEM, which are not copied."""
    specs = jax.tree.leaves((options.get("in_specs", ()), options.get("out_specs", ())))
    dims = [dim for spec in specs for dim in spec.block_shape or ()]
    return any(isinstance(dim, pallas_core.BoundedSlice) for dim in dims) and any(
        ref.memory_space == tpu_core.MemorySpace.VMEM for ref in jax.tree.leaves(refs)
    )
