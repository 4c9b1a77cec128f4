"""A derived dialect is upstream's, with operations replaced and added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialect_interfaces import DialectInterface
from xdsl.ir import Attribute, Dialect, Operation


def derive(
    base: Dialect,
    operations: Sequence[type[Operation]] = (),
    attributes: Sequence[type[Attribute]] = (),
) -> Dialect:
    """`base` with `operations` replacing those of the same name; the rest stays upstream's."""
    table = {op.name: op for op in base.operations} | {op.name: op for op in operations}
    # Dialect offers its interfaces only one by one; constant folding needs them all carried over.
    interfaces = cast(Sequence[DialectInterface], vars(base)["_interfaces"])
    return Dialect(
        base.name, list(table.values()), [*base.attributes, *attributes], list(interfaces)
    )
