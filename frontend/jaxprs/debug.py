"""Prints and checks."""

from __future__ import annotations

import string
from typing import Any

import jax
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, StringAttr, i64
from xdsl.ir import Block

from pallasite.dialects import arith, cf
from pallasite.dialects.pallas import RunScopedOp, StoreOp, YieldOp, whole
from pallasite.dialects.tpu import LogBufferOp, LogOp, MemorySpaceAttr, TraceValueOp
from pallasite.dialects.types import shape_of
from pallasite.frontend.jaxprs import types
from pallasite.frontend.jaxprs.internals import (
    checkify,
    debug_checks_enabled,
    debugging,
    state_types,
    tpu_primitives,
)
from pallasite.frontend.jaxprs.rules import Result, rule
from pallasite.frontend.jaxprs.tracer import Equation


@rule(debugging.debug_callback_p)
def _callback(e: Equation) -> Result:
    return []  # The host takes no part in a kernel; JAX's lowering drops these, too.


@rule(debugging.debug_print_p)
def _print(e: Equation) -> Result:
    if e.params["ordered"]:
        raise e.unsupported("an ordered print", "use pl.debug_print")
    arguments, keywords = debugging.merge_callback_args(
        e.params["in_tree"], e.arguments, e.params["static_args"]
    )
    if keywords:
        raise e.unsupported("a print of keyword arguments", "give them in order")
    text, fields = e.params["fmt"], e.params["has_placeholders"]
    if static := dict(e.params["static_args"]):
        raise e.unsupported(
            f"a print of {', '.join(map(repr, static.values()))}, no number",
            "write it into the text",
        )
    if any(isinstance(aval, state_types.AbstractRef) for aval in e.inputs):
        raise e.unsupported("a print of a ref", "print what it holds: ref[...], or ref[0] in SMEM")
    values = [e.tracer.value(v) for v in arguments]
    if len(values) == 1 and shape_of(values[0].type):
        return _print_vector(e, text, fields)
    if any(shape_of(value.type) for value in values):
        raise e.unsupported(
            "a print of several values, some of them vectors",
            "print scalars, or one vector at a time",
        )
    if fields:
        text = _with_positions(e, text, [value.type for value in values])
    e.add(
        LogOp(
            operands=[values],
            properties={"tag": StringAttr(text), "formatted": IntegerAttr.from_bool(fields)},
        )
    )
    return []


def _with_positions(e: Equation, text: str, kinds: list[Any]) -> str:
    """Numbers the placeholders, as the TPU's log wants them: `{}` becomes `$0`, `$1`, ..."""
    parts = list(string.Formatter().parse(text))
    fields = [part for part in parts if part[1] is not None]
    if any(field[1] or field[2] or field[3] for field in fields):
        raise e.unsupported(f"placeholders with names or formats: {text!r}", "write {} only")
    if len(fields) != len(kinds):
        raise e.unsupported(
            f"{len(fields)} placeholders for {len(kinds)} values: {text!r}", "write {} per value"
        )
    if any(not isinstance(kind, IntegerType) or kind.bitwidth != 32 for kind in kinds):
        raise e.unsupported(
            "placeholders are filled with 32-bit integers only",
            "leave out the placeholders: pl.debug_print('x', x)",
        )
    text, position = "", 0
    for literal, field, _, _ in parts:
        text += literal
        if field is not None:
            text += f"${position}"
            position += 1
    return text


def _print_vector(e: Equation, text: str, fields: bool) -> Result:
    if not fields or not text.endswith("{}"):
        raise e.unsupported("a vector is printed where the text ends with {}", "end it with {}")
    aval = e.inputs[0]
    buffer = types.ref_type(aval.shape, types.element_type(aval.dtype), MemorySpaceAttr("vmem"))
    block = Block(arg_types=[buffer])
    with e.tracer.inside(block):
        e.add(StoreOp(e.operand(0), block.args[0], whole(buffer)))
        e.add(
            LogBufferOp(
                operands=[block.args[0]],
                properties={
                    "shape": DenseArrayBase.from_list(i64, list(aval.shape)),
                    "tag": StringAttr(text[:-2]),
                },
            )
        )
        e.add(YieldOp())
    e.add(RunScopedOp(block))
    return []


@rule(checkify.check_p)
def _check(e: Equation) -> Result:
    if not e.params["debug"]:
        raise e.unsupported(
            "a check that is not for debugging, which JAX does not functionalize in kernels",
            "write pl.debug_check(condition, text), and call the kernel inside "
            "pl.enable_debug_checks(), which counts where JAX lowers it: around the call of what "
            "is jitted",
            "or store the condition to a result in SMEM, and check that outside",
        )
    if not debug_checks_enabled():
        return []
    error = jax.tree.unflatten(e.params["err_tree"], e.arguments)
    (failed,) = error._pred.values()
    (metadata,) = error._metadata.values()
    (payload,) = error._payload.values()
    exception: Any = jax.tree.unflatten(metadata, payload)
    true = e.tracer.scalar(True, types.element_type(bool))
    holds = e.emit(arith.XOrIOp(e.tracer.value(failed), true))
    e.add(cf.AssertOp(holds, StringAttr(exception.fmt_string)))
    return []


@rule(tpu_primitives.touch_p)
def _touch(e: Equation) -> Result:
    return []  # tells JAX of a dependency, nothing happens


@rule(tpu_primitives.trace_value_p)
def _trace_value(e: Equation) -> Result:
    label = {"label": StringAttr(e.params["label"])}
    e.add(TraceValueOp(operands=[e.operand(0)], properties=label))
    return []
