"""What is odd about the results of a run that went well: warnings, as programs may mean it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pallasite.diagnostics import UNWRITTEN, Diagnostic, Note, SourceLocation
from pallasite.interpreter.blocks import Operand
from pallasite.interpreter.machine.accesses import Box
from pallasite.interpreter.machine.codec import is_semaphore
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.values import Array

_ALL_OF_IT = (
    "write all of it, in a grid with a step for each block, pl.cdiv(n, size), or start from an "
    "input by input_output_aliases"
)
_NAMED_ONLY = "store to its ref, out[...] = value: out = value gives a value a name"
_ALL_OF_A_BLOCK = (
    "a block of an output begins undefined, also where the memory is an input's: write all of it, "
    "out[...] = input[...], or keep the output in HBM: out_specs=pl.BlockSpec(memory_space=pl.ANY)"
)
_UNDEFINED_IS_NAN = (
    "unless arithmetic gives them (0 / 0, inf - inf), they come from what blocks hold behind the "
    "end of their array, which is NaN here and anything on a TPU"
)
_LEAVE_IT_OUT = (
    "leave out what lies behind the end before rows or columns are combined: "
    "jnp.where(index < n, x, 0), with index from pl.program_id and lax.broadcasted_iota"
)


def unwritten(
    core: Core, results: Sequence[Operand], location: SourceLocation | None
) -> Iterator[Diagnostic]:
    """A warning for each result of which nobody has written all (if written bytes are tracked).

    Not an error: a caller may know which part of a result to look at.
    """
    where = _where(core)
    for operand in results:
        ref = operand.ref
        found = None
        if not is_semaphore(ref.element):
            found = Box(ref, (0,) * len(ref.shape), ref.shape).unwritten()
        if found is not None:
            yield Diagnostic(
                UNWRITTEN,
                f"{found.amount} of {operand.name}{where} were never written, the first at "
                f"{list(found.first)}",
                location,
                [
                    Note("on a TPU they are whatever the memory held before the call"),
                    *_given_up(core, ref),
                    Note(_ALL_OF_A_BLOCK if ref.buffer.aliased else _ALL_OF_IT),
                    *([Note(_NAMED_ONLY)] if found.whole else []),
                ],
                severity="warning",
            )


def undefined(
    core: Core,
    results: Sequence[Operand],
    inputs: Sequence[Array],
    outputs: Sequence[Array],
    location: SourceLocation | None,
) -> Iterator[Diagnostic]:
    """A warning for each result with NaNs of a kernel that was given none but beyond edges.

    Not an error: arithmetic makes NaNs, too. Undefined integers are not seen.
    """
    if not core.machine.overruns or any(_nans(array).any() for array in inputs):
        return
    for operand, output in zip(results, outputs, strict=True):
        found = _nans(output)
        if found.any():
            first = [int(n) for n in np.unravel_index(int(np.argmax(found)), output.shape)]
            yield Diagnostic(
                "undefined-output",
                f"{np.count_nonzero(found)} of {output.size} elements of {operand.name}"
                f"{_where(core)} are NaN, the first at {first}, and no operand has one",
                location,
                [Note(_UNDEFINED_IS_NAN), Note(_LEAVE_IT_OUT)],
                severity="warning",
            )


def _where(core: Core) -> str:
    """The device, for messages, if there are several."""
    return f" on device {core.device.index}" if len(core.machine.devices) > 1 else ""


def _given_up(core: Core, ref: Ref) -> list[Note]:
    """Of a transfer to `ref` that nobody has waited for."""
    dropped = core.machine.engine.dropped
    lost = next((t for t in dropped if t.target.buffer is ref.buffer and not t.remote), None)
    if lost is None:
        return []
    what = "wait for it before its source is gone, at the end of its scope or of the kernel"
    return [Note(f"{lost.describe()} writes there: {what}", lost.location)]


def _nans(array: Any) -> NDArray[np.bool_]:
    """Which elements of an array are NaN: none of one that is not of floats."""
    if np.issubdtype(array.dtype, np.floating) or array.dtype.kind == "V":
        return np.isnan(array)
    return np.zeros(0, bool)
