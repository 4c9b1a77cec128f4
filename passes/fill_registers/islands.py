"""Islands: sets of values that must all change to another shape if one of them does.

The values of an island of *arrays* have one shape and are connected by elementwise operations.
Those of an island of *matrices* have any rank and the same last two dimensions; they are also
connected by operations that move or combine whole matrices and, if all rows lie in one row of
tiles, whole tiles. Rows, columns and numbers from outside may be broadcast over its matrices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

from xdsl.ir import Attribute, Block, Operation, SSAValue

from pallasite.dialects import arith, func, scf, tpu, vector
from pallasite.dialects.arithmetic import is_arithmetic
from pallasite.dialects.types import (
    bit_width,
    element_of,
    is_vector,
    shape_of,
    splat_value,
    vector_of,
)
from pallasite.dialects.walking import of_kind
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.layouts.vector_layout import VectorLayout
from pallasite.passes.divisibility import constant_of
from pallasite.passes.fill_registers.orders import (
    Order,
    ends_tiles,
    order_of_array,
    order_of_matrices,
    rows_of,
)

STORES = (vector.StoreOp, tpu.VectorStoreOp)


@dataclass(eq=False)
class Island:
    """Values that operations compute from each other, element by element or matrix by matrix."""

    shape: tuple[int, ...]
    """The shape of all values; for matrices, the last two dimensions of the value it was begun
    with."""
    of_matrices: bool = False
    order: Order = ()
    """The order in which all memories of the island have their elements (`orders.Order`)."""
    sound: bool = True
    """Whether nothing else defines or uses the values, and all memories have them in one order."""
    operations: set[Operation] = field(default_factory=set[Operation])
    values: set[SSAValue] = field(default_factory=set[SSAValue])
    spread: set[vector.BroadcastOp] = field(default_factory=set[vector.BroadcastOp])
    """Broadcasts of rows, columns or numbers from outside to values of the island."""

    def lies(self, ref: SSAValue, indices: Sequence[SSAValue], shape: tuple[int, ...]) -> None:
        """Notes the order of another memory that is loaded or stored at `indices`.

        The island is no longer sound if that is another order, or not known.
        """
        find = order_of_matrices if self.of_matrices else order_of_array
        order = find(ref, indices, shape)
        self.sound &= bool(order) and self.order in ((), order)
        self.order = order

    def holds(self, value: SSAValue) -> bool:
        """Whether `value` has a shape of this island."""
        shape = shape_of(value.type)
        if not self.of_matrices:
            return shape == self.shape
        return len(shape) >= 2 and shape[-2] == self.shape[0]

    def settle(self) -> None:
        """Checks, when all values are known, that the columns of the values have the same order in
        memory."""
        if not self.of_matrices or not self.order:
            return
        columns = {shape_of(value.type)[-1] for value in self.values}
        rows, tile = self.order
        self.sound &= len(columns) == 1 or rows <= tile
        self.sound &= all(spread_cost(op, tile) is not None for op in self.spread)

    def seen(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """`shape` as rows of 128, in the order of memory."""
        if self.of_matrices:
            return (*shape[:-2], rows_of(shape, self.order[-1]), LANES)
        return (self.order[-1], LANES)

    def gain(self) -> int:
        """How many registers the change saves: in values that are computed, once more in those that
        are stored, and all registers of those that are reshaped, or accessed where no register
        begins."""
        stored = [op.operands[0] for op in self.operations if isinstance(op, STORES)]
        reshaped = [
            op.result for op in self.operations
            if isinstance(op, vector.ShapeCastOp) and op.result in self.values
            and not _same_matrix(op.source, op.result)
        ]  # fmt: skip
        made = self.values - {op.vector for op in self.spread}
        gain = sum(self._saved(value) for value in [*made, *stored])
        gain -= sum(spread_cost(op, self.order[-1]) or 0 for op in self.spread)
        gain += sum(_registers(value.type) for value in reshaped)
        return gain + sum(_registers(value.type) for value in self._cut())

    def _cut(self) -> Iterator[SSAValue]:
        """The packed values that are loaded or stored at a row that does not begin a register."""
        for op in self.operations:
            if not isinstance(op, vector.LoadOp | vector.StoreOp | tpu.VectorStoreOp):
                continue
            value = op.operands[0] if isinstance(op, STORES) else op.results[0]
            row = constant_of(op.indices[-2]) if len(op.indices) > 1 else 0
            bits = bit_width(value.type)
            if row is not None and bits < 32 and row % (SUBLANES * packing(bits)):
                yield value

    def _saved(self, value: SSAValue) -> int:
        """How many registers `value` saves as rows of 128; 0 for masks, which count with the values
        they select."""
        seen = vector_of(element_of(value), self.seen(shape_of(value.type)))
        return _registers(value.type) - _registers(seen) if bit_width(value.type) > 1 else 0


@lru_cache(maxsize=1 << 10)
def _registers(kind: Attribute) -> int:
    """The registers of a vector type, in native tiles or, of one dimension, in rows of 128
    words."""
    bits, shape = bit_width(kind), shape_of(kind)
    if len(shape) == 1:
        return VectorLayout(bits, None, 0, tile_rows=packing(bits)).register_count(shape)
    return VectorLayout.native(len(shape), bits).register_count(shape)


def islands_of(function: func.FuncOp, of_matrices: bool) -> dict[SSAValue, Island]:
    """The island of each value that belongs to one; islands of arrays start at loads and
    reshapes."""
    starts = (vector.LoadOp,) if of_matrices else (vector.LoadOp, vector.ShapeCastOp)
    homes: dict[SSAValue, Island] = {}
    for op in of_kind(function, *starts):
        if op.results[0] not in homes:
            shape = shape_of(op.results[0].type)
            island = Island(shape[-2:] if of_matrices else shape, of_matrices)
            _explore(island, op.results[0], homes)
            island.settle()
    return homes


def splats_of(function: func.FuncOp) -> Iterator[Island]:
    """Sound islands that are a store of one number each."""
    for op in of_kind(function, *STORES):
        if is_one_value(op.operands[0]):
            shape = shape_of(op.operands[0].type)
            for of_matrices in (False, True):
                island = Island(shape[-2:] if of_matrices else shape, of_matrices)
                island.operations.add(op)
                _joined(op, op.operands[0], island)
                if island.sound:
                    yield island
                    break


def _explore(island: Island, start: SSAValue, homes: dict[SSAValue, Island]) -> None:
    """Adds to `island` all values that operations connect with `start`."""
    waiting = [start]
    while waiting:
        value = waiting.pop()
        if value in island.values:
            continue
        if not island.holds(value):
            island.sound = False
            continue
        island.values.add(value)
        homes[value] = island
        owner = value.owner
        maker = owner.parent_op() if isinstance(owner, Block) else owner
        users = [maker, *(use.operation for use in value.uses)]
        for op in dict.fromkeys(op for op in users if op is not None):
            island.operations.add(op)
            waiting += _joined(op, value, island)


def _joined(op: Operation, value: SSAValue, island: Island) -> list[SSAValue]:
    """The values that `op` connects with `value` of `island`; notes what makes the island
    unsound."""
    if is_arithmetic(op) and type(op) is not arith.ConstantOp:
        return _vectors([*op.operands, *op.results])
    if isinstance(op, vector.LoadOp):
        island.lies(op.base, op.indices, shape_of(op.result.type))
        return []
    if isinstance(op, STORES):
        plain = op.operands[0] is value and (
            isinstance(op, vector.StoreOp) or (op.mask is None and not op.add.value.data)
        )
        if plain:
            shape = shape_of(value.type)
            island.lies(op.base, op.indices, shape)
            plain = not island.of_matrices or ends_tiles(op.base, op.indices, shape)
        island.sound &= plain
        return []
    if isinstance(op, scf.ForOp | scf.YieldOp):
        return _carried_with(op, value, island)
    if isinstance(op, vector.ShapeCastOp) and not island.of_matrices:
        return []
    if isinstance(op, vector.BroadcastOp) and island.of_matrices and not moves_matrices(op):
        # What is broadcast must come from outside the island.
        island.sound &= value is op.vector and value is not op.source
        island.spread.add(op)
        return []
    if island.of_matrices and moves_matrices(op):
        return _vectors([*op.operands, *op.results])
    island.sound = False
    return []


def _vectors(values: Iterable[SSAValue]) -> list[SSAValue]:
    """Those of `values` that are vectors, and not one number everywhere."""
    return [v for v in values if is_vector(v) and not is_one_value(v)]


def _carried_with(op: scf.ForOp | scf.YieldOp, value: SSAValue, island: Island) -> list[SSAValue]:
    """The values that a loop carries together with `value`: argument, initial value, yielded value
    and result."""
    loop = op if isinstance(op, scf.ForOp) else op.parent_op()
    if not isinstance(loop, scf.ForOp):
        island.sound = False
        return []
    body = loop.body.block
    last = cast(Operation, body.last_op)
    # A loop may yield a constant, so its terminator may not be found through values.
    island.operations |= {loop, last}
    chains = zip(loop.iter_args, body.args[1:], last.operands, loop.res, strict=True)
    return _vectors(v for chain in chains if value in chain for v in chain)


def moves_matrices(op: Operation) -> bool:
    """Whether `op` moves, repeats, counts or combines whole matrices."""
    if isinstance(op, vector.ShapeCastOp):
        return _same_matrix(op.source, op.result)
    if isinstance(op, vector.BroadcastOp):
        return _same_matrix(op.source, op.vector)
    if isinstance(op, vector.ExtractStridedSliceOp):
        return _same_matrix(op.source, op.result) or _takes_tiles(op)
    if isinstance(op, vector.TransposeOp):
        moved, rank = op.permutation.get_values(), len(shape_of(op.result.type))
        return rank >= 2 and tuple(moved[-2:]) == (rank - 2, rank - 1)
    rank = len(shape_of(op.results[0].type)) if op.results else 0
    if isinstance(op, tpu.ConcatenateOp):
        dim, whole = op.dimension.value.data, op.sources[:-1]
        tiles = dim == rank - 1 and all(shape_of(v.type)[-1] % LANES == 0 for v in whole)
        return rank >= 2 and (dim < rank - 2 or tiles)
    if isinstance(op, tpu.IotaOp):
        return all(dim < rank - 2 for dim in op.dimensions.get_values())
    if isinstance(op, vector.MultiReductionOp):
        outer = len(shape_of(op.source.type)) - 2
        return all(dim < outer for dim in op.reduction_dims.get_values())
    return False


def _same_matrix(one: SSAValue, other: SSAValue) -> bool:
    """Whether both values have the same last two dimensions."""
    matrix = shape_of(one.type)[-2:]
    return len(matrix) == 2 and matrix == shape_of(other.type)[-2:]


def _takes_tiles(op: vector.ExtractStridedSliceOp) -> bool:
    """Whether `op` takes all rows, and adjacent columns from the first column of a tile on."""
    old, new = shape_of(op.source.type), shape_of(op.result.type)
    named = len(op.offsets)
    if len(new) < 2 or new[-2] != old[-2] or named < len(new):
        return False
    if op.strides.data[-1].value.data != 1:
        return False
    return op.offsets.data[-1].value.data % LANES == 0


def spread_cost(op: vector.BroadcastOp, tile: int) -> int | None:
    """The register operations that it takes to broadcast a row, a column or a number over matrices
    viewed as rows of 128, whose tiles have `tile` rows; None if that is not possible."""
    shape = shape_of(op.vector.type)
    source = (*[1] * (len(shape) - len(shape_of(op.source.type))), *shape_of(op.source.type))
    one_row_of_tiles = shape[-2] == tile
    if source[-2:] == (1, 1):
        return 0
    whole_tiles = source[-2] == 1 and source[-1] == shape[-1] and shape[-1] % LANES == 0
    if not one_row_of_tiles or not (whole_tiles or source[-2:] == (tile, 1)):
        return None
    rows = (*source[:-2], rows_of(shape, tile), LANES)
    return _registers(vector_of(element_of(op.vector), rows))


def is_one_value(value: SSAValue) -> bool:
    """Whether all elements are one number, so that a vector of any shape can have them."""
    owner = value.owner
    if type(owner) is vector.BroadcastOp:
        return not is_vector(owner.source)
    return type(owner) is arith.ConstantOp and splat_value(owner.value) is not None
