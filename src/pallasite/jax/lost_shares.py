"""Pipelines without overlap that forget which share of their grid a core has.

`pltpu.emit_pipeline` gives each core a part of the grid, from its first step on. With
`no_pipelining=True` JAX 0.10.2 counts the blocks that it copies from the first step of the grid
instead (`sync_copy` of its Mosaic pipelines): every core works on the blocks of the first one's
share, and nobody on the others. So does a TPU; the program is told.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
from jax._src.pallas.mosaic import pipeline as tpu_pipeline
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallasite.diagnostics import Diagnostic, Note, warn
from pallasite.jax.source_locations import calling_line

_ONE_BUFFER = (
    "leave out no_pipelining: pipeline_mode=pl.Buffered(1) in their BlockSpecs keeps copies and "
    "the body from overlapping, too"
)


def warn_of_lost_shares(simulating: Callable[[], bool]) -> None:
    """Pipelines that cores share, but for their copies, are warned of where `simulating`."""
    # Programs may have `emit_pipeline` itself since before; older versions of JAX have just that.
    inner = hasattr(tpu_pipeline, "_emit_pipeline")
    emitting: Any = tpu_pipeline._emit_pipeline if inner else tpu_pipeline.emit_pipeline

    @functools.wraps(emitting)
    def emit_pipeline(body: Any, **options: Any) -> Any:
        pipeline = emitting(body, **options)
        if simulating() and options.get("no_pipelining"):
            _warn(options)
        return pipeline

    if inner:
        tpu_pipeline._emit_pipeline = emit_pipeline
        return
    tpu_pipeline.emit_pipeline = emit_pipeline
    pltpu.emit_pipeline = emit_pipeline


def _warn(options: dict[str, Any]) -> None:
    cores = _cores(options)
    if cores > 1:
        option = "core_axis" if options.get("core_axis") is not None else "core_axis_name"
        warn(
            Diagnostic(
                "core-share-lost",
                f"with no_pipelining=True, each of the {cores} cores of {option}="
                f"{options[option]!r} copies the blocks of the first core's steps of the pipeline: "
                "the blocks of all other steps are left out",
                calling_line(),
                [
                    Note("JAX's copies without overlap do not count from a core's first step on"),
                    Note(_ONE_BUFFER),
                ],
                severity="warning",
            )
        )


def _cores(options: dict[str, Any]) -> int:
    """How many cores share the grid of a pipeline, which JAX knows when it traces one."""
    axis, name = options.get("core_axis"), options.get("core_axis_name")
    if isinstance(axis, int):
        return int(pl.num_programs(axis))
    return 1 if name is None else int(jax.lax.axis_size(name))
