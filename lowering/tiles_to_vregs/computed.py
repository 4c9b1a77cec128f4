"""Common subexpressions of a block: equal operations on equal registers are emitted once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith
from pallasite.dialects.numbering import Numbers
from pallasite.lowering.creation import Model

Operands = tuple[int, ...]
"""The identities of operands; hashing a value calls Python code, which is slow."""
_COMMUTATIVE = frozenset[type[Operation]]({
    arith.AddiOp, arith.MuliOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp, arith.AddfOp, arith.MulfOp,
})  # fmt: skip


class Computed:
    """The results of operations without effects in one block, by model (`lowering.creation`) and
    operands."""

    def __init__(self) -> None:
        self._results: dict[Hashable, dict[Operands, SSAValue]] = {}

    def of(
        self,
        model: Model,
        rows: Mapping[Operands, Sequence[SSAValue]],
        numbers: Numbers,
        into: list[Operation],
    ) -> Mapping[Operands, SSAValue]:
        """The results of `model` for all of `rows`, by the identities of operands.

        `rows` maps identities to the operands themselves. Operations that do not exist yet are
        appended to `into`; the answer may have further results. `numbers` numbers attributes and
        must be the same in all calls.
        """
        known = self._results.setdefault(model.key(numbers), {})
        if known:
            rows = {key: row for key, row in rows.items() if key not in known}
        if model.kind in _COMMUTATIVE:
            rows = _either_way(rows)
        # Kept results keep their operands alive, so no other value gets the same identity.
        known.update(zip(rows, model.results(rows.values(), into), strict=True))
        if model.kind in _COMMUTATIVE:
            known.update({key[::-1]: known[key] for key in rows})
        return known


def _either_way(
    rows: Mapping[Operands, Sequence[SSAValue]],
) -> Mapping[Operands, Sequence[SSAValue]]:
    """`rows` without those that have the same two operands as another one, in reverse."""
    kept: dict[Operands, Sequence[SSAValue]] = {}
    for key, row in rows.items():
        if key[::-1] not in kept:
            kept[key] = row
    return kept
