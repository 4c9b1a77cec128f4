"""`vectors-to-tiles`: every vector value becomes a grid of registers in a chosen layout.

    %v = vector.load %ref[%c0, %c0] : memref<16x256xf32, ...>, vector<16x256xf32>
becomes
    %v = tpu.load %ref[%c0, %c0] sublanes [...] {grid.steps = array<i64: 8, 128>}
         : memref<16x256xf32, ...>, vector<2x2x8x128xf32>

Needs the `dma` form with tiled memrefs (`infer-memref-layout`) and operations the target executes
(`canonicalize-mosaic`); leaves the `tiles` form. Each rule lives in a file of its family and is
written once for grids of any size, so the number of operations does not depend on the block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    ModuleOp,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from pallasite import collection
from pallasite.diagnostics import Unsupported
from pallasite.dialects import arith, func, grid, tpu
from pallasite.dialects.grid_base import Renaming, grid_of
from pallasite.dialects.in_words import in_words
from pallasite.dialects.kernel import set_form
from pallasite.dialects.locations import refusal, source_location
from pallasite.dialects.subcores import lowered_functions
from pallasite.dialects.tpu.base import si32
from pallasite.dialects.types import bit_width, element_of, is_vector, shape_of
from pallasite.dialects.walking import operations_of
from pallasite.layouts.move import Move
from pallasite.layouts.planner.costs import Costs
from pallasite.layouts.planner.planner import plan
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.lowering.vectors_to_tiles.moved_words import PackedRegisters
from pallasite.lowering.vectors_to_tiles.movement import emit
from pallasite.lowering.vectors_to_tiles.offers import Offer, Smaller
from pallasite.lowering.vectors_to_tiles.tiled import Tiled, is_free
from pallasite.passes.dead_code import drop, remove_dead_code
from pallasite.passes.insertion import Insertion
from pallasite.passes.rules import LastRules
from pallasite.targets import DEFAULT_TARGET, Target, get_target

if TYPE_CHECKING:
    from pallasite.lowering.vectors_to_tiles.chains import Moved


Rule = Callable[..., None]
"""The lowering `(op, converter)` of an operation."""

_RULES = LastRules[Rule]()
rule = _RULES.rule


class Converter(Insertion):
    """Walks one function and replaces vectors by grids; rules read and define values through it.

    New operations are inserted before the operation under conversion. That one stays until the end:
    it marks the place after which later changes of layout of its results are inserted. A value that
    is wanted in one more layout is thus moved once.
    """

    def __init__(self, target: Target, *, dense: bool = False, spread_carries: bool = True) -> None:
        """`dense` and `spread_carries` are choices that `filling.py` tries both ways (see the
        attributes)."""
        self.target = target
        self.dense = dense
        """Whether small tiles of memory fill the registers that are loaded (`dense.py`)."""
        self.spread_carries = spread_carries
        """Whether what comes from reductions crosses the borders of regions as they leave it."""
        self.spreads_carries = False
        """Whether a value did so in another layout than the native one."""
        self.borders: list[tuple[VectorLayout | None, ...]] = []
        """What the regions under conversion yield (`carried.borders`), the outermost first."""
        self.costs = Costs.of(target)
        self._values: dict[SSAValue, Tiled] = {}
        self._relayouts: dict[tuple[SSAValue, VectorLayout], Tiled] = {}
        self._spread: dict[tuple[SSAValue, int, VectorLayout], SSAValue] = {}
        self._old: list[Operation] = []
        self._places: dict[SSAValue, Block | Operation] = {}
        self._offers: dict[SSAValue, Offer] = {}
        self._forms: dict[tuple[str, SSAValue], Callable[..., SSAValue | None]] = {}
        self._smaller: dict[SSAValue, Smaller] = {}
        self.moves: dict[SSAValue, Moved] = {}

    def run(self, function: func.FuncOp) -> None:
        """Converts the body of `function`.

        Raises `Unsupported` if it takes vectors, which kernels and index maps do not, and for
        operations without a rule.
        """
        if any([is_vector(argument) for argument in function.args]):
            raise self.unsupported(
                function,
                "function-call",
                f"function @{function.sym_name.data} takes vectors",
                "functions of a kernel's module are index maps",
                "put the operations of the function in the place of its calls",
            )
        for block in function.body.blocks:
            self.block(block)
        for op in reversed(self._old):
            if any([result.first_use is not None for result in op.results]):
                op.detach()
                op.erase(safe_erase=False)
            else:
                drop(op)
        for block in function.body.blocks:
            remove_dead_code(block)

    def block(self, block: Block) -> None:
        """Converts the operations of `block` in order."""
        self.convert(operations_of(block))

    def convert(self, operations: Sequence[Operation]) -> None:
        """Converts `operations` in order."""
        for op in operations:
            self._operation(op)

    def _operation(self, op: Operation) -> None:
        """Converts one operation by its rule; operations without vectors and regions stay."""
        if not op.regions and not any([is_vector(v) for v in (*op.operands, *op.results)]):
            return
        chosen = _RULES.of.get(type(op))
        if chosen is None:
            raise self.unsupported(
                op,
                "no-tile-rule",
                f"{in_words(op)} cannot be lowered to registers",
                "use the operations that JAX emits for kernels",
            )
        with self.standing(op):
            chosen(op, self)

    @property
    def anchor(self) -> Operation:
        """The operation under conversion."""
        assert self._anchor is not None
        return self._anchor

    def retire(self, op: Operation) -> None:
        """Marks `op` as replaced; it is erased when the whole function is converted."""
        self._old.append(op)

    unsupported = staticmethod(refusal)

    # Values.

    def tiled(self, value: SSAValue) -> Tiled:
        """The registers of vector `value`, in whatever layout it has."""
        return self._values[value]

    def is_known(self, value: SSAValue) -> bool:
        """Whether vector `value` is converted."""
        return value in self._values

    def define(self, value: SSAValue, grid: SSAValue, layout: VectorLayout) -> None:
        """Records that vector `value` is held by `grid` in `layout`."""
        grid.name_hint = value.name_hint
        self._values[value] = Tiled(grid, layout, shape_of(value.type))

    def in_layout(self, value: SSAValue, layout: VectorLayout) -> SSAValue:
        """The grid of `value` in `layout`; a change of layout is placed behind its definition."""
        served = self.served(value, layout)
        if served is not None:
            return served
        held = self._values[value]
        with self.standing(self._behind(value)):
            smaller = self.smaller(value)
            if smaller is not None and smaller.cost(layout) is not None:
                moved = Tiled(smaller.make(layout), layout, held.shape)
            else:
                moved = self.relayout(held, layout)
        self._relayouts[value, layout] = moved
        return moved.grid

    def is_held(self, value: SSAValue, layout: VectorLayout) -> bool:
        """Whether `value` is there in `layout`."""
        return self._values[value].layout == layout or (value, layout) in self._relayouts

    def served(self, value: SSAValue, layout: VectorLayout) -> SSAValue | None:
        """The grid of `value` in `layout` if that needs no movement: it is there already, or
        offered."""
        held = self._values[value]
        if held.layout == layout:
            return held.grid
        key = (value, layout)
        if key in self._relayouts:
            return self._relayouts[key].grid
        if value not in self._offers or is_free(held, layout):
            return None
        with self.standing(self._behind(value)):
            grid = self._offers[value](layout)
        if grid is not None:
            self._relayouts[key] = Tiled(grid, layout, held.shape)
        return grid

    def offer(self, value: SSAValue, make: Offer) -> None:
        """Offers `value` in other layouts: `make(layout)` gives it without moving it, or None."""
        self._offers[value] = make

    def offer_smaller(self, value: SSAValue, offer: Smaller) -> None:
        """Offers `value` in layouts in which moving its operands, instead of itself, is cheaper."""
        self._smaller[value] = offer

    def smaller(self, value: SSAValue) -> Smaller | None:
        """The offer that was made with `offer_smaller`."""
        return self._smaller.get(value)

    def offer_form(self, form: str, value: SSAValue, make: Callable[..., SSAValue | None]) -> None:
        """Offers another `form` of `value`, which `make(layout, ...)` gives, or None. The forms are

        * `words`: the i32 words of packed `value`, with fewer rows;
        * `filled`: `value` with its last row repeated in the rows of padding after it;
        * `rows`: its rows in another order;
        * `stacked`: registers shared by neighbours along the last leading dimension;
        * `flat rows`: a register for each row of words of a one-dimensional value;
        * `mask`: a mask for packed data.
        """
        self._forms[form, value] = make

    def offers(self, form: str, value: SSAValue) -> bool:
        """Whether `form` of `value` is offered."""
        return (form, value) in self._forms

    def form(self, form: str, value: SSAValue, *wanted: object) -> SSAValue | None:
        """A form of `value` (`offer_form`) in a layout, if that is offered."""
        make = self._forms.get((form, value))
        if make is None:
            return None
        with self.standing(self._behind(value)):
            return make(*wanted)

    def relayout(self, held: Tiled, layout: VectorLayout) -> Tiled:
        """`held` in `layout`, computed here."""
        from pallasite.lowering.vectors_to_tiles.relayout import relayout

        if held.layout == layout:
            return held
        return Tiled(relayout(held, layout, self), layout, held.shape)

    def place(self, value: SSAValue, place: Block | Operation) -> None:
        """Says that carried vector `value` is defined at the start of a block, or by an
        operation."""
        self._places[value] = place

    def _behind(self, value: SSAValue) -> Operation:
        owner = self._places.get(value, value.owner)
        if isinstance(owner, Operation):
            return owner
        first = owner.first_op
        assert first is not None, "a block ends in a terminator"
        return first

    def spread(
        self, value: SSAValue, lift: Callable[[], Tiled], rank: int, layout: VectorLayout
    ) -> SSAValue:
        """`value` in `layout`, with dimensions of size 1 in front up to `rank`, which `lift` gives
        it.

        The result is kept with the value, so that a row or column that is replicated once serves
        all its broadcasts.
        """
        if rank == len(self._values[value].shape):
            return self.in_layout(value, layout)
        key = (value, rank, layout)
        if key not in self._spread:
            with self.standing(self._behind(value)):
                self._spread[key] = self.relayout(lift(), layout).grid
        return self._spread[key]

    def move(self, move: Move, sources: Sequence[SSAValue]) -> SSAValue:
        """Emits the cheapest plan of `move` on the grids `sources`, and returns the moved grid.

        Raises `Unsupported` if there is none.
        """
        try:
            planned = plan(move, self.costs)
        except Unsupported as error:
            error.location = error.location or source_location(self.anchor)
            raise
        packed = PackedRegisters(self.target.max_mask_subelements, self.target.rotate_bits)
        return emit(planned, sources, self.emit, packed)

    # Operations.

    def emit(self, op: Operation) -> SSAValue:
        """Inserts `op` before the operation under conversion and returns its first result.

        A renaming that keeps all registers in place is left out: its operand is returned.
        """
        if isinstance(op, Renaming) and op.keeps_all:
            value = op.value
            op.erase()
            return value
        return super().emit(op)

    def box(self, value: SSAValue, offsets: Sequence[int], sizes: Sequence[int]) -> SSAValue:
        """The registers of grid `value` in a box; `value` itself if that is all of them."""
        if grid_of(value) == tuple(sizes):
            return value
        return self.emit(grid.SliceOp(value, offsets, sizes))

    def bitcast(self, value: SSAValue, kind: Attribute) -> SSAValue:
        """The same register bits under another element type."""
        if value.type == kind:
            return value
        return self.emit(tpu.BitcastVregOp.create(operands=[value], result_types=[kind]))

    def rotate(self, value: SSAValue, amount: SSAValue, axis: int, stride: int = 0) -> SSAValue:
        """Registers rotated towards higher indices along dimension `axis` of the grid's type; each
        sublane by `stride` more than the one before."""
        numbers = {"dimension": axis}
        if stride:
            numbers |= {"stride": stride, "stride_dimension": axis - 1}
        made = tpu.DynamicRotateOp.create(
            operands=[value, amount],
            result_types=[value.type],
            properties={name: IntegerAttr(number, si32) for name, number in numbers.items()},
        )
        return self.emit(made)

    def constant_index(self, value: int) -> SSAValue:
        """The constant `value : index`."""
        return self.emit(arith.ConstantOp(IntegerAttr(value, IndexType())))

    def constant_i32(self, value: int) -> SSAValue:
        """The constant `value : i32`."""
        return self.emit(arith.ConstantOp(IntegerAttr(value, 32)))

    def native(self, value: SSAValue) -> VectorLayout:
        """The layout that most operations need: native tiles, element 0 in the corner."""
        held = self._values[value]
        return VectorLayout.native(len(held.shape), held.layout.bits)

    def mask_bits(self, value: SSAValue) -> int:
        """Bits of an element of `value`; of a mask, those of the data that it is for."""
        held = self._values.get(value)
        return held.layout.bits if held is not None else bit_width(element_of(value))

    def rebind(self, old: SSAValue, new: Tiled) -> None:
        """Records `new` for vector `old` as it is."""
        self._values[old] = replace(new, shape=shape_of(old.type))


@dataclass(frozen=True)
class VectorsToTilesPass(ModulePass):
    """Lowers vectors to grids of registers."""

    name = "vectors-to-tiles"

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from pallasite.lowering.vectors_to_tiles import rules
        from pallasite.lowering.vectors_to_tiles.filling import convert

        rules.load()
        target = get_target(self.target)
        with collection.paused():
            for function in list(lowered_functions(op)):
                if function.body.blocks:
                    convert(function, target)
        set_form(op, "tiles")
