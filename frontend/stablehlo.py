"""Finds `tpu_custom_call`s in StableHLO (or MHLO) module text, in custom and generic form.

```
%0 = stablehlo.custom_call @tpu_custom_call(%a) {backend_config = "...", ...} : (T) -> T
%0 = "stablehlo.custom_call"(%a) <{call_target_name = "tpu_custom_call", ...}> {...} : (T) -> T
```
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, TensorType, TupleType
from xdsl.ir import Attribute
from xdsl.parser import Parser

from pallasite.dialects.kernel_call import BOOLEANS, EFFECTS, NAME
from pallasite.frontend.calls import TARGET, CallSite, check_aliases
from pallasite.frontend.scan import Token, Tokens, unescape

DIALECTS = ("stablehlo.", "mhlo.", "vhlo.")
"""What the names of a program's operations and attributes begin with."""
_OPERATIONS = ("stablehlo.custom_call", "mhlo.custom_call")

Value = tuple[int, int]
"""First token of an attribute's value, and the one after its last."""


def is_program(tokens: Iterable[Token]) -> bool:
    """Whether the text speaks of a StableHLO dialect outside strings, or names its operations.

    Takes `tokens` up to the first that tells.
    """
    quoted = False
    for token in tokens:
        if quoted and token.kind == "(":
            return True
        ours = token.text.lstrip('"#!').startswith(DIALECTS)
        if ours and token.kind == "word":
            return True
        quoted = ours and token.kind == "string"
    return False


def find_calls(tokens: Tokens) -> list[CallSite]:
    """The calls in the order of the text."""
    sites: list[CallSite] = []
    for index in tokens.find((*_OPERATIONS, *(f'"{name}"' for name in _OPERATIONS))):
        generic = tokens.kind(index) == "string"
        site = _generic(tokens, index) if generic else _custom(tokens, index)
        if site is not None:
            check_aliases(site)
            sites.append(site)
    return sites


def _custom(tokens: Tokens, index: int) -> CallSite | None:
    quoted = tokens.word(index + 1) == "@"
    target = tokens.word(index + 2)[1:-1] if quoted else tokens.word(index + 1)[1:]
    return _site(tokens, index, index + 2 + quoted) if target == TARGET else None


def _generic(tokens: Tokens, index: int) -> CallSite | None:
    if tokens.kind(index + 1) != "(":
        return None
    attributes, _ = _attributes(tokens, index + 1)
    target = attributes.get("call_target_name")
    if target is None or _string(tokens, target) != TARGET:
        return None
    return _site(tokens, index, index + 1)


def _site(tokens: Tokens, index: int, operands: int) -> CallSite:
    """The call whose operation stands at `index` and whose operand list opens at `operands`."""
    tokens.expect(operands, "(")
    attributes, position = _attributes(tokens, operands)
    inputs, outputs = _function_type(tokens, position)
    sizes = _elements(tokens, attributes.get("indices_of_shape_operands"))
    inputs = tuple(type for number, type in enumerate(inputs) if number not in sizes)
    config = attributes.get("backend_config")
    if config is None:
        raise tokens.error(index, "expected an attribute backend_config", "bad-configuration")
    extra: dict[str, Any] = {}
    kernel_name = attributes.get("kernel_name")
    if kernel_name is not None:
        extra[NAME] = _string(tokens, kernel_name)
    effect = attributes.get("has_side_effect")
    if effect is not None and tokens.word(effect[0]) == "true":
        extra[EFFECTS] = True
    metadata = _metadata(tokens, attributes.get("mhlo.frontend_attributes"))
    if metadata:
        extra["metadata"] = metadata
    booleans = _boolean_results(tokens, index, len(outputs))
    if booleans:
        extra[BOOLEANS] = booleans
    return CallSite(
        _string(tokens, config),
        inputs,
        outputs,
        _aliases(tokens, attributes.get("output_operand_aliases")),
        tokens.location(index),
        extra,
    )


def _metadata(tokens: Tokens, value: Value | None) -> Any:
    """What `metadata=` of the kernel says, JSON among the attributes for the front end."""
    start, end = value or (0, 0)
    for index in range(start, end):
        if tokens.word(index) == "kernel_metadata" and tokens.word(index + 1) == "=":
            text = _string(tokens, (index + 2, index + 3))
            try:
                return json.loads(text)
            except ValueError:
                return text
    return None


_COMPARISONS = ("stablehlo.compare", "mhlo.compare")
_BROADCASTS = ("stablehlo.broadcast_in_dim", "mhlo.broadcast_in_dim")
_CONSTANTS = ("stablehlo.constant", "mhlo.constant")


def _boolean_results(tokens: Tokens, index: int, count: int) -> list[int]:
    """The results that the program does nothing with but compare them with zero: arrays of bool
    are i32 in a call."""
    start = index - 1
    while start > 0 and tokens.word(start) in ("=", ":", str(count)):
        start -= 1
    name = tokens.word(start)
    results = [name] if count == 1 else [f"{name}#{k}" for k in range(count)]
    # Other functions and regions have values of the same name.
    end = tokens.end_around(index)
    uses = [use for use in tokens.find(results) if index < use < end]
    used = [tokens.word(use) for use in uses]
    compared = {tokens.word(use) for use in uses if _is_compared(tokens, use)}
    return [k for k, name in enumerate(results) if name in compared and used.count(name) == 1]


def _is_compared(tokens: Tokens, use: int) -> bool:
    """Whether the value used at `use` is compared with zero there."""
    words = [tokens.word(use + k) for k in range(-3, 3)]
    return (
        words[0] in _COMPARISONS
        and words[1:3] == ["NE", ","]
        and words[4] == ","
        and _is_zero(tokens, use + 2)
    )


def _is_zero(tokens: Tokens, use: int) -> bool:
    """Whether the value used at `use` is the integer zero, broadcast or not."""
    # The last value of that name before is the one: names are of regions, and stand before uses.
    for start in reversed(tokens.find((tokens.word(use),))):
        if start >= use or tokens.word(start + 1) != "=":
            continue
        if tokens.word(start + 2) in _BROADCASTS:
            return start + 3 < use and _is_zero(tokens, start + 3)
        wanted = ["dense", "<", "0", ">"]
        return tokens.word(start + 2) in _CONSTANTS and wanted == [
            tokens.word(start + k) for k in range(3, 7)
        ]
    return False


def _attributes(tokens: Tokens, index: int) -> tuple[dict[str, Value], int]:
    """The attributes after the operand list at `index`, and the position of the type's colon."""
    attributes: dict[str, Value] = {}
    position = tokens.after(index)
    while tokens.kind(position) != ":":
        kind = tokens.kind(position)
        if kind not in "({<[":
            raise tokens.error(position, "expected the attributes or the type of the custom call")
        if kind == "<" and tokens.kind(position + 1) == "{":
            _dictionary(tokens, position + 1, attributes)
        elif kind == "{":
            _dictionary(tokens, position, attributes)
        position = tokens.after(position)
    return attributes, position


def _dictionary(tokens: Tokens, index: int, attributes: dict[str, Value]) -> None:
    for start, end in tokens.items(index):
        if tokens.kind(start + 1) == "=" and end > start + 2:
            attributes[tokens.word(start).strip('"')] = start + 2, end


def _string(tokens: Tokens, value: Value) -> str:
    start, _ = value
    if tokens.kind(start) == "word" and tokens.word(start).startswith("#"):
        start = _alias(tokens, tokens.word(start), start)
    tokens.expect(start, "string")
    return unescape(tokens.word(start))


def _alias(tokens: Tokens, name: str, used: int) -> int:
    """Where the value of attribute alias `name` starts; aliases stand at the top or the end."""
    for index in range(len(tokens) - 2):
        if tokens.word(index) == name and tokens.kind(index + 1) == "=":
            return index + 2
    raise tokens.error(used, f"undefined alias {name}")


def _aliases(tokens: Tokens, value: Value | None) -> tuple[tuple[int, int], ...]:
    """Pairs of operand and result; an empty list of tuple indices means the only result."""
    if value is None:
        return ()
    start = value[0]
    if tokens.kind(start) == "word":
        start = _alias(tokens, tokens.word(start), start)
    tokens.expect(start, "[")
    pairs: list[tuple[int, int]] = []
    for entry, end in tokens.items(start):
        opening = entry + 1
        if end == entry + 1:
            opening = _alias(tokens, tokens.word(entry), entry) + 1
        tokens.expect(opening, "<")
        fields: dict[str, Value] = {}
        _dictionary(tokens, opening, fields)
        result = fields.get("output_tuple_indices")
        operand = fields.get("operand_index")
        if result is None or operand is None:
            raise tokens.error(entry, "expected output_tuple_indices and operand_index")
        indices = [tokens.number(first) for first, _ in tokens.items(result[0])]
        pairs.append((tokens.number(operand[0]), indices[0] if indices else 0))
    return tuple(pairs)


def _elements(tokens: Tokens, value: Value | None) -> list[int]:
    """The elements of a `dense` attribute; such operands say the sizes of results that are known at
    run time only, and are none of the kernel's."""
    start, _ = value or (0, 0)
    if tokens.word(start) != "dense":
        return []
    words = range(start + 2, tokens.after(start + 1) - 1)
    return [tokens.number(index) for index in words if tokens.kind(index) == "word"]


Tensors = tuple[TensorType[Attribute], ...]


def _function_type(tokens: Tokens, colon: int) -> tuple[Tensors, Tensors]:
    """The operand and result types after the colon."""
    opening = tokens.expect(colon, ":")
    tokens.expect(opening, "(")
    arrow = tokens.after(opening)
    results = tokens.expect(arrow, "arrow")
    if tokens.kind(results) == "(":
        outputs = tokens.items(results)
    else:
        end = results + 1
        if tokens.kind(end) == "<":
            end = tokens.after(end)
        outputs = [(results, end)]
    return _types(tokens, tokens.items(opening)), _types(tokens, outputs)


def _types(tokens: Tokens, items: list[Value]) -> Tensors:
    return tuple(tensor for item in items for tensor in _tensors(tokens, item))


def _tensors(tokens: Tokens, item: Value) -> Tensors:
    """The tensor type that an item spells; of a tuple, its members."""
    text = tokens.slice(*item)
    context = Context(allow_unregistered=True)
    context.load_dialect(Builtin)
    try:
        kind = Parser(context, text).parse_type()
    except Exception as error:
        # Type parsers raise whatever their author chose to; all of it means bad text.
        raise tokens.error(item[0], f"expected a type, got '{text}'") from error
    members = kind.types.data if isinstance(kind, TupleType) else (kind,)
    for member in members:
        if not isinstance(member, TensorType):
            raise tokens.error(item[0], f"expected a tensor type, got '{text}'")
    return cast(Tensors, members)
