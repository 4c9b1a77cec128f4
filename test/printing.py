"""Operations as text."""

from __future__ import annotations

from io import StringIO

from xdsl.ir import Operation
from xdsl.printer import Printer


def printed(op: Operation, *, generic: bool = False, located: bool = False) -> str:
    """The text of `op`, in its custom or its `generic` form, with locations if `located`."""
    stream = StringIO()
    Printer(stream, print_generic_format=generic, print_debuginfo=located).print_op(op)
    return stream.getvalue()
