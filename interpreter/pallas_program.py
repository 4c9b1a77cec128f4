"""Makes the `pallas` form executable: regions become functions, as the drivers know them.

`pallas.kernel` becomes a kernel function with the attributes of the mosaic form
(`dialects/kernel.py`), each index map a function of its own, so that kernels run through
`interpreter/windows.py` whatever their form. In the body

* positions and sizes of the grid become arguments of the function and constants,
* `pallas.run_scoped` becomes a `tpu.region` that allocates,
* `pallas.emit_pipeline` becomes loops around the internal operations of `pallas_steps`.

Everything else has a meaning of its own, on logical values and refs as the kernel's author sees
them: this form says what the others must compute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    SymbolRefAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pallasite.dialects import arith, func, memref, pallas, scf, tpu
from pallasite.dialects.kernel import DYNAMIC, set_form
from pallasite.dialects.kernel_call import call_of, set_call
from pallasite.dialects.pallas import DimKind, Role
from pallasite.dialects.types import memory_space
from pallasite.interpreter import pallas_steps


def executable(module: ModuleOp) -> ModuleOp:
    """`module` itself, or, if it holds a `pallas.kernel`, a copy of it that the drivers run."""
    if not any(isinstance(op, pallas.KernelOp) for op in module.body.block.ops):
        return module
    copy = module.clone()
    call = call_of(module)
    block = copy.body.block
    for op in list(block.ops):
        if isinstance(op, pallas.KernelOp):
            for function in _functions(op):
                block.insert_op_before(function, op)
            op.detach()
            op.erase()
    if call is not None:
        set_call(copy, call)
    set_form(copy, "pallas")
    return copy


@dataclass(frozen=True)
class _Grid:
    """What the operations of a body can ask of the grid around them."""

    positions: Sequence[SSAValue]
    """By axis that `pallas.program_id` counts."""
    sizes: Sequence[int | SSAValue]
    """By the same axes; DYNAMIC where only the run knows."""
    axes: Sequence[int]
    """Which axis of the whole grid each of them is."""
    names: Mapping[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    """Positions along the kernel's named axes."""


def _functions(kernel: pallas.KernelOp) -> list[func.FuncOp]:
    """The functions of a kernel: its index maps, and its body."""
    name = kernel.sym_name.data
    sizes = kernel.grid_shape or ()
    body = kernel.body
    block = body.block
    scratch = len(kernel.scratch)
    positions = [block.insert_arg(i32, axis) for axis in range(len(sizes))]
    user = kernel.user_axes
    grid = _Grid(
        [positions[axis] for axis in user],
        [sizes[axis] for axis in user],
        user,
        {n: p for n, p in zip(kernel.axis_names, positions, strict=True) if n},
    )
    maps: list[func.FuncOp] = []
    attributes: dict[str, Attribute] = {
        "dimension_semantics": ArrayAttr(kernel.known_semantics),
        "tpu.core_type": tpu.CoreTypeAttr(tpu.CoreType(kernel.core)),
        "scalar_prefetch": IntegerAttr(len(kernel.specs(Role.PREFETCH)), i64),
        "scratch_operands": IntegerAttr(scratch, i64),
    }
    attributes["window_params"] = ArrayAttr(_windows(kernel, len(sizes), maps))
    if sizes:
        attributes["iteration_bounds"] = DenseArrayBase.from_list(i64, sizes)
    region = Region()
    body.move_blocks(region)
    function = func.FuncOp(name, (tuple(block.arg_types), ()), region)
    function.attributes |= attributes
    function.location = kernel.location
    _rewrite(block, grid)
    _end(block, kernel)
    return [function, *maps]


def _end(block: Block, owner: Operation) -> None:
    """`pallas.yield` at the end of a function becomes its return."""
    last = block.last_op
    values = tuple(last.operands) if isinstance(last, pallas.YieldOp) else ()
    if last is not None and isinstance(last, pallas.YieldOp):
        last.detach()
        last.erase()
    end = func.ReturnOp(*values)
    end.location = owner.location
    block.add_op(end)


def _windows(kernel: pallas.KernelOp, rank: int, maps: list[func.FuncOp]) -> list[Attribute]:
    """The window of every input and output; adds the functions of index maps to `maps`."""
    prefetched = len(kernel.specs(Role.PREFETCH))
    types = [*[i32] * rank, *(a.type for a in kernel.body.block.args[rank : rank + prefetched])]
    windows: list[Attribute] = []
    for spec in kernel.operand_specs.data[prefetched:]:
        window = spec.window
        squeezed = [] if window is None else [d for d, m in enumerate(window.dims) if m.squeezed]
        if window is None or not (rank or squeezed):
            windows.append(DictionaryAttr({}))
            continue
        bounds = DenseArrayBase.from_list(i64, window.bounds)
        entries: dict[str, Attribute] = {"window_bounds": bounds}
        if squeezed:
            entries["squeezed"] = DenseArrayBase.from_list(i64, squeezed)
        if not rank:
            windows.append(DictionaryAttr(entries))
            continue
        symbol = f"{kernel.sym_name.data}.map{len(windows)}"
        maps.append(_map_function(kernel, window, symbol, types))
        entries["transform_indices"] = SymbolRefAttr(symbol)
        if any(dim.kind is DimKind.ELEMENT for dim in window.dims):
            low, high = ([getattr(d, side) for d in window.dims] for side in ("low", "high"))
            entries["window_kind"] = tpu.ElementWindowAttr.of(low, high)
        if window.buffers == 1 or window.is_trivial(spec.array):
            mode = tpu.PipelineMode.SYNCHRONOUS
            entries["pipeline_mode"] = tpu.PipelineModeAttr(mode)
        if window.revisits:
            entries["revisit_mode"] = tpu.RevisitModeAttr(tpu.RevisitMode.ANY)
        windows.append(DictionaryAttr(entries))
    return windows


def _map_function(
    kernel: pallas.KernelOp, window: pallas.WindowAttr, symbol: str, types: Sequence[Attribute]
) -> func.FuncOp:
    if isinstance(window.map, int):
        region = kernel.maps[window.map].clone()
        block = region.block
        sizes, user = kernel.grid_shape or (), kernel.user_axes
        _rewrite(block, _Grid((), [sizes[axis] for axis in user], user))
        _end(block, kernel)
    else:
        block = Block(arg_types=types)
        apply = pallas_steps.MapOp(block.args[: window.map.num_dims], window.map)
        end = func.ReturnOp(*apply.results)
        apply.location = end.location = kernel.location
        block.add_ops([apply, end])
        region = Region(block)
    function = func.FuncOp(symbol, (types, [i32] * window.results), region)
    function.location = kernel.location
    return function


# Bodies


def _rewrite(block: Block, grid: _Grid) -> None:
    """Replaces the structure of the dialect in `block` and in everything inside."""
    for op in list(block.ops):
        match op:
            case pallas.ProgramIdOp():
                _replace(op, [], [grid.positions[op.axis.value.data]])
            case pallas.AxisIndexOp():
                _replace(op, [], [grid.names[op.axis_name.data]])
            case pallas.NumProgramsOp():
                _replace_size(op, grid)
            case pallas.RunScopedOp():
                _rewrite(op.body.block, grid)
                _replace_scope(op)
            case pallas.EmitPipelineOp():
                _replace_pipeline(op, grid)
            case _:
                for region in op.regions:
                    for inner in region.blocks:
                        _rewrite(inner, grid)


def _replace(op: Operation, new: Sequence[Operation], results: Sequence[SSAValue]) -> None:
    for made in new:
        made.location = op.location
    block = op.parent_block()
    if block is None:
        raise ValueError("cannot replace a detached operation")
    block.insert_ops_before(list(new), op)
    for old, value in zip(op.results, results, strict=True):
        old.replace_all_uses_with(value)
    op.detach()
    op.erase()


def _replace_size(op: pallas.NumProgramsOp, grid: _Grid) -> None:
    axis = op.axis.value.data
    size = grid.sizes[axis]
    if isinstance(size, SSAValue):
        _replace(op, [], [size])
        return
    if size == DYNAMIC:
        dim = IntegerAttr(grid.axes[axis], i32)
        made: Operation = tpu.IterationBoundOp(result_types=[i32], properties={"dim": dim})
    else:
        made = arith.ConstantOp(IntegerAttr(size, i32))
    _replace(op, [made], made.results)


def _replace_scope(op: pallas.RunScopedOp) -> None:
    """Arguments become allocations at the head of a `tpu.region`."""
    block = op.body.block
    first = block.first_op
    for argument in list(block.args):
        type = cast(MemRefType[Attribute], argument.type)
        made: Operation
        if memory_space(type) == "semaphore_mem":
            made = tpu.SemAllocOp(result_types=[type])
        else:
            made = memref.AllocaOp.build(operands=[[], []], result_types=[type])
        made.location = op.location
        made.results[0].name_hint = argument.name_hint
        argument.replace_all_uses_with(made.results[0])
        block.erase_arg(argument)
        if first is None:
            block.add_op(made)
        else:
            block.insert_op_before(made, first)
    last = block.last_op
    if isinstance(last, pallas.YieldOp):
        end = tpu.YieldOp(operands=[list(last.values)])
        _replace(last, [end], [])
    region = Region()
    op.body.move_blocks(region)
    made = tpu.RegionOp(operands=[], result_types=[list(op.res.types)], regions=[region])
    _replace(op, [made], made.results)


def _replace_pipeline(op: pallas.EmitPipelineOp, outer: _Grid) -> None:
    """Loops over the grid; each step enters its blocks and runs the body."""
    bounds = iter(op.bounds)
    sizes = [next(bounds) if size == DYNAMIC else size for size in op.grid_shape]
    user = op.user_axes
    opened = pallas_steps.OpenOp(op)

    def step(positions: list[SSAValue]) -> list[Operation]:
        made: list[Operation] = []
        indices: list[SSAValue] = []
        for window in op.windows:
            indices += _map_values(op, window, positions, outer, made)
        block = op.body.block
        types = [argument.type for argument in block.args]
        enter = pallas_steps.EnterOp(opened.handle, positions, indices, types)
        enter.location = op.location
        inner = _Grid([positions[a] for a in user], [sizes[a] for a in user], user, outer.names)
        _rewrite(block, inner)
        return [*made, enter, *_taken(block, enter.refs)[0]]

    loops = _loops(op, sizes, [], step)
    _replace(op, [opened, *loops, pallas_steps.CloseOp(opened.handle)], [])


def _loops(
    op: pallas.EmitPipelineOp,
    sizes: Sequence[int | SSAValue],
    positions: list[SSAValue],
    step: Callable[[list[SSAValue]], list[Operation]],
) -> list[Operation]:
    """One loop per axis, the last one innermost, around what `step` makes of the positions."""
    axis = len(positions)
    if axis == len(sizes):
        return step(positions)
    body = Block(arg_types=[i32])
    position: SSAValue = body.args[0]
    if op.offsets:
        shifted = arith.AddiOp(position, op.offsets[axis])
        shifted.location = op.location
        body.add_op(shifted)
        position = shifted.result
    body.add_ops([*_loops(op, sizes, [*positions, position], step), scf.YieldOp()])
    constants = [arith.ConstantOp(IntegerAttr(n, i32)) for n in (0, 1)]
    size = sizes[axis]
    if isinstance(size, int):
        constants.append(arith.ConstantOp(IntegerAttr(size, i32)))
        size = constants[-1].result
    loop = scf.ForOp(constants[0], size, constants[1], [], body)
    loop.location = op.location
    return [*constants, loop]


def _map_values(
    op: pallas.EmitPipelineOp,
    window: pallas.WindowAttr,
    positions: Sequence[SSAValue],
    outer: _Grid,
    made: list[Operation],
) -> Sequence[SSAValue]:
    """The values of an index map; adds the operations that compute them to `made`."""
    if not isinstance(window.map, int):
        apply = pallas_steps.MapOp(positions, window.map)
        apply.location = op.location
        made.append(apply)
        return apply.results
    block = op.maps[window.map].block
    _rewrite(block, outer)
    operations, values = _taken(block, positions)
    made += operations
    return values


def _taken(
    block: Block, arguments: Sequence[SSAValue]
) -> tuple[list[Operation], tuple[SSAValue, ...]]:
    """The operations of `block` with `arguments` in place of its own, and what it yields."""
    for old, new in zip(block.args, arguments, strict=True):
        if new.name_hint is None:
            new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    operations = list(block.ops)
    for op in operations:
        op.detach()
    last = operations[-1] if operations else None
    if not isinstance(last, pallas.YieldOp):
        return operations, ()
    values = tuple(last.values)
    last.erase()
    return operations[:-1], values
