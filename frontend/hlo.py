"""Finds `tpu_custom_call`s in the text of an HLO module.

```
%call.4 = f32[16,128]{1,0} custom-call(%x.1, %y.1), custom_call_target="tpu_custom_call",
    output_to_operand_aliasing={{}: (0, {})}, backend_config={"custom_call_config": {...}}
```

Operands may or may not repeat their types; results of several arrays are tuples.
"""

from __future__ import annotations

import re

from xdsl.dialects.builtin import (
    ComplexType,
    Float4E2M1FNType,
    Float8E3M4Type,
    Float8E4M3B11FNUZType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E4M3Type,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    IntegerType,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
)
from xdsl.ir import Attribute

from pallasite.diagnostics import Note
from pallasite.dialects.kernel_call import EFFECTS
from pallasite.frontend.calls import TARGET, CallSite, check_aliases
from pallasite.frontend.scan import Tokens, unescape_c

_ELEMENTS: dict[str, Attribute] = {
    "pred": i1,
    "bf16": bf16,
    "f16": f16,
    "f32": f32,
    "f64": f64,
    "c64": ComplexType(f32),
    "c128": ComplexType(f64),
    "f8e3m4": Float8E3M4Type(),
    "f8e4m3": Float8E4M3Type(),
    "f8e4m3b11fnuz": Float8E4M3B11FNUZType(),
    "f8e4m3fn": Float8E4M3FNType(),
    "f8e4m3fnuz": Float8E4M3FNUZType(),
    "f8e5m2": Float8E5M2Type(),
    "f8e5m2fnuz": Float8E5M2FNUZType(),
    "f8e8m0fnu": Float8E8M0FNUType(),
    "f4e2m1fn": Float4E2M1FNType(),
    **{f"s{width}": IntegerType(width) for width in (1, 2, 4, 8, 16, 32, 64)},
    **{f"u{width}": IntegerType(width, Signedness.UNSIGNED) for width in (1, 2, 4, 8, 16, 32, 64)},
}
_WITHOUT_KERNEL = (
    'lower(...).as_text(dialect="hlo") of JAX before 0.9 leaves the kernel out; take as_text()'
)
_ALIAS = re.compile(r"\{\s*(\d*)[\s\d,]*\}\s*:\s*\(\s*(\d+)\s*,")

Tensors = tuple[TensorType[Attribute], ...]


def find_calls(tokens: Tokens) -> list[CallSite]:
    """The calls in the order of the text."""
    shapes: dict[str, Tensors] = {}
    sites: list[CallSite] = []
    for index in tokens.find("="):
        if not index or tokens.kind(index - 1) != "word":
            continue
        shape = _shape(tokens, index + 1)
        if shape is None or tokens.kind(shape[1]) != "word" or tokens.kind(shape[1] + 1) != "(":
            continue
        types, opcode = shape
        shapes[tokens.word(index - 1).lstrip("%")] = types
        if tokens.word(opcode) == "custom-call":
            site = _site(tokens, opcode, types, shapes)
            if site is not None:
                check_aliases(site)
                sites.append(site)
    return sites


def _site(
    tokens: Tokens, opcode: int, results: Tensors, shapes: dict[str, Tensors]
) -> CallSite | None:
    attributes = _attributes(tokens, tokens.after(opcode + 1))
    target = attributes.get("custom_call_target")
    if target is None or tokens.word(target[0])[1:-1] != TARGET:
        return None
    config = attributes.get("backend_config")
    if config is None:
        error = tokens.error(opcode, "expected an attribute backend_config", "bad-configuration")
        error.notes.append(Note(_WITHOUT_KERNEL))
        raise error
    text = tokens.slice(*config)
    extra = {EFFECTS: True} if "custom_call_has_side_effect" in attributes else {}
    return CallSite(
        unescape_c(text) if text.startswith('"') else text,
        tuple(t for item in tokens.items(opcode + 1) for t in _operand(tokens, item, shapes)),
        results,
        _aliases(tokens, attributes.get("output_to_operand_aliasing")),
        tokens.location(opcode),
        extra,
    )


def _aliases(tokens: Tokens, value: tuple[int, int] | None) -> tuple[tuple[int, int], ...]:
    """Pairs of operand and result; an empty index of a result means the only one."""
    if value is None:
        return ()
    return tuple(
        (tokens.number(value[0], operand), tokens.number(value[0], result or "0"))
        for result, operand in _ALIAS.findall(tokens.slice(*value))
    )


def _attributes(tokens: Tokens, position: int) -> dict[str, tuple[int, int]]:
    """First token, and the one after the last, of each `, key=value` from `position` on."""
    attributes: dict[str, tuple[int, int]] = {}
    while tokens.kind(position) == "," and tokens.kind(position + 2) == "=":
        end = tokens.after(position + 3)
        attributes[tokens.word(position + 1)] = position + 3, end
        position = end
        # A value may be several pieces, as in `sharding=...` or `dim_labels=b01f_01io->b01f`.
        while tokens.kind(position) not in (",", "end") and tokens.kind(position + 1) != "=":
            position = tokens.after(position)
            if tokens.kind(position) in ("}", ")", "]"):
                break
    return attributes


def _operand(tokens: Tokens, item: tuple[int, int], shapes: dict[str, Tensors]) -> Tensors:
    """The types of an operand: those it repeats, else those of the instruction it names."""
    start, end = item
    if end == start + 1:
        types = shapes.get(tokens.word(start).lstrip("%"))
        if types is None:
            raise tokens.error(start, f"undefined instruction {tokens.word(start)}")
        return types
    shape = _shape(tokens, start)
    if shape is None:
        raise tokens.error(start, f"expected a shape and a name, got '{tokens.slice(*item)}'")
    return shape[0]


def _shape(tokens: Tokens, index: int) -> tuple[Tensors, int] | None:
    """The arrays of the shape at `index` and the position after it, None if there is no shape."""
    if tokens.kind(index) == "(":
        members: list[TensorType[Attribute]] = []
        for start, _ in tokens.items(index):
            member = _shape(tokens, start)
            if member is None:
                return None
            members.extend(member[0])
        return tuple(members), tokens.after(index)
    if tokens.kind(index) != "word" or tokens.kind(index + 1) != "[":
        return None
    element = _ELEMENTS.get(tokens.word(index))
    sizes = [end - 1 for _, end in tokens.items(index + 1)]
    end = tokens.after(index + 1)
    if tokens.kind(end) == "{":
        end = tokens.after(end)
    if element is None or not all(tokens.word(size).isdecimal() for size in sizes):
        # Tokens and opaque values: they have a shape, but are no arrays.
        return (), end
    return (TensorType(element, [tokens.number(size) for size in sizes]),), end
