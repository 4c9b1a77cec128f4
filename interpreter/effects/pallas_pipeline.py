"""Nested pipelines, by their sequential meaning (spec/pallas_semantics.md section 2).

What section 1.7 says of a kernel's blocks holds here too, so `windows.Block` does the work: an
input block is fetched when its index changes, an output block is written back when its index is
about to change and after the last step. An output block that is visited again later is not
fetched, its contents are undefined. A ref in the memory of its blocks is not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Attribute

from pallasite.diagnostics import SourceLocation
from pallasite.dialects import pallas
from pallasite.dialects.kernel import IN_PLACE, Window
from pallasite.dialects.locations import source_location
from pallasite.dialects.pallas import DimKind
from pallasite.dialects.types import memory_space
from pallasite.interpreter import pallas_steps
from pallasite.interpreter.blocks import Block, Index, Operand
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.rounding import check_rounded, reach, spoil_behind
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.meanings import Facts, Function, effect, meaning


def first_element(window: pallas.WindowAttr, index: Index) -> list[int]:
    """Where the block at `index` begins, whose sizes known at run time `index` holds, too."""
    values = iter(index)
    place: list[int] = []
    for dim in window.dims:
        position = next(values)
        if dim.kind is DimKind.BOUNDED:
            next(values)
        place.append(position * dim.size if dim.kind is DimKind.BLOCKED else position)
    return place


class _Block(Block):
    """The buffers of one operand of a pipeline; its index may hold run-time sizes."""

    def __init__(
        self,
        core: Core,
        operand: Operand,
        window: pallas.WindowAttr,
        type: Attribute,
        location: SourceLocation | None,
    ):
        self.spec = window
        self._tiles = {
            d: operand.ref.blocks[d]
            for d, dim in enumerate(window.dims)
            if dim.kind is DimKind.BOUNDED
        }
        """Elements of a tile in each bounded dimension: whole tiles are transferred."""
        squeezed = tuple(d for d, dim in enumerate(window.dims) if dim.squeezed)
        # One window is as good as several here: nothing is fetched ahead.
        plain = Window(window.bounds, "", buffers=window.buffers, squeezed=squeezed)
        super().__init__(core, operand, plain, type, location)

    def _inside(self, index: Index, step: Index) -> list[tuple[int, int, int]]:
        values = iter(index)
        box: list[tuple[int, int, int]] = []
        for dim, extent in zip(self.spec.dims, self.operand.ref.shape, strict=True):
            position, size = next(values), dim.size
            if dim.kind is DimKind.BOUNDED:
                size = min(next(values), size)
            start = position * size if dim.kind is DimKind.BLOCKED else position - dim.low
            if size == 0 and start >= 0:
                box.append((min(start, extent), 0, 0))
                continue
            first, last = max(start, 0), min(start + size, extent)
            if first >= last or (start < 0 and not dim.low):
                raise self._outside(index, step)
            box.append((first, first - start, last - first))
        return box

    def _place(self, index: Index) -> Sequence[int]:
        return first_element(self.spec, index)

    def _copy(self, box: list[tuple[int, int, int]], *, store: bool) -> None:
        super()._copy(box, store=store)
        if not self._tiles:
            return
        ends = self._ends(box)
        starts, sizes = [part[0] for part in box], ends[0].shape
        check_rounded(self.operand.ref, starts, sizes, self._tiles, self.location)
        target = ends[0 if store else 1]
        rounded = reach(target, self._tiles)
        if rounded is not None:
            spoil_behind(target, rounded.shape)
            if not store:
                # A kernel may load its blocks whole.
                rounded.mark_whole()


class _Place:
    """An operand that the body sees where it is: no buffer, no copies."""

    def __init__(self, ref: Ref, window: pallas.WindowAttr, location: SourceLocation | None):
        self.base = ref
        self.window = window
        self.location = location
        self.kept = [d for d, dim in enumerate(window.dims) if not dim.squeezed]
        self.index: Index | None = None
        self.ref = ref

    def enter(self, index: Index, step: Index, number: int) -> None:
        """Makes `index` the current block."""
        self.index = index
        starts = first_element(self.window, index)
        self.ref = self.base.slice(starts, self.window.bounds, self.location).keep(self.kept)

    def leave(self, number: int) -> None:
        """Nothing to write back."""


class Pipeline:
    """One run of a pipeline on a core."""

    def __init__(self, core: Core, op: pallas_steps.OpenOp, refs: tuple[Ref, ...]):
        self.core = core
        self.token = core.mark()
        self.number = 0
        """Steps entered so far."""
        self.synchronous = op.no_pipelining is not None
        location = source_location(op)
        inputs = op.inputs.data
        self.counts = [window.results for window in op.windows]
        self.blocks: list[_Block | _Place] = []
        self.number = 0
        """Steps so far."""
        rows = zip(refs, op.refs, op.windows, op.blocks, strict=True)
        for number, (ref, operand, window, type) in enumerate(rows):
            space = memory_space(type)
            if space in IN_PLACE or space == memory_space(operand.type):
                self.blocks.append(_Place(ref, window, location))
                continue
            output = number >= inputs
            name = f"output {number - inputs}" if output else f"input {number}"
            # Blocks of a pipeline may be visited again: nothing says what they hold then.
            array = Operand(f"{name} of the pipeline", ref, ref, output, aliased=True)
            self.blocks.append(_Block(core, array, window, type, location))

    def enter(self, step: Index, values: tuple[int, ...]) -> tuple[Ref, ...]:
        """Leaves blocks whose index changes, enters the new ones, and gives their refs."""
        indices: list[Index] = []
        for count in self.counts:
            indices.append(values[:count])
            values = values[count:]
        for block, index in zip(self.blocks, indices, strict=True):
            if self.synchronous or block.index not in (None, index):
                block.leave(self.number)
            if self.synchronous and isinstance(block, _Block) and not block.operand.output:
                block.index = None  # Every step fetches its inputs; outputs keep what they hold.
        for block, index in zip(self.blocks, indices, strict=True):
            block.enter(index, step, self.number)
        self.number += 1
        return tuple(block.ref for block in self.blocks)

    def leave(self) -> None:
        """Writes every current block back; none is current then."""
        for block in self.blocks:
            block.leave(self.number)
            block.index = None

    def close(self) -> None:
        """Ends the pipeline."""
        self.leave()
        self.core.release(self.token)


@meaning(pallas_steps.MapOp)
def affine(op: pallas_steps.MapOp, facts: Facts) -> Function:
    """The results of the map at a position."""
    map = op.map.data
    dims = [dim.data for dim in op.dims]
    single = len(map.results) == 1

    def fn(*given: int) -> Any:
        positions = [0] * map.num_dims
        for dim, position in zip(dims, given, strict=True):
            positions[dim] = position
        values = map.eval(positions, ())
        return values[0] if single else tuple(values)

    return fn


@effect(pallas_steps.OpenOp)
def opening(op: pallas_steps.OpenOp, facts: Facts) -> Callable[..., Pipeline]:
    """A fresh pipeline; its blocks are undefined."""

    def fn(core: Core, *refs: Ref) -> Pipeline:
        return Pipeline(core, op, refs)

    return fn


@effect(pallas_steps.EnterOp)
def entering(op: pallas_steps.EnterOp, facts: Facts) -> Callable[..., Any]:
    """The refs of one step."""
    rank = len(op.positions)
    single = len(op.refs) == 1

    def fn(core: Core, pipeline: Pipeline, *values: int) -> Any:
        refs = pipeline.enter(values[:rank], values[rank:])
        return refs[0] if single else refs

    return fn


@effect(pallas_steps.CloseOp)
def closing(op: pallas_steps.CloseOp, facts: Facts) -> Callable[..., None]:
    """The end."""

    def fn(core: Core, pipeline: Pipeline) -> None:
        pipeline.close()

    return fn
