"""Loads of neighbouring rows that are only stored again become one load.

    %x = tpu.load %a[%c24, %z] sublanes [true, true, false, ...]
    %y = tpu.load %a[%c26, %z] sublanes [true, true, true, true, true, true, false, false]
    tpu.store %b[%c30, %z], %x sublanes [true, true, false, ...]
    tpu.store %b[%c8, %z], %y sublanes [true, true, true, true, true, true, false, false]
becomes
    %x = tpu.load %a[%c24, %z] sublanes [true, true, true, true, true, true, true, true]
    tpu.store %b[%c30, %z], %x sublanes [true, true, false, ...]
    tpu.store %b[%c6, %z], %x sublanes [false, false, true, true, true, true, true, true]

A store whose rows lie n sublanes further down in the register begins n rows earlier, possibly
before the memory, as sublanes that are masked off touch nothing. A roll of rows by a constant loads
its last and its first rows at once in this way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, i1
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from pallasite.dialects import arith, func, tpu
from pallasite.dialects.arith import known_integer
from pallasite.dialects.registers import BOX
from pallasite.dialects.types import integers_in, tiling_of
from pallasite.dialects.walking import of_kind
from pallasite.layouts.registers import LANES, SUBLANES
from pallasite.lowering.creation import index_attribute, made
from pallasite.lowering.tiles_to_vregs.ordered_loads import Position, Time, times_of_loads

Flags = tuple[int, ...]
_EVERY = DenseArrayBase.from_list(i1, [True] * SUBLANES)


def join_loads(function: func.FuncOp) -> None:
    """Joins loads of the unrolled `function` in pairs, where one register holds the rows of
    both."""
    parts = [load for load in of_kind(function, tpu.LoadOp) if load.sublane_mask != _EVERY]
    if len(parts) < 2:
        return
    times = times_of_loads(function)
    groups: dict[object, dict[int, tpu.LoadOp]] = {}
    for load in parts:
        block, epoch, _ = times[load]
        if all(_flags(load)) or BOX in load.attributes or not _only_stored(load):
            continue
        position = Position.of(load)
        if position is not None:
            key = (block, epoch, load.base, load.result.type, load.sublane_stride, position.unknown)
            groups.setdefault(key, {})[position.elements] = load
    for loads in groups.values():
        # Each load is joined with one other at most.
        for place in sorted(loads):
            first = loads.pop(place, None)
            step = 0 if first is None else LANES * first.sublane_stride.value.data
            for down in range(1, SUBLANES) if step > 0 else ():
                second = loads.get(place + down * step)
                if first and second and _join(first, second, down, times, function):
                    del loads[place + down * step]
                    break


def _only_stored(load: tpu.LoadOp) -> bool:
    """Whether only stores of known rows use the register, so that they may begin earlier."""
    return bool(load.result.first_use) and all(
        type(use.operation) is tpu.StoreOp
        and use.index == 0
        and use.operation.mask is None
        and BOX not in use.operation.attributes
        and len(use.operation.indices) > 1
        and known_integer(use.operation.indices[-2]) is not None
        for use in load.result.uses
    )


def _join(
    first: tpu.LoadOp, second: tpu.LoadOp, down: int, times: Mapping[tpu.LoadOp, Time],
    function: func.FuncOp,
) -> bool:  # fmt: skip
    """Replaces `first` and `second`, whose rows begin `down` sublanes after those of `first`, by
    one load.

    False if a register does not hold both, or if a store of `second` cannot begin earlier.
    """
    here, there = _flags(first), _flags(second)
    if any(there[SUBLANES - down :]):
        return False
    stores = [cast(tpu.StoreOp, use.operation) for use in second.result.uses]
    places = [_earlier(store, down) for store in stores]
    if None in places:
        return False
    both = [bool(a or b) for a, b in zip(here, _moved(there, down), strict=True)]
    joined = made(
        tpu.LoadOp, first.operands, [first.result.type],
        {**first.properties, "sublane_mask": DenseArrayBase.from_list(i1, both)},
        first.attributes, first.location,
    )  # fmt: skip
    # Nothing is stored between the two.
    latest = max(first, second, key=lambda load: times[load][2])
    Rewriter.insert_op(joined, InsertPoint.before(latest))
    first.result.replace_all_uses_with(joined.results[0])
    for store, place in zip(stores, places, strict=True):
        flags = [bool(flag) for flag in _moved(_flags(store), down)]
        store.operands[0] = joined.results[0]
        store.operands[len(store.indices)] = _index(cast(int, place), function)
        store.properties["sublane_mask"] = DenseArrayBase.from_list(i1, flags)
    for load in (first, second):
        load.detach()
        load.erase()
    return True


def _earlier(store: tpu.StoreOp, down: int) -> int | None:
    """The row at which `store` begins once its rows lie `down` sublanes further down in the
    register.

    None if its memory is not tiled by single rows, or if the rows would leave the register.
    """
    tiling, row = tiling_of(store.base.type), known_integer(store.indices[-2])
    if (
        tiling is None
        or row is None
        or tiling.first != (1, LANES)
        # Where there is one row, its number counts for nothing.
        or store.base.type.get_shape()[-2] == 1
        or any(_flags(store)[SUBLANES - down :])
    ):
        return None
    moved, left = divmod(down * store.sublane_stride.value.data, tiling.strides[-2])
    return None if left else row - moved


def _moved(flags: Flags, down: int) -> Flags:
    """`flags`, `down` sublanes further down."""
    return (*[0] * down, *flags[: SUBLANES - down])


def _index(value: int, function: func.FuncOp) -> SSAValue:
    """The index constant `value`, at the function's entry."""
    attribute = index_attribute(value)
    constant = made(arith.ConstantOp, (), (attribute.type,), {"value": attribute})
    Rewriter.insert_op(constant, InsertPoint.at_start(function.body.blocks[0]))
    return constant.results[0]


def _flags(op: tpu.LoadOp | tpu.StoreOp) -> Flags:
    """For each sublane, whether the access touches it."""
    return integers_in(cast("DenseArrayBase[Any]", op.sublane_mask))
