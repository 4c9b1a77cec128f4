"""A module as a program of Python functions, each compiled when first asked for.

A function is walked once and its source is written by `writer`. Almost every operation becomes one
line: a scalar expression (`inline`) or a call of the `fn` that the factory of its meaning made,
bound as a global of the generated code:

    def fn_kernel(core, v1, v2):
     v4 = e3_fn_kernel(core, v1, 0)              a load, with an effect
     v4 = f6_fn_kernel(v4, k5_fn_kernel)         a sum with a constant

A function that may suspend is a generator function and delegates (`yield from`) exactly where an
operation may block; the others are plain functions. Each generated line remembers its operation, so
an error that passes through it gets the source location of the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pallasite.collection import paused
from pallasite.diagnostics import Diagnostic
from pallasite.dialects.integers import wrap
from pallasite.dialects.kernel import functions_of
from pallasite.interpreter import driver
from pallasite.interpreter.compiled.fold import Folder
from pallasite.interpreter.compiled.packs import joined, spread
from pallasite.interpreter.compiled.writer import FunctionWriter
from pallasite.interpreter.driver import Budget, Run
from pallasite.interpreter.meanings import Facts


class Program:
    """The functions of a module as Python functions, compiled when first asked for.

    A program belongs to one run at a time: the budget and the globals of the generated code are its
    own. `module` must not change meanwhile.
    """

    def __init__(self, module: ModuleOp, facts: Facts, budget: Budget | None = None):
        self.facts = facts
        self.budget = budget if budget is not None else Budget()
        self.functions = functions_of(module)
        self.blocking = driver.blocking_functions(self.functions)
        self.globals: dict[str, Any] = {
            "wrap": wrap,
            "budget": self.budget,
            "loop_range": driver.loop_range,
            "unsigned_range": driver.unsigned_range,
            "joined": joined,
            "spread": spread,
        }
        self.folder = Folder()
        self.effects: set[Any] = set()
        """Types of operations with effects that were compiled, and `PACKS` for packs of them."""
        self.sources: dict[str, str] = {}
        """Generated Python source of each compiled function, for the curious."""
        self._lines: dict[str, list[Operation | None]] = {}
        self._compiled: dict[str, Callable[..., Any]] = {}

    def function(self, name: str) -> Callable[..., Run]:
        """The function named `name`: `run(core, *arguments)` is a generator of waits that returns
        its results.

        It raises `Diagnostic`, at the operation that failed, whatever the meaning raised.
        """
        compiled = self.compile(name)
        blocking = name in self.blocking

        def run(core: Any, *arguments: Any) -> Run:
            try:
                if blocking:
                    return (yield from compiled(core, *arguments))
                return compiled(core, *arguments)
            except Exception as error:
                # Meanings and effects may raise anything, NumPy's errors included: callers get a
                # diagnostic at the operation whose generated line raised it.
                diagnostic = self._located(error)
                if diagnostic is error:
                    raise
                raise diagnostic from error

        return run

    def compile(self, name: str, user: Operation | None = None) -> Callable[..., Any]:
        """The Python function for symbol `name`, which returns the tuple of the results.

        `user` is the call that asks for it, for the message if there is no such function.
        """
        if name not in self._compiled:
            func = driver.find_function(self.functions, name, user)
            self._compiled[name] = lambda *_: None  # reserves the name against recursion
            try:
                self._compiled[name] = self._written(name, func)
            except BaseException:
                # Also after an interrupt: the reserved name must not be taken for the function.
                del self._compiled[name]
                raise
        return self._compiled[name]

    def _written(self, name: str, func: FuncOp) -> Callable[..., Any]:
        """Writes, compiles and executes the source of `func`, and returns the function."""
        filename = f"<pallasite @{name}>"
        with paused():
            writer = FunctionWriter(self, func)
            writer.write()
            self.sources[filename] = "\n".join(writer.lines) + "\n"
            self._lines[filename] = writer.line_ops
            exec(compile(self.sources[filename], filename, "exec"), self.globals)
        return self.globals[writer.python_name]

    def _located(self, error: Exception) -> Diagnostic:
        """`error` as a diagnostic at the operation whose line raised it."""
        return driver.located(error, self._culprit(error.__traceback__))

    def _culprit(self, traceback: TracebackType | None) -> Operation | None:
        """The operation of the innermost generated line in `traceback`."""
        culprit: Operation | None = None
        while traceback is not None:
            frame = traceback.tb_frame
            if frame.f_globals is self.globals:
                lines = self._lines.get(frame.f_code.co_filename, [])
                if 0 < traceback.tb_lineno <= len(lines):
                    culprit = lines[traceback.tb_lineno - 1]
            traceback = traceback.tb_next
        return culprit
