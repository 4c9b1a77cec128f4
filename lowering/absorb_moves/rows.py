"""Stores of neighbouring single rows become one store of all of them.

    tpu.vector_store %b[%c0, %z], %f(%a[7])        %x = vector.load %a[%c0, %z] : vector<8x128xf32>
    tpu.vector_store %b[%c1, %z], %f(%a[6])  ->    %y = tpu.gather %x[[7, 6, ...]] in 0
    ...                                            tpu.vector_store %b[%c0, %z], %f(%y)

What is stored must be computed in the same way, from rows of one buffer and from values that are
the same for all rows. Between the first and the last store of a group nothing else may touch the
memory that it writes, and nothing may write the memory that it reads. Waits and loops end a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefType,
    VectorType,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from pallasite.dialects import arith, tpu, vector
from pallasite.dialects import memref as memref_dialect
from pallasite.dialects.types import bit_width, element_type, shape_of, splat, splat_value
from pallasite.dialects.vector_shapes import integers
from pallasite.dialects.walking import operations_of
from pallasite.layouts.registers import SUBLANES, packing
from pallasite.lowering.absorb_moves.memory import ELEMENTWISE, buffer_of, is_known
from pallasite.passes.divisibility import constant_of
from pallasite.passes.effects import has_no_effects
from pallasite.passes.insertion import alike, insert_before

_LOADS = (vector.LoadOp, memref_dialect.LoadOp)

_WIDTHS = (8, 16, 32)
"""Widths, in bits, of the elements whose rows are merged."""
_REGISTERS = 4
"""Registers, one below the other, from which packed rows may be picked."""

Build = Callable[[Operation], SSAValue]
"""Inserts, before the given operation, what computes all rows, and returns the matrix."""


@dataclass
class _Stretch:
    """Operations of a block between which memory is only loaded and stored.

    `positions` numbers them in order, and `groups` collects stores that may be merged (`_group`).
    """

    positions: dict[Operation, int] = field(default_factory=dict[Operation, int])
    loads: set[Operation] = field(default_factory=set[Operation])
    touched: dict[SSAValue, list[Operation]] = field(
        default_factory=dict[SSAValue, list[Operation]]
    )
    """By buffer: the stores to it, and the loads from it whose results are used."""
    groups: dict[object, list[tpu.VectorStoreOp]] = field(
        default_factory=dict[object, list[tpu.VectorStoreOp]]
    )

    def alone(self, stores: Sequence[tpu.VectorStoreOp]) -> bool:
        """Whether nothing else touches the buffer of `stores` between the first and the last of
        them."""
        target = buffer_of(stores[0].base)
        if target is None:
            return False
        between = range(*(self.positions[store] for store in (stores[0], stores[-1])))
        others = set(self.touched[target]) - set(stores)
        return not any(self.positions[op] in between for op in others)

    def writes(self, buffer: SSAValue) -> bool:
        """Whether some store of the stretch is to `buffer`."""
        return any(isinstance(op, tpu.VectorStoreOp) for op in self.touched.get(buffer, ()))


def merge_rows(block: Block) -> None:
    """Merges the stores of single rows in `block`, but not in nested blocks."""
    for stretch in list(_stretches(block)):
        for stores in stretch.groups.values():
            if len(stores) > 1 and stretch.alone(stores):
                _merge_group(stores, stretch)


def _stretches(block: Block) -> Iterator[_Stretch]:
    """The stretches of `block`, which waits, loops and other effects separate."""
    stretch = _Stretch()
    for position, op in enumerate(operations_of(block)):
        if type(op) in _LOADS and is_known(op.operands[0]):
            stretch.loads.add(op)
            stretch.positions[op] = position
            buffer = buffer_of(op.operands[0])
            # A load of what a whole buffer held before is dead if nobody uses it.
            if buffer is not None and any(result.first_use is not None for result in op.results):
                stretch.touched.setdefault(buffer, []).append(op)
        elif type(op) is tpu.VectorStoreOp and (buffer := buffer_of(op.base)) is not None:
            stretch.positions[op] = position
            stretch.touched.setdefault(buffer, []).append(op)
            stretch.groups.setdefault(_group(op), []).append(op)
        elif op.regions or not has_no_effects(op):
            yield stretch
            stretch = _Stretch()
    yield stretch


def _group(store: tpu.VectorStoreOp) -> object:
    """A key that is equal for stores of single rows that differ in their row only; else the
    store."""
    shape = shape_of(store.value.type)
    kind = store.base.type
    plain = store.mask is None and not store.add.value.data
    if not plain or len(shape) < 2 or any(n != 1 for n in shape[:-1]):
        return store
    if len(store.indices) != len(shape):
        return store
    if bit_width(kind.element_type) not in _WIDTHS or constant_of(store.indices[-2]) is None:
        return store
    keys = [_index_key(i) for n, i in enumerate(store.indices) if n != len(shape) - 2]
    return (store.base, store.value.type, *keys)


def _index_key(index: SSAValue) -> object:
    """The number that an index is, if it is constant, or its value."""
    known = constant_of(index)
    return index if known is None else known


def _merge_group(stores: Sequence[tpu.VectorStoreOp], stretch: _Stretch) -> None:
    """Replaces stores of neighbouring rows by one, register by register, before the last of
    them."""
    rows = {constant_of(store.indices[-2]): store for store in stores}
    if len(rows) < len(stores):
        return
    order = {store: n for n, store in enumerate(stores)}
    most = _register_rows(stores[0].base.type)
    for chunk in _chunks(sorted(cast("dict[int, object]", rows)), most):
        members = [rows[row] for row in chunk]
        value = _together([m.value for m in members], stretch)
        if value is None:
            continue
        last = max(members, key=order.__getitem__)
        kind = members[0].value.type
        *lead, _, columns = kind.get_shape()
        wanted = VectorType(kind.element_type, (*lead, len(chunk), columns))
        whole = _cast(value(last), wanted, last)
        merged = alike(last, [whole, members[0].base, *members[0].indices], ())
        merged.location = members[0].location
        Rewriter.insert_op(merged, InsertPoint.before(last))
        for member in members:
            member.detach()
            member.erase()


def _register_rows(kind: Attribute) -> int:
    """Rows of a native register of elements of a vector or memref type."""
    return SUBLANES * packing(bit_width(kind))


def _chunks(rows: Sequence[int], most: int) -> Iterator[list[int]]:
    """Neighbouring rows of `rows`, cut where a register of `most` rows begins; single ones are left
    out.

    With `most` 8, the rows 6, 7, 8, 9, 12 become [6, 7] and [8, 9].
    """
    chunk: list[int] = []
    for row in rows:
        if chunk and (row != chunk[-1] + 1 or row % most == 0):
            if len(chunk) > 1:
                yield chunk
            chunk = []
        chunk.append(row)
    if len(chunk) > 1:
        yield chunk


def _cast(value: SSAValue, kind: VectorType[Attribute], anchor: Operation) -> SSAValue:
    """`value` as a vector of type `kind`, by a `vector.shape_cast` if it is not one."""
    return value if value.type == kind else insert_before(vector.ShapeCastOp(value, kind), anchor)


def _together(rows: Sequence[SSAValue], stretch: _Stretch) -> Build | None:
    """How to compute all of `rows`, each one row of a length, as one matrix; None if they are not
    alike."""
    one = rows[0]
    columns = shape_of(one.type)[-1]
    wanted = VectorType(element_type(one.type), (len(rows), columns))
    splats = {_splat(row) for row in rows}
    if len(splats) == 1 and None not in splats:
        return lambda anchor: _spread(one, wanted, anchor)
    owners = [row.owner for row in rows]
    first = owners[0]
    if any(type(owner) is not type(first) for owner in owners):
        return None
    if not isinstance(first, Operation) or not all(row.has_one_use() for row in rows):
        return None
    operations = cast(Sequence[Operation], owners)
    if isinstance(first, vector.ShapeCastOp):
        source = shape_of(first.operands[0].type)
        if any(n != 1 for n in source[:-1]) or source[-1] != columns:
            return None
        return _together([op.operands[0] for op in operations], stretch)
    if isinstance(first, vector.LoadOp):
        return _loaded(cast(Sequence[vector.LoadOp], operations), wanted, stretch)
    if isinstance(first, ELEMENTWISE) and len(first.results) == 1:
        return _computed(operations, wanted, stretch)
    return None


def _splat(row: SSAValue) -> object:
    """A key of the constant or the scalar that every element of `row` is; None if there is none."""
    owner = row.owner
    if isinstance(owner, arith.ConstantOp):
        number = splat_value(owner.value)
        return None if number is None else ("constant", repr(number))
    if isinstance(owner, vector.BroadcastOp) and not isinstance(owner.source.type, VectorType):
        scalar = owner.source.owner
        return scalar.value if isinstance(scalar, arith.ConstantOp) else owner.source
    return None


def _spread(row: SSAValue, wanted: VectorType[Attribute], anchor: Operation) -> SSAValue:
    """The constant or the scalar of `row` as a matrix."""
    owner = row.owner
    if isinstance(owner, vector.BroadcastOp):
        return insert_before(vector.BroadcastOp(owner.source, wanted), anchor)
    assert isinstance(owner, arith.ConstantOp)
    number = splat_value(owner.value)
    assert number is not None
    return insert_before(arith.ConstantOp(splat(wanted, number)), anchor)


def _computed(
    operations: Sequence[Operation], wanted: VectorType[Attribute], stretch: _Stretch
) -> Build | None:
    """The same operation on matrices, for elementwise `operations`; None if these differ in
    attributes or scalars."""
    first = operations[0]
    same = (first.properties, first.attributes)
    if any((op.properties, op.attributes) != same for op in operations):
        return None
    parts: list[SSAValue | Build] = []
    for operands in zip(*(op.operands for op in operations), strict=True):
        if isinstance(operands[0].type, VectorType):
            part = _together(operands, stretch)
            if part is None:
                return None
            parts.append(part)
        elif all(operand is operands[0] for operand in operands):
            parts.append(operands[0])
        else:
            return None

    def build(anchor: Operation) -> SSAValue:
        values = [part if isinstance(part, SSAValue) else part(anchor) for part in parts]
        return insert_before(alike(first, values, [wanted]), anchor)

    return build


def _loaded(
    loads: Sequence[vector.LoadOp], wanted: VectorType[Attribute], stretch: _Stretch
) -> Build | None:
    """One load of neighbouring rows, from which rows in another order are gathered; None if there
    is none.

    The rows must lie in one register, or, if elements are packed, in a few registers one below the
    other.
    """
    rows = _rows_of_one_buffer(loads, stretch)
    if rows is None:
        return None
    first = loads[0]
    extent = cast(MemRefType[Attribute], first.base.type).get_shape()[-2]
    span = _span(rows, wanted, extent)
    if span is None:
        return None

    def build(anchor: Operation) -> SSAValue:
        start = insert_before(arith.ConstantOp(IntegerAttr(span.start, IndexType())), anchor)
        lead, columns = (1,) * (len(first.indices) - 2), wanted.get_shape()[-1]
        kind = VectorType(wanted.element_type, (*lead, len(span), columns))
        indices = [*first.indices[:-2], start, first.indices[-1]]
        block = insert_before(vector.LoadOp(first.base, indices, kind), anchor)
        if rows == list(span):
            return _cast(block, wanted, anchor)
        pick = _picked if bit_width(wanted) < 32 else _gathered
        return _cast(pick(block, [row - span.start for row in rows], anchor), wanted, anchor)

    return build


def _rows_of_one_buffer(loads: Sequence[vector.LoadOp], stretch: _Stretch) -> list[int] | None:
    """The row of each of `loads`, if these differ in their constant row only and read a buffer that
    `stretch` does not write; else None."""
    first = loads[0]
    buffer, rank = buffer_of(first.base), len(first.indices)
    if buffer is None or stretch.writes(buffer) or not stretch.loads.issuperset(loads):
        return None
    if rank < 2 or len(shape_of(first.result.type)) != rank:
        return None
    rows: list[int] = []
    keys = [_index_key(i) for n, i in enumerate(first.indices) if n != rank - 2]
    for op in loads:
        row = constant_of(op.indices[-2])
        elsewhere = [_index_key(i) for n, i in enumerate(op.indices) if n != rank - 2]
        if op.base is not first.base or row is None or elsewhere != keys:
            return None
        rows.append(row)
    return rows


def _span(rows: Sequence[int], wanted: VectorType[Attribute], extent: int) -> range | None:
    """The rows, of `extent` in the buffer, to load at once for `rows` in their order: these alone
    if they follow each other, else whole registers; None if they are too far apart."""
    low, high = min(rows), max(rows) + 1
    most = _register_rows(wanted)
    # Words are loaded from any rows. Packed rows are put together from few registers.
    reach = 1 if bit_width(wanted) == 32 else _REGISTERS
    if (high - 1) // most - low // most >= reach:
        return None
    if list(rows) == list(range(low, high)):
        return range(low, high)
    # Rows that fit into one word would be unpacked for each other.
    if 1 < packing(bit_width(wanted)) >= len(rows):
        return None
    return range(low - low % most, min(-(-high // most) * most, extent))


def _gathered(block: SSAValue, rows: Sequence[int], anchor: Operation) -> SSAValue:
    """The given `rows` of the matrix `block` of 32-bit elements, by one gather."""
    *lead, _, columns = shape_of(block.type)
    gathered = tpu.GatherOp.create(
        operands=[block],
        result_types=[VectorType(element_type(block.type), (*lead, len(rows), columns))],
        properties={
            "indices": DenseArrayBase.from_list(i32, list(rows)),
            "dimension": IntegerAttr(len(lead), i32),
        },
    )
    return insert_before(gathered, anchor)


def _picked(block: SSAValue, rows: Sequence[int], anchor: Operation) -> SSAValue:
    """The given `rows` of the packed matrix `block`, as slices that are concatenated."""
    *lead, _, columns = shape_of(block.type)
    one = VectorType(element_type(block.type), (*lead, 1, columns))
    parts: list[SSAValue] = []
    for row in rows:
        begin = [*[0] * len(lead), row, 0]
        cut = vector.ExtractStridedSliceOp.create(
            operands=[block],
            result_types=[one],
            properties={
                "offsets": integers(begin),
                "sizes": integers(one.get_shape()),
                "strides": integers([1] * len(begin)),
            },
        )
        parts.append(insert_before(cut, anchor))
    joined = tpu.ConcatenateOp.create(
        operands=parts,
        result_types=[VectorType(one.element_type, (*lead, len(rows), columns))],
        properties={"dimension": IntegerAttr(len(lead), i32)},
    )
    return insert_before(joined, anchor)
