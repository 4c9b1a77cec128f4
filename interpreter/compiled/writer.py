"""Writes the Python source of one function, block by block; see `compiled` for the whole program.

Structured control flow becomes Python's: `scf.for` a `for` loop, `scf.while` a `while True`,
`scf.if` an `if`, and `scf.index_switch` a `match`. A value that is carried round a loop has one
name for its argument and its result. Python nests at most 20 loops, so a block more than `_DEEPEST`
levels deep becomes a function of its own that is given the values it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

from xdsl.ir import Block, Operation, SSAValue

from pallasite.dialects.arith import ConstantOp
from pallasite.dialects.func import CallOp, FuncOp, ReturnOp
from pallasite.dialects.scf import (
    ConditionOp,
    ExecuteRegionOp,
    ForOp,
    IfOp,
    IndexSwitchOp,
    WhileOp,
    YieldOp,
)
from pallasite.dialects.tpu import EnqueueDmaOp, LoadOp, RegionOp, SemSignalOp, TraceOp
from pallasite.dialects.tpu import YieldOp as TpuYieldOp
from pallasite.dialects.types import shape_of
from pallasite.interpreter import driver
from pallasite.interpreter.compiled.brief import LEAST_ELEMENTS
from pallasite.interpreter.compiled.copy_writer import CopyWriter
from pallasite.interpreter.compiled.inline import expression
from pallasite.interpreter.compiled.names import program_name
from pallasite.interpreter.costs import cost_of
from pallasite.interpreter.cycles import FREE
from pallasite.interpreter.effects.registers import glance
from pallasite.interpreter.effects.views import key_of_view, squeezed
from pallasite.interpreter.meanings import lookup
from pallasite.interpreter.values import width

if TYPE_CHECKING:
    from pallasite.interpreter.compiled.compiled import Program

_DEEPEST = 12
"""The depth from which on blocks become functions of their own."""


class FunctionWriter(CopyWriter):
    """Turns `func` into lines of Python; `line_ops[i]` is the operation that line i comes from."""

    def __init__(self, program: Program, func: FuncOp):
        super().__init__(program, func)
        self._moved: list[tuple[list[str], list[Operation | None]]] = []
        self._work = FREE
        """The work of operations that were written since the clock was last told of it."""
        self._structure: dict[type[Operation], Callable[[Any], None]] = {
            CallOp: self._call,
            ExecuteRegionOp: self._inline_region,
            ForOp: self._for,
            IfOp: self._if,
            IndexSwitchOp: self._switch,
            RegionOp: self._scope,
            TraceOp: self._inline_region,
            WhileOp: self._while,
        }

    def write(self) -> None:
        """Fills `lines` and `line_ops`."""
        block = self.func.body.blocks[0]
        names = [self._define(argument) for argument in block.args]
        self._line(f"def {self.python_name}({', '.join(['core', *names])}):")
        self._depth += 1
        self._line(f"return {_tuple(self._scoped(block))}")
        self._depth -= 1
        for lines, ops in self._moved:
            self.lines += lines
            self.line_ops += ops

    # Blocks

    def _body(self, block: Block | None) -> list[str]:
        """Writes the operations of `block` here, or a call of it moved out; returns the names of
        what it yields."""
        if block is None:
            return []
        if self._depth >= _DEEPEST:
            return self._move_out(block)
        self._charge(block)
        for run in self._packer.runs(block):
            op = run[0]
            if isinstance(op, YieldOp | TpuYieldOp | ReturnOp | ConditionOp):
                self._keep_time()
                names = self._uses(op)
                self._bury(op)
                return names
            for op in run:
                self._work_on(op)
            self._run(run)
        self._keep_time()
        return []

    def _work_on(self, op: Operation) -> None:
        """Adds `op` to the work that the clock is told of, if the run is profiled.

        Earlier work is told before a transfer, a semaphore operation or a branch, so that these
        come after it.
        """
        facts = self.program.facts
        if not facts.profile:
            return
        if op.regions or isinstance(op, CallOp | EnqueueDmaOp | SemSignalOp):
            self._keep_time()
        elif (entry := lookup(op)) is not None and entry.blocking:
            self._keep_time()
        else:
            self._work += cost_of(op, facts.target)

    def _keep_time(self) -> None:
        """Writes the line that tells the clock of the work so far."""
        if self._work != FREE:
            self._line(f"core.clock.spend(core, {self._bind('w', self._work)})")
            self._work = FREE

    def _charge(self, block: Block) -> None:
        """Writes the lines that take the steps of `block` from the budget."""
        steps = driver.steps_of(block)
        owner = self._op
        if steps and owner is not None:
            self._line(f"budget.left -= {steps}")
            self._line(f"if budget.left < 0: budget.exhausted({self._bind('o', owner)})")

    def _scoped(self, block: Block | None) -> list[str]:
        """`_body`, inside a scope of memory if the block allocates any."""
        if block is None or not driver.allocates(block):
            return self._body(block)
        token = self._fresh("t")
        self._line(f"{token} = core.mark()")
        names = self._body(block)
        self._line(f"core.release({token})")
        return names

    def _move_out(self, block: Block) -> list[str]:
        """Writes `block` as a function of its own and a call of it; returns the names of its
        results."""
        # Literals and hoisted constants are visible everywhere; only locals are handed over.
        used = dict.fromkeys(self._names[value].partition("[")[0] for value in _captures(block))
        captured = [name for name in used if name.startswith(("v", "p"))]
        name = f"{self._fresh('r')}_{self.python_name}"
        blocking = self._blocks(block)
        results = [self._fresh("v") for _ in block.last_op.operands] if block.last_op else []
        call = f"{name}({', '.join(['core', *captured])})"
        prefix = f"{_targets(results)} = " if results else ""
        self._line(f"{prefix}{'yield from ' if blocking else ''}{call}")
        outside = self.lines, self.line_ops, self._depth, self._free, self._free_packs
        self.lines, self.line_ops, self._depth, self._free, self._free_packs = [], [], 0, [], []
        self._line(f"def {name}({', '.join(['core', *captured])}):")
        self._depth += 1
        self._line(f"return {_tuple(self._body(block))}")
        self._depth -= 1
        self._moved.append((self.lines, self.line_ops))
        self.lines, self.line_ops, self._depth, self._free, self._free_packs = outside
        return results

    def _blocks(self, block: Block) -> bool:
        """Whether an operation of `block` may suspend."""
        return any(driver.is_blocking(op, self.program.blocking) for op in block.ops)

    def _assign(self, targets: Sequence[str], sources: Sequence[str]) -> None:
        """Writes one simultaneous assignment, so that names may be exchanged."""
        pairs = [(t, s) for t, s in zip(targets, sources, strict=True) if t != s]
        if pairs:
            left, right = zip(*pairs, strict=True)
            self._line(f"{', '.join(left)} = {', '.join(right)}")

    # Operations

    def _operation(self, op: Operation) -> None:
        """Writes one operation in the first way that applies."""
        outer, self._op = self._op, op
        structure = self._structure.get(type(op))
        if structure is not None:
            self._widen(list(self._slim))
            structure(op)
            self._bury(op)
        elif op in self._done:
            self._bury(op)
        elif not self._write_copy(op) and not self._write_part(op) and not self._write_slim(op):
            self._meaning(op)
        self._op = outer

    def _meaning(self, op: Operation) -> None:
        """Writes `op` as an expression, as a constant, or as a call of its meaning."""
        names = self._uses(op)
        inline = expression(op, names)
        if inline is not None:
            if isinstance(op, ConstantOp):  # a literal, used in place
                self._names[op.results[0]] = inline
                self._known[op.results[0]] = driver.meaning_of(op, self.program.facts)[0]()
                return
            self._bury(op)
            self._line(f"{self._define(op.results[0])} = {inline}")
            return
        if isinstance(op, LoadOp) and _is_large(op) and self._memory.is_brief(op):
            fn, effect, blocking = driver.located_at(op, glance, op), True, False
        else:
            fn, effect, blocking = driver.meaning_of(op, self.program.facts)
        known = None if effect else self.program.folder.fold(op, fn, self._known)
        if known is not None or isinstance(op, ConstantOp):
            known = fn() if known is None else known
            self._names[op.results[0]] = self._bind("k", known)
            self._known[op.results[0]] = known
            return
        fn, operands = self._steered(fn, op, self._operands(op))
        if not effect and self._store_result(op, fn, operands):
            return
        if not effect:
            self._is_own([op], fn)
            fn, over = self._over([op], fn)
            if over is not None:
                operands = [*operands, f"out={self._names[op.operands[over]]}"]
        arguments = ", ".join([*(["core"] if effect else []), *operands])
        self._bury(op)
        name = self._bind_effect(fn, type(op)) if effect else self._bind("f", fn)
        call = f"{'yield from ' if blocking else ''}{name}({arguments})"
        key = key_of_view(op, names, lambda value: self._bind("k", value))
        if key is not None:
            call = f"{names[0]}.views.get({key}) or {call}"
        match len(op.results):
            case 0:
                self._line(call)
            case 1:
                self._line(f"{self._define(op.results[0])} = {call}")
            case _:
                self._line(f"{', '.join(self._define(r) for r in op.results)} = {call}")

    def _write_part(self, op: Operation) -> bool:
        """Writes a slice together with the squeeze of it, if nothing else uses the slice."""
        found = squeezed(op)
        if found is None:
            return False
        squeeze, part = found
        ref, *starts = self._uses(op)
        self._bury(op)
        self._define(op.results[0])  # Dies where it is squeezed.
        key = f"(({''.join(f'{start}, ' for start in starts)}), {self._bind('k', part.key)})"
        call = f"{self._bind('f', part.of)}({', '.join([ref, *starts])})"
        self._line(f"{self._define(squeeze.result)} = {ref}.views.get({key}) or {call}")
        self._done.add(squeeze)
        return True

    def _call(self, op: CallOp) -> None:
        callee = op.callee.root_reference.data
        self.program.compile(callee, op)
        blocking = callee in self.program.blocking
        call = f"{program_name(callee)}({', '.join(['core', *self._uses(op)])})"
        results = [self._define(result) for result in op.results]
        prefix = f"{_targets(results)} = " if results else ""
        self._line(f"{prefix}{'yield from ' if blocking else ''}{call}")

    def _inline_region(self, op: Operation) -> None:
        names = self._body(driver.single_block(op, 0))
        self._assign([self._define(result) for result in op.results], names)

    def _scope(self, op: RegionOp) -> None:
        names = self._scoped(driver.single_block(op, 0))
        self._assign([self._define(result) for result in op.results], names)

    def _for(self, op: ForOp) -> None:
        block = op.body.block
        low, high, step, *initial = self._uses(op)
        carried = self._carried(block.args[1:], op.results)
        self._assign(carried, initial)
        at_once = self._loop_at_once(op, (low, high, step))
        if at_once is not None:
            self._line(f"if not {at_once}:")
            self._depth += 1
        index = self._define(block.args[0])
        if op.unsigned_cmp is None:
            self._line(f"for {index} in loop_range({low}, {high}, {step}):")
        else:
            bits = width(op.lb.type)
            self._line(f"for {index} in unsigned_range({low}, {high}, {step}, {bits}):")
        self._depth += 1
        self._assign(carried, self._scoped(block))
        self._line("pass")
        self._depth -= 1 if at_once is None else 2

    def _carried(self, arguments: Sequence[SSAValue], results: Sequence[SSAValue]) -> list[str]:
        """One name for each loop-carried value, for the block argument and the result alike.

        The argument's last use is inside the body, but the name lives as long as the loop: it is
        pinned.
        """
        names = [self._fresh("v") for _ in arguments]
        self._names.update(zip(arguments, names, strict=True))
        self._names.update(zip(results, names, strict=True))
        self._pinned.update(names)
        return names

    def _while(self, op: WhileOp) -> None:
        before, after = op.before_region.block, op.after_region.block
        carried = self._carried(before.args, before.args)
        results = self._carried(after.args, op.results)
        self._assign(carried, self._uses(op))
        self._line("while True:")
        self._depth += 1
        condition, *forwarded = self._body(before)
        self._assign(results, forwarded)
        self._line(f"if not {condition}: break")
        self._assign(carried, self._scoped(after))
        self._depth -= 1

    def _if(self, op: IfOp) -> None:
        results = [self._define(result) for result in op.results]
        (condition,) = self._uses(op)
        self._line(f"if {condition}:")
        self._branch(driver.single_block(op, 0), results)
        other = driver.single_block(op, 1)
        if other is not None and (results or driver.steps_of(other)):
            self._line("else:")
            self._branch(other, results)

    def _branch(self, block: Block | None, results: Sequence[str]) -> None:
        """Writes `block` indented, and assigns what it yields to `results`."""
        self._depth += 1
        names = self._body(block)
        self._assign(results, names)
        self._line("pass")
        self._depth -= 1

    def _switch(self, op: IndexSwitchOp) -> None:
        results = [self._define(result) for result in op.results]
        (flag,) = self._uses(op)
        self._line(f"match {flag}:")
        self._depth += 1
        for index, value in enumerate(cast("Sequence[int]", op.cases.get_values())):
            self._line(f"case {value}:")
            self._branch(driver.single_block(op, index + 1), results)
        self._line("case _:")
        self._branch(driver.single_block(op, 0), results)
        self._depth -= 1


def _is_large(op: LoadOp) -> bool:
    return prod(shape_of(op.result.type)) >= LEAST_ELEMENTS


def _tuple(names: Sequence[str]) -> str:
    return f"({''.join(f'{name}, ' for name in names)})"


def _targets(names: Sequence[str]) -> str:
    return "".join(f"{name}, " for name in names).rstrip()


def _captures(block: Block) -> list[SSAValue]:
    """The values that `block` uses and does not define, its own arguments among them."""
    defined: set[SSAValue] = set()
    used: list[SSAValue] = []
    for op in block.walk():
        used += [operand for operand in op.operands if operand not in defined]
        defined.update(op.results)
        for region in op.regions:
            for inner in region.blocks:
                defined.update(inner.args)
    return used
