"""Writes packs, operations that do the same to many registers, as one line each; see `packs`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import tpu
from pallasite.dialects.func import FuncOp
from pallasite.dialects.types import shape_of
from pallasite.interpreter.compiled.brief import LEAST_ELEMENTS
from pallasite.interpreter.compiled.fold import uniform
from pallasite.interpreter.compiled.names import QUICK
from pallasite.interpreter.compiled.packs import (
    ACCESSES,
    LEAST,
    PACKS,
    Pack,
    Packer,
    meaning_of_pack,
    spread,
)
from pallasite.interpreter.compiled.reuse import ReuseWriter
from pallasite.interpreter.effects.register_packs import load_pack, store_pack
from pallasite.interpreter.ops.register_groups import rolled, unrolled

if TYPE_CHECKING:
    from pallasite.interpreter.compiled.compiled import Program

_Part = tuple[str, int | None]
"""A register: the name of its pack and its index there, or its own name and None."""


class PackWriter(ReuseWriter, ABC):
    """The part of a function's writer that knows packs."""

    def __init__(self, program: Program, func: FuncOp):
        super().__init__(program, func)
        self._packer = Packer()

    @abstractmethod
    def _operation(self, op: Operation) -> None:
        """Writes one operation."""

    def _run(self, run: Sequence[Operation]) -> None:
        """Writes a run (`Packer.runs`), as packs as far as possible."""
        if len(run) == 1:
            if not self._group(run[0]):
                self._operation(run[0])
            return
        self._in_order = False
        self._write_run(run)
        self._in_order = True

    def _write_run(self, run: Sequence[Operation]) -> None:
        """Writes a run of several operations.

        Those whose operands are all known beforehand are written singly. If packing changes the
        order of the rest, names of dead values become available only after all of them.
        """
        rest: list[Operation] = []
        for op in run:
            # An operation on known values is computed beforehand; a pack would gain nothing.
            if type(op) not in ACCESSES and all(operand in self._known for operand in op.operands):
                self._operation(op)
            else:
                rest.append(op)
        found = self._packer.packs(rest, self._known) if rest else []
        # If the order changes, the last use in the text may not be the last one in time.
        in_order = [op for pack in found for op in pack] == rest
        for pack in found:
            self._pack(pack, in_order)
        if not in_order:
            for op in rest:
                self._bury(op)

    def _pack(self, pack: Pack, bury: bool) -> None:
        """Writes `pack`, singly if it cannot be one line.

        `bury` says that values whose last use is in the pack are dead after it.
        """
        outer, self._op = self._op, pack[0]
        written = len(pack) >= LEAST and self._write_pack(pack, bury)
        self._op = outer
        if written:
            return
        dying = self._dying
        if not bury:
            self._dying = {}
        for op in pack:
            self._operation(op)
        self._dying = dying

    def _write_pack(self, ops: Pack, bury: bool) -> bool:
        """Writes `ops` as one line; False if that is impossible or not faster."""
        first, count = ops[0], len(ops)
        fn: Callable[..., Any] | None
        if isinstance(first, tpu.LoadOp):
            loads = cast("Sequence[tpu.LoadOp]", ops)
            large = count * prod(shape_of(first.result.type)) >= LEAST_ELEMENTS
            look = large and all(self._memory.is_brief(op) for op in ops)
            fn = load_pack(loads, self._known, self.program.facts, look)
            names = ["core", *self._uses(first)]
        elif isinstance(first, tpu.StoreOp):
            fn = store_pack(cast("Sequence[tpu.StoreOp]", ops), self._known, self.program.facts)
            value = self._array([op.operands[0] for op in ops])
            if value is None:
                return False
            names = ["core", value, *self._uses(first)[1:]]
        else:
            ops = self._aligned(ops)
            arrays = [self._array(column, type(first) in QUICK) for column in _columns(ops)]
            if any(array is None for array in arrays):
                return False
            fn = meaning_of_pack(first, count, self.program.facts)
            if fn is None:
                return False
            if all(op.operands[-1] is first.operands[-1] for op in ops):
                fn, arrays = self._steered(fn, first, [str(a) for a in arrays], count)
            names = [self._held(str(a), n) for n, a in enumerate(arrays)]
            self._is_own(ops, fn)
            if bury:
                fn, over = self._over(ops, fn)
                names += [] if over is None else [f"out={names[over]}"]
        if fn is None:
            return False
        if bury:
            for op in ops:
                self._bury(op)
        effect = isinstance(first, tpu.LoadOp | tpu.StoreOp)
        name = self._bind_effect(fn, PACKS) if effect else self._bind("f", fn)
        call = f"{name}({', '.join(names)})"
        if first.results:
            call = f"{self._define_pack([op.results[0] for op in ops])} = {call}"
        self._line(call)
        return True

    def _aligned(self, ops: Pack) -> Pack:
        """`ops`, or the same in the order of their first operands if its operands then need fewer
        slices."""

        def pieces(ops: Pack) -> int:
            return sum(len(_pieces([self._part(v) for v in column])) for column in _columns(ops))

        def place(op: Operation) -> list[tuple[str, int]]:
            parts = [self._part(operand) for operand in op.operands]
            return [(name, -1 if place is None else place) for name, place in parts]

        if pieces(ops) == len(ops[0].operands):  # One each: no order takes fewer.
            return ops
        return min(ops, tuple(sorted(ops, key=place)), key=pieces)

    def _group(self, op: Operation) -> bool:
        """Writes `tpu.roll_vectors` or `tpu.unroll_vectors` of many registers, which join and split
        a matrix.

        False for other operations, for few registers, and where single registers are as fast.
        """
        if isinstance(op, tpu.RollVectorsOp) and len(op.operands) >= LEAST:
            if len(set(op.operands)) == 1 and self._thin(op.operands[0]) is not None:
                return False  # One number throughout, as the matrix is, beforehand.
            array = self._array(op.operands)
            if array is None:
                return False
            outer, self._op = self._op, op
            fn = self._bind("f", rolled(op))
            self._bury(op)
            self._line(f"{self._define(op.results[0])} = {fn}({array})")
        elif isinstance(op, tpu.UnrollVectorsOp) and len(op.results) >= LEAST:
            outer, self._op = self._op, op
            fn, (matrix,) = self._bind("f", unrolled(op)), self._uses(op)
            self._bury(op)
            self._line(f"{self._define_pack(op.results)} = {fn}({matrix})")
        else:
            return False
        self._op = outer
        return True

    # Registers as one array

    def _array(self, values: Sequence[SSAValue], thin: bool = False) -> str | None:
        """An expression for one array of the registers `values`; None if it takes as long as single
        ones.

        With `thin` a uniform constant has one element. Scalars and refs, which all operations
        share, keep their name.
        """
        first, count = values[0], len(values)
        if not isinstance(first.type, VectorType):
            return self._names[first]
        if all(value is first for value in values):
            if first in self._known:
                found = uniform(self._known[first]) if thin else None
                known = self._known[first] if found is None else found
                return self._bind("k", spread(known, count))
            return f"spread({self._names[first]}, {count})"
        parts = [self._part(value) for value in values]
        pieces = _pieces(parts)
        if len(pieces) > max(2, count // LEAST):
            return self._taken(parts)
        texts = [self._text(piece) for piece in pieces]
        return texts[0] if len(texts) == 1 else f"joined({', '.join(texts)})"

    def _held(self, array: str, number: int) -> str:
        """`array` under a local name, unless it is a name or a slice.

        NumPy writes a sum into a temporary operand, and if that is the second one, it adds in
        reverse order, which NaNs show. An operand with a name is not temporary.
        """
        if not array.endswith(")"):
            return array
        self._line(f"a{number} = {array}")
        return f"a{number}"

    def _taken(self, parts: Sequence[_Part]) -> str | None:
        """An expression that gathers registers of few packs in any order; None if they are of too
        many."""
        wanted: dict[str, list[int]] = {}
        for name, place in parts:
            if place is None:
                return None
            wanted.setdefault(name, []).append(place)
        if len(wanted) > max(1, len(parts) // LEAST):
            return None
        texts: list[str] = []
        begins: dict[str, int] = {}
        size = 0
        for name, places in wanted.items():
            low, high = min(places), max(places)
            begins[name] = size - low
            size += high + 1 - low
            texts.append(f"{name}[{low}:{high + 1}]")
        index = self._bind("k", np.array([begins[name] + cast(int, at) for name, at in parts]))
        whole = texts[0] if len(texts) == 1 else f"joined({', '.join(texts)})"
        return f"{whole}.take({index}, 0)"

    def _part(self, value: SSAValue) -> _Part:
        """The pack and index, or the name, of a register."""
        name, _, place = self._names[value].partition("[")
        return (name, int(place[:-1])) if place else (name, None)

    def _text(self, piece: Sequence[_Part]) -> str:
        """A slice of a pack, or a register with a leading dimension, as an expression."""
        name, first = piece[0]
        if first is None:
            return f"{name}[None]"
        if len(piece) == 1:
            return f"{name}[{first}:{first + 1}]"
        step = cast(int, piece[1][1]) - first
        return f"{name}[{first}:{first + step * (len(piece) - 1) + 1}:{step}]"


def _columns(ops: Pack) -> list[tuple[SSAValue, ...]]:
    """The first operands of all `ops`, their second ones, and so on."""
    return list(zip(*(op.operands for op in ops), strict=True))


def _pieces(parts: Sequence[_Part]) -> list[list[_Part]]:
    """Cuts `parts` into runs that one slice takes from one pack, and single registers.

    For example p3[0], p3[2], p3[4], p1[0] become p3[0:5:2] and p1[0:1].
    """
    pieces: list[list[_Part]] = []
    for name, place in parts:
        piece = pieces[-1] if pieces else []
        if piece and place is not None and piece[-1][0] == name and piece[-1][1] is not None:
            step = place - piece[-1][1]
            if step > 0 and (len(piece) == 1 or step == piece[-1][1] - cast(int, piece[-2][1])):
                piece.append((name, place))
                continue
        pieces.append([(name, place)])
    return pieces
