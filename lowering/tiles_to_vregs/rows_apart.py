"""Rows that a select puts together only to be stored are stored from their own registers.

    %m = tpu.create_mask[2, 0] [8, 128]
    %y = arith.select %m, %b, %a
    tpu.store %o[%z, %z], %y sublanes [true, true, true, true, ...]
becomes
    tpu.store %o[%z, %z], %a sublanes [true, true, false, false, ...]
    tpu.store %o[%z, %z], %b sublanes [false, false, true, true, ...]

A store itself says which sublanes it writes, so one more store replaces one select. That saves
something only if the mask of a select becomes dead, or if more selects go than stores come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import DenseArrayBase, i1
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from pallasite.dialects import arith, func, tpu
from pallasite.dialects.types import integers_in
from pallasite.dialects.walking import of_kind
from pallasite.layouts.registers import SUBLANES
from pallasite.lowering.creation import made
from pallasite.lowering.tiles_to_vregs.row_masks import Sublanes, row_masks


@dataclass
class _Parts:
    """The registers from which a store could take the sublanes that it writes."""

    sublanes: dict[SSAValue, Sublanes] = field(default_factory=dict[SSAValue, Sublanes])
    selects: list[arith.SelectOp] = field(default_factory=list[arith.SelectOp])
    """The selects that put these registers together and that nothing else uses."""

    @property
    def saved(self) -> int:
        """How many operations are saved, not counting masks."""
        return len(self.selects) - (len(self.sublanes) - 1)


def store_rows_apart(function: func.FuncOp) -> None:
    """Stores the parts of selected registers of the unrolled `function`, where that saves
    operations."""
    rows_of = row_masks(function)
    if not rows_of:
        return
    found = {store: _parts(store, rows_of) for store in of_kind(function, tpu.StoreOp)}
    chosen = {store: parts for store, parts in found.items() if parts.selects}
    while chosen:
        spared = _spared(rows_of, chosen.values())
        kept = {
            store: parts
            for store, parts in chosen.items()
            if parts.saved > 0 or any(select.cond in spared for select in parts.selects)
        }
        if len(kept) == len(chosen):
            break
        chosen = kept
    for store, parts in chosen.items():
        _store(store, parts)


def _parts(store: tpu.StoreOp, rows_of: Mapping[SSAValue, Sublanes]) -> _Parts:
    """The registers that `store` could write, each with its sublanes."""
    flags = integers_in(store.sublane_mask)
    parts = _Parts()
    if store.mask is None:
        _collect(store.value, frozenset(n for n, flag in enumerate(flags) if flag), rows_of, parts)
    return parts


def _collect(
    value: SSAValue, sublanes: Sublanes, rows_of: Mapping[SSAValue, Sublanes], parts: _Parts
) -> None:
    """Adds to `parts` where `sublanes` of `value`, whose only user is seen here, come from."""
    select = value.owner
    if type(select) is arith.SelectOp and value.has_one_use() and select.cond in rows_of:
        parts.selects.append(select)
        chosen = rows_of[select.cond]
        _collect(select.lhs, sublanes & chosen, rows_of, parts)
        _collect(select.rhs, sublanes - chosen, rows_of, parts)
    elif sublanes:
        parts.sublanes[value] = parts.sublanes.get(value, frozenset()) | sublanes


def _spared(rows_of: Iterable[SSAValue], chosen: Iterable[_Parts]) -> set[SSAValue]:
    """The masks that become dead once the stores of `chosen` are split."""
    gone = {select for parts in chosen for select in parts.selects}
    return {mask for mask in rows_of if all(use.operation in gone for use in mask.uses)}


def _store(store: tpu.StoreOp, parts: _Parts) -> None:
    """Replaces `store` by one store for each part, and erases what is dead then."""
    for value, sublanes in sorted(parts.sublanes.items(), key=lambda part: min(part[1])):
        flags = DenseArrayBase.from_list(i1, [n in sublanes for n in range(SUBLANES)])
        part = made(
            tpu.StoreOp, [value, *store.operands[1:]], (),
            {**store.properties, "sublane_mask": flags}, store.attributes, store.location,
        )  # fmt: skip
        Rewriter.insert_op(part, InsertPoint.before(store))
    gone: list[Operation] = [store, *parts.selects]
    masks = [select.cond.owner for select in parts.selects]
    for op in gone:
        op.detach()
        op.erase()
    for mask in dict.fromkeys(masks):
        if isinstance(mask, tpu.CreateMaskOp) and not mask.result.first_use:
            mask.detach()
            mask.erase()
