"""Scalars that nobody knows: what a read behind the end of SMEM gives.

A TPU does not trap such a read, and kernels rely on it: they read a table at an index that may be
behind its end, and select another value when it is. Nothing may come of it: any other use raises
the diagnostic of the read. With `bounds` among the checks the read itself raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from pallasite.diagnostics import Diagnostic, ExecutionError, Note, SourceLocation
from pallasite.interpreter.machine.accesses import Box
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.views import Ref

_USES = (
    "abs add and array array_ufunc bool ceil divmod eq float floor floordiv format ge gt hash "
    "index int invert le lshift lt mod mul ne neg or pos pow radd rand rdivmod rfloordiv rlshift "
    "rmod rmul ror round rpow rrshift rshift rsub rtruediv rxor str sub truediv trunc xor"
).split()
"""What Python asks of a number: all that any operation but a choice or a move can ask."""


class Undefined:
    """A scalar that may be passed on, stored nowhere and never looked at."""

    def __init__(self, read: Diagnostic) -> None:
        self.read = read


def _used(self: Undefined, *operands: Any, **options: Any) -> NoReturn:
    read = self.read
    note = Note("a read behind the end of SMEM has no value, and the kernel uses it")
    raise type(read)(read.code, read.message, read.location, [*read.notes, note])


for _name in _USES:
    setattr(Undefined, f"__{_name}__", _used)


def load_scalar(
    core: Core, ref: Ref, index: Sequence[int], watched: bool, at: SourceLocation | None
) -> Any:
    """One element of `ref`, of which the observer is told if the read is `watched`."""
    try:
        element = ref.load_scalar(index, at)
    except ExecutionError as error:
        trapped = ref.buffer.memory.kind != "smem" or "bounds" in core.machine.checks
        if trapped or error.code != "out-of-bounds":
            raise
        return Undefined(error)
    if watched and core.observer is not None:
        core.observer.read(core, Box(ref, index, (1,) * len(index)), at)
    return element
