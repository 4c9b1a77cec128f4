"""Programs that were exported for the TPU (`jax.export`), called inside a simulation.

An exported program is StableHLO with the kernels' custom calls in it. Its shapes may be symbolic;
those of a call are known. JAX puts the program into one for the TPU and refines its shapes; what
comes out becomes part of the caller's program for the CPU, kernels replaced as everywhere else.
A program of several devices says itself what each of them computes: its kernels lie in the regions
that JAX writes for `shard_map`, where they are replaced as they are, all shapes being known.
Exporting a simulated program itself has no meaning: its kernels are functions of this process.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax._src.export import _export
from jax._src.interpreters import mlir, pxla
from jax._src.lib.mlir import ir
from jax._src.lib.mlir.dialects import func
from jax.experimental import serialize_executable

from pallasite.diagnostics import Note, Unsupported
from pallasite.jax.calls import KernelCall
from pallasite.jax.failures import as_jax_raises
from pallasite.jax.ir_types import ir_type

Rule = Callable[..., Sequence[Any]]


def run_exported_programs(
    simulating: Callable[[], bool], replace_calls: Callable[..., None]
) -> None:
    """Where `simulating`, programs exported for TPUs only are lowered for the CPU.

    `replace_calls(ctx, block, mesh=None)` puts callbacks in the place of the kernels called in a
    block, which every device of `mesh` executes.
    """
    original: Any = _export._call_exported_lowering

    @functools.wraps(original)
    def rule(ctx: mlir.LoweringRuleContext, *operands: Any, exported: Any) -> Sequence[Any]:
        here = "cpu" in exported.platforms or "tpu" not in exported.platforms
        if here or not simulating():
            return original(ctx, *operands, exported=exported)
        if exported.nr_devices > 1:
            replaced = _OfSeveralDevices(exported, functools.partial(replace_calls, ctx))
            return original(ctx, *operands, exported=replaced)
        with ctx.module_context.context:
            program = ir.Module.parse(_for_tpu(exported, ctx.avals_in))
        _visit(program.operation, functools.partial(replace_calls, ctx))
        name = mlir.merge_mlir_modules(
            ctx.module_context.module,
            f"call_exported_{exported.fun_name}",
            program,
            dst_symtab=ctx.module_context.symbol_table,
        )
        types = [ir_type(ctx, aval) for aval in ctx.avals_out]
        return list(func.CallOp(types, ir.FlatSymbolRefAttr.get(name), list(operands)).results)

    mlir.register_lowering(_export.call_exported_p, rule, platform="cpu")


class _OfSeveralDevices:
    """An exported program as JAX calls it, with its kernels replaced."""

    def __init__(self, exported: Any, replace_calls: Callable[..., None]) -> None:
        """`replace_calls(block, mesh)` puts callbacks in the place of the kernels of a block."""
        self._exported = exported
        self._replace_calls = replace_calls
        self.platforms = tuple("cpu" if p == "tpu" else p for p in exported.platforms)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exported, name)

    def mlir_module(self, serialized: bool = True) -> Any:
        """The module, in the context that is entered."""
        assert not serialized
        module = self._exported.mlir_module(serialized=False)
        mesh: Any = _export.get_mesh_from_symbol(ir.SymbolTable(module.operation))
        if self._exported.uses_global_constants or mesh.empty:
            raise Unsupported(
                "exported-devices",
                f"program {self._exported.fun_name} was exported for {self._exported.nr_devices} "
                "devices with symbolic shapes or without Shardy, which is not simulated",
                notes=[Note("export it for known shapes, with jax_use_shardy_partitioner")],
            )
        _visit(module.operation, functools.partial(self._replace_calls, mesh=mesh))
        return module


def _for_tpu(exported: Any, avals: Sequence[Any]) -> bytes:
    """The program for arguments like `avals`, all shapes known, as MLIR bytecode."""

    def call(*args: Any) -> Any:
        return _export.call_exported_p.bind(*args, exported=exported)

    structs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
    lowered = jax.jit(call, keep_unused=True).trace(*structs).lower(lowering_platforms=("tpu",))
    module: Any = lowered.compiler_ir("stablehlo")
    if exported.uses_global_constants:
        module = mlir.refine_polymorphic_shapes(module)
    return mlir.module_to_bytecode(module)


def _visit(op: Any, visit: Callable[[Any], None]) -> None:
    """Calls `visit` on every block in `op`."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                _visit(inner.operation, visit)
            visit(block)


def check_not_exported(ctx: mlir.LoweringRuleContext) -> None:
    """Refuses a simulated kernel in a program that is exported for the CPU, or lowered for it and
    other platforms at once."""
    module = ctx.module_context
    if len(module.platforms) > 1 and not module.lowering_parameters.for_export:
        raise Unsupported(
            "export-for-cpu",
            f"a simulated program is lowered for one platform, got {', '.join(module.platforms)}",
            notes=[Note("lower it for the TPU alone, lowering_platforms=('tpu',), or run it")],
        )
    if module.lowering_parameters.for_export:
        raise Unsupported(
            "export-for-cpu",
            "a simulated program cannot be exported for the CPU: its kernels run in this process",
            notes=[
                Note(
                    'export for TPUs, jax.export.export(f, platforms=["tpu"]), and call the result '
                    "inside a simulation"
                )
            ],
        )


def check_not_serialized() -> None:
    """Compiled programs with simulated kernels are refused where JAX would serialize them."""
    pickler: Any = serialize_executable._JaxPjrtPickler
    original = pickler.persistent_id

    @functools.wraps(original)
    def persistent_id(self: Any, obj: Any) -> Any:
        if isinstance(obj, pxla.UnloadedMeshExecutable) and any(
            isinstance(kept, KernelCall) for kept in obj.keepalive or ()
        ):
            raise as_jax_raises(
                Unsupported(
                    "serialized-program",
                    "a simulated program cannot be serialized: its kernels run in this process",
                    notes=[
                        Note(
                            'export it for TPUs, jax.export.export(f, platforms=["tpu"])(x), whose '
                            ".serialize() needs the package flatbuffers, and call that inside a "
                            "simulation"
                        )
                    ],
                )
            )
        return original(self, obj)

    pickler.persistent_id = persistent_id
