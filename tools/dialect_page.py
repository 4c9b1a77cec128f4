"""Writes `docs/pallas_dialect.md` from the definitions of the `pallas` dialect.

    python -m pallasite.tools.dialect_page          # rewrites the page
    python -m pallasite.tools.dialect_page --check  # says whether it is up to date

Texts are the docstrings of the operations, tables their definitions; what the verifiers refuse are
the messages that the tests `test/dialects/pallas/*_invalid.mlir` expect.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ArrayOfConstraint
from xdsl.irdl import (
    AnyAttr,
    BaseAttr,
    EqAttrConstraint,
    IRDLOperation,
    OptPropertyDef,
    ParamAttrConstraint,
    RangeLengthConstraint,
    RangeOf,
)

from pallasite.dialects import pallas
from pallasite.dialects.pallas import attrs, indexing, kernel_text, pipeline_text

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "pallas_dialect.md"
TESTS = ROOT / "test" / "dialects" / "pallas"
SYNTAX = {
    "pallas.kernel": kernel_text,
    "pallas.emit_pipeline": pipeline_text,
    "pallas.load": indexing,
}
"""Modules whose docstrings tell the text of an operation."""
_REFUSED = re.compile(r"// CHECK: '(pallas\.\w+)': (.*)")
_HOW_MANY = {"Var": " (any number)", "Opt": " (optional)"}


def page() -> str:
    """The text of the page."""
    refused = _messages()
    lines = [
        "# The `pallas` dialect",
        "",
        "*Written by `python -m pallasite.tools.dialect_page` from the definitions.*",
        "",
        _text(sys.modules[pallas.__name__].__doc__),
        "",
    ]
    for op in pallas.OPERATIONS:
        lines += [f"## `{op.name}`", "", _text(op.__doc__), ""]
        if op.name in SYNTAX:
            lines += [_text(SYNTAX[op.name].__doc__), ""]
        lines += _table(op)
        if op.name in refused:
            lines += ["Refused, as the tests have it:", ""]
            lines += [f"* {message}" for message in refused[op.name]] + [""]
    lines += ["## Attributes", "", _text(attrs.__doc__), ""]
    for attribute in (pallas.OperandAttr, pallas.WindowAttr, pallas.DimAttr):
        lines += [f"### `#{attribute.name}`", "", _text(attribute.__doc__), ""]
    return "\n".join(lines).rstrip() + "\n"


def _text(docstring: str | None) -> str:
    return cleandoc(docstring or "")


def _messages() -> dict[str, list[str]]:
    """By operation, the messages that tests expect."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.glob("*_invalid.mlir")):
        for name, message in _REFUSED.findall(path.read_text()):
            messages = found.setdefault(name, [])
            # A test of the same rule may stop at a semicolon.
            if not any(known.startswith(message.rstrip(";")) for known in messages):
                messages.append(message)
    return found


def _table(op: type[IRDLOperation]) -> list[str]:
    return ["| | name | type |", "| --- | --- | --- |", *_rows(op), ""]


def _rows(op: type[IRDLOperation]) -> Iterator[str]:
    definition: Any = op.get_irdl_definition()
    for kind in ("operands", "properties", "results", "regions"):
        entries = getattr(definition, kind)
        for name, entry in entries.items() if isinstance(entries, dict) else entries:
            if name == "operandSegmentSizes":
                continue
            many = next((t for p, t in _HOW_MANY.items() if type(entry).__name__.startswith(p)), "")
            constraint = getattr(entry, "constr", None)
            what = "one block" if kind == "regions" else type_text(constraint)
            role = {"properties": "property"}.get(kind, kind[:-1])
            optional = " (optional)" if isinstance(entry, OptPropertyDef) else many
            yield f"| {role} | `{name}` | {what}{optional} |"


def type_text(constraint: Any) -> str:
    """What a constraint admits, in words."""
    match constraint:
        case RangeLengthConstraint():
            return type_text(constraint.constraint)
        case RangeOf():
            return type_text(constraint.constr)
        case ArrayOfConstraint():
            return f"array of {type_text(constraint.elem_range_constraint)}"
        case EqAttrConstraint():
            return f"`{constraint.attr}`"
        case BaseAttr():
            return f"`{constraint.attr.name}`"
        case ParamAttrConstraint():
            element = next(c for c in constraint.param_constrs if isinstance(c, EqAttrConstraint))
            name = "array<{}>" if constraint.base_attr.name == "array" else "{}"
            return f"`{name.format(element.attr)}`"
        case AnyAttr():
            return "any"
        case _:
            return type(constraint).__name__


def main() -> None:
    """Rewrites the page, or checks it."""
    parser = argparse.ArgumentParser(description=f"Writes {PAGE.name} from the definitions.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it is stale")
    if not parser.parse_args().check:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        raise SystemExit(f"{PAGE.name} is not up to date: python -m pallasite.tools.dialect_page")


if __name__ == "__main__":
    main()
