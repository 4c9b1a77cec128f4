"""What both drivers share: the budget of steps, errors with locations, facts about functions.

A *driver* runs the structure of a function (loops, branches, calls, scopes); what a single op does
is its meaning (`pallasite.interpreter.meanings`). Whatever goes wrong inside a run leaves the
driver as a `Diagnostic` that knows the source line of the op.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from typing import Any, Protocol

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation
from xdsl.traits import is_side_effect_free

from pallasite.diagnostics import DEFECT, Diagnostic, ExecutionError, Note, Unsupported
from pallasite.dialects.func import CallOp, FuncOp, ReturnOp
from pallasite.dialects.in_words import in_words
from pallasite.dialects.integers import unsigned, wrap
from pallasite.dialects.kernel import check_structured, check_structured_region
from pallasite.dialects.locations import refusal, source_location
from pallasite.dialects.scf import (
    ConditionOp,
    ExecuteRegionOp,
    ForOp,
    IfOp,
    IndexSwitchOp,
    WhileOp,
    YieldOp,
)
from pallasite.dialects.tpu import RegionOp, TraceOp
from pallasite.dialects.tpu import YieldOp as TpuYieldOp
from pallasite.dialects.walking import operations, operations_of
from pallasite.interpreter.limits import Elements, op_steps
from pallasite.interpreter.meanings import Facts, lookup
from pallasite.interpreter.values import width

DEFAULT_STEPS = 250_000_000
"""Steps (`limits`) of one run: less than a minute of an endless loop, whatever is in it."""

Run = Generator[Any, None, tuple[Any, ...]]
"""A running function: yields the waits of its core, returns the function's results."""


class Program(Protocol):
    """A module made executable by a driver; lives for one run and belongs to it alone."""

    budget: Budget
    functions: dict[str, FuncOp]

    def function(self, name: str) -> Callable[..., Run]:
        """The function of that symbol, to be called with (core, *arguments)."""
        ...


class Budget:
    """The number of ops that a run may still execute."""

    def __init__(self, steps: int = DEFAULT_STEPS):
        self.limit = steps
        self.left = steps

    def begin(self, steps: int) -> None:
        """A run begins that may execute so many."""
        self.limit = self.left = steps

    def spend(self, steps: int, op: Operation) -> None:
        """Takes `steps` away on entry to a block; `op` is where a run out of steps is reported."""
        self.left -= steps
        if self.left < 0:
            self.exhausted(op)

    def exhausted(self, op: Operation) -> None:
        """Raises the diagnostic of a run that takes too long."""
        raise ExecutionError(
            "step-limit",
            f"execution exceeds {self.limit} steps inside {in_words(op)}",
            source_location(op),
            [Note("an endless loop? a longer run needs a larger limit (max_steps, --max-steps)")],
        )


def find_function(functions: dict[str, FuncOp], name: str, user: Operation | None = None) -> FuncOp:
    """The function called `name` that has one block; `user` is the op that wants it."""
    func = functions.get(name)
    location = source_location(user) if user is not None else None
    if func is None:
        raise ExecutionError("unknown-function", f"no function @{name} in the module", location)
    check_structured(func)
    return func


def single_block(op: Operation, index: int) -> Block | None:
    """The block of region `index` of `op`, None if the region is empty."""
    check_structured_region(op, index)
    return op.regions[index].first_block


def meaning_of(op: Operation, facts: Facts) -> tuple[Callable[..., Any], bool, bool]:
    """(fn, is an effect, may block) of `op`; raises `Unsupported` if nothing says what it means."""
    entry = lookup(op)
    if entry is None:
        if _may_be_left_out(op):
            return partial(_nothing, len(op.results)), False, False
        raise _unknown(op)
    return located_at(op, entry.factory, op, facts), entry.effect, entry.blocking


def located_at(op: Operation, make: Callable[..., Any], *arguments: Any) -> Any:
    """What `make` gives of `arguments`; its errors are told at `op`."""
    try:
        return make(*arguments)
    except Exception as error:
        # Factories, also those that users register, may raise anything.
        raise located(error, op) from error


def steps_of(block: Block) -> int:
    """What entering `block` costs (`limits`); the end of a branch is free, of a loop not."""
    elements = Elements()
    steps = sum(op_steps(op, elements) for op in operations_of(block))
    return steps if isinstance(block.parent_op(), ForOp | WhileOp | FuncOp) else max(steps - 1, 0)


def loop_range(low: int, high: int, step: int) -> range:
    """The induction values of `scf.for`, whose step must be positive."""
    if step <= 0:
        raise ExecutionError("loop-step", f"the step of a loop must be positive, got {step}")
    return range(low, high, step)


def unsigned_range(low: int, high: int, step: int, bits: int) -> Iterator[int]:
    """The induction values of an unsigned `scf.for`, as signed carriers of `bits` bits."""
    numbers = loop_range(*(unsigned(number, bits) for number in (low, high, step)))
    return (wrap(number, bits) for number in numbers)


def induction(op: ForOp, low: int, high: int, step: int) -> Iterable[int]:
    """The induction values of `op`."""
    if op.unsigned_cmp is None:
        return loop_range(low, high, step)
    return unsigned_range(low, high, step, width(op.lb.type))


STRUCTURE = (
    CallOp,
    ConditionOp,
    ExecuteRegionOp,
    ForOp,
    IfOp,
    IndexSwitchOp,
    RegionOp,
    ReturnOp,
    TpuYieldOp,
    TraceOp,
    WhileOp,
    YieldOp,
)
"""What the drivers run themselves."""


def check_known(functions: dict[str, FuncOp], name: str) -> None:
    """Raises `Unsupported` for the first op that function `name`, or what it calls, cannot run."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name in seen or name not in functions:
            continue
        seen.add(name)
        for op in functions[name].body.walk():
            if isinstance(op, CallOp):
                waiting.append(op.callee.root_reference.data)
            if isinstance(op, STRUCTURE) or lookup(op) is not None:
                continue
            if not _may_be_left_out(op):
                raise _unknown(op)


def _may_be_left_out(op: Operation) -> bool:
    """Whether nothing can tell that `op` did not run, as for what lowering drops as dead."""
    return is_side_effect_free(op) and not any(result.uses for result in op.results)


def _nothing(results: int, *operands: Any) -> Any:
    """Something in the place of results that nobody uses."""
    return (None,) * results if results > 1 else None


def _unknown(op: Operation) -> Unsupported:
    name = getattr(getattr(op, "op_name", None), "data", op.name)
    return refusal(op, "no-meaning", f"operation {name} cannot be executed")


def allocates(block: Block) -> bool:
    """Whether running `block` may allocate memory that lives until the end of its scope.

    Scopes are functions, loop bodies and `tpu.region`; what is inside those is theirs.
    """
    for op in operations_of(block):
        if any([type(r.type) is MemRefType for r in op.results]) and not any(
            [type(o.type) is MemRefType for o in op.operands]
        ):
            return True
        if not op.regions or isinstance(op, ForOp | WhileOp | RegionOp):
            continue
        if any(allocates(inner) for region in op.regions for inner in region.blocks):
            return True
    return False


def blocking_functions(functions: dict[str, FuncOp]) -> set[str]:
    """The functions that may suspend, by themselves or through what they call."""
    callers: dict[str, list[str]] = {}
    waiting: list[str] = []
    for name, func in functions.items():
        for op in operations(func):
            if type(op) is CallOp:
                callers.setdefault(op.callee.root_reference.data, []).append(name)
            elif (entry := lookup(op)) is not None and entry.blocking:
                waiting.append(name)
    blocking: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in blocking:
            blocking.add(name)
            waiting += callers.get(name, ())
    return blocking


def is_blocking(op: Operation, functions: set[str]) -> bool:
    """Whether `op` or anything inside it may suspend, `functions` being those that do."""
    for inner in operations(op):
        if type(inner) is CallOp:
            if inner.callee.root_reference.data in functions:
                return True
        elif (entry := lookup(inner)) is not None and entry.blocking:
            return True
    return False


_PLAIN_ERRORS: dict[type[Exception], tuple[str, str]] = {
    RecursionError: ("recursion-limit", "calls nest too deeply"),
    MemoryError: ("host-memory", "this computer has not enough memory to execute the operation"),
    ZeroDivisionError: ("division-by-zero", "integer division by zero"),
    OverflowError: ("overflow", "a number does not fit its type"),
}


def located(error: Exception, op: Operation | None) -> Diagnostic:
    """`error` as a diagnostic that knows where it happened: at `op`, unless it says so itself."""
    where = source_location(op) if op is not None else None
    if isinstance(error, Diagnostic):
        if error.location is None:
            error.location = where
        return error
    name = op.name if op is not None else "the kernel"
    for kind, (code, message) in _PLAIN_ERRORS.items():
        if isinstance(error, kind):
            return ExecutionError(code, f"{message} (in {name})", where)
    return ExecutionError(
        "internal-error",
        f"executing {name} failed: {type(error).__name__}: {error}",
        where,
        [DEFECT],
    )
