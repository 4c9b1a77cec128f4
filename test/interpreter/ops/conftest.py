"""Builds the meaning of one op from its text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from pallasite.dialects import make_context
from pallasite.dialects.func import FuncOp
from pallasite.interpreter.facts import Facts
from pallasite.interpreter.meanings import lookup
from pallasite.interpreter.values import quiet
from pallasite.targets import get_target


@pytest.fixture(autouse=True)
def numbers(request: pytest.FixtureRequest) -> None:
    """The same for a test, whichever tests of its module ran before it."""
    seed: np.random.Generator | None = getattr(request.module, "SEED", None)
    if seed is not None:
        seed.bit_generator.state = np.random.default_rng(0).bit_generator.state


def build(
    text: str, poison: int = 0, target: str = "v6e", core: str = "tc", number: int = 0, **types: str
) -> Callable[..., Any]:
    """The meaning of an op in `text`, whose operands are arguments of the given types."""
    arguments = ", ".join(f"%{name}: {type}" for name, type in types.items())
    kind = f"attributes {{tpu.core_type = #tpu.core_type<{core}>}}"
    source = f"func.func @f({arguments}) {kind} {{\n  {text}\n  func.return\n}}"
    module = Parser(make_context(), source).parse_module()
    assert isinstance(module, ModuleOp)
    module.verify()
    func = next(iter(module.body.block.ops))
    assert isinstance(func, FuncOp)
    op = list(func.body.block.ops)[number]
    found = lookup(op)
    assert found is not None and not found.effect
    function = found.factory(op, Facts(get_target(target), poison))

    def call(*operands: Any) -> Any:
        with quiet():
            return function(*operands)

    return call


@pytest.fixture(scope="session")
def meaning() -> Callable[..., Callable[..., Any]]:
    return build
