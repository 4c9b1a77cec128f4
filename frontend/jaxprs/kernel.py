"""Kernels: the jaxpr of a `pallas_call` or a mesh kernel becomes a module in `pallas` form."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Attribute, Block, Region

from pallasite.diagnostics import Diagnostic
from pallasite.dialects.kernel import DYNAMIC, IN_PLACE, set_form
from pallasite.dialects.pallas import KernelOp, OperandAttr, WindowAttr, YieldOp
from pallasite.dialects.pallas.kernel import LAYOUT_PASSES
from pallasite.dialects.pallas.kernel_rules import MAPPED
from pallasite.dialects.tpu.keywords import DimensionSemantics
from pallasite.frontend.jaxprs import types
from pallasite.frontend.jaxprs.internals import core_type, jax_core, pallas_core, pallas_utils
from pallasite.frontend.jaxprs.locations import location_of_kernel
from pallasite.frontend.jaxprs.tracer import Surroundings, Tracer
from pallasite.frontend.jaxprs.windows import Windows, axis_semantics, grid_sizes, name_arguments


def trace_call(
    jaxpr: jax_core.Jaxpr,
    grid_mapping: Any,
    *,
    semantics: Sequence[Any] | None,
    mesh: Any,
    params: dict[str, Attribute],
) -> ModuleOp:
    """The kernel of a `pallas_call` in `pallas` form.

    `semantics` are the dimension semantics that the program gives, one per axis of its own grid;
    `mesh` is JAX's mesh of devices, if any.
    """
    grid, mapped = grid_mapping.grid, tuple(grid_mapping.vmapped_dims)
    own_axes = len(grid) - len(mapped)
    names = _axis_names(grid_mapping.grid_names, len(grid), mapped)
    surroundings = Surroundings(
        axes=own_axes if grid else None,
        names=frozenset(name for name in names if name is not None),
        mesh=_mesh_info(mesh),
    )
    body, tracer = _start(jaxpr, surroundings)
    _check_shadowing(tracer, names, mesh)
    sizes = grid_sizes(grid)
    try:
        specs, maps = _operands(tracer, grid_mapping, sizes, body)
    except types.UnsupportedType as error:
        raise tracer.unsupported(error.message, error.advice, code="unsupported-type") from None
    _finish(tracer, jaxpr, body)
    kernel = KernelOp(
        _symbol(jaxpr),
        specs,
        body,
        maps,
        grid=[DYNAMIC if size is None else size for size in sizes] if grid else None,
        grid_names=["" if name is None else str(name) for name in names] if any(names) else None,
        semantics=_semantics(tracer, semantics, len(grid), mapped) if grid else None,
        mapped=mapped,
        params=params,
    )
    return _module(kernel, tracer)


def _operands(
    tracer: Tracer, grid_mapping: Any, sizes: Sequence[int | None], body: Block
) -> tuple[list[OperandAttr], list[Region]]:
    """The operands as `pallas.kernel` lists them, and the index maps that are not affine.

    `sizes` are those of the grid, `body` has the arguments of the kernel.
    """
    prefetched = [argument.type for argument in body.args[: grid_mapping.num_index_operands]]
    specs = [
        OperandAttr("prefetch", types.array_type(_array_of(aval)))
        for aval in grid_mapping.index_map_avals[len(sizes) :]
    ]
    windows = Windows(tracer, sizes, prefetched)
    for position, mapping in enumerate(grid_mapping.block_mappings):
        role = "input" if position < grid_mapping.num_inputs else "output"
        space = types.space_name(mapping.transformed_block_aval.memory_space)
        found: WindowAttr | None = None
        trivial = mapping.has_trivial_window()
        # A whole array has a window, too, where the kernel does not see all of its dimensions.
        squeezed = any(isinstance(dim, pallas_core.Squeezed) for dim in mapping.block_shape)
        if (space not in IN_PLACE and sizes) or (trivial and squeezed):
            stays = trivial and (space == "vmem" or not sizes)
            found = windows.of(mapping, stays=stays)
        elif not trivial:
            mapped = bool(grid_mapping.vmapped_dims)
            raise _not_whole(tracer, mapping, space, gridded=bool(sizes), mapped=mapped)
        specs.append(OperandAttr(role, types.array_type(mapping.array_aval), found))
    return specs, windows.maps


def trace_mesh(
    jaxpr: jax_core.Jaxpr,
    mesh: Any,
    *,
    device_mesh: Any,
    scratch: int,
    layouts: bool,
    params: dict[str, Attribute],
) -> ModuleOp:
    """The kernel of `pl.kernel` or `pl.core_map` in `pallas` form: a grid over cores, no blocks.

    The last `scratch` arguments of `jaxpr` are scratch. Which of the others are outputs is not
    said by the jaxpr; they are all inputs here, until the call that JAX makes of them is known.
    `layouts` says whether the compiler's layout passes will run, which kernels on subcores choose.
    """
    names = tuple(mesh.shape)
    surroundings = Surroundings(
        axes=len(names),
        names=frozenset(names),
        mesh=_mesh_info(device_mesh),
        core=core_type(mesh),
        layouts=layouts,
    )
    body, tracer = _start(jaxpr, surroundings)
    core = str(core_type(mesh)) if surroundings.on_subcores else None
    if core is not None:
        params = {**params, LAYOUT_PASSES: IntegerAttr.from_bool(layouts)}
    elif len(names) > 1:
        raise tracer.unsupported(
            f"a mesh of {len(names)} axes of TensorCores", "use one axis", code="no-such-axis"
        )
    operands = jaxpr.invars[: len(jaxpr.invars) - scratch]
    specs = [OperandAttr("input", types.array_type(variable.aval)) for variable in operands]
    _finish(tracer, jaxpr, body)
    kernel = KernelOp(
        _symbol(jaxpr),
        specs,
        body,
        grid=list(mesh.shape.values()),
        grid_names=[str(name) for name in names],
        semantics=axis_semantics(mesh.dimension_semantics),
        mesh=True,
        core=core,
        params=params,
    )
    return _module(kernel, tracer)


def _start(jaxpr: jax_core.Jaxpr, surroundings: Surroundings) -> tuple[Block, Tracer]:
    """An empty body with the arguments of `jaxpr`, and the tracer that fills it."""
    location = location_of_kernel(jaxpr)
    body = Block()
    tracer = Tracer(surroundings, body, location)
    for variable in jaxpr.invars:
        try:
            body.insert_arg(tracer.type_of(variable.aval), len(body.args))
        except types.UnsupportedType as error:
            raise tracer.unsupported(error.message, error.advice, code="unsupported-type") from None
    name_arguments(body, jaxpr.debug_info)
    return body, tracer


def _finish(tracer: Tracer, jaxpr: jax_core.Jaxpr, body: Block) -> None:
    tracer.run(jaxpr, list(body.args))
    tracer.add(YieldOp())


def _module(kernel: KernelOp, tracer: Tracer) -> ModuleOp:
    kernel.location = tracer.location
    module = ModuleOp([kernel])
    set_form(module, "pallas")
    return module


def _symbol(jaxpr: jax_core.Jaxpr) -> str:
    return re.sub(r"[^\w.-]", "_", jaxpr.debug_info.func_name)


def _mesh_info(mesh: Any) -> Any:
    return None if mesh is None else pallas_utils.MeshInfo.from_mesh(mesh)


def _array_of(aval: Any) -> Any:
    return getattr(aval, "inner_aval", aval)


def _axis_names(
    names: Sequence[Hashable] | None, rank: int, mapped: Sequence[int]
) -> tuple[Hashable | None, ...]:
    """One name per axis, None for axes without; `vmap` adds axes that no name was given for."""
    if not names:
        return (None,) * rank
    if len(names) == rank:
        return tuple(names)
    own = iter(names)
    return tuple(None if axis in mapped else next(own, None) for axis in range(rank))


def _check_shadowing(tracer: Tracer, names: Sequence[Hashable | None], mesh: Any) -> None:
    shadowed = [name for name in names if mesh is not None and name in mesh.axis_names]
    if shadowed:
        raise tracer.unsupported(
            f"grid axis '{shadowed[0]}' has the name of an axis of the mesh of devices",
            "give the grid's axis another name",
            code="no-such-axis",
        )


def _semantics(
    tracer: Tracer, given: Sequence[Any] | None, rank: int, mapped: Sequence[int]
) -> list[str]:
    """The semantics of all axes: as given, and `parallel` for those that a transformation added."""
    own = rank - len(mapped)
    words = ["arbitrary"] * own if given is None else axis_semantics(given)
    if len(words) > 1 and "".join(words) in set(DimensionSemantics):
        raise tracer.unsupported(
            "dimension semantics are one word per axis of the grid, got a single word",
            f'write a tuple of words: ("{"".join(words)}",)',
            code="bad-semantics",
        )
    if len(words) != own:
        raise tracer.unsupported(
            f"{len(words)} dimension semantics for a grid of {own} axes",
            "give one per axis of the grid",
            code="bad-semantics",
        )
    if unknown := next((word for word in words if word not in set(DimensionSemantics)), None):
        raise tracer.unsupported(
            f"expected dimension semantics of {', '.join(DimensionSemantics)}, got {unknown}",
            "say arbitrary for steps that follow one another",
            code="bad-semantics",
        )
    rest = iter(words)
    return ["parallel" if axis in mapped else next(rest) for axis in range(rank)]


def _not_whole(
    tracer: Tracer, mapping: Any, space: str, *, gridded: bool, mapped: bool
) -> Diagnostic:
    where = f"{mapping.origin} in {space.upper()}" if gridded else mapping.origin
    reason = "is not cut into blocks" if gridded else "is cut into blocks, but there is no grid"
    return tracer.unsupported(
        f"{where} {reason}: its block must be the array, its index map zero",
        *([MAPPED] if mapped else []),
        "keep the block in VMEM, or copy parts of the ref in the kernel"
        if gridded
        else "give pallas_call a grid=",
        code="unsupported-block",
    )
