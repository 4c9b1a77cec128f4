"""What an emitted module in form `dma` does: its transfers and waits, in order.

`Trace` executes only the scalar, DMA and loop operations, and records what it starts and awaits, as
`schedule_model.model` says it must be; `BoxTrace` records the boxes that transfers move, too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from xdsl.dialects.builtin import DYNAMIC_INDEX, Block, IntegerAttr
from xdsl.ir import SSAValue

from .window_model import Box

BLOCK = (8, 128)


@dataclass(frozen=True)
class View:
    """A box of a buffer or array; `root` is the value that was allocated or passed in."""

    root: SSAValue
    start: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.sizes)


class Trace:
    """Executes the scalar, DMA and loop operations of a kernel in form `dma`."""

    def __init__(self, function: Any, arguments: Sequence[Any]):
        self.events: list[tuple[Any, ...]] = []
        self.values: dict[SSAValue, Any] = {}
        self.semaphores = Counter[tuple[SSAValue, tuple[int, ...]]]()
        for argument, value in zip(function.args, arguments, strict=True):
            self.values[argument] = self.whole(argument) if value is None else value
        self.run(function.body.block)

    def whole(self, value: SSAValue) -> View:
        shape = value.type.get_shape()
        return View(value, (0,) * len(shape), shape)

    def run(self, block: Block) -> list[Any]:
        for op in block.ops:
            values = [self.values.get(operand) for operand in op.operands]
            name = op.name.replace(".", "_")
            if hasattr(self, name):
                result = getattr(self, name)(op, *values)
            else:
                result = ARITHMETIC[op.name](*values) if op.name in ARITHMETIC else None
            if op.name in ("scf.yield", "tpu.yield", "func.return"):
                return values
            results = result if isinstance(result, list) else [result]
            self.values.update(zip(op.results, results, strict=False))
        return []

    def arith_constant(self, op: Any):
        return op.value.value.data if isinstance(op.value, IntegerAttr) else None

    def arith_cmpi(self, op: Any, a: int, b: int):
        return (a == b, a != b, a < b, a <= b, a > b, a >= b)[op.predicate.value.data]

    def memref_alloca(self, op: Any):
        return self.whole(op.results[0])

    tpu_sem_alloc = memref_alloca

    def memref_load(self, op: Any, table: Any, *indices: int):
        return table[indices[0]] if indices else table

    def tpu_memref_slice(self, op: Any, base: View, *rest: int):
        count = len(op.base_idx)
        dynamic = iter(rest[count:])
        shape = [next(dynamic) if n == DYNAMIC_INDEX else n for n in op.result.type.get_shape()]
        start = tuple(a + b for a, b in zip(base.start, rest[:count], strict=True))
        return View(base.root, start, tuple(shape))

    def tpu_memref_squeeze(self, op: Any, base: View):
        return base

    def tpu_region(self, op: Any):
        self.run(op.regions[0].block)

    def scf_if(self, op: Any, condition: bool):
        region = op.true_region if condition else op.false_region
        return self.run(region.block) if region.blocks else []

    def scf_for(self, op: Any, lower: int, upper: int, step: int, *carried: Any):
        state = list(carried)
        for i in range(lower, upper, step):
            for argument, value in zip(op.body.block.args, [i, *state], strict=True):
                self.values[argument] = value
            state = self.run(op.body.block)
        return state

    def tpu_trace_value(self, op: Any, value: int):
        if op.label.data == "d0":
            self.events.append(("body", ()))
        self.events[-1] = ("body", (*self.events[-1][1], value))

    def tpu_assume_multiple(self, op: Any, value: int):
        assert value % op.multiple.value.data == 0
        return value

    def vector_load(self, op: Any, view: View, *indices: int):
        self.events.append(("see", operand_of(view), slot_of(view)))

    def tpu_enqueue_dma(self, op: Any, source: View, target: View, semaphore: View):
        fetching = op.source.type.memory_space.space.data == "any"
        array, buffer = (source, target) if fetching else (target, source)
        self.semaphores[semaphore.root, semaphore.start] += target.elements
        self.record("fetch" if fetching else "store", array, buffer, semaphore)

    def tpu_wait_dma2(self, op: Any, semaphore: View, source: View, target: View):
        fetching = op.src.type.memory_space.space.data == "any"
        array, buffer = (source, target) if fetching else (target, source)
        self.semaphores[semaphore.root, semaphore.start] -= target.elements
        assert self.semaphores[semaphore.root, semaphore.start] >= 0
        name = "await-fetch" if fetching else "await-store"
        self.record(name, array, buffer, semaphore)

    def record(self, event: str, array: View, buffer: View, semaphore: View) -> None:
        b, slot = operand_of(array), slot_of(buffer)
        assert operand_of(buffer) == b
        if semaphore.root.name_hint == "copied":
            if event in ("fetch", "store"):
                self.events.append(("copy-in" if event == "fetch" else "copy-out", b))
            return
        assert semaphore.start in ((), (slot,))
        assert all(s % n == 0 for s, n in zip(array.start, BLOCK, strict=True))
        index = tuple(s // n for s, n in zip(array.start, BLOCK, strict=True))
        self.events.append((event, b, index, slot))


def operand_of(view: View) -> int:
    """Arrays keep the names w0, w1, ... of the windows, and buffers are called after them."""
    return int((view.root.name_hint or "").removeprefix("w").removesuffix("_window"))


def slot_of(view: View) -> int:
    return view.start[0] if len(view.start) == 3 else 0


ARITHMETIC: dict[str, Callable[..., int]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.minsi": min,
    "arith.maxsi": max,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.divsi": lambda a, b: int(a / b),
    "arith.select": lambda c, a, b: a if c else b,
    "arith.index_cast": lambda a: a,
}


class Boxed(Protocol):
    """What a trace needs to know of an operand."""

    @property
    def block(self) -> tuple[int, ...]: ...
    def box(self, index: Sequence[int], /) -> Box: ...


class BoxTrace(Trace):
    """Records of each transfer the box that it moves, and the slot of the buffer."""

    def __init__(self, function: Any, arguments: Sequence[Any], windows: Sequence[Boxed]):
        self.windows = windows
        super().__init__(function, arguments)

    def inside(self, buffer: View) -> tuple[int, tuple[int, ...]]:
        """The slot that a view of a buffer lies in, and where in the block it starts."""
        window = self.windows[operand_of(buffer)]
        if len(buffer.start) > len(window.block):
            return buffer.start[0], buffer.start[1:]
        if len(window.block) == 1:
            slot, inner = divmod(buffer.start[0], -(-window.block[0] // 1024) * 1024)
            return slot, (inner,)
        return 0, buffer.start

    def vector_load(self, op: Any, view: View, *indices: int) -> None:
        self.events.append(("see", operand_of(view), self.inside(view)[0]))

    def record(self, event: str, array: View, buffer: View, semaphore: View) -> None:
        b = operand_of(array)
        assert operand_of(buffer) == b
        if _name(semaphore.root) == "copied":
            if event in ("fetch", "store"):
                self.events.append(("copy-in" if event == "fetch" else "copy-out", b))
            return
        slot, inner = self.inside(buffer)
        assert semaphore.start in ((), (slot,))
        assert array.sizes == buffer.sizes[len(buffer.sizes) - len(array.sizes) :]
        self.events.append((event, b, Box(array.start, inner, array.sizes), slot))


def _name(value: SSAValue) -> str:
    return value.name_hint or ""


def boxed(event: tuple[Any, ...], windows: Sequence[Boxed]) -> tuple[Any, ...]:
    """An event of the model with the box that it moves in place of the block's index."""
    if event[0] in ("fetch", "store", "await-fetch", "await-store"):
        name, b, index, slot = event
        return name, b, windows[b].box(index), slot
    return event
