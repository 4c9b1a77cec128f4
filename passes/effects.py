"""What classes of operations say of their effects: asking the traits of each one takes long."""

from __future__ import annotations

from functools import lru_cache

from xdsl.ir import Operation
from xdsl.traits import MemoryEffect, NoMemoryEffect


@lru_cache(maxsize=4096)
def is_pure(kind: type[Operation]) -> bool:
    """Whether no operation of class `kind` has effects; those of others may have none as well."""
    traits = kind.get_traits_of_type(MemoryEffect)
    return bool(traits) and all(isinstance(trait, NoMemoryEffect) for trait in traits)
