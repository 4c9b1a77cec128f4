"""Whether a module keeps the rules of its operations, of which most are like others.

What an operation's definition declares is about its class, its types and its attributes. Kernels
are unrolled: of thousands of operations few differ in these. So that is asked once of all that are
alike; traits and what a class itself verifies, which may look at anything, are asked of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from xdsl.ir import Block, ErasedSSAValue, Operation
from xdsl.irdl import IRDLOperation, OpDef
from xdsl.traits import OpTrait

from pallasite.dialects.walking import operations_of

# pyright: reportPrivateUsage=false
_PARTS = {"op_def", "custom_verify"}
"""What the `verify_` that xDSL makes of a class holds: its definition, and its own rules."""


@dataclass(frozen=True)
class _Rules:
    """What the operations of a class keep."""

    declared: OpDef
    traits: Sequence[OpTrait]
    own: Callable[[Operation], None] | None


@lru_cache(maxsize=1 << 10)
def rules_of(kind: type[Operation]) -> _Rules | None:
    """The rules of `kind`, None if they are not told apart. A pure function, so its results are
    kept."""
    verify: Any = kind.verify_
    if not issubclass(kind, IRDLOperation) or not hasattr(verify, "__code__"):
        return None
    names, cells = verify.__code__.co_freevars, verify.__closure__ or ()
    held: dict[str, Any] = {
        name: cell.cell_contents for name, cell in zip(names, cells, strict=True)
    }
    declared = held.get("op_def")
    if not set(held) <= _PARTS or not isinstance(declared, OpDef):
        return None
    traits = [t for t in declared.traits if type(t).verify is not OpTrait.verify]
    return _Rules(declared, traits, held.get("custom_verify"))


def keeps_rules(module: Operation) -> bool:
    """Whether xDSL would verify `module`; where that says no, `module.verify()` says why."""
    try:
        return _holds(module, set())
    except Exception:
        # Upstream's verifiers may assert or index instead of refusing; that is a refusal here too.
        return False


def _holds(op: Operation, seen: set[object]) -> bool:
    """Whether `op`, which ends a block or holds some, verifies, and so does what is inside."""
    op.verify(verify_nested_ops=False)
    return all(_block(block, seen) for region in op.regions for block in region.blocks)


def _block(block: Block, seen: set[object]) -> bool:
    inner, last = operations_of(block), block.last_op
    for op in inner:
        if op.parent is not block:
            return False
        if op is last or op.regions or op._successors:
            if not _holds(op, seen):
                return False
        else:
            _simple(op, seen)
    return bool(inner)


def _simple(op: Operation, seen: set[object]) -> None:
    """Verifies `op`, after which its block goes on."""
    rules = rules_of(type(op))
    if rules is None or any([type(operand) is ErasedSSAValue for operand in op._operands]):
        return op.verify()
    # By identity: the operation holds them all.
    properties, attributes = op.properties, op.attributes
    key = (
        type(op),
        len(op._operands),
        *[id(operand.type) for operand in op._operands],
        *[id(result.type) for result in op.results],
        *properties,
        *map(id, properties.values()),
        None,
        *attributes,
        *map(id, attributes.values()),
    )
    if key not in seen:
        rules.declared.verify(op)
        seen.add(key)
    else:
        for trait in rules.traits:
            trait.verify(op)
    if rules.own is not None:
        rules.own(op)
