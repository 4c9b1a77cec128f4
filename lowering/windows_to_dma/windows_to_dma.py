"""`windows-to-dma`: replaces a kernel's windows by explicit buffers, DMAs and semaphores.

The kernel's grid becomes a loop; whole arrays become `any` arguments; each window becomes a buffer
of two blocks (one if `synchronous`). DMAs fill and empty one half of it while the body works on the
other. The event order is that of spec/pallas_semantics.md section 2.3. For a grid of 4 steps,

    func.func @double(%i: i32, %x: memref<8x128xf32, vmem>, %o: memref<8x128xf32, vmem>) {
      <body>
    }

becomes (types and memory spaces left out, output transfers alike)

    func.func @double(%x: memref<32x128xf32, any>, %o: memref<32x128xf32, any>) {
      "tpu.region"() ({
        %x_window = memref.alloca() : memref<2x8x128xf32, vmem>
        %x_sems = tpu.sem_alloc : memref<2x!tpu.dma_semaphore, semaphore_mem>
        enqueue %x[0, 0] -> %x_window[0]
        scf.for %step = 0 to 4 iter_args(%slot = 0, ...) {
          scf.if (%step != 3) { enqueue %x[8 * (%step + 1), 0] -> %x_window[1 - %slot] }
          wait %x_sems[%slot]
          <body on %x_window[%slot], %o_window[%slot]>
          enqueue %o_window[%slot] -> %o[8 * %step, 0]
          scf.if (%step != 0) { wait %o_sems[1 - %slot] }
          scf.yield (1 - %slot), ...
        }
        wait %o_sems[...]
      })
    }

Needs form `mosaic`, and the call recorded in `tpu.call` if shapes of arrays are needed; leaves form
`dma`. A dynamic grid bound becomes a leading `memref<i32, smem>` argument and counts as scalar
prefetch. Operands without a window in `any`, `hbm` and `smem`, and results that the program keeps
in VMEM, stay arguments of the same type. `operands.py` has the errors.

Where the cores of a device share the grid (`dialects.core_split`), the function keeps a grid of one
parallel axis, the cores, and loops over the sub-grid of the core that its first argument names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    LocationAttr,
    MemRefType,
    ModuleOp,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from pallasite.dialects import func, memref
from pallasite.dialects.core_split import core_split
from pallasite.dialects.kernel import (
    DYNAMIC,
    WRITTEN_ONCE,
    Kernel,
    describe_kernel,
    form_of,
    functions_of,
    kernel_function,
    set_form,
)
from pallasite.dialects.kernel_call import call_of, set_call, vmem_setting
from pallasite.dialects.locations import argument_location, first_location, refusal
from pallasite.dialects.subcores import subcore_functions
from pallasite.dialects.tpu import (
    DimensionSemantics,
    DimensionSemanticsAttr,
    DMASemaphoreType,
    MemorySpaceAttr,
    RegionOp,
    SemAllocOp,
    SemaphoreType,
    YieldOp,
)
from pallasite.dialects.types import memref_of
from pallasite.lowering.creation import made, operand_segments
from pallasite.lowering.windows_to_dma.block_tiles import keep_tiles
from pallasite.lowering.windows_to_dma.copies import copy, dma_semaphores, squeeze_to
from pallasite.lowering.windows_to_dma.grid import Grid, Point
from pallasite.lowering.windows_to_dma.maps import acts, bind, evaluate
from pallasite.lowering.windows_to_dma.operands import Operand, Role, classify
from pallasite.lowering.windows_to_dma.partial_blocks import mark_partial_blocks
from pallasite.lowering.windows_to_dma.scalars import Scalar, ScalarBuilder, known
from pallasite.lowering.windows_to_dma.schedule import Pipeline
from pallasite.lowering.windows_to_dma.transfers import Pipelined
from pallasite.lowering.windows_to_dma.whole import whole_windows
from pallasite.passes.check_kernel.memory import vmem_with_copies
from pallasite.passes.check_kernel.refs import check_scratch
from pallasite.passes.dead_code import remove_dead_code
from pallasite.passes.reference_tiles import rows_of_tiles
from pallasite.targets import DEFAULT_TARGET, Target, get_target

_SMEM = MemorySpaceAttr("smem")


@dataclass(frozen=True)
class WindowsToDmaPass(ModulePass):
    """Replaces the windows of a kernel by buffers, DMAs and semaphores."""

    name = "windows-to-dma"

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = get_target(self.target)
        if form_of(op) != "mosaic":
            return
        function = kernel_function(op)
        if subcore_functions(op):
            set_form(op, "dma")
            return
        if function is None:
            raise refusal(
                op,
                "no-tensorcore-kernel",
                "expected a function with tpu.core_type = #tpu.core_type<tc>, or one called main",
            )
        mark_partial_blocks(function)
        call, vmem = call_of(op), vmem_with_copies(op, target)
        _Lowering(op, function, target).run()
        set_form(op, "dma")
        if call is not None and vmem is not None:
            set_call(op, replace(call, settings=call.settings | vmem_setting(vmem)))


class _Copied(NamedTuple):
    """An array that is copied as a whole, into its buffer or out of it."""

    operand: Operand
    array: SSAValue
    buffer: SSAValue


class _Lowering:
    """Lowers one kernel: builds the new function in `run` and puts it in the place of the old."""

    def __init__(self, module: ModuleOp, function: func.FuncOp, target: Target):
        self.module = module
        self.function = function
        self.kernel: Kernel = describe_kernel(function)
        maps = functions_of(module)
        self.operands = classify(self.kernel, call_of(module), maps)
        outputs = [n for n, operand in enumerate(self.operands) if operand.output]
        self.split = core_split(self.kernel, maps, outputs, target.cores)
        self.location: LocationAttr = first_location(function)
        self.target = target
        self.buffers: list[tuple[Operation, int]] = []
        """The allocations that replace arguments of the body, each with the number of rows in a
        tile of that argument (`block_tiles.py`)."""

    def run(self) -> None:
        """Replaces the kernel's function by one without windows, and erases its index maps."""
        kernel, old = self.kernel, self.function.body.block
        dynamic = [axis for axis, bound in enumerate(kernel.grid or ()) if bound == DYNAMIC]
        types: list[Attribute] = [i32] if self.split is not None else []
        types += [memref_of(i32, shape, _SMEM) for shape in self._bound_shapes(len(dynamic))]
        types += [a.type for a in kernel.prefetch] + [o.type for o in self.operands]
        entry = Block(arg_types=types)
        arguments = iter(entry.args)
        core = next(arguments) if self.split is not None else None
        bounds = [next(arguments) for _ in dynamic]
        prefetch = [next(arguments) for _ in kernel.prefetch]
        arrays = list(arguments)
        for axis, bound in zip(dynamic, bounds, strict=True):
            bound.name_hint = f"bound{axis}"
        for argument, new in zip(kernel.prefetch, prefetch, strict=True):
            new.name_hint = argument.name_hint
            argument.replace_all_uses_with(new)
        scoped = bool(kernel.scratch) or any(o.role is not Role.WHOLE for o in self.operands)
        block = Block() if scoped else entry
        self.build = ScalarBuilder(block, self.location)
        self.grid = Grid(self._bounds(dict(zip(dynamic, bounds, strict=True))))
        if self.split is not None and core is not None:
            core.name_hint = "core"
            self.grid = self.grid.part(self.build, self.split, core)
        self._allocate_scratch()
        self._write(old, prefetch, arrays)
        if scoped:
            self.build.emit(YieldOp(operands=[[]]))
            region = RegionOp(operands=[], result_types=[[]], regions=[Region(block)])
            region.location = self.location
            entry.add_op(region)
        remove_dead_code(entry)
        keep_tiles(self.buffers, self.target)
        self._replace(entry, len(dynamic))

    def _bound_shapes(self, count: int) -> list[tuple[int, ...]]:
        """The shapes of the call's `count` grid bounds: () for scalars, (1,) for arrays of one."""
        call = call_of(self.module)
        if call is None:
            return [()] * count
        return [tuple(type.get_shape()) for type in call.operands[:count]]

    def _bounds(self, dynamic: dict[int, SSAValue]) -> tuple[Scalar, ...]:
        """The sizes of the grid; `dynamic` has the SMEM ref of each axis known at run time."""
        result: list[Scalar] = []
        for axis, bound in enumerate(self.kernel.grid or ()):
            if axis in dynamic:
                rank = len(cast(MemRefType[Attribute], dynamic[axis].type).get_shape())
                first = [self.build.value(0, IndexType())] * rank
                load = memref.LoadOp.get(dynamic[axis], first)
                result.append(self.build.emit(load, f"size{axis}").results[0])
            else:
                result.append(bound)
        return tuple(result)

    def _allocate_scratch(self) -> None:
        check_scratch(self.kernel)
        for number, argument in enumerate(self.kernel.scratch):
            type = argument.type
            semaphore = isinstance(type, MemRefType) and isinstance(
                type.element_type, SemaphoreType | DMASemaphoreType
            )
            op = SemAllocOp(result_types=[type]) if semaphore else _alloca(type)
            name = argument.name_hint or f"scratch{number}"
            title = _titled(f"scratch {number}", argument)
            value = self._allocated(op, name, title, argument).results[0]
            argument.replace_all_uses_with(value)

    def _write(self, old: Block, prefetch: Sequence[SSAValue], arrays: Sequence[SSAValue]) -> None:
        """Writes buffers, copies and the pipeline around the operations of the body `old`."""
        build = self.build
        pipelined: list[Pipelined] = []
        copied: list[_Copied] = []
        held: dict[int, SSAValue] = {}
        for position, (operand, array) in enumerate(zip(self.operands, arrays, strict=True)):
            array.name_hint = operand.argument.name_hint
            with build.at(operand.location):
                if operand.role is Role.WHOLE:
                    shape = operand.block_type.get_shape()
                    operand.argument.replace_all_uses_with(squeeze_to(build, array, shape))
                elif operand.role is Role.COPIED:
                    held[position] = self._buffer(operand, held)
                    copied.append(_Copied(operand, array, held[position]))
                else:
                    pipelined.append(self._window(operand, array))
        semaphore = dma_semaphores(build, 1, "copied") if copied else None
        steps = self.grid.steps(build)

        def body(point: Point) -> None:
            self._act(point, prefetch)
            self._body(old, point)

        def everything() -> None:
            self._copy([c for c in copied if not c.operand.output], semaphore)
            for operand, _, buffer in copied:
                view = squeeze_to(build, buffer, operand.block_type.get_shape())
                operand.argument.replace_all_uses_with(view)
            Pipeline(build, self.grid, pipelined, prefetch, body).write(steps)
            self._copy([c for c in copied if c.operand.output], semaphore)

        build.when(1 if known(steps) else build.less(0, steps), everything)

    def _buffer(self, operand: Operand, held: Mapping[int, SSAValue]) -> SSAValue:
        """The buffer of an operand that is copied whole; `held` has those of earlier operands."""
        if operand.shares is not None:
            return held[operand.shares]
        alloca = _alloca(operand.buffer_type(1))
        return self._allocated_block(operand, alloca).results[0]

    def _allocated_block(self, operand: Operand, op: Operation) -> Operation:
        """Inserts `op`, which allocates the window buffer of `operand`; returns it."""
        title = _titled(f"block of {operand.role_name}", operand.argument)
        return self._allocated(op, operand.hint("window"), title, operand.argument)

    def _allocated(self, op: Operation, hint: str, title: str, argument: SSAValue) -> Operation:
        """Inserts `op`, which allocates what replaces `argument` of the kernel; returns it.

        Its result is named `hint`; messages call it `title`.
        """
        kind = argument.type
        if isinstance(kind, MemRefType) and kind.get_num_dims() > 1 and type(op) is not SemAllocOp:
            self.buffers.append((op, rows_of_tiles(argument, self.target)))
        with self.build.at(argument_location(self.location, title)):
            return self.build.emit(op, hint)

    def _copy(self, copied: Sequence[_Copied], semaphore: SSAValue | None) -> None:
        """Copies inputs into their buffers, and outputs out of them, one after the other."""
        for operand, array, buffer in copied:
            ends = (buffer, array) if operand.output else (array, buffer)
            if semaphore is not None:
                with self.build.at(operand.location):
                    copy(self.build, *ends, semaphore)

    def _act(self, point: Point, prefetch: Sequence[SSAValue]) -> None:
        """Evaluates, for operands that are not pipelined, index maps that print or assert."""
        for operand in self.operands:
            if operand.role is Role.PIPELINED or operand.index_map_or_none is None:
                continue
            if acts(operand.index_map):
                with self.build.at(operand.location):
                    evaluate(self.build, operand.index_map, (*point, *prefetch), self.grid.totals)

    def _window(self, operand: Operand, array: SSAValue) -> Pipelined:
        alloca = _alloca(operand.buffer_type(operand.buffers))
        buffer = self._allocated_block(operand, alloca)
        return Pipelined.of(self.build, operand, array, buffer, in_parts=True)

    def _body(self, old: Block, point: Point) -> None:
        """Moves the operations of `old` to the insertion point; grid indices become `point`."""
        build = self.build
        for argument, index in zip(self.kernel.indices, point, strict=True):
            if argument.first_use is not None:
                argument.replace_all_uses_with(build.value(index))
        for op in list(old.ops):
            bind(op, build, self.grid.totals)
            if op.next_op is not None:
                op.detach()
                build.keep(op)

    def _replace(self, entry: Block, bounds: int) -> None:
        """Puts `entry` in the place of the kernel's old body and drops the index maps."""
        terminator = func.ReturnOp()
        terminator.location = self.location
        entry.add_op(terminator)
        function = self.function
        new = func.FuncOp(function.sym_name.data, (entry.arg_types, ()), Region(entry))
        new.location = function.location
        new.properties = {**function.properties, "function_type": new.function_type}
        new.attributes = self._attributes(entry, bounds)
        block = self.module.body.block
        block.insert_op_before(new, function)
        maps = {w.transform for w in self.kernel.windows}
        for op in list(block.ops):
            if op is function or (isinstance(op, func.FuncOp) and op.sym_name.data in maps):
                op.detach()
                op.erase(safe_erase=False)

    def _attributes(self, entry: Block, bounds: int) -> dict[str, Attribute]:
        """The attributes of the new function, whose body is `entry`; `bounds` of its arguments are
        dynamic grid bounds."""
        attributes = {
            key: value
            for key, value in self.function.attributes.items()
            if key not in ("iteration_bounds", "window_params")
        }
        attributes["dimension_semantics"] = ArrayAttr([])
        if self.split is not None:
            parallel = DimensionSemanticsAttr(DimensionSemantics.PARALLEL)
            attributes["dimension_semantics"] = ArrayAttr([parallel])
            cores = DenseArrayBase.from_list(i64, [self.split.cores])
            attributes["iteration_bounds"] = cores
            scalars = entry.arg_types[1 : len(entry.args) - len(self.operands)]
            arrays = [operand.type for operand in self.operands]
            windows = whole_windows(self.module, arrays, scalars, self.location)
            attributes["window_params"] = ArrayAttr(windows)
        attributes["scalar_prefetch"] = IntegerAttr(bounds + len(self.kernel.prefetch), i64)
        attributes["scratch_operands"] = IntegerAttr(0, i64)
        once = [
            position
            for position, operand in enumerate(self.operands)
            if operand.role is Role.PIPELINED and operand.output and not operand.window.revisits
        ]
        if once:
            attributes[WRITTEN_ONCE] = DenseArrayBase.from_list(i64, once)
        return attributes


def _alloca(type: Attribute) -> Operation:
    return made(memref.AllocaOp, (), (type,), operand_segments(0, 0))


def _titled(part: str, argument: SSAValue) -> str:
    """What messages call an argument of the kernel: its part in it, and its name."""
    return f"{part} (%{argument.name_hint})" if argument.name_hint else part
