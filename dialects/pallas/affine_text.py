"""Index maps in text: affine expressions over the names of grid axes, as in `(i, k * 2 + 1)`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)
from xdsl.parser import AttrParser

RESERVED = ("floordiv", "ceildiv", "mod")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
_POSITION = re.compile(r"d\d+")
_SIGNS: dict[AffineBinaryOpKind, str] = {
    AffineBinaryOpKind.Add: "+",
    AffineBinaryOpKind.Mul: "*",
    AffineBinaryOpKind.FloorDiv: "floordiv",
    AffineBinaryOpKind.CeilDiv: "ceildiv",
    AffineBinaryOpKind.Mod: "mod",
}
_SUM, _PRODUCT, _ATOM = 1, 2, 3


def is_identifier(name: str) -> bool:
    """Whether `name` can be written without quotes."""
    return _IDENTIFIER.fullmatch(name) is not None


def axis_variables(names: Sequence[str]) -> list[str]:
    """What index maps call the axes: their names, or `d0`, `d1`, ... where those do not serve."""
    return [
        name
        if is_identifier(name)
        and name not in RESERVED
        and not _POSITION.fullmatch(name)
        and list(names).count(name) == 1
        else f"d{axis}"
        for axis, name in enumerate(names)
    ]


def map_text(map: AffineMap, variables: Sequence[str]) -> str:
    """The results of `map` in parentheses."""
    return f"({', '.join(_text(result, variables, _SUM) for result in map.results)})"


def _text(expr: AffineExpr, variables: Sequence[str], least: int) -> str:
    """`expr`, in parentheses if it binds less than `least`."""
    if isinstance(expr, AffineDimExpr):
        return variables[expr.position]
    if not isinstance(expr, AffineBinaryOpExpr):
        return str(expr)
    binds = _SUM if expr.kind is AffineBinaryOpKind.Add else _PRODUCT
    sign, right = _SIGNS[expr.kind], expr.rhs
    if binds == _SUM and isinstance(right, AffineConstantExpr) and right.value < 0:
        sign, right = "-", AffineExpr.constant(-right.value)
    text = f"{_text(expr.lhs, variables, binds)} {sign} {_text(right, variables, binds + 1)}"
    return f"({text})" if binds < least else text


def parse_map(parser: AttrParser, variables: Sequence[str]) -> AffineMap:
    """Reads what `map_text` writes, after its opening parenthesis."""
    results: list[AffineExpr] = []
    if parser.parse_optional_punctuation(")") is None:
        results = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, lambda: _parse_sum(parser, variables)
        )
        parser.parse_punctuation(")")
    return AffineMap(len(variables), 0, tuple(results))


def _parse_sum(parser: AttrParser, variables: Sequence[str]) -> AffineExpr:
    total = _parse_product(parser, variables)
    while True:
        if parser.parse_optional_punctuation("+") is not None:
            total = total + _parse_product(parser, variables)
        elif parser.parse_optional_punctuation("-") is not None:
            total = total - _parse_product(parser, variables)
        else:
            return total


def _parse_product(parser: AttrParser, variables: Sequence[str]) -> AffineExpr:
    value = _parse_atom(parser, variables)
    while True:
        if parser.parse_optional_punctuation("*") is not None:
            value = value * _parse_atom(parser, variables)
        elif parser.parse_optional_keyword("floordiv") is not None:
            value = value // _parse_atom(parser, variables)
        elif parser.parse_optional_keyword("ceildiv") is not None:
            value = value.ceil_div(_parse_atom(parser, variables))
        elif parser.parse_optional_keyword("mod") is not None:
            value = value % _parse_atom(parser, variables)
        else:
            return value


def _parse_atom(parser: AttrParser, variables: Sequence[str]) -> AffineExpr:
    # First: a minus sign that a number is looked for behind has to be that of a number.
    if parser.parse_optional_punctuation("-") is not None:
        return -_parse_atom(parser, variables)
    number = parser.parse_optional_integer(allow_boolean=False)
    if number is not None:
        return AffineExpr.constant(number)
    if parser.parse_optional_punctuation("(") is not None:
        value = _parse_sum(parser, variables)
        parser.parse_punctuation(")")
        return value
    start = parser.pos
    name = parser.parse_identifier("an axis of the grid")
    if name not in variables:
        axes = ", ".join(variables) or "none"
        parser.raise_error(f"expected an axis of the grid ({axes}), got {name}", start, parser.pos)
    return AffineExpr.dimension(variables.index(name))
