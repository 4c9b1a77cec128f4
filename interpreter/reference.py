"""The reference driver: xDSL's `Interpreter` with the registered meanings, op by op.

`MeaningFunctions` (every op that has a meaning) and `StructureFunctions` (functions, branches,
loops, scopes) can be registered in anyone's `Interpreter`; `install` does that. They find the core
they run on in the interpreter's data. `Program` is the driver's common interface; xDSL's
interpreter recurses, so a function that must suspend runs on a greenlet and hands each wait of its
core to the generator outside.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from greenlet import greenlet
from xdsl.dialects.builtin import ModuleOp
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    OpImplResult,
    PythonValues,
    ReturnedValues,
    TerminatorValue,
    impl,
    impl_callable,
    impl_terminator,
    register_impls,
)
from xdsl.ir import Block, Operation

from pallasite.diagnostics import Diagnostic
from pallasite.dialects.func import CallOp, FuncOp, ReturnOp
from pallasite.dialects.kernel import functions_of
from pallasite.dialects.memref import MemRef
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
from pallasite.interpreter import driver
from pallasite.interpreter.driver import Budget, Run
from pallasite.interpreter.meanings import Facts, registered

Values = PythonValues


class Stop(BaseException):
    """Carries a diagnostic through `Interpreter`, which wraps an `Exception` at every level."""

    def __init__(self, diagnostic: Diagnostic):
        super().__init__(diagnostic)
        self.diagnostic = diagnostic


@dataclass
class State:
    """What the functions of one interpreter share."""

    core: Any
    facts: Facts
    budget: Budget = field(default_factory=Budget)
    meanings: dict[Operation, tuple[Callable[..., Any], bool, bool]] = field(
        default_factory=dict[Operation, tuple[Callable[..., Any], bool, bool]]
    )
    steps: dict[Block, int] = field(default_factory=dict[Block, int])
    """What entering a block costs."""
    functions: dict[str, FuncOp] | None = None
    """Those of the interpreter's module by name; `install` looks for them if they are not given."""
    suspend: Callable[[Any], None] | None = None
    """Called with each wait; None where nothing may block."""


def install(interpreter: Interpreter, state: State) -> None:
    """Registers everything that runs TPU kernels in `interpreter`."""
    if state.functions is None:
        state.functions = functions_of(interpreter.module)
    interpreter.register_implementations(MeaningFunctions())
    interpreter.register_implementations(StructureFunctions())
    interpreter.set_data(StructureFunctions, "state", state)


def state_of(interpreter: Interpreter) -> State:
    """The state that `install` put into `interpreter`."""

    def missing() -> NoReturn:
        raise ValueError("call install(interpreter, state) before running kernels")

    return interpreter.get_data(StructureFunctions, "state", missing)


def run_op(interpreter: Interpreter, op: Operation, args: Values) -> Values:
    """Runs `op` by its meaning or effect; the results as a tuple."""
    state = state_of(interpreter)
    try:
        entry = state.meanings.get(op)
        if entry is None:
            entry = state.meanings[op] = driver.meaning_of(op, state.facts)
        fn, effect, blocking = entry
        value = fn(state.core, *args) if effect else fn(*args)
        if blocking:
            value = _drive(value, state)
    except Exception as error:
        # Meanings may raise anything, NumPy's errors included; xDSL's interpreter would wrap them.
        raise Stop(driver.located(error, op)) from error
    if not op.results:
        return ()
    return tuple(value) if len(op.results) > 1 else (value,)


def _drive(effect: Generator[Any, None, Any], state: State) -> Any:
    """Runs a blocking effect to its end, suspending at each of its waits."""
    try:
        while True:
            wait = next(effect)
            if state.suspend is None:
                raise ValueError("this interpreter cannot suspend")
            state.suspend(wait)
    except StopIteration as end:
        return end.value


@register_impls
class MeaningFunctions(InterpreterFunctions):
    """Runs every op class that has a registered meaning or effect."""

    @classmethod
    def _impls(cls) -> Any:
        # The table is the registry's; `@impl` methods would repeat it op by op.
        def run(_: Any, interpreter: Interpreter, op: Operation, args: Values) -> OpImplResult:
            return OpImplResult(run_op(interpreter, op, args), None)

        # Those of `memref` without a meaning are left out where nobody uses their results.
        return [(op_class, run) for op_class in {*registered(), *MemRef.operations}]


@register_impls
class StructureFunctions(InterpreterFunctions):
    """Runs functions, branches, loops and scopes of memory."""

    def _block(self, interpreter: Interpreter, block: Block | None, args: Values = ()) -> Values:
        if block is None:
            return ()
        region, owner = block.parent_region(), block.parent_op()
        if region is None or owner is None:
            raise ValueError("cannot run a detached block")
        state = state_of(interpreter)
        try:
            steps = state.steps.get(block)
            if steps is None:
                steps = state.steps[block] = driver.steps_of(block)
            state.budget.spend(steps, owner)
        except Diagnostic as error:
            raise Stop(error) from error
        return interpreter.run_ssacfg_region(region, args, owner.name)

    def _scoped(self, interpreter: Interpreter, block: Block | None, args: Values = ()) -> Values:
        if block is None or not driver.allocates(block):
            return self._block(interpreter, block, args)
        core = state_of(interpreter).core
        token = core.mark()
        results = self._block(interpreter, block, args)
        core.release(token)
        return results

    def _checked_block(self, op: Operation, index: int) -> Block | None:
        try:
            return driver.single_block(op, index)
        except Diagnostic as error:
            raise Stop(error) from error

    @impl(ForOp)
    def run_for(self, interpreter: Interpreter, op: ForOp, args: Values) -> Values:
        low, high, step, *carried = args
        try:
            indices = driver.induction(op, low, high, step)
        except Diagnostic as error:
            raise Stop(driver.located(error, op)) from error
        for index in indices:
            carried = self._scoped(interpreter, op.body.block, (index, *carried))
        return tuple(carried)

    @impl(WhileOp)
    def run_while(self, interpreter: Interpreter, op: WhileOp, args: Values) -> Values:
        while True:
            proceed, *forwarded = self._block(interpreter, op.before_region.block, args)
            if not proceed:
                return tuple(forwarded)
            args = self._scoped(interpreter, op.after_region.block, tuple(forwarded))

    @impl(IfOp)
    def run_if(self, interpreter: Interpreter, op: IfOp, args: Values) -> Values:
        return self._block(interpreter, self._checked_block(op, 0 if args[0] else 1))

    @impl(IndexSwitchOp)
    def run_switch(self, interpreter: Interpreter, op: IndexSwitchOp, args: Values) -> Values:
        cases: tuple[int, ...] = tuple(op.cases.get_values())
        index = cases.index(args[0]) + 1 if args[0] in cases else 0
        return self._block(interpreter, self._checked_block(op, index))

    @impl(ExecuteRegionOp)
    def run_execute(self, interpreter: Interpreter, op: ExecuteRegionOp, args: Values) -> Values:
        return self._block(interpreter, self._checked_block(op, 0))

    @impl(TraceOp)
    def run_trace(self, interpreter: Interpreter, op: TraceOp, args: Values) -> Values:
        return self._block(interpreter, self._checked_block(op, 0))

    @impl(RegionOp)
    def run_region(self, interpreter: Interpreter, op: RegionOp, args: Values) -> Values:
        return self._scoped(interpreter, self._checked_block(op, 0))

    @impl_terminator(YieldOp)
    def run_yield(
        self, _: Interpreter, op: YieldOp, args: Values
    ) -> tuple[TerminatorValue, Values]:
        return ReturnedValues(args), ()

    @impl_terminator(TpuYieldOp)
    def run_tpu_yield(
        self, _: Interpreter, op: TpuYieldOp, args: Values
    ) -> tuple[TerminatorValue, Values]:
        return ReturnedValues(args), ()

    @impl_terminator(ConditionOp)
    def run_condition(
        self, _: Interpreter, op: ConditionOp, args: Values
    ) -> tuple[TerminatorValue, Values]:
        return ReturnedValues(args), ()

    @impl_terminator(ReturnOp)
    def run_return(
        self, _: Interpreter, op: ReturnOp, args: Values
    ) -> tuple[TerminatorValue, Values]:
        return ReturnedValues(args), ()

    @impl(CallOp)
    def run_call(self, interpreter: Interpreter, op: CallOp, args: Values) -> Values:
        functions = state_of(interpreter).functions or {}
        try:
            callee = driver.find_function(functions, op.callee.root_reference.data, op)
        except Diagnostic as error:
            raise Stop(error) from error
        return self.call_function(interpreter, callee, args)

    @impl_callable(FuncOp)
    def call_function(self, interpreter: Interpreter, op: FuncOp, args: Values) -> Values:
        return self._scoped(interpreter, op.body.block, args)


class Program:
    """The functions of a module, run op by op; belongs to one run."""

    def __init__(self, module: ModuleOp, facts: Facts, budget: Budget | None = None):
        self.module = module
        self.facts = facts
        self.budget = budget if budget is not None else Budget()
        self.functions = functions_of(module)
        self._meanings: dict[Operation, tuple[Callable[..., Any], bool, bool]] = {}

    def function(self, name: str) -> Callable[..., Run]:
        """The function of that symbol: `run(core, *arguments)` is a generator of waits."""
        func = driver.find_function(self.functions, name)
        driver.check_known(self.functions, name)

        def run(core: Any, *arguments: Any) -> Run:
            main = greenlet(lambda: self._call(func, core, arguments))
            # A greenlet starts with an empty context; NumPy keeps its error state there.
            main.gr_context = copy_context()
            answer: Any = main.switch()
            while not main.dead:
                yield answer
                answer = main.switch()
            return answer

        return run

    def _call(self, func: FuncOp, core: Any, arguments: Values) -> Values:
        outside = greenlet.getcurrent().parent
        interpreter = Interpreter(self.module)
        suspend = cast("Callable[[Any], None]", outside.switch) if outside is not None else None
        state = State(core, self.facts, self.budget, self._meanings)
        state.functions, state.suspend = self.functions, suspend
        install(interpreter, state)
        try:
            return interpreter.call_op(func, arguments)
        except Stop as stop:
            raise stop.diagnostic from stop.diagnostic.__cause__
        except Exception as error:
            # Outside of `run_op`: by the structure of the function or by xDSL's interpreter.
            raise driver.located(error, func) from error
