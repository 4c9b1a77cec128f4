"""Small mistakes in kernels that synchronise: each changes one operation of a module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, tpu, vector
from pallasite.dialects.types import memory_space

WAITS = ("tpu.wait_dma2", "tpu.wait_indirect_dma", "tpu.sem_wait", "tpu.barrier")
STARTS = ("tpu.enqueue_dma", "tpu.enqueue_indirect_dma")
SIGNALS = ("tpu.sem_signal",)
STORES = (
    "tpu.vector_store", "tpu.vector_store_idx", "vector.store", "memref.store", "tpu.store",
    "tpu.strided_store", "pallas.store",
)  # fmt: skip
LOADS = (
    "vector.load", "tpu.vector_load", "tpu.vector_load_idx", "memref.load", "tpu.load",
    "tpu.strided_load", "pallas.load",
)  # fmt: skip
ACTS = (*WAITS, *STARTS, *SIGNALS, *STORES, *LOADS)


@dataclass(frozen=True)
class Mutation:
    """A mistake: which operations it may befall, and how; False if it cannot befall this one."""

    name: str
    of: tuple[str, ...]
    apply: Callable[[Operation], bool]


MUTATIONS: list[Mutation] = []


def mutation(*of: str) -> Callable[[Callable[[Operation], bool]], Callable[[Operation], bool]]:
    """Registers a mistake with operations of these names."""

    def register(apply: Callable[[Operation], bool]) -> Callable[[Operation], bool]:
        MUTATIONS.append(Mutation(apply.__name__, of, apply))
        return apply

    return register


def mutants(module: ModuleOp) -> Iterator[tuple[Mutation, int]]:
    """All mistakes that may befall `module`, with the number of the operation."""
    for number, op in enumerate(module.walk()):
        yield from ((one, number) for one in MUTATIONS if op.name in one.of)


def apply(module: ModuleOp, mistake: Mutation, number: int) -> bool:
    """Makes the mistake; False if the operation does not allow it."""
    return mistake.apply(list(module.walk())[number])


def _is_semaphore(value: SSAValue) -> bool:
    return isinstance(value.type, MemRefType) and memory_space(value.type) == "semaphore_mem"


def _semaphores(op: Operation) -> list[int]:
    return [n for n, value in enumerate(op.operands) if _is_semaphore(value)]


def _added(value: SSAValue, amount: int, modulus: int, before: Operation) -> SSAValue:
    """`value + amount`, modulo `modulus` unless that is 0, computed before an operation."""
    kind = cast("IntegerType | IndexType", value.type)
    one = arith.ConstantOp(IntegerAttr(amount, kind))
    total = arith.AddiOp(value, one.result)
    made: list[Operation] = [one, total]
    if modulus:
        size = arith.ConstantOp(IntegerAttr(modulus, kind))
        made += [size, arith.RemSIOp(total.result, size.result)]
    assert before.parent is not None
    before.parent.insert_ops_before(made, before)
    return made[-1].results[0]


def _before(one: Operation, op: Operation) -> bool:
    """Whether the result of `one` may be used by `op`, which is in its block or nested there."""
    here: Operation | None = op
    while here is not None and here.parent is not one.parent:
        here = here.parent_op()
    return here is not None and one is not here and one.is_before_in_block(here)


def _next(op: Operation, names: tuple[str, ...]) -> Operation | None:
    """The next operation of those names in the block, if the block does not end with it."""
    later = op.next_op
    while later is not None and later.next_op is not None:
        if later.name in names:
            return later
        later = later.next_op
    return None


def _behind(op: Operation, other: Operation | None) -> bool:
    """Moves `op` behind `other`."""
    if other is None or op.results or other.parent is None:
        return False
    op.detach()
    other.parent.insert_op_after(op, other)
    return True


@mutation(*WAITS, *SIGNALS, *STARTS, *STORES)
def left_out(op: Operation) -> bool:
    op.detach()
    op.erase()  # Its operands are used no more.
    return True


@mutation(*WAITS, *SIGNALS, *STARTS)
def done_twice(op: Operation) -> bool:
    assert op.parent is not None
    op.parent.insert_op_after(op.clone(), op)
    return True


@mutation(*WAITS, *SIGNALS, *STARTS, *STORES)
def comes_later(op: Operation) -> bool:
    return _behind(op, _next(op, ACTS))


@mutation(*WAITS, *SIGNALS)
def comes_last(op: Operation) -> bool:
    last = op.parent.last_op if op.parent is not None else None
    return last is not op.next_op and _behind(op, last.prev_op if last is not None else None)


@mutation("tpu.sem_wait", *SIGNALS)
def counts_one_more(op: Operation) -> bool:
    op.operands[1] = _added(op.operands[1], 1, 0, op)
    return True


@mutation("tpu.sem_wait", *SIGNALS)
def counts_one_less(op: Operation) -> bool:
    op.operands[1] = _added(op.operands[1], -1, 0, op)
    return True


@mutation(*WAITS, *SIGNALS, *STARTS)
def takes_another_semaphore(op: Operation) -> bool:
    """That of another operation before it, or an argument of its function."""
    if not _semaphores(op):
        return False  # A barrier has none.
    place = _semaphores(op)[-1]
    wanted, block = op.operands[place], op.parent
    while block is not None:
        for value in (*block.args, *(result for other in block.ops for result in other.results)):
            if value.type != wanted.type or value is wanted:
                continue
            if not isinstance(value.owner, Operation) or _before(value.owner, op):
                op.operands[place] = value
                return True
        parent = block.parent_op()
        block = parent.parent if parent is not None else None
    return False


@mutation("tpu.memref_slice")
def takes_the_next_slot(op: Operation) -> bool:
    source, result = op.operands[0].type, op.results[0].type
    assert isinstance(source, MemRefType) and isinstance(result, MemRefType)
    for dim, (size, part) in enumerate(zip(source.get_shape(), result.get_shape(), strict=True)):
        if part == 1 and size > 1:
            op.operands[1 + dim] = _added(op.operands[1 + dim], 1, size, op)
            return True
    return False


@mutation("tpu.memref_slice")
def begins_a_tile_late(op: Operation) -> bool:
    source, result = op.operands[0].type, op.results[0].type
    assert isinstance(source, MemRefType) and isinstance(result, MemRefType)
    for dim, (size, part) in enumerate(zip(source.get_shape(), result.get_shape(), strict=True)):
        if 8 <= part < size:
            op.operands[1 + dim] = _added(op.operands[1 + dim], 8, 0, op)
            return True
    return False


@mutation("scf.if")
def is_done_otherwise(op: Operation) -> bool:
    if op.results:
        return False
    one = arith.ConstantOp(IntegerAttr(-1, IntegerType(1)))
    opposite = arith.XOrIOp(op.operands[0], one.result)
    assert op.parent is not None
    op.parent.insert_ops_before([one, opposite], op)
    op.operands[0] = opposite.result
    return True


@mutation("scf.if")
def is_always_done(op: Operation) -> bool:
    return _decided(op, -1)


@mutation("scf.if")
def is_never_done(op: Operation) -> bool:
    return _decided(op, 0)


def _decided(op: Operation, value: int) -> bool:
    if op.results:
        return False
    one = arith.ConstantOp(IntegerAttr(value, IntegerType(1)))
    assert op.parent is not None
    op.parent.insert_op_before(one, op)
    op.operands[0] = one.result
    return True


@mutation(*WAITS, *SIGNALS, *STARTS, *LOADS)
def comes_earlier(op: Operation) -> bool:
    """Before what acts before it, if that does not make its operands."""
    earlier = op.prev_op
    while earlier is not None and earlier.name not in ACTS:
        earlier = earlier.prev_op
    if earlier is None or earlier.parent is None:
        return False
    for value in op.operands:
        if isinstance(value.owner, Operation) and not _before(value.owner, earlier):
            return False
    op.detach()
    earlier.parent.insert_op_before(op, earlier)
    return True


@mutation("tpu.wait_dma2")
def waits_for_another_size(op: Operation) -> bool:
    """The target of the transfer becomes another ref, with more elements or fewer."""
    wanted = op.operands[2].type
    assert isinstance(wanted, MemRefType)
    for value in _visible(op):
        if isinstance(value.type, MemRefType) and not _is_semaphore(value):
            other = cast("MemRefType[Attribute]", value.type)
            if (
                min(other.get_shape(), default=1) > 0
                and len({*map(_elements, (wanted, other))}) > 1
            ):
                op.operands[2] = value
                return True
    return False


def _elements(kind: MemRefType[Attribute]) -> int:
    return prod(kind.get_shape())


def _visible(op: Operation) -> Iterator[SSAValue]:
    """The values before `op`, the nearest first."""
    block = op.parent
    while block is not None:
        for other in reversed(list(block.ops)):
            if all(_before(other, op) for _ in other.results[:1]):
                yield from other.results
        yield from block.args
        parent = block.parent_op()
        block = parent.parent if parent is not None else None


@mutation(*SIGNALS, *STARTS)
def goes_to_itself(op: Operation) -> bool:
    """The device that is addressed is the one that acts."""
    addressed = getattr(op, "device_id", None)
    if addressed is None or op.parent is None:
        return False
    me = tpu.DeviceIdOp(result_types=[addressed.type])
    op.parent.insert_op_before(me, op)
    op.operands[list(op.operands).index(addressed)] = me.results[0]
    return True


@mutation("memref.alloca", "tpu.sem_alloc")
def shares_its_memory(op: Operation) -> bool:
    """With an allocation before it."""
    earlier = op.prev_op
    while earlier is not None:
        if earlier.name == op.name and earlier.results[0].type == op.results[0].type:
            op.results[0].replace_all_uses_with(earlier.results[0])
            op.detach()
            op.erase()
            return True
        earlier = earlier.prev_op
    return False


@mutation("vector.load", "tpu.vector_load", "tpu.vector_store", "vector.store")
def goes_a_row_too_far(op: Operation) -> bool:
    """By one along its first dimension."""
    kinds = [isinstance(value.type, IndexType) for value in op.operands]
    if True not in kinds:
        return False
    place = kinds.index(True)
    op.operands[place] = _added(op.operands[place], 1, 0, op)
    return True


@mutation("arith.addi", "arith.subi", "arith.muli", "arith.remsi")
def gives_one_more(op: Operation) -> bool:
    """A number of a step, a slot or a row."""
    if op.results[0].type not in (i32, IndexType()) or op.next_op is None:
        return False
    more = _added(op.results[0], 1, 0, op.next_op)
    op.results[0].replace_uses_with_if(more, lambda use: use.operation is not more.owner)
    return True


@mutation("scf.for")
def ends_a_step_early(op: Operation) -> bool:
    op.operands[1] = _added(op.operands[1], -1, 0, op)
    return True


@mutation("scf.for")
def begins_a_step_late(op: Operation) -> bool:
    op.operands[0] = _added(op.operands[0], 1, 0, op)
    return True


@mutation("tpu.vector_store", "vector.store")
def stores_a_row_less(op: Operation) -> bool:
    """Leaves out the last row of what it stores, without a mask."""
    vectors = [n for n, o in enumerate(op.operands) if isinstance(o.type, VectorType)]
    if len(vectors) != 1 or op.parent is None:
        return False
    value = op.operands[vectors[0]]
    kind = cast("VectorType[Attribute]", value.type)
    shape = list(kind.get_shape())
    if len(shape) < 2 or shape[-2] < 2:
        return False
    shape[-2] -= 1
    numbers = {"offsets": [0] * len(shape), "sizes": shape, "strides": [1] * len(shape)}
    part = vector.ExtractStridedSliceOp.build(
        operands=[value],
        properties={key: ArrayAttr(IntegerAttr(n, i64) for n in ns) for key, ns in numbers.items()},
        result_types=[VectorType(kind.element_type, shape)],
    )
    op.parent.insert_op_before(part, op)
    op.operands[vectors[0]] = part.results[0]
    return True


@mutation("func.func")
def lets_cores_share_an_axis(op: Operation) -> bool:
    """The last axis, and no other, becomes parallel."""
    semantics = op.attributes.get("dimension_semantics")
    if not isinstance(semantics, ArrayAttr) or not semantics.data:
        return False
    kinds = [tpu.DimensionSemantics.ARBITRARY] * (len(semantics.data) - 1)
    kinds.append(tpu.DimensionSemantics.PARALLEL)
    op.attributes["dimension_semantics"] = ArrayAttr(map(tpu.DimensionSemanticsAttr, kinds))
    return True
