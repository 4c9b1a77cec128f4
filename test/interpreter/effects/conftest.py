"""Runs MLIR text by both drivers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from pallasite.dialects import make_context
from pallasite.interpreter import compiled, reference, values
from pallasite.interpreter.machine.machine import Machine
from pallasite.interpreter.meanings import Facts
from pallasite.targets import get_target

V5E = get_target("v5e")


class Runner:
    """Runs `@main` of a module; memref arguments are allocated from the given arrays."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def __call__(
        self,
        text: str,
        *arrays: Any,
        devices: int = 1,
        change: Callable[[ModuleOp], None] | None = None,
        **options: Any,
    ) -> Any:
        module = Parser(make_context(), text).parse_module()
        if change is not None:
            change(module)
        module.verify()
        self.machine = Machine(V5E, devices=devices, **options)
        program = self.driver.Program(module, Facts(V5E))
        types = program.functions["main"].body.block.args
        run = program.function("main")
        self.refs = []
        for core in self.machine.cores:
            core.bounds = (3, 5)
            refs = [core.allocate(v.type, f"arg{i}") for i, v in enumerate(types)]
            for ref, array in zip(refs, arrays, strict=False):
                if array is not None:
                    ref.write(np.asarray(array, ref.codec.carrier))
            self.refs.append(refs)
        with values.quiet():
            results = self.machine.run(
                [(c, run(c, *r)) for c, r in zip(self.machine.cores, self.refs, strict=True)]
            )
        return results[0] if devices == 1 else results


@pytest.fixture(params=[compiled, reference], ids=["compiled", "reference"])
def run(request) -> Runner:
    return Runner(request.param)
