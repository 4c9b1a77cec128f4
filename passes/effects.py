"""The effects of operations on memory, cached by class, since looking traits up takes long."""

from __future__ import annotations

from functools import lru_cache

from xdsl.ir import Operation
from xdsl.traits import MemoryEffect, MemoryEffectKind, NoMemoryEffect, get_effects


@lru_cache(maxsize=4096)
def is_pure(kind: type[Operation]) -> bool:
    """Whether operations of class `kind` never have effects; if not, some may still have none."""
    traits = kind.get_traits_of_type(MemoryEffect)
    return bool(traits) and all(isinstance(trait, NoMemoryEffect) for trait in traits)


def has_no_effects(op: Operation) -> bool:
    """Whether `op`, with the regions in it, is known to have no effects."""
    return is_pure(type(op)) or get_effects(op) == set()


def only_reads(op: Operation) -> bool:
    """Whether `op`, with the regions in it, is known to do nothing to memory but read it."""
    if is_pure(type(op)):
        return True
    effects = get_effects(op)
    return effects is not None and all(e.kind is MemoryEffectKind.READ for e in effects)
