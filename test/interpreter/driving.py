"""How tests drive functions without the machine's scheduler, and compare the two drivers."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from pallasite.dialects import make_context
from pallasite.interpreter import compiled, reference
from pallasite.interpreter.driver import Budget
from pallasite.interpreter.machine.machine import Machine
from pallasite.interpreter.meanings import Facts
from pallasite.interpreter.values import quiet
from pallasite.targets import get_target

V5E = get_target("v5e")
SUBLANES = "sublanes [true, true, true, true, true, true, true, true] sublane_stride 1"


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


class Text:
    """A function of two arrays in VMEM, of type `memref`, line by line."""

    def __init__(self, memref: str, lines: Sequence[str]) -> None:
        self.memref = memref
        self.lines = list(lines)

    def value(self, line: str) -> str:
        """Adds an operation with one result; the result's name."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {line}")
        return name

    def __str__(self) -> str:
        body = "\n".join(self.lines)
        return f"func.func @main(%a: {self.memref}, %b: {self.memref}) {{\n{body}\nreturn\n}}"


def source_of(program: Any) -> str:
    """The Python that the compiled driver has generated; none of the reference's."""
    return "".join(getattr(program, "sources", {}).values())


def leave(
    driver: Any, module: ModuleOp, arrays: Sequence[Any], checks: tuple[str, ...] = ()
) -> tuple[list[Any], str]:
    """What `main`, called with refs of `arrays`, leaves in these, and the generated Python."""
    machine = Machine(V5E, checks=checks)
    core = machine.cores[0]
    main: Any = module.body.block.first_op
    refs = [core.allocate(argument.type) for argument in main.body.block.args]
    for ref, array in zip(refs, arrays, strict=True):
        ref.write(array)
    program = driver.Program(module, Facts(V5E), Budget(10**6))
    with quiet():
        machine.run([(core, program.function("main")(core, *refs))])
    return [ref.read() for ref in refs], source_of(program)


def leave_same(module: ModuleOp, arrays: Sequence[Any], checks: tuple[str, ...] = ()) -> str:
    """Asserts that both drivers leave the same bits in float32 `arrays`; the generated Python."""
    found, source = leave(compiled, module, arrays, checks)
    expected, _ = leave(reference, module, arrays, checks)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))
    return source
