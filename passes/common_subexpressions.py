"""Removes operations that compute what an earlier one has computed: upstream's `cse`, many times
faster.

    %a = arith.addi %x, %y : i32
    %b = arith.addi %x, %y : i32
    "test.use"(%a, %b) : (i32, i32) -> ()
becomes
    %a = arith.addi %x, %y : i32
    "test.use"(%a, %a) : (i32, i32) -> ()

xDSL's pass hashes all attributes and types of an operation at each look-up, and computes its
effects up to three times. Here equal attributes get the same small number once, and each operation
is looked up once, with its operands by identity. The result is the same.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import (
    EffectInstance,
    IsolatedFromAbove,
    IsTerminator,
    MemoryEffect,
    MemoryEffectKind,
    MemoryWriteEffect,
    get_effects,
)
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from pallasite.dialects.numbering import Numbers
from pallasite.dialects.registers import BOX, box_of, hull
from pallasite.dialects.walking import operations, operations_of
from pallasite.passes.dead_code import drop
from pallasite.passes.effects import is_pure

_NO_EFFECTS = frozenset[EffectInstance]()


class _Known:
    """The earlier operations whose results dominate the point of the walk.

    The key of an operation is what equal ones share: everything but the contents of regions.
    """

    def __init__(self) -> None:
        self._of: dict[Hashable, list[Operation]] = {}
        self._replaced: list[tuple[Hashable, list[Operation]]] = []

    def find(self, key: Hashable) -> list[Operation]:
        return self._of.get(key, [])

    def keep(self, key: Hashable, found: list[Operation]) -> None:
        """From here on, `found` are the operations of `key`."""
        self._replaced.append((key, self.find(key)))
        self._of[key] = found

    @contextmanager
    def inside(self) -> Generator[None]:
        """A context that forgets at its end what became known in it: for one region."""
        outside = len(self._replaced)
        yield
        while len(self._replaced) > outside:
            key, found = self._replaced.pop()
            self._of[key] = found


def remove_common_subexpressions(thing: Operation) -> None:
    """Keeps only the first of equal operations in the regions of `thing`, and removes dead ones.

    Operations that read memory are equal if nothing between them may write.
    """
    _Remover().run(thing)


class _Kind(NamedTuple):
    """What the traits of a class say about all its operations; cached, since that takes long."""

    stays: bool
    """Operations are never removed: terminators, those that write, those with unknown effects."""
    pure: bool
    """Operations have no effects; if False, a single operation may still have none."""


@lru_cache(maxsize=4096)
def _kind(kind: type[Operation]) -> _Kind:
    traits = kind.get_traits_of_type(MemoryEffect)
    stays = not traits or kind.has_trait(IsTerminator) or kind.has_trait(MemoryWriteEffect)
    return _Kind(stays, is_pure(kind))


class _Line:
    """The operations of one block, in the order of the walk, and where memory may be written."""

    def __init__(self, operations: list[Operation]) -> None:
        self.operations = operations
        self.places: dict[Operation, int] = {}
        """The position in `operations` of each one that reads memory and may be found again."""
        self._looked = 0
        """How many of `operations` have been checked for writes, each once and when needed."""
        self._last_write = -1

    def is_written(self, first: Operation, last: int) -> bool:
        """Whether anything between `first` and operation number `last` may write to memory."""
        for place in range(self._looked, last):
            if _may_write(self.operations[place]):
                self._last_write = place
        self._looked = max(self._looked, last)
        return self._last_write >= self.places[first]


def _may_write(op: Operation) -> bool:
    if is_pure(type(op)):
        return False
    effects = get_effects(op)
    return effects is None or any(e.kind is MemoryEffectKind.WRITE for e in effects)


class _Remover:
    """One walk over all regions of an operation."""

    def __init__(self) -> None:
        self._numbers = Numbers()
        self._gone: list[Operation] = []

    def run(self, thing: Operation) -> None:
        for region in thing.regions:
            self._region(region, _Known())
        for op in self._gone:
            drop(op)

    def _region(self, region: Region, known: _Known) -> None:
        blocks = list(region.blocks)
        if len(blocks) == 1:
            with known.inside():
                self._block(blocks[0], known)

    def _block(self, block: Block, known: _Known) -> None:
        line = _Line(operations_of(block))
        for place, op in enumerate(line.operations):
            if op.regions:
                isolated = op.has_trait(IsolatedFromAbove, value_if_unregistered=True)
                for region in op.regions:
                    self._region(region, _Known() if isolated else known)
            self._operation(op, known, line, place)

    def _operation(self, op: Operation, known: _Known, line: _Line, place: int) -> None:
        kind = _kind(type(op))
        if kind.stays:
            return
        if all([r.first_use is None for r in op.results]) and is_trivially_dead(op):
            self._gone.append(op)
            return
        if op.regions and any(len(region.blocks) > 1 for region in op.regions):
            return
        effects = _NO_EFFECTS if kind.pure else get_effects(op)
        if effects is None or any(e.kind is not MemoryEffectKind.READ for e in effects):
            return
        key = self._key(op)
        found = known.find(key)
        existing = next((o for o in found if not op.regions or _same_regions(op, o)), None)
        if effects:
            line.places[op] = place
        if existing is None:
            known.keep(key, [*found, op])
        elif not effects or (
            op.parent is existing.parent
            and not line.is_written(existing, place)
            and _accesses_both(existing, op)
        ):
            for old, new in zip(op.results, existing.results, strict=True):
                old.replace_all_uses_with(new)
            self._gone.append(op)
        else:
            known.keep(key, [op if other is existing else other for other in found])

    def _key(self, op: Operation) -> Hashable:
        return (
            op.name,
            tuple([id(v) for v in op.operands]),
            tuple([self._numbers.of(r.type) for r in op.results]),
            self._entries(op.properties),
            self._entries(op.attributes),
            self._outline(op) if op.regions else None,
        )

    def _outline(self, op: Operation) -> Hashable:
        """A key that is equal for operations with equal regions, made of the operations in them and
        the values that they use from outside.

        Without it, each branch of a kernel would be compared with all earlier branches.
        """
        inside: set[SSAValue] = set()
        outline: list[Hashable] = []
        for inner in operations(op)[1:]:
            block = inner.parent
            if block is not None and block.first_op is inner:
                inside.update(block.args)
            inside.update(inner.results)
            outside = [id(v) for v in inner.operands if v not in inside]
            outline.append((inner.name, self._entries(inner.properties), *outside))
        return tuple(outline)

    def _entries(self, entries: Mapping[str, Attribute]) -> Hashable:
        if not entries:
            return None
        # The box of the kernel's access (`tpu.box`) does not change what a load reads.
        return frozenset([(n, self._numbers.of(v)) for n, v in entries.items() if n != BOX]) or None


def _same_regions(one: Operation, other: Operation) -> bool:
    pairs = zip(one.regions, other.regions, strict=True)
    return all(a.is_structurally_equivalent(b) for a, b in pairs)


def _accesses_both(first: Operation, last: Operation) -> bool:
    """Gives the load `first` a box that covers those of both; False if there is none."""
    box, other = box_of(first), box_of(last)
    if other is None:
        return True
    both = other if box is None else hull(box, other)
    if both is not None:
        first.attributes[BOX] = both.attribute
    return both is not None
