"""Index maps as terms over `d0`, `d1`, ..., a prefetched table `t` and integers."""

from __future__ import annotations

from collections.abc import Sequence

ARITHMETIC = {"+": "addi", "-": "subi", "*": "muli", "/": "divsi"}


def term(text: str, prefix: str, lines: list[str]) -> str:
    """Writes `text` as operations into `lines`; returns the value's name."""

    def fresh(operation: str) -> str:
        lines.append(f"%{prefix}{len(lines)} = {operation}")
        return f"%{prefix}{len(lines) - 1}"

    for symbol in "+-*/":
        if symbol in text:
            left, right = (term(t, prefix, lines) for t in text.split(symbol, 1))
            return fresh(f"arith.{ARITHMETIC[symbol]} {left}, {right} : i32")
    if text == "t":
        index = fresh("arith.index_cast %d0 : i32 to index")
        return fresh(f"memref.load %t[{index}] : !table")
    return f"%{text}" if text.startswith("d") else fresh(f"arith.constant {text} : i32")


def evaluate(text: str, point: Sequence[int], table: Sequence[int]) -> int:
    """The value of a term at a point of the grid; `t` reads the table at its first index."""
    names: dict[str, object] = {f"d{n}": p for n, p in enumerate(point)}
    names["t"] = table[point[0]] if table else None
    return eval(text.replace("/", "//"), {}, names)  # terms of tests only
