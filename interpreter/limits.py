"""What a run may cost, and refusals of modules that would cost more: any module is safe to run.

* *Steps* (`--max-steps`): a scalar op costs one step, other ops what they take compared with that,
  with one step more for each `ELEMENTS_PER_STEP` elements of the vectors or memory that they work
  on; every grid point costs `GRID_POINT_STEPS`. A run without end meets the limit within minutes,
  whatever its ops are.
* *Memory* (`--max-memory`): the arrays of the call, every byte of simulated memory that is touched,
  and the vectors that are live at once, which is known before the run.
* Calls do not recurse, which Mosaic has no use for, nor nest deeper than `MOST_CALLS`.
* Vectors and refs have at most `MOST_DIMENSIONS`.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt, prod
from typing import Any, NamedTuple

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from pallasite.diagnostics import ExecutionError, Note, Unsupported
from pallasite.dialects import memref, tpu
from pallasite.dialects.func import CallOp, FuncOp
from pallasite.dialects.locations import refusal, source_location
from pallasite.dialects.walking import operations
from pallasite.interpreter.machine.memory import MEMORY_NOTE
from pallasite.interpreter.meanings import lookup_kind

ELEMENTS_PER_STEP = 64
PRODUCTS_PER_STEP = 1 << 14
GRID_POINT_STEPS = 100
VECTOR_STEPS, EFFECT_STEPS, BLOCKING_STEPS = 10, 20, 50
MOST_CALLS = 100
"""Functions that may be inside each other's calls: both drivers nest with them."""
MOST_DIMENSIONS = 32
"""NumPy has 64, of which tiles and packing take some."""
BYTES_PER_ELEMENT = 4
"""Carriers of narrow floats are wider than their types."""

_PRODUCTS = ("tpu.matmul", "vector.contract", "grid.matmul", "pallas.dot")
_MOVES = (memref.CopyOp, tpu.EnqueueDmaOp, tpu.LogBufferOp)


# Steps


class Elements:
    """How many elements vectors have; of few types there are many values."""

    def __init__(self) -> None:
        # By identity; the type is kept alive, so that no other one takes its place.
        self._known: dict[int, tuple[Attribute, int]] = {}

    def of(self, value: SSAValue) -> int:
        """The elements of `value`; 0 if it is no vector."""
        type = value.type
        known = self._known.get(id(type))
        if known is None:
            size = prod(type.get_shape()) if isinstance(type, VectorType) else 0
            known = self._known[id(type)] = type, size
        return known[1]


def op_steps(op: Operation, elements: Elements) -> int:
    """What one execution of `op` costs, its regions left out."""
    kind = _kind_of(type(op))
    if kind.ends:
        return 1
    sizes = [elements.of(value) for value in (*op.results, *op.operands)]
    largest = max(sizes, default=0)
    steps = 1 + kind.steps + largest // ELEMENTS_PER_STEP
    if largest:
        steps += VECTOR_STEPS
    if kind.multiplies and len(sizes) > 2:
        # Rows times columns times depth is the root of the product of the three areas.
        steps += isqrt(prod(max(size, 1) for size in sizes[:3])) // PRODUCTS_PER_STEP
    if kind.moves:
        moved = max((_memory_elements(value) for value in op.operands), default=0)
        steps += moved // ELEMENTS_PER_STEP
    if op.name == "pallas_steps.enter":  # may copy every block
        steps += sum(_memory_elements(value) for value in op.results) // ELEMENTS_PER_STEP
    return steps


class _Kind(NamedTuple):
    """What all operations of a class cost."""

    ends: bool
    """Whether they end a block."""
    steps: int
    """Because of what they do to the machine."""
    multiplies: bool
    moves: bool


@lru_cache(maxsize=1 << 12)
def _kind_of(kind: type[Operation]) -> _Kind:
    entry, steps = lookup_kind(kind), 0
    if entry is not None and entry.effect:
        steps = BLOCKING_STEPS if entry.blocking else EFFECT_STEPS
    return _Kind(
        kind.has_trait(IsTerminator), steps, kind.name in _PRODUCTS, issubclass(kind, _MOVES)
    )


def _memory_elements(value: SSAValue) -> int:
    if not isinstance(value.type, MemRefType):
        return 0
    shape: tuple[int, ...] = value.type.get_shape()
    return prod(size for size in shape if size != DYNAMIC_INDEX)


# Memory


def check_functions(functions: dict[str, FuncOp], name: str, limit: int) -> None:
    """Raises if `name` calls itself, or holds vectors of more than `limit` bytes at once."""
    peak, op = _Vectors(functions).function(name)
    if peak > limit:
        raise ExecutionError(
            "memory-limit",
            f"the vectors that are live here take {peak} bytes, more than the limit of {limit}",
            source_location(op) if op is not None else None,
            [MEMORY_NOTE],
        )


class _Vectors:
    """The most bytes of vectors that are live at once, and the op at which they are."""

    def __init__(self, functions: dict[str, FuncOp]):
        self.functions = functions
        self.known: dict[str, tuple[int, Operation | None]] = {}
        self.active: list[str] = []
        self.elements = Elements()

    def function(self, name: str, user: Operation | None = None) -> tuple[int, Operation | None]:
        if name in self.active:
            raise Unsupported(
                "recursive-call",
                f"function @{name} calls itself, directly or through others",
                source_location(user) if user is not None else None,
                [Note("a kernel's calls are inlined; write a loop")],
            )
        if len(self.active) > MOST_CALLS:
            raise Unsupported(
                "nested-too-deeply",
                f"calls nest more than {MOST_CALLS} deep where function @{name} is called",
                source_location(user) if user is not None else None,
                [Note("call the innermost functions from the kernel, or write a loop")],
            )
        func = self.functions.get(name)
        if func is None or not func.body.blocks:
            return 0, None
        if name not in self.known:
            self.active.append(name)
            last = self._last_uses(func)
            self.known[name] = max(
                (self._block(block, last) for block in func.body.blocks), key=lambda found: found[0]
            )
            self.active.pop()
        return self.known[name]

    def _block(self, top: Block, last: dict[Operation, int]) -> tuple[int, Operation | None]:
        """Walks without recursion: modules may nest as deeply as they like."""
        peak, where = 0, None
        live = sum(self._bytes(argument) for argument in top.args)
        waiting: list[Any] = [iter(top.ops)]
        ends: list[Operation | None] = [None]
        while waiting:
            op = next(waiting[-1], None)
            if op is None:
                waiting.pop()
                closing = ends.pop()
                if closing is not None:
                    live -= last.get(closing, 0)
                continue
            _check_rank(op)
            live += sum(self._bytes(result) for result in op.results)
            inner = [block for region in op.regions for block in region.blocks]
            live += sum(self._bytes(argument) for block in inner for argument in block.args)
            called = 0
            if isinstance(op, CallOp):
                called, _ = self.function(op.callee.root_reference.data, op)
            if live + called > peak:
                peak, where = live + called, op
            if not inner:
                live -= last.get(op, 0)
                continue
            waiting.append(inner_op for block in inner for inner_op in block.ops)
            ends.append(op)
        return peak, where

    def _bytes(self, value: SSAValue) -> int:
        return self.elements.of(value) * BYTES_PER_ELEMENT

    def _last_uses(self, func: FuncOp) -> dict[Operation, int]:
        """For each op the bytes of the vectors that no later op uses."""
        last = {id(value): (value, op) for op in operations(func) for value in op.results}
        last |= last_users(func, self.elements)
        freed: dict[Operation, int] = {}
        for value, op in last.values():
            freed[op] = freed.get(op, 0) + self._bytes(value)
        return freed


def _check_rank(op: Operation) -> None:
    for result in op.results:
        type = result.type
        if isinstance(type, VectorType | MemRefType) and type.get_num_dims() > MOST_DIMENSIONS:
            raise refusal(
                op,
                "too-many-dimensions",
                f"expected at most {MOST_DIMENSIONS} dimensions, got {type.get_num_dims()}",
                "merge dimensions of size 1",
            )


def last_users(func: FuncOp, elements: Elements) -> dict[int, tuple[SSAValue, Operation]]:
    """The vectors that operations of `func` use, by identity, each with the last one to use it in
    the block that defines it."""
    last: dict[int, tuple[SSAValue, Operation]] = {}
    for op in operations(func):
        for value in op.operands:
            if elements.of(value):
                last[id(value)] = value, user_at_home(value, op)
    return last


def user_at_home(value: SSAValue, user: Operation) -> Operation:
    """The operation of the block that defines `value` in which `user` is, or which it is."""
    owner = value.owner
    home = owner if isinstance(owner, Block) else owner.parent
    while user.parent is not home:
        parent = user.parent_op()
        if parent is None:
            break
        user = parent
    return user
