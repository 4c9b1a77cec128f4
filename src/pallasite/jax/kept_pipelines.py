"""Pipelines of kernels in `pallas` form: kept whole where the form can say them."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import jax
from jax._src import config as jax_config
from jax._src.pallas import core as pallas_core
from jax._src.pallas import mpmd, pallas_call
from jax._src.pallas.mosaic import core as tpu_core
from jax._src.pallas.mosaic import pipeline as tpu_pipeline
from jax.experimental import pallas as pl

from pallasite.frontend.jaxprs.internals import core_type, kind, poison_buffers_enabled, primitives
from pallasite.jax.captured import replace_function
from pallasite.jax.settings import Settings


def keep_pipelines(current: Callable[[], Settings | None]) -> None:
    """Kernels in `pallas` form keep each `emit_pipeline` whole where the form can say it, and JAX
    has an operation for it; `current` gives the settings of the thread."""
    if not primitives(tpu_pipeline, "emit_pipeline_p"):
        return
    # What `emit_pipeline` calls to make loops: programs may have that itself since before.
    expanding: Any = tpu_pipeline._emit_pipeline

    @functools.wraps(expanding)
    def emit_pipeline(body: Any, **options: Any) -> Any:
        expanded = expanding(body, **options)
        settings = current()
        kept = settings is not None and settings.traces and not _expanded.get()
        # The loops have buffers that JAX fills if it is asked to.
        if not kept or poison_buffers_enabled() or not _can_be_kept(options):
            return expanded
        with jax_config.use_emit_pipeline_primitive(True):
            whole = tpu_pipeline.emit_pipeline(_with_single_steps(body, options), **options)

        @functools.wraps(expanded)
        def pipeline(*refs: Any, **more: Any) -> Any:
            # Scratch and buffers of the caller's are JAX's own business: loops and DMAs.
            given = any(value is not None for value in more.values())
            if given or _has_free_views(options, refs):
                return expanded(*refs, **more)
            # It gives an empty list, as primitives do; a kernel that passes it on returns None.
            with pallas_core.grid_env(_NO_AXES):
                return whole(*refs) or None

        return pipeline

    tpu_pipeline._emit_pipeline = emit_pipeline
    _note_expanded_kernels()


_NO_AXES: Any = None
"""Has `pl.program_id` count the axes of the grid that is being traced."""


def _with_single_steps(body: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    """`body`, to which `pl.program_id` of an axis of one step is the number 0, as in JAX's loops.

    Python may count with it and decide by it. Cores that share a grid have other axes.
    """
    grid = options.get("grid")
    if _is_split(options) or not isinstance(grid, tuple) or not any(map(_is_single, grid)):
        return body

    @functools.wraps(body)
    def stepping(*refs: Any) -> Any:
        axes = [
            pallas_core.GridAxis(0 if _is_single(n) else pl.program_id(a), pl.num_programs(a))  # pyright: ignore[reportArgumentType]
            for a, n in enumerate(grid)
        ]
        with pallas_core.grid_env(axes):
            return body(*refs)

    return stepping


def _is_split(options: dict[str, Any]) -> bool:
    """Whether cores share the grid."""
    return options.get("core_axis") is not None or options.get("core_axis_name") is not None


def _is_single(size: Any) -> bool:
    return isinstance(size, int) and size == 1


_interpret_mode: Any = jax_config.pallas_tpu_interpret_mode_context_manager


_expanded: ContextVar[bool] = ContextVar("expanded", default=False)
"""Whether the kernel being traced has no whole pipelines: JAX's interpret modes know none, and on
subcores they are JAX's own loops and DMAs."""


def _note_expanded_kernels() -> None:
    """Kernels with `interpret=` and those of subcores are traced with `_expanded` set."""
    call: Any = pallas_call._pallas_call
    kernels: Any = mpmd._mpmd_map

    @functools.wraps(call)
    def noting_call(kernel: Any, *args: Any, **options: Any) -> Any:
        return call(_noted(kernel, options), *args, **options)

    @functools.wraps(kernels)
    def noting_kernels(bodies: Any, *args: Any, **options: Any) -> Any:
        bodies = [(mesh, _noted(body, options, mesh)) for mesh, body in bodies]
        return kernels(bodies, *args, **options)

    def noting_maps(mapped: Any) -> Callable[..., Any]:
        def noting_map(mesh: Any, *args: Any, **options: Any) -> Any:
            over_cores = mapped(mesh, *args, **options)
            return lambda body: over_cores(_noted(body, options, mesh))

        return noting_map

    pallas_call._pallas_call = noting_call
    mpmd._mpmd_map = noting_kernels
    replace_function(pallas_core.core_map, noting_maps)


def _noted(
    body: Callable[..., Any], options: dict[str, Any], mesh: Any = None
) -> Callable[..., Any]:
    """`body`, noting that its pipelines are expanded: if it is interpreted, as its `options` or
    JAX's configuration say, or `mesh` is one of subcores."""
    on_subcores = mesh is not None and core_type(mesh) is not tpu_core.CoreType.TC
    if not (options.get("interpret") or _interpret_mode.value or on_subcores):
        return body

    @functools.wraps(body)
    def noting(*args: Any, **kwargs: Any) -> Any:
        token = _expanded.set(True)
        try:
            return body(*args, **kwargs)
        finally:
            _expanded.reset(token)

    return noting


def _can_be_kept(options: dict[str, Any]) -> bool:
    """Whether `lower-to-mosaic` knows a pipeline with these options; JAX expands the others."""
    if options.get("tiling") or options.get("_explicit_indices"):
        return False
    if options.get("no_pipelining") and _is_split(options):
        # JAX's copies leave out the offset of a core's share, as on a TPU: it is no such pipeline.
        return False
    inputs, outputs = (jax.tree.leaves(options.get(name, ())) for name in ("in_specs", "out_specs"))
    if any(spec.pipeline_mode and spec.pipeline_mode.buffer_count > 2 for spec in outputs):
        return False
    dims = [dim for spec in (*inputs, *outputs) for dim in spec.block_shape or ()]
    return not any(
        isinstance(dim, kind(pallas_core, "Indirect"))
        or (isinstance(dim, pallas_core.Element) and any(dim.padding))
        for dim in dims
    )


def _has_free_views(options: dict[str, Any], refs: Sequence[Any]) -> bool:
    """Whether blocks that begin anywhere may be parts of refs that are not copied, which JAX
    refuses."""
    specs = jax.tree.leaves((options.get("in_specs", ()), options.get("out_specs", ())))
    dims = [dim for spec in specs for dim in spec.block_shape or ()]
    return any(
        isinstance(dim, pallas_core.BoundedSlice | pallas_core.Element) for dim in dims
    ) and any(ref.memory_space in _OF_THE_CORE for ref in jax.tree.leaves(refs))


_OF_THE_CORE = (tpu_core.MemorySpace.VMEM, tpu_core.MemorySpace.SMEM)
