"""What a kernel prints, asserts and marks for profiles."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Attribute

from pallasite.diagnostics import ExecutionError, SourceLocation
from pallasite.dialects import cf, tpu
from pallasite.dialects.locations import source_location
from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.meanings import Facts, effect

MOST_LOGGED = 64 << 20
"""Characters that all cores of a run may log."""


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return _braces(value)
    if isinstance(value, np.floating):
        return repr(float(value))
    return str(value)


def _braces(array: np.ndarray[Any, Any]) -> str:
    """An array in nested braces, a row to a line, whole floats without a point, as TPUs log it."""
    if array.ndim == 0:
        return _text(array.item()).removesuffix(".0")
    if array.ndim == 1:
        return "{" + ", ".join(str(item).removesuffix(".0") for item in array) + "}"
    return "{" + ",\n ".join(_braces(part).replace("\n", "\n ") for part in array) + "}"


@effect(tpu.LogOp)
def log(op: tpu.LogOp, facts: Facts) -> Callable[..., None]:
    """Adds a line to the core's log: the tag with `$n` filled in, or followed by the inputs.

    Scalars behind the tag have their types before them, as TPUs log them: `x s32[] 5`.
    """
    at = source_location(op)
    kinds = [_kind(type) for type in op.inputs.types]
    tag = op.tag.data
    formatted = bool(op.formatted.value.data)

    def fn(core: Core, *inputs: Any) -> None:
        if formatted:
            texts = [_text(value) for value in inputs]
            line = re.sub(
                r"\$(\d+)",
                lambda m: texts[int(m[1])] if int(m[1]) < len(texts) else m[0],
                tag,
            )
        else:
            texts = [
                kind + _text(value).removesuffix(".0") if kind else _text(value)
                for kind, value in zip(kinds, inputs, strict=True)
            ]
            line = _joined(tag, texts)
        _write(core, line, at)

    return fn


def _kind(type: Attribute) -> str:
    """The name of a scalar type as the log has it, with a blank: `s32[] `; of others nothing."""
    if isinstance(type, IntegerType):
        return "pred[] " if type.bitwidth == 1 else f"s{type.bitwidth}[] "
    return f"{type}[] " if isinstance(type, AnyFloat) else ""


def _write(core: Core, line: str, at: SourceLocation | None) -> None:
    machine = core.machine
    machine.logged += len(line) + 1
    if machine.logged > MOST_LOGGED:
        raise ExecutionError("log-limit", f"the kernel logs more than {MOST_LOGGED} characters", at)
    core.log.append(line)


def _joined(tag: str, texts: list[str]) -> str:
    blank = "" if not tag or tag[-1].isspace() or not texts else " "
    return tag + blank + " ".join(texts)


@effect(tpu.LogBufferOp)
def log_buffer(op: tpu.LogBufferOp, facts: Facts) -> Callable[[Core, Ref], None]:
    """Adds the logical part of a memref to the core's log."""
    at = source_location(op)
    tag = op.tag.data
    shape = tuple(int(n) for n in op.shape.get_values())

    def fn(core: Core, ref: Ref) -> None:
        _write(core, _joined(tag, [_text(ref.load((0,) * len(shape), shape, None, at))]), at)

    return fn


@effect(cf.AssertOp)
def check(op: cf.AssertOp, facts: Facts) -> Callable[[Core, bool], None]:
    """Ends the run unless the condition holds."""
    at = source_location(op)
    message = op.msg.data

    def fn(core: Core, condition: bool) -> None:
        if not condition:
            raise ExecutionError("assertion-failed", f"assertion failed on {core}: {message}", at)

    return fn


@effect(tpu.TraceStartOp)
def trace_start(op: tpu.TraceStartOp, facts: Facts) -> Callable[[Core], None]:
    """Opens a named span."""
    name = op.message.data

    def fn(core: Core) -> None:
        core.spans.append(name)

    return fn


@effect(tpu.TraceStopOp)
def trace_stop(op: tpu.TraceStopOp, facts: Facts) -> Callable[[Core], None]:
    """Closes the innermost span, if one is open."""

    def fn(core: Core) -> None:
        del core.spans[-1:]

    return fn


@effect(tpu.TraceValueOp)
def trace_value(op: tpu.TraceValueOp, facts: Facts) -> Callable[..., None]:
    """A mark for a profiler, which changes nothing."""

    def fn(core: Core, *operands: Any) -> None:
        return None

    return fn
