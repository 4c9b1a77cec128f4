"""Verification costs no more than a few walks over the module."""

from __future__ import annotations

import pytest
from xdsl.ir import Operation
from xdsl.traits import SymbolTable

import pallasite
from pallasite.dialects import verification


def test_callees_are_found_by_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[Operation] = []
    symbols_in = verification.symbols_in

    def counted(table: Operation) -> dict[str, Operation]:
        walks.append(table)
        return symbols_in(table)

    def refused(*_: object) -> None:
        raise AssertionError("a walk for a single symbol")

    monkeypatch.setattr(verification, "symbols_in", counted)
    monkeypatch.setattr(SymbolTable, "lookup_symbol", refused)
    functions = "\n".join(f"func.func @f{n}() {{ func.return }}" for n in range(20))
    calls = "\n".join(f"func.call @f{n}() : () -> ()" for n in range(20))
    module = pallasite.parse(f"{functions} func.func @main() {{ {calls} func.return }}")
    assert walks == [module]
