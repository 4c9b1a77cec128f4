"""Kernels of SparseCores: the functions of a module that run on subcores.

A module has one function for each kind of subcore that its call runs on (several meshes make one
call, spec/tpu_dialect.md section 4), all of which take the same operands and scratch. The grid of a
function is its mesh: SparseCores, and the vector subcores of each.

Their vectors are registers, or what the compiler's own layout passes make of wider ones, so none of
our lowerings has anything to do: such a module is the same text in every form from `mosaic` on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pallasite.diagnostics import Note, Unsupported
from pallasite.dialects.kernel import Kernel, describe_kernel, kernel_function
from pallasite.dialects.kernel_call import Call
from pallasite.dialects.locations import source_location
from pallasite.dialects.tpu.cores import SCALAR_SUBCORE, VECTOR_SUBCORE
from pallasite.dialects.tpu.keywords import CoreTypeAttr
from pallasite.targets import TARGETS, SparseCores, Target

Kernels = Mapping[str, Kernel]
"""The kernels of a call, by the kind of subcore that they run on; none of a TensorCore kernel."""


def core_kind(func: Operation) -> str | None:
    """The kind of core that a function says it runs on."""
    kind = func.attributes.get("tpu.core_type")
    return kind.data.value if isinstance(kind, CoreTypeAttr) else None


def subcore_functions(module: Operation) -> dict[str, FuncOp]:
    """The functions that run on subcores, by their kind, the scalar one first."""
    if not isinstance(module, ModuleOp):
        return {}
    found = {core_kind(op): op for op in module.body.block.ops if isinstance(op, FuncOp)}
    return {kind: found[kind] for kind in (SCALAR_SUBCORE, VECTOR_SUBCORE) if kind in found}


def first_function(module: ModuleOp) -> FuncOp | None:
    """The kernel that stands for the call of `module`: of several, that of scalar subcores."""
    return kernel_function(module) or next(iter(subcore_functions(module).values()), None)


def lowered_functions(module: ModuleOp) -> list[FuncOp]:
    """The functions that lowerings rewrite: all but those of SparseCores."""
    kinds = (SCALAR_SUBCORE, VECTOR_SUBCORE)
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    return [func for func in functions if core_kind(func) not in kinds]


def subcore_kernels(module: ModuleOp) -> Kernels:
    """The kernels of `module` that run on subcores."""
    return {kind: describe_kernel(func) for kind, func in subcore_functions(module).items()}


def subcore_counts(kernels: Kernels, target: Target) -> tuple[SparseCores, int, int]:
    """The SparseCores of `target`, and how many of them, and vector subcores of each, run.

    Raises `Unsupported` where the target has no SparseCores, or fewer than the kernels ask for.
    """
    where = source_location(next(iter(kernels.values())).func)
    parts = target.sparse
    if parts is None:
        having = [t.name for t in TARGETS.values() if t.sparse is not None]
        raise Unsupported(
            "sparse-core",
            f"the kernel runs on SparseCores, which {target.name} does not have",
            where,
            [Note(f"targets with SparseCores: {', '.join(having)}")],
        )
    grids = {kind: kernel.grid or () for kind, kernel in kernels.items()}
    ranks = {SCALAR_SUBCORE: 1, VECTOR_SUBCORE: 2}
    cores = {grid[0] if grid else 0 for grid in grids.values()}
    subcores = (*grids.get(VECTOR_SUBCORE, ()), 0, 0)[1]
    fits = len(cores) == 1 and 0 < max(cores) <= parts.cores and 0 <= subcores <= parts.subcores
    if not fits or any(len(grid) != ranks[kind] for kind, grid in grids.items()):
        shapes = " and ".join(str(list(grid)) for grid in grids.values())
        raise Unsupported(
            "sparse-core",
            f"the kernel's mesh is {shapes}, but a device of {target.name} has {parts.cores} "
            f"SparseCores of {parts.subcores} vector subcores",
            where,
            [Note("take the numbers from plsc.get_sparse_core_info()")],
        )
    return parts, max(cores), subcores


_CONFIG, _COMPACT, _LINEAR = "sparse_core_config", "TILING_COMPACT", "TILING_SPARSE_CORE"


def is_compact(call: Call | None) -> bool:
    """Whether refs of the kernel are tiled as on a TensorCore (`use_tc_tiling_on_sc`)."""
    config: Any = {} if call is None else call.settings.get(_CONFIG, {})
    return config.get("tiling", _COMPACT) == _COMPACT


def subcore_settings(cores: int, *, compact: bool) -> dict[str, Any]:
    """The settings of a call on subcores of so many SparseCores, as JAX 0.10.2 writes them."""
    one = {"megachip_parallelism_config": {"cores": ["0"]}} if cores == 1 else {}
    tiling = _COMPACT if compact else _LINEAR
    return {_CONFIG: {"tiling": tiling}, "device_type": "DEVICE_TYPE_SPARSECORE", **one}
