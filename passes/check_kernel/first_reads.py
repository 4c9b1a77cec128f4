"""Warns about buffers that a kernel loads before anything can have written them.

Blocks of outputs and scratch are undefined at first, also blocks of an output that aliases an input
(spec/pallas_semantics.md 1.7). The warning is only given if the fault certainly happens in the
first step: the first access in the text is a load, its value is stored, and neither depends on a
condition. All other cases are left to the check `init`, which runs the kernel. A second warning is
for scratch that is initialised in the first step of a parallel axis: if two cores share the axis,
one of them has its own scratch, which nobody has initialised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, Region, SSAValue

from pallasite.diagnostics import UNINITIALISED, Diagnostic, Note
from pallasite.dialects import memref, scf, tpu
from pallasite.dialects.arith import known_integer
from pallasite.dialects.func import FuncOp
from pallasite.dialects.kernel import Kernel
from pallasite.dialects.kernel_call import Call
from pallasite.dialects.locations import source_location
from pallasite.dialects.types import memory_space
from pallasite.dialects.walking import of_kind
from pallasite.passes.accesses import ACCESSES, base_of, stores
from pallasite.passes.check_kernel.outputs import is_called, points_of
from pallasite.passes.effects import is_pure
from pallasite.targets import targets_with

_CHOICES = (
    "arith.andi", "arith.muli", "arith.ori", "arith.select", "arith.xori", "tpu.dynamic_gather",
)  # fmt: skip
"""Operations whose result may not depend on one of their operands."""
_STORES = (*ACCESSES, memref.StoreOp)
_ACCESSES = (*_STORES, memref.LoadOp)
_TRANSFERS = (tpu.EnqueueDmaOp, tpu.EnqueueIndirectDmaOp)
_SET_FIRST = (
    "memory begins undefined: set it in the first step, under @pl.when(pl.program_id(axis) == 0), "
    "or where the kernel begins"
)


def first_read_advice(kernel: Kernel, call: Call | None) -> Iterator[Diagnostic]:
    """A warning for each buffer of `kernel`, in form `mosaic`, that is certainly read before it is
    written, or would be if two cores shared the grid."""
    axes = _shared(kernel)
    for buffer, what, rewrite in _undefined(kernel, call):
        if memory_space(buffer.type) not in ("vmem", "smem", None):
            continue
        first = _FirstRead(buffer)
        found = first.found(kernel.func.body.block)
        if found is not None:
            yield Diagnostic(
                UNINITIALISED,
                f"{what} is loaded before anything has written it",
                source_location(found),
                [Note(rewrite)],
                severity="warning",
            )
        elif axes and buffer not in kernel.operands:
            first.skipped = lambda region: axes <= dict(points_of(region, kernel)).keys()
            if (found := first.found(kernel.func.body.block)) is not None:
                yield _of_one_core(what, found, min(axes))


def _shared(kernel: Kernel) -> set[int]:
    """The grid axes that two cores may share: the parallel ones in front."""
    sizes, shared = kernel.grid or (), set[int]()
    for axis, (kind, steps) in enumerate(zip(kernel.semantics, sizes, strict=False)):
        if kind != "parallel":
            break
        if steps not in (0, 1):
            shared.add(axis)
    return shared


def _of_one_core(what: str, load: Operation, axis: int) -> Diagnostic:
    """The warning about scratch that is initialised in one step of all, not in one of each core."""
    return Diagnostic(
        "parallel-carried-scratch",
        f"grid axis {axis} is parallel, but {what} is set in one step of it, and loaded in others",
        source_location(load),
        [
            Note(
                f"two cores that share the axis ({targets_with(lambda t: t.cores > 1)}) have each "
                "scratch of their own: one of them finds what nobody wrote"
            ),
            Note(f"set it in every step of axis {axis}, or call the axis arbitrary"),
        ],
        severity="warning",
    )


def _undefined(kernel: Kernel, call: Call | None) -> Iterator[tuple[SSAValue, str, str]]:
    """Each buffer that is undefined at first, its name in messages, and what to write instead."""
    if call is not None and not is_called(kernel, call):
        call = None  # A call of another kernel, which is refused when it is made.
    results = () if call is None else call.results
    aliases = {} if call is None else {result: number for number, result in call.aliases}
    first = len(kernel.operands) - len(results)
    for number in range(len(results)):
        argument, window = kernel.operands[first + number], kernel.windows[first + number]
        source = aliases.get(number)
        if window.revisits or (source is not None and not window.windowed):
            continue
        rewrite = _SET_FIRST if source is None else _from_input(kernel, call, source)
        yield argument, named(f"block of output {number}", argument), rewrite
    for number, argument in enumerate(kernel.scratch):
        yield argument, named(f"scratch {number}", argument), _SET_FIRST
    for op in of_kind(kernel.func, memref.AllocaOp):
        yield op.results[0], named("the buffer", op.results[0]), _SET_FIRST


def _from_input(kernel: Kernel, call: Call | None, number: int) -> str:
    """What to write instead for an output that aliases operand `number` of the call."""
    before = 0 if call is None else len(call.operands) + len(call.results) - len(kernel.operands)
    place = number - before
    source = named(f"input {place}", kernel.operands[place]) if place >= 0 else "the input"
    return (
        f"a block begins undefined, also where its array is an input's: load the ref of {source}, "
        "which has what the array held, or keep both in HBM: pl.BlockSpec(memory_space=pl.ANY)"
    )


def named(what: str, value: SSAValue) -> str:
    """`what` with the name of `value`, if it has one."""
    return f"{what} (%{value.name_hint})" if value.name_hint else what


class _FirstRead:
    """Looks for a load of `buffer` that certainly runs before any operation that may write it."""

    def __init__(self, buffer: SSAValue) -> None:
        self.loads: set[Operation] = set()
        self.writes: set[Operation] = set()
        """Uses that store to the buffer, or are not known to leave it unchanged."""
        self.remote = False
        """Whether a transfer to or from it names another core or device."""
        self.skipped: Callable[[Region], bool] = lambda region: False
        """Which regions are taken not to run."""
        refs = [buffer]
        while refs:
            for use in refs.pop().uses:
                op = use.operation
                if isinstance(op, _ACCESSES):
                    self._access(op, op.operands[use.index])
                elif isinstance(op, _TRANSFERS):
                    self.remote |= getattr(op, "device_id", None) is not None
                    self.remote |= getattr(op, "core_id", None) is not None
                    self.writes |= {op} if op.target is op.operands[use.index] else set()
                elif op.results and not op.regions and isinstance(op.results[0].type, MemRefType):
                    refs.append(op.results[0])
                elif op.name != "memref.dim":
                    self.writes.add(op)

    def _access(self, op: Operation, ref: SSAValue) -> None:
        if stores(op) or base_of(op) is not ref:
            self.writes.add(op)
        elif getattr(op, "mask", None) is None:
            self.loads.add(op)

    def found(self, block: Block) -> Operation | None:
        """The load in `block`, or None; always None for a buffer that other devices may write."""
        return None if self.remote or not self.loads else self._first(block)[0]

    def _first(self, block: Block) -> tuple[Operation | None, bool]:
        """The load if there is one, and whether nothing before it, or in `block`, may write."""
        for op in block.ops:
            if op in self.writes:
                return None, False
            if op in self.loads and _is_kept(op.results[0]):
                return op, True
            for region in op.regions:
                if self.skipped(region):
                    continue
                if _runs(op) and len(region.blocks) == 1:
                    load, untouched = self._first(region.block)
                    if load is not None or not untouched:
                        return load, untouched
                elif any(inner in self.writes for inner in region.walk()):
                    return None, False
        return None, True


def _runs(op: Operation) -> bool:
    """Whether the region of `op` is certainly executed: not that of an `scf.if`."""
    if isinstance(op, scf.ForOp):
        low, high = known_integer(op.lb), known_integer(op.ub)
        return low is not None and high is not None and low < high
    return isinstance(op, tpu.RegionOp)


def _is_kept(value: SSAValue) -> bool:
    """Whether `value`, or a result computed from it, is certainly stored."""
    seen, values = {value}, [value]
    while values:
        for use in values.pop().uses:
            op = use.operation
            if isinstance(op, _STORES) and stores(op):
                whole = getattr(op, "mask", None) is None
                if whole and op.operands[0] is op.operands[use.index] and _always(op):
                    return True
            elif is_pure(type(op)) and not op.regions and op.name not in _CHOICES:
                values += [result for result in op.results if result not in seen]
                seen.update(op.results)
    return False


def _always(op: Operation) -> bool:
    """Whether `op` is executed in every step, whatever conditions say."""
    parent = op.parent_op()
    while parent is not None and _runs(parent):
        parent = parent.parent_op()
    return isinstance(parent, FuncOp)
