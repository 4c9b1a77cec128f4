"""`pallas.kernel` to the function that the compiler takes: arguments, attributes, index maps.

    pallas.kernel @scale grid ... {
      ^body(%x: memref<8x128xf32, vmem>, %o: memref<8x128xf32, vmem>): ...
    }
becomes
    func.func @scale(%i: i32, %x: memref<1x8x128xf32, vmem>, %o: memref<8x128xf32, vmem>)
        attributes {iteration_bounds = ..., window_params = [...], ...} { ... }
    func.func @transform_0(%i: i32) -> (i32, i32, i32) { ... }

Arguments are the grid indices, the scalar-prefetch refs, the blocks of inputs and outputs, and the
scratch (spec/pallas_semantics.md section 1.11).
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Region, SSAValue
from xdsl.ir.affine import AffineMap

from pallasite.dialects import func, pallas, tpu
from pallasite.dialects.kernel import IN_PLACE
from pallasite.dialects.kernel_call import call_of, set_call
from pallasite.dialects.pallas import Role
from pallasite.dialects.types import memory_space
from pallasite.lowering.pallas_to_mosaic.driver import Converter, Held, stored_type
from pallasite.lowering.pallas_to_mosaic.maps import index_map
from pallasite.lowering.pallas_to_mosaic.programs import Programs
from pallasite.lowering.pallas_to_mosaic.windows import (
    EMPTY,
    default_window,
    window_params,
)


def lower_kernel(module: ModuleOp, kernel: pallas.KernelOp) -> None:
    """Replaces `kernel`, in `module`, by its function and the functions of its index maps."""
    if (call := call_of(module)) is not None:
        set_call(module, call)
    block = module.body.block
    taken = {op.sym_name.data for op in block.ops if isinstance(op, func.FuncOp)}
    for function in _Kernel(kernel, taken).functions():
        block.insert_op_before(function, kernel)
    kernel.detach()
    kernel.erase()


class _Kernel:
    """Lowers one kernel to a function."""

    def __init__(self, kernel: pallas.KernelOp, taken: set[str]) -> None:
        self.kernel = kernel
        self.taken = taken
        """Names of the module's other functions."""
        self.grid = kernel.grid_shape or ()
        self.maps: list[func.FuncOp] = []
        fuse = kernel.param("fuse_transposed_lhs_in_matmul")
        self.fuse = isinstance(fuse, UnitAttr) or (
            isinstance(fuse, IntegerAttr) and fuse.value.data != 0
        )

    def functions(self) -> list[func.FuncOp]:
        """The kernel's function with the operations of `kernel`, then its index maps."""
        kernel, old = self.kernel, self.kernel.body.block
        specs = kernel.operand_specs.data
        types: list[Attribute] = [
            self._block_type(argument, specs[n] if n < len(specs) else None)
            for n, argument in enumerate(old.args)
        ]
        entry = Block(arg_types=[i32] * len(self.grid) + types)
        indices, refs = entry.args[: len(self.grid)], entry.args[len(self.grid) :]
        converter = self._converter(indices)
        for n, (argument, ref) in enumerate(zip(old.args, refs, strict=True)):
            ref.name_hint = argument.name_hint
            self._hold(converter, argument, ref, specs[n] if n < len(specs) else None)
            argument.replace_all_uses_with(ref)
        for op in list(old.ops):
            op.detach()
            entry.add_op(op)
        end = entry.last_op
        if isinstance(end, pallas.YieldOp):
            end.detach()
            end.erase()
        converter.block(entry)
        finish = func.ReturnOp()
        finish.location = kernel.location
        entry.add_op(finish)
        name = kernel.sym_name.data
        function = func.FuncOp(name, (entry.arg_types, ()), Region(entry))
        function.location = kernel.location
        function.attributes |= self._attributes()
        return [function, *self.maps]

    def _block_type(self, argument: BlockArgument, spec: pallas.OperandAttr | None) -> Attribute:
        """The type of an argument in memory: squeezed dimensions have size 1."""
        type = cast(MemRefType[Attribute], stored_type(argument.type))
        if spec is None or spec.window is None:
            return type
        return MemRefType(type.element_type, spec.window.bounds, memory_space=type.memory_space)

    def _hold(
        self,
        converter: Converter,
        argument: BlockArgument,
        ref: SSAValue,
        spec: pallas.OperandAttr | None,
    ) -> None:
        """Tells `converter` how `ref`, the function's argument for `argument`, differs from it."""
        type = cast(MemRefType[Attribute], argument.type)
        squeezed: frozenset[int] = frozenset()
        if spec is not None and spec.window is not None:
            squeezed = frozenset(d for d, dim in enumerate(spec.window.dims) if dim.squeezed)
        boolean = type.element_type == i1
        if squeezed or boolean:
            converter.hold(ref, Held(ref, squeezed, boolean))

    def _converter(self, indices: tuple[BlockArgument, ...]) -> Converter:
        kernel = self.kernel
        axes = kernel.user_axes
        names: dict[str, SSAValue] = {
            name: indices[axis] for axis, name in enumerate(kernel.axis_names) if name and indices
        }
        programs = Programs([indices[axis] for axis in axes] if indices else (), axes, names)
        return Converter(
            programs,
            fuse_transposed_lhs=self.fuse,
            on_subcores=kernel.on_subcores,
            layout_passes=kernel.layout_passes,
        )

    def _attributes(self) -> dict[str, Attribute]:
        kernel = self.kernel
        attributes: dict[str, Attribute] = {
            "dimension_semantics": ArrayAttr(kernel.known_semantics),
            "scalar_prefetch": IntegerAttr(len(kernel.specs(Role.PREFETCH)), i64),
            "scratch_operands": IntegerAttr(len(kernel.scratch), i64),
            "tpu.core_type": tpu.CoreTypeAttr(tpu.CoreType(kernel.core)),
        }
        if self.grid:
            attributes["iteration_bounds"] = DenseArrayBase.from_list(i64, self.grid)
            attributes["window_params"] = ArrayAttr(self._windows())
        return attributes

    def _windows(self) -> list[Attribute]:
        """The dictionary in `window_params` of each input and output; fills `self.maps`."""
        kernel = self.kernel
        refs = (*kernel.arguments(Role.INPUT), *kernel.arguments(Role.OUTPUT))
        specs = (*kernel.specs(Role.INPUT), *kernel.specs(Role.OUTPUT))
        return [self._window(*pair, n) for n, pair in enumerate(zip(specs, refs, strict=True))]

    def _window(self, spec: pallas.OperandAttr, ref: BlockArgument, number: int) -> Attribute:
        kernel, space = self.kernel, memory_space(ref.type)
        if space in IN_PLACE and not kernel.on_subcores:
            return EMPTY
        whole = default_window(spec.array, len(self.grid))
        if kernel.mesh is not None:
            return DictionaryAttr({"transform_indices": whole.index_map})
        window = spec.window or whole
        symbol = f"transform_{number}"
        if symbol in self.taken:
            symbol = f"{kernel.sym_name.data}_{symbol}"
        map = window.map
        prefetch = kernel.arguments(Role.PREFETCH)
        self.maps.append(
            index_map(
                symbol,
                map if isinstance(map, AffineMap) else kernel.maps[map],
                [i32] * len(self.grid) + [stored_type(argument.type) for argument in prefetch],
                self._map_converter,
                kernel.location,
            )
        )
        trivial = space in ("vmem", None) and window.is_trivial(spec.array)
        return window_params(window, symbol, trivial_vmem=trivial)

    def _map_converter(self, entry: Block) -> Converter:
        """A converter for the index map with the block `entry`.

        Its prefetched refs are held as those of the kernel.
        """
        converter = Converter(Programs(axes=self.kernel.user_axes))
        refs = entry.args[len(self.grid) :]
        for ref, argument in zip(refs, self.kernel.arguments(Role.PREFETCH), strict=True):
            self._hold(converter, argument, ref, None)
        return converter
