"""Undefined values: what a read behind the end of a buffer gives.

A TPU does not trap such a read, and kernels rely on that: they read a table at an index that may be
behind its end, and select another value if it is. A scalar read from SMEM is then `Undefined`, and
so is every result of integer arithmetic on it. A use that needs its value, to branch, to address or
to store, raises the diagnostic of the read. Vectors may only be read so by kernels with
`CompilerParams(disable_bounds_checks=True)`; the elements outside are poison, as in memory that was
never written. With the check `bounds` the read itself raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from pallasite.diagnostics import Diagnostic, ExecutionError, Note, SourceLocation
from pallasite.interpreter import values
from pallasite.interpreter.machine.accesses import Box, Rows
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.register_access import access
from pallasite.interpreter.machine.rows import Pattern, pattern
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.values import Array
from pallasite.layouts.registers import SUBLANES

_USES = (
    "abs array array_ufunc bool ceil divmod float floor floordiv format hash index int mod pow "
    "rdivmod rfloordiv rmod round rpow rtruediv str truediv trunc"
).split()
"""What Python asks of a number that must be known: to branch, to address, to count, to store."""
_SUMS = "add mul neg radd rmul rsub sub".split()
_OTHERS = "eq ge gt invert le lshift lt ne rlshift rrshift rshift rxor xor".split()
_COMPARISONS = "eq ge gt le lt ne".split()


class Undefined:
    """A scalar that is not known; everything computed from it is not known either."""

    __slots__ = ("read",)

    def __init__(self, read: Diagnostic) -> None:
        self.read = read

    def __and__(self, other: Any) -> Any:
        return other if isinstance(other, int) and other == 0 else Undefined(self.read)

    def __or__(self, other: Any) -> Any:
        known = isinstance(other, int) and other == (True if isinstance(other, bool) else -1)
        return other if known else Undefined(self.read)

    __rand__ = __and__
    __ror__ = __or__


class _Unwrapped(Undefined):
    """A sum or product that has not been wrapped to its width yet, which `wrap` does; it claims not
    to be within its width."""

    __slots__ = ()


def _used(self: Undefined, *operands: Any, **options: Any) -> NoReturn:
    read = self.read
    note = Note("a read behind the end of SMEM has no value, and the kernel uses it")
    raise type(read)(read.code, read.message, read.location, [*read.notes, note])


def _sum(self: Undefined, *operands: Any) -> Undefined:
    return _Unwrapped(self.read)


def _other(self: Undefined, *operands: Any) -> Undefined:
    return Undefined(self.read)


def _unequal(self: _Unwrapped, other: Any) -> bool:
    return False


for _names, _answer in ((_USES, _used), (_SUMS, _sum), (_OTHERS, _other)):
    for _name in _names:
        setattr(Undefined, f"__{_name}__", _answer)
for _name in _COMPARISONS:
    setattr(_Unwrapped, f"__{_name}__", _unequal)


def load_scalar(
    core: Core, ref: Ref, index: Sequence[int], at: SourceLocation | None, *, watched: bool
) -> Any:
    """One element of `ref`, of which the observer is told if the read is `watched`.

    Outside of a ref in SMEM it is `Undefined`, unless `bounds` is checked; else it raises
    `out-of-bounds`.
    """
    try:
        element = ref.load_scalar(index, at)
    except ExecutionError as error:
        trapped = ref.buffer.memory.kind != "smem" or "bounds" in core.machine.checks
        if trapped or error.code != "out-of-bounds":
            raise
        return Undefined(error)
    if core.recorder is not None:
        core.recorder.loaded_scalar(ref.buffer)
    if watched and core.observer is not None:
        core.observer.read(core, Box(ref, index, (1,) * len(index)), at)
    return element


def load_box(
    core: Core,
    ref: Ref,
    index: Sequence[int],
    shape: tuple[int, ...],
    strides: Sequence[int] | None,
    at: SourceLocation | None,
    *,
    watched: bool,
) -> Array:
    """The box of `ref` whose element k is at `index + k * strides`.

    The observer is told of it if `watched`. Where it reaches out of the ref, and the kernel may
    read there, those elements are poison; else it raises `out-of-bounds`.
    """
    try:
        loaded = ref.load(index, shape, strides, at)
    except ExecutionError as error:
        _excuse(core, error)
        return _box_inside(core, ref, index, shape, strides, at, watched=watched)
    if watched and core.observer is not None:
        core.observer.read(core, Box(ref, index, shape, strides), at)
    return loaded


def load_registers(
    core: Core,
    ref: Ref,
    index: tuple[int, ...],
    wanted: Pattern,
    at: SourceLocation | None,
    *,
    watched: bool,
    look: bool = False,
) -> Array:
    """The grid of registers of `ref` at `index`, of which the observer is told if `watched`.

    With `look` it may be a view of memory, which whoever asks must use before memory changes.
    """
    try:
        found = access(ref, "load", index, wanted, at)
    except ExecutionError as error:
        _excuse(core, error)
        return _registers_inside(core, ref, index, wanted, at, watched=watched)
    if watched and core.observer is not None:
        core.observer.read(core, Rows(ref, found, index), at)
    loaded = found.look(ref) if look else found.load(ref)
    if core.recorder is not None:
        core.recorder.loaded(found, ref, look, loaded)
    return loaded


def _excuse(core: Core, error: ExecutionError) -> None:
    """Raises the error of a vector's load, unless the kernel may read what lies outside."""
    if error.code != "out-of-bounds":
        raise error
    if not core.machine.reads_outside:
        note = Note(
            "a kernel that selects another value for what lies outside may read it if it says so, "
            "with pltpu.CompilerParams(disable_bounds_checks=True)"
        )
        raise type(error)(error.code, error.message, error.location, [*error.notes, note])


def _unknown(ref: Ref, shape: tuple[int, ...]) -> Array:
    poison = values.poison(ref.element, (), ref.buffer.memory.poison)
    return np.full(shape, poison, ref.codec.carrier)


def _box_inside(
    core: Core,
    ref: Ref,
    index: Sequence[int],
    shape: tuple[int, ...],
    strides: Sequence[int] | None,
    at: SourceLocation | None,
    *,
    watched: bool,
) -> Array:
    loaded = _unknown(ref, shape)
    steps = strides or (1,) * len(shape)
    inside = [
        [k for k in range(count) if 0 <= start + k * step < size]
        for start, count, step, size in zip(index, shape, steps, ref.shape, strict=True)
    ]
    if all(inside):
        first = [start + ks[0] * step for start, ks, step in zip(index, inside, steps, strict=True)]
        part = tuple(slice(ks[0], ks[-1] + 1) for ks in inside)
        counts = tuple(map(len, inside))
        loaded[part] = load_box(core, ref, first, counts, strides, at, watched=watched)
    return loaded


def _registers_inside(
    core: Core,
    ref: Ref,
    index: tuple[int, ...],
    wanted: Pattern,
    at: SourceLocation | None,
    *,
    watched: bool,
) -> Array:
    loaded = _unknown(ref, wanted.shape)
    rank = 2 if ref.codec.packing == 1 else 3
    register = wanted.shape[-rank:]
    for position in np.ndindex(*wanted.shape[:-rank]):
        moved = [g * step for g, step in zip(position, wanted.steps, strict=True)]
        start = tuple(int(i) + m for i, m in zip(index, moved or [0] * len(index), strict=True))
        for sublane in range(SUBLANES):
            if not wanted.sublanes[sublane]:
                continue
            only = tuple(s == sublane for s in range(SUBLANES))
            row = pattern(register, (), only, wanted.offsets)
            try:
                found = access(ref, "load", start, row, at)
            except ExecutionError as error:
                _excuse(core, error)
                continue
            loaded[position][sublane] = found.load(ref)[sublane]
            if watched and core.observer is not None:
                core.observer.read(core, Rows(ref, found, start), at)
    return loaded
