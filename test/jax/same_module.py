"""Whether two kernels are the same up to the order and number of operations without effects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from pallasite.frontend import read

VERSION = re.compile(r" \{(stable_mosaic.version = \d+ : i64)?\}(?= : \(\) -> \(\)\s*$)")
"""The attributes of a module, at the end of its generic text."""


def canonical(jaxlib: Any, module: Any) -> ModuleOp:
    """A module of jaxlib after MLIR's canonicalize and cse."""
    text = jaxlib.generic(jaxlib.run(module, "canonicalize,cse,canonicalize"))
    return read(VERSION.sub("", text), "<canonical>", 0)


def described(module: ModuleOp) -> list[str]:
    """One line per operation with effects; two kernels are the same if their lines are."""
    return list(_Describer().block(module.body.block))


class _Describer:
    """Numbers values by what computes them."""

    def __init__(self) -> None:
        self.numbers: dict[SSAValue, str] = {}
        self.events = 0

    def block(self, block: Block) -> Iterator[str]:
        for argument in block.args:
            self.numbers[argument] = f"{self._next()}: {argument.type}"
        for op in block.ops:
            yield from self.operation(op)

    def operation(self, op: Operation) -> Iterator[str]:
        operands = ", ".join(self.numbers[operand] for operand in op.operands)
        facts = sorted(f"{k} = {v}" for k, v in {**op.properties, **op.attributes}.items())
        types = ", ".join(str(result.type) for result in op.results)
        text = f"{op.name}({operands}) {facts} -> {types}"
        if not op.regions and op.results and is_side_effect_free(op):
            name = sha256(text.encode()).hexdigest()[:12]
        else:
            name = self._next()
            yield text
        for region in op.regions:
            for block in region.blocks:
                yield from self.block(block)
                yield "end"
        for n, result in enumerate(op.results):
            self.numbers[result] = f"{name}.{n}"

    def _next(self) -> str:
        self.events += 1
        return str(self.events)
