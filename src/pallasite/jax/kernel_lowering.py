"""Where JAX turns the jaxpr of a kernel into a Mosaic module: in functions that differ by version.

From 0.10.1 on a kernel of blocks and one of a mesh of cores have a function each. In 0.10.0 there
is one for TensorCores and one for SparseCores, to which the cores of a mesh are the grid of a
kernel whose blocks are its whole operands. Here each kernel is a `Kernel`, whatever the version.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from jax._src.lib.mlir import ir
from jax._src.pallas.mosaic import pallas_call_registration as tpu_rules

from pallasite.frontend.jaxprs.internals import core_type, tpu_core
from pallasite.jax import tracing

_FUSED = "fuse_transposed_lhs_in_matmul"


@dataclass(frozen=True)
class Kernel:
    """A kernel that JAX is about to lower: of a grid of blocks, or of a mesh of cores."""

    jaxpr: Any
    device_mesh: Any
    """JAX's mesh of devices, if any."""
    fused: bool
    """Whether products take their left operand transposed."""
    grid_mapping: Any = None
    semantics: Any = None
    """What the program says of the axes of its grid."""
    mesh: Any = None
    """The cores; None for a kernel of blocks."""
    scratch: int = 0
    """How many of the last arguments of a kernel of a mesh are scratch."""
    layouts: bool = False
    """Whether the compiler's layout passes are for a kernel of subcores, too."""

    @property
    def on_subcores(self) -> bool:
        """Whether it is for a SparseCore."""
        return self.mesh is not None and core_type(self.mesh) is not tpu_core.CoreType.TC

    def take(self, traced: tracing.Traced) -> str:
        """Traces the kernel into `traced`; the text of a stub for its call."""
        if self.mesh is None:
            return traced.take_call(
                self.jaxpr,
                self.grid_mapping,
                semantics=self.semantics,
                mesh=self.device_mesh,
                fused=self.fused,
            )
        return traced.take_mesh(
            self.jaxpr,
            self.mesh,
            device_mesh=self.device_mesh,
            scratch=self.scratch,
            layouts=self.layouts,
            fused=self.fused,
        )


_meshes: ContextVar[tuple[tuple[Any, Any], ...]] = ContextVar("meshes", default=())
"""Kernels of meshes that are being lowered, with their meshes."""


@contextmanager
def over_meshes(jaxprs: Sequence[Any], meshes: Sequence[Any]) -> Generator[None]:
    """Within, JAX lowers the kernels `jaxprs`, each of a mesh of cores."""
    token = _meshes.set(tuple(zip(jaxprs, meshes, strict=True)))
    try:
        yield
    finally:
        _meshes.reset(token)


Instead = Callable[[Kernel], str | None]
Around = Callable[[Kernel], AbstractContextManager[None]]


def replace_lowering(instead: Instead, around: Around) -> None:
    """JAX takes the text of a Mosaic module that `instead` gives for a kernel; where it gives none,
    JAX lowers the kernel, within `around`."""
    lowering: Any = tpu_rules.lowering
    if hasattr(lowering, "lower_jaxpr_into_unpipelined_module"):
        _replace_pipelined(lowering, instead, around)
        _replace_unpipelined(lowering, instead, around)
    else:
        for module in (lowering, tpu_rules.sc_lowering):
            _replace_gridded(module, instead, around)


def _replace_pipelined(lowering: Any, instead: Instead, around: Around) -> None:
    original = lowering.lower_jaxpr_to_pipelined_module

    @functools.wraps(original)
    def lower(ctx: Any, grid_mapping: Any, jaxpr: Any, **options: Any) -> Any:
        kernel = Kernel(
            jaxpr, options["mesh"], options[_FUSED], grid_mapping, options["dimension_semantics"]
        )
        text = instead(kernel)
        if text is not None:
            return ir.Module.parse(text)
        with around(kernel):
            return original(ctx, grid_mapping, jaxpr, **options)

    lowering.lower_jaxpr_to_pipelined_module = lower


def _replace_unpipelined(lowering: Any, instead: Instead, around: Around) -> None:
    original = lowering.lower_jaxpr_into_unpipelined_module

    @functools.wraps(original)
    def lower(ctx: Any, module: Any, jaxpr: Any, **options: Any) -> None:
        kernel = Kernel(
            jaxpr,
            options["jax_mesh"],
            options.get(_FUSED, False),
            mesh=options["pallas_mesh"],
            scratch=options["num_scratch"],
            layouts=options.get("needs_layout_passes", False),
        )
        text = instead(kernel)
        if text is not None:
            _append(module, text)
            return
        with around(kernel):
            original(ctx, module, jaxpr, **options)

    lowering.lower_jaxpr_into_unpipelined_module = lower


def _replace_gridded(lowering: Any, instead: Instead, around: Around) -> None:
    original = lowering.lower_jaxpr_into_module

    @functools.wraps(original)
    def lower(ctx: Any, module: Any, grid_mapping: Any, jaxpr: Any, **options: Any) -> None:
        mesh = next((mesh for its, mesh in _meshes.get() if its is jaxpr), None)
        if mesh is None:
            semantics = options["dimension_semantics"]
            kernel = Kernel(jaxpr, options["mesh"], False, grid_mapping, semantics)
        else:
            scratch = grid_mapping.num_scratch_operands
            kernel = Kernel(jaxpr, options["mesh"], False, mesh=mesh, scratch=scratch)
        text = instead(kernel)
        if text is not None:
            _append(module, text)
            return
        with around(kernel):
            original(ctx, module, grid_mapping, jaxpr, **options)

    lowering.lower_jaxpr_into_module = lower


def _append(module: Any, text: str) -> None:
    for op in ir.Module.parse(text).body.operations:
        module.body.append(op.operation.clone())
