"""The `pallas` form of the kernels in a program, taken where JAX lowers them.

JAX's rules for kernel calls do all that surrounds a kernel (transformations, meshes, aliases, the
custom call itself). While a trace collects the `pallas` form, the two functions that turn a
kernel's jaxpr into a Mosaic module are ours: they trace the jaxpr and leave a stub in the call. The
stub has what the call's settings are derived from: axes, cores, communication.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    UnitAttr,
    i1,
    i64,
)
from xdsl.ir import Attribute

from pallasite.api import parse
from pallasite.dialects.kernel_call import BOOLEANS, Call, call_of, set_call
from pallasite.dialects.pallas import KernelOp, OperandAttr, Role
from pallasite.dialects.pallas.kernel import COMPACT
from pallasite.dialects.subcores import is_compact
from pallasite.dialects.tpu import EnqueueDmaOp, SemBarrierOp, SemSignalOp
from pallasite.dialects.types import dense_integers
from pallasite.frontend.jaxprs import trace_call, trace_mesh
from pallasite.frontend.jaxprs.internals import jax_core
from pallasite.passes.dead_code import remove_dead_code

_FUSED = "fuse_transposed_lhs_in_matmul"
_SEMAPHORE = "memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>"


class Traced:
    """Receives the kernels of one call between their tracing and the making of the call.

    A call has several where it runs on subcores of several kinds.
    """

    def __init__(self) -> None:
        self.module: ModuleOp | None = None

    def take_call(
        self, jaxpr: jax_core.Jaxpr, grid_mapping: Any, *, semantics: Any, mesh: Any, fused: bool
    ) -> str:
        """Traces the kernel of a `pallas_call`; the text of its stub."""
        params: dict[str, Attribute] = {_FUSED: UnitAttr()} if fused else {}
        return self._take(
            trace_call(jaxpr, grid_mapping, semantics=semantics, mesh=mesh, params=params)
        )

    def take_mesh(
        self,
        jaxpr: jax_core.Jaxpr,
        mesh: Any,
        *,
        device_mesh: Any,
        scratch: int,
        layouts: bool,
        fused: bool,
    ) -> str:
        """Traces the kernel of a mesh of cores; the text of its stub."""
        params: dict[str, Attribute] = {_FUSED: UnitAttr()} if fused else {}
        return self._take(
            trace_mesh(
                jaxpr, mesh, device_mesh=device_mesh, scratch=scratch, layouts=layouts,
                params=params,
            )
        )  # fmt: skip

    def finish(self, call_text: str, name: str) -> ModuleOp:
        """The kernels with the call recorded that JAX made of the stubs; they are not verified."""
        module = self.module
        call = call_of(parse(call_text, name=name))
        assert module is not None and call is not None
        for kernel in cast("Iterable[KernelOp]", module.body.block.ops):
            _set_roles(kernel, len(call.results))
            outputs = kernel.specs(Role.OUTPUT)
            booleans = [i for i, spec in enumerate(outputs) if spec.array.element_type == i1]
            if booleans:
                call = replace(call, settings={**call.settings, BOOLEANS: booleans})
            _set_aliases(kernel, call)
            _set_params(kernel, call)
            for region in kernel.regions:
                remove_dead_code(region.block)
        set_call(module, call)
        return module

    def _take(self, module: ModuleOp) -> str:
        kernel = cast(KernelOp, module.body.block.first_op)
        if self.module is None:
            self.module = module
        else:
            kernel.detach()
            self.module.body.block.add_op(kernel)
        return _stub(kernel)


def _stub(kernel: KernelOp) -> str:
    """A Mosaic module with the grid and the communication of `kernel`, and nothing else."""
    semantics = ", ".join(f"#tpu.dimension_semantics<{s}>" for s in kernel.axis_semantics)
    bounds = ", ".join(str(size) for size in kernel.grid_shape or ())
    body: list[str] = []
    operations = list(kernel.walk())
    if any(isinstance(op, SemBarrierOp) for op in operations):
        body.append(f"%barrier = tpu.sem_barrier : {_SEMAPHORE}")
    if any(_leaves_the_core(op) for op in operations):
        body.append("%zero = arith.constant 0 : i32")
        body.append(f"tpu.sem_signal %semaphore, %zero device_id %zero : {_SEMAPHORE}")
    return f"""module {{
      func.func @"{kernel.sym_name.data}"(%semaphore: {_SEMAPHORE}) attributes {{
        dimension_semantics = [{semantics}], tpu.core_type = #tpu.core_type<{kernel.core}>,
        iteration_bounds = array<i64{": " if bounds else ""}{bounds}>
      }} {{
        {chr(10).join(body)}
        return
      }}
    }}"""


def _leaves_the_core(op: Any) -> bool:
    return isinstance(op, EnqueueDmaOp | SemSignalOp) and (
        op.device_id is not None or op.core_id is not None
    )


def _set_roles(kernel: KernelOp, results: int) -> None:
    """The jaxpr of a mesh kernel does not say which operands are outputs: the last ones are."""
    if kernel.mesh is None:
        return
    specs = list(kernel.operand_specs)
    first = len(specs) - results
    kernel.properties["operands"] = ArrayAttr(
        OperandAttr("input" if i < first else "output", spec.array, spec.window)
        for i, spec in enumerate(specs)
    )


def _set_aliases(kernel: KernelOp, call: Call) -> None:
    """The call counts bounds of dynamic axes as operands, the kernel does not."""
    inputs = len(kernel.operand_specs) - len(call.results)
    bounds = len(call.operands) - inputs
    flat = [n for operand, result in call.aliases for n in (operand - bounds, result)]
    if flat:
        kernel.properties["aliases"] = dense_integers(flat)


def _set_params(kernel: KernelOp, call: Call) -> None:
    """Compiler parameters that say something about the kernel itself."""
    given = dict(kernel.params.data) if kernel.params is not None else {}
    config = call.config
    found = {
        "vmem_limit_bytes": call.vmem_limit,
        "collective_id": config.get("collective_id"),
    }
    given |= {name: IntegerAttr(n, i64) for name, n in found.items() if n is not None}
    if config.get("disable_bounds_checks"):
        given["disable_bounds_checks"] = IntegerAttr.from_bool(True)
    if kernel.on_subcores and not is_compact(call):
        given[COMPACT] = IntegerAttr.from_bool(False)
    if given:
        kernel.properties["params"] = DictionaryAttr(given)
