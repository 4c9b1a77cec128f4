"""What operations do to memory: asking the traits of each takes long, those of its class once."""

from __future__ import annotations

from functools import lru_cache

from xdsl.ir import Operation
from xdsl.traits import MemoryEffect, MemoryEffectKind, NoMemoryEffect, get_effects


@lru_cache(maxsize=4096)
def is_pure(kind: type[Operation]) -> bool:
    """Whether no operation of class `kind` has effects; those of others may have none as well."""
    traits = kind.get_traits_of_type(MemoryEffect)
    return bool(traits) and all(isinstance(trait, NoMemoryEffect) for trait in traits)


def has_no_effects(op: Operation) -> bool:
    """Whether `op`, with the regions in it, is known to have no effects."""
    return is_pure(type(op)) or get_effects(op) == set()


def only_reads(op: Operation) -> bool:
    """Whether `op`, with the regions in it, is known to do no more to memory than read it."""
    if is_pure(type(op)):
        return True
    effects = get_effects(op)
    return effects is not None and all(e.kind is MemoryEffectKind.READ for e in effects)
