"""All operations inside of one, in the order of the text, at a fraction of the cost of
`Operation.walk`, which hands every operation through a generator per level of nesting.

Lists are made before anyone looks at them, so what they hold may be changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar, cast

from xdsl.ir import Block, Operation, Region

# pyright: reportPrivateUsage=false
Op = TypeVar("Op", bound=Operation)


def operations(op: Operation) -> list[Operation]:
    """`op` and everything in its regions."""
    found = [op]
    _collect(op.regions, found)
    return found


def operations_in(region: Region) -> list[Operation]:
    """Everything in `region`."""
    found: list[Operation] = []
    _collect((region,), found)
    return found


def operations_of(block: Block) -> list[Operation]:
    """What is in `block`, but not in the regions of its operations."""
    found: list[Operation] = []
    op = block._first_op
    while op is not None:
        found.append(op)
        op = op._next_op
    return found


def inner_first(op: Operation) -> list[Operation]:
    """Everything in the regions of `op`, what is inside of an operation before it."""
    found: list[Operation] = []
    for region in op.regions:
        for block in region.blocks:
            for inner in operations_of(block):
                if inner.regions:
                    found += inner_first(inner)
                found.append(inner)
    return found


def of_kind(op: Operation, *kinds: type[Op]) -> list[Op]:
    """Of `op` and everything in its regions, the operations of these very classes: `isinstance`
    takes long for what is no instance."""
    return cast(list[Op], [found for found in operations(op) if type(found) in kinds])


def _collect(regions: Iterable[Region], found: list[Operation]) -> None:
    for region in regions:
        block = region._first_block
        while block is not None:
            op = block._first_op
            while op is not None:
                found.append(op)
                if op.regions:
                    _collect(op.regions, found)
                op = op._next_op
            block = block._next_block
