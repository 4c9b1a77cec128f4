"""The compiled driver: a function is walked once and becomes one Python function.

Every op becomes one line: a scalar expression (`inline`) or a call of the `fn` that its
meaning's factory made, bound as a global of the generated code. A function that may suspend is a
generator function and delegates (`yield from`) exactly where an op may block; the others are plain
functions. Generated lines remember their op, so an error that passes through them gets the source
location of the op.
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

    Belongs to one run at a time: the budget and the generated code's globals are its own. `module`
    must not change meanwhile.
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
        """The types of operations with effects in compiled functions, and `PACKS` of some."""
        self.sources: dict[str, str] = {}
        """Generated Python source of each compiled function, for the curious."""
        self._lines: dict[str, list[Operation | None]] = {}
        self._compiled: dict[str, Callable[..., Any]] = {}

    def function(self, name: str) -> Callable[..., Run]:
        """The function of that symbol: `run(core, *arguments)` is a generator of waits."""
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
        """The Python function of that symbol, which returns the tuple of the results."""
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
        filename = f"<pallasite @{name}>"
        with paused():
            writer = FunctionWriter(self, func)
            writer.write()
            self.sources[filename] = "\n".join(writer.lines) + "\n"
            self._lines[filename] = writer.line_ops
            exec(compile(self.sources[filename], filename, "exec"), self.globals)
        return self.globals[writer.python_name]

    def _located(self, error: Exception) -> Diagnostic:
        return driver.located(error, self._culprit(error.__traceback__))

    def _culprit(self, traceback: TracebackType | None) -> Operation | None:
        """The op of the innermost generated line that the error passed through."""
        culprit: Operation | None = None
        while traceback is not None:
            frame = traceback.tb_frame
            if frame.f_globals is self.globals:
                lines = self._lines.get(frame.f_code.co_filename, [])
                if 0 < traceback.tb_lineno <= len(lines):
                    culprit = lines[traceback.tb_lineno - 1]
            traceback = traceback.tb_next
        return culprit
