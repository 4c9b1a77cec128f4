"""How tests drive functions without the machine's scheduler."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from pallasite.dialects import make_context


def parse(text: str) -> ModuleOp:
    module = Parser(make_context(), text, "kernel.mlir").parse_module()
    module.verify()
    return module


def finish(run: Generator[Any, None, Any]) -> Any:
    """Runs a generator that never waits."""
    try:
        next(run)
    except StopIteration as end:
        return end.value
    raise AssertionError("the function waits")
