"""Decides which values of a movement plan on packed elements are kept as words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from pallasite.dialects.types import AnyVector
from pallasite.layouts.plan import (
    RENAMING,
    Elements,
    Plan,
    RotateLanes,
    Select,
    Step,
    SublaneShuffle,
    Unpack,
    Words,
)
from pallasite.layouts.registers import packing


@dataclass(frozen=True)
class PackedRegisters:
    """What a target can do with registers of packed elements directly."""

    masks: int = 1
    """Elements per word up to which masks (boxes) select single elements."""
    rotated: frozenset[int] = frozenset()
    """Element widths that rotate along lanes."""


WORDS_ONLY = PackedRegisters()
"""A target that needs words for all but renaming and shuffles."""


def moves_words(step: Step, plan: Plan, packed: PackedRegisters) -> bool:
    """Whether a step moves whole words, so that it works on packed registers, too."""
    if isinstance(step, Select):
        return bool(step.mask.boxes) and packing(plan.bits) <= packed.masks
    if isinstance(step, RotateLanes):
        return plan.bits in packed.rotated
    return isinstance(step, (*RENAMING, SublaneShuffle))


def wanted_as_words(plan: Plan, packed: PackedRegisters) -> list[bool]:
    """For each value, whether some step uses it that needs words.

    Steps that move whole words pass the need on to their operands.
    """
    wanted = [False] * len(plan.values)
    for number, step in reversed(list(enumerate(plan.steps, plan.sources))):
        if isinstance(step, Elements | Unpack):
            continue
        moves = moves_words(step, plan, packed) and not isinstance(step, Words)
        if not moves or wanted[number]:
            for operand in step.operands:
                wanted[operand] = plan.values[operand].kind == "word"
    return wanted


def any_words(values: Sequence[SSAValue]) -> bool:
    """Whether some of `values` are registers of words."""
    return any(cast(AnyVector, v.type).element_type == i32 for v in values)
