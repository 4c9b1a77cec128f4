"""Every operation in both forms, against what MLIR prints (spec/tpu_dialect.md appendix A)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser

from pallasite.dialects import make_context
from pallasite.dialects.tpu import Tpu

from ...jaxlib_context import mosaic_context
from ...printing import printed

DATA = Path(__file__).parents[2] / "data" / "tpu_examples.txt"


@dataclass(frozen=True)
class Example:
    """One operation as MLIR prints it, and the core of the function it may stand in."""

    core: str
    custom: str
    generic: str

    def function(self, text: str) -> str:
        """A module around `text` that defines the values it may use."""
        arguments = ", ".join(f"{name}: {type}" for name, type in VALUES)
        return (
            f"func.func @f({arguments})"
            f" attributes {{tpu.core_type = #tpu.core_type<{self.core}>}} {{\n{text}\nreturn\n}}\n"
        )


def read_examples() -> tuple[list[tuple[str, str]], list[Example]]:
    """The values that examples use with their types, and the examples."""
    values: list[tuple[str, str]] = []
    examples: list[Example] = []
    for block in DATA.read_text().strip().split("\n\n"):
        lines = block.split("\n")
        if lines[0].startswith("#"):
            values += re.findall(r"^# (%\w+): (.*)$", block, re.MULTILINE)
            continue
        core = lines.pop(0)[1:] if lines[0].startswith("@") else "tc"
        custom, generic = "\n".join(lines).split("\n---\n")
        examples.append(Example(core, custom, generic))
    return values, examples


VALUES, EXAMPLES = read_examples()


def parse(example: Example, text: str) -> tuple[ModuleOp, Operation]:
    """A verified module, and its first operation of the dialect."""
    module = Parser(make_context(), example.function(text)).parse_module()
    module.verify()
    return module, next(op for op in module.walk() if op.name.startswith("tpu."))


def printed_alone(op: Operation, *, generic: bool) -> str:
    """`op` as text without the names of its results."""
    return without_results(printed(op, generic=generic))


def without_results(text: str) -> str:
    return re.sub(r"^%.*? = ", "", text.strip())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: without_results(e.custom)[:60])
def test_both_forms_parse_print_and_agree(example: Example) -> None:
    custom_module, custom = parse(example, example.custom)
    generic_module, generic = parse(example, example.generic)
    assert custom_module.is_structurally_equivalent(generic_module)
    for op in (custom, generic):
        assert printed_alone(op, generic=False) == without_results(example.custom)
        assert printed_alone(op, generic=True) == without_results(example.generic)


def test_every_operation_has_an_example() -> None:
    shown = {match for e in EXAMPLES for match in re.findall(r'"(tpu\.\w+)"', e.generic)}
    assert {op.name for op in Tpu.operations} - shown == NEWER_OR_OLDER


NEWER_OR_OLDER = {
    "tpu.logistic",
    "tpu.matmul_lhs_fifo",
    "tpu.matmul_pop_fifo",
    "tpu.rotate",
}
"""What the reference parser does not know: from other versions of the dialect."""


@pytest.mark.jax
@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: without_results(e.custom)[:60])
def test_jaxlib_reads_what_we_print(example: Example, generic: bool) -> None:
    ir = pytest.importorskip("jaxlib.mlir.ir")
    module, _ = parse(example, example.custom)
    with mosaic_context(), ir.Location.unknown():
        ours = ir.Module.parse(printed(module, generic=generic))
        theirs = ir.Module.parse(example.function(example.custom))
        assert str(ours) == str(theirs)
