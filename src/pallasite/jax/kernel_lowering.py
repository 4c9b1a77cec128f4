"""Where JAX turns the jaxpr of a kernel into a Mosaic module.

A kernel of blocks and one of a mesh of cores have a function each; here each is a `Kernel`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from jax._src.lib.mlir import ir
from jax._src.pallas.mosaic import pallas_call_registration as tpu_rules

from pallasite.frontend.jaxprs.internals import core_type, jax_core, tpu_core
from pallasite.jax import tracing

_FUSED = "fuse_transposed_lhs_in_matmul"


@dataclass(frozen=True)
class Kernel:
    """A kernel that JAX is about to lower: of a grid of blocks, or of a mesh of cores."""

    jaxpr: jax_core.Jaxpr
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


Instead = Callable[[Kernel], str | None]
Around = Callable[[Kernel], AbstractContextManager[None]]


def replace_lowering(instead: Instead, around: Around) -> None:
    """JAX takes the text of a Mosaic module that `instead` gives for a kernel; where it gives none,
    JAX lowers the kernel, within `around`."""
    lowering: Any = tpu_rules.lowering
    _replace_pipelined(lowering, instead, around)
    _replace_unpipelined(lowering, instead, around)


def _replace_pipelined(lowering: Any, instead: Instead, around: Around) -> None:
    original = lowering.lower_jaxpr_to_pipelined_module

    @functools.wraps(original)
    def lower(ctx: Any, grid_mapping: Any, jaxpr: jax_core.Jaxpr, **options: Any) -> Any:
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
    def lower(ctx: Any, module: Any, jaxpr: jax_core.Jaxpr, **options: Any) -> None:
        kernel = Kernel(
            jaxpr,
            options["jax_mesh"],
            options.get(_FUSED, False),
            mesh=options["pallas_mesh"],
            scratch=options["num_scratch"],
            # Before 0.10.2, None says that there are none for subcores.
            layouts=bool(options.get("needs_layout_passes")),
        )
        text = instead(kernel)
        if text is not None:
            _append(module, text)
            return
        with around(kernel):
            original(ctx, module, jaxpr, **options)

    lowering.lower_jaxpr_into_unpipelined_module = lower


def _append(module: Any, text: str) -> None:
    for op in ir.Module.parse(text).body.operations:
        module.body.append(op.operation.clone())
