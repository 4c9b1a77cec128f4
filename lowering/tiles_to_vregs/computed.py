"""What a block has computed of registers already: equal operations on equal registers are one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith
from pallasite.dialects.numbering import Numbers
from pallasite.lowering.creation import Model

Operands = tuple[int, ...]
"""Operands by identity: a hash of a value is a call of Python."""
_COMMUTATIVE = frozenset[type[Operation]]({
    arith.AddiOp, arith.MuliOp, arith.AndIOp, arith.OrIOp, arith.XOrIOp, arith.AddfOp, arith.MulfOp,
})  # fmt: skip


class Computed:
    """The results of operations without effects in one block, by model and operands."""

    def __init__(self) -> None:
        self._results: dict[Hashable, dict[Operands, SSAValue]] = {}

    def of(
        self,
        model: Model,
        rows: Mapping[Operands, Sequence[SSAValue]],
        numbers: Numbers,
        into: list[Operation],
    ) -> Mapping[Operands, SSAValue]:
        """The results for `rows`, whose keys are their identities; there may be others.

        Operations that are not there yet are appended to `into`. `numbers` is that of all calls.
        """
        known = self._results.setdefault(model.key(numbers), {})
        if known:
            rows = {key: row for key, row in rows.items() if key not in known}
        if model.kind in _COMMUTATIVE:
            rows = _either_way(rows)
        # What is known keeps its operands, so that no other value gets their identity.
        known.update(zip(rows, model.results(rows.values(), into), strict=True))
        if model.kind in _COMMUTATIVE:
            known.update({key[::-1]: known[key] for key in rows})
        return known


def _either_way(
    rows: Mapping[Operands, Sequence[SSAValue]],
) -> Mapping[Operands, Sequence[SSAValue]]:
    """`rows` without those that others are in reverse."""
    kept: dict[Operands, Sequence[SSAValue]] = {}
    for key, row in rows.items():
        if key[::-1] not in kept:
            kept[key] = row
    return kept
