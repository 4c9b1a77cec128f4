"""Control flow: conditionals, loops, and functions that are called.

Loops are those of JAX's TPU lowering: a `scan` without stacked inputs and outputs is an `scf.for`
(unrolled as asked for), a `while` that counts up to a bound as well, any other an `scf.while`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jax import lax
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Region, SSAValue

from pallasite.dialects import arith, scf
from pallasite.frontend.jaxprs import types
from pallasite.frontend.jaxprs.internals import (
    ad_checkpoint,
    conditionals,
    custom_derivatives,
    jax_core,
    pallas_primitives,
    pallas_utils,
    pjit,
)
from pallasite.frontend.jaxprs.rules import Result, rule
from pallasite.frontend.jaxprs.tracer import Equation, Known, Value


@rule(lax.cond_p)
def _cond(e: Equation) -> Result:
    branches = e.params["branches"]
    which, *arguments = e.arguments
    if isinstance(which, Known):
        chosen = max(0, min(int(which.value), len(branches) - 1))
        return e.tracer.inline(branches[chosen], arguments)
    if e.inputs[0].dtype != bool:
        which = _condition(e, which) if len(branches) == 2 else which
    return _branch(e, e.tracer.value(which), branches, arguments)


def _condition(e: Equation, which: SSAValue | Any) -> SSAValue:
    """Whether the number `which` of a branch is not 0; the bool itself if it was one."""
    value = e.tracer.value(which)
    owner = value.owner
    if isinstance(owner, arith.ExtUIOp) and owner.operands[0].type == types.element_type(bool):
        return owner.operands[0]
    return value


def _branch(
    e: Equation, which: SSAValue, branches: Sequence[Any], arguments: Sequence[Value]
) -> list[Value]:
    condition = which
    if which.type != types.element_type(bool):
        zero = e.tracer.scalar(0, which.type)
        condition = e.emit(arith.CmpiOp(which, zero, "ne"))

    def rest() -> list[Value]:
        if len(branches) == 2:
            return e.tracer.inline(branches[1], arguments)
        less = e.emit(arith.SubiOp(which, e.tracer.scalar(1, which.type)))
        return _branch(e, less, branches[1:], arguments)

    then = _block(e, rest)
    otherwise = _block(e, lambda: e.tracer.inline(branches[0], arguments))
    result_types = [types.type_of(aval) for aval in e.outputs]
    regions = Region(then), Region(otherwise) if result_types or len(otherwise.ops) > 1 else None
    op = scf.IfOp(condition, result_types, *regions)
    e.add(op)
    return list(op.results)


def _block(
    e: Equation, body: Callable[..., Sequence[Value]], argument_types: Sequence[Any] = ()
) -> Block:
    """A block that does `body` of its arguments and yields the results."""
    block = Block(arg_types=argument_types)
    with e.tracer.inside(block):
        results = [e.tracer.value(v) for v in body(*block.args)]
        e.add(scf.YieldOp(*results))
    return block


@rule(lax.scan_p)
def _scan(e: Equation) -> Result:
    params = e.params
    consts, carries = params["num_consts"], params["num_carry"]
    closed, length = params["jaxpr"], params["length"]
    if len(e.arguments) > consts + carries or len(e.outputs) > carries:
        raise e.unsupported(
            "a scan over the rows of an array",
            "use lax.fori_loop and read and write refs: ref[pl.ds(i, 1), :]",
        )
    if params["reverse"]:
        raise e.unsupported(
            "a loop that counts down", "count up and compute the position: n - 1 - i"
        )
    jaxpr, has_index = pallas_utils.pattern_match_scan_to_fori_loop(closed.jaxpr, consts, carries)
    if has_index and not _is_whole(jaxpr):
        jaxpr, has_index = closed.jaxpr, False
    closed = jax_core.ClosedJaxpr(jaxpr, closed.consts)
    arguments = e.arguments
    start: Value = Known(0, "int32")
    initial = arguments[consts:]
    if has_index:
        start, *initial = initial
        if isinstance(start, Known):
            # As JAX lowers it, the counter of a loop over Python's numbers is a word, however wide
            # those are.
            start = Known(start.value, "int32")
    loop = _Loop(e, closed, arguments[:consts], has_index)
    results = loop.run(start, Known(length, "int32"), initial, params["unroll"])
    if not has_index:
        return results
    if isinstance(start, Known):
        return [Known(int(start.value) + length, e.outputs[0].dtype), *results]
    end = e.emit(arith.AddiOp(e.tracer.value(start), e.tracer.scalar(length, i32)))
    return [end, *results]


def _is_whole(body: Any) -> bool:
    """Whether everything is there that `body` uses, of which JAX has taken out the step of the
    counter, and the end: a loop may use those in its turns."""
    known = {*body.invars, *body.constvars}

    def is_known(atom: Any) -> bool:
        return isinstance(atom, jax_core.Literal) or atom in known

    for equation in body.eqns:
        if not all(map(is_known, equation.invars)):
            return False
        known.update(equation.outvars)
    return all(map(is_known, body.outvars))


@rule(lax.while_p)
def _while(e: Equation) -> Result:
    params = e.params
    test, body = params["cond_jaxpr"], params["body_jaxpr"]
    test_consts, body_consts = params["cond_nconsts"], params["body_nconsts"]
    counted, _ = pallas_utils.pattern_match_while_to_fori_loop(test, test_consts, body, body_consts)
    of_test = e.arguments[:test_consts]
    of_body = e.arguments[test_consts : test_consts + body_consts]
    initial = e.arguments[test_consts + body_consts :]
    if counted is not None and _is_whole(counted):
        start, end, *rest = initial
        closed = jax_core.ClosedJaxpr(counted, body.consts)
        results = _Loop(e, closed, of_body).run(start, _difference(e, end, start), rest)
        return [_last(e, start, end) if e.used[0] else end, end, *results]
    values = [e.tracer.value(v) for v in initial]
    kinds = [value.type for value in values]
    before = Block(arg_types=kinds)
    with e.tracer.inside(before):
        (go_on,) = e.tracer.inline(test, [*of_test, *before.args])
        e.add(scf.ConditionOp(e.tracer.value(go_on), *before.args))
    after = _block(e, lambda *args: e.tracer.inline(body, [*of_body, *args]), kinds)
    op = scf.WhileOp(values, kinds, [before], [after])
    e.add(op)
    return list(op.results)


def _last(e: Equation, start: Value, end: Value) -> Value:
    """Where a loop that counts from `start` to below `end` stops."""
    if isinstance(end, Known) and isinstance(start, Known):
        return Known(max(int(end.value), int(start.value)), end.dtype)
    return e.emit(arith.MaxSIOp(e.tracer.value(start), e.tracer.value(end)))


def _difference(e: Equation, end: Value, start: Value) -> Value:
    if isinstance(end, Known) and isinstance(start, Known):
        return Known(int(end.value) - int(start.value), end.dtype)
    if isinstance(start, Known) and int(start.value) == 0:
        return end
    return e.emit(arith.SubiOp(e.tracer.value(end), e.tracer.value(start)))


@dataclass(frozen=True)
class _Loop:
    """A loop around `closed`, which takes constants, the position if `has_index`, and carries."""

    e: Equation
    closed: jax_core.ClosedJaxpr
    consts: Sequence[Value]
    has_index: bool = True

    def run(
        self, start: Value, steps: Value, initial: Sequence[Value], unroll: int = 1
    ) -> list[Value]:
        """What is carried after `steps` positions from `start`, `unroll` of them in each turn."""
        if not isinstance(steps, Known):
            return self._unknown(start, steps, initial)
        length = int(steps.value)
        unroll = unroll or max(length, 1)
        if length == unroll and isinstance(start, Known):
            carried = list(initial)
            for i in range(length):
                carried = self._once(Known(int(start.value) + i, "int32"), carried)
            return carried
        return self._known(start, length, initial, unroll)

    def _known(
        self, start: Value, length: int, initial: Sequence[Value], unroll: int
    ) -> list[Value]:
        """Turns of `unroll` positions, and the rest of the positions one by one."""
        e = self.e
        low = e.tracer.value(start)
        whole = length // unroll * unroll
        carried = list(initial)
        if whole:
            carried = self._turns(low, _plus(e, start, low, whole), unroll, carried)
        for i in range(whole, length):
            at = e.emit(arith.AddiOp(low, e.tracer.scalar(i, i32)))
            carried = self._once(at, carried)
        return carried

    def _unknown(self, start: Value, steps: Value, initial: Sequence[Value]) -> list[Value]:
        """A turn for each position; JAX unrolls no loop whose length the trace does not know."""
        e = self.e
        low, end = e.tracer.value(start), e.tracer.value(steps)
        if not (isinstance(start, Known) and int(start.value) == 0):
            end = e.emit(arith.AddiOp(low, end))
        return self._turns(low, end, 1, initial)

    def _once(self, index: Value, carried: Sequence[Value]) -> list[Value]:
        position = [index] if self.has_index else []
        return self.e.tracer.inline(self.closed, [*self.consts, *position, *carried])

    def _turns(
        self, first: SSAValue, last: SSAValue, step: int, values: Sequence[Value]
    ) -> list[Value]:
        """A `for` from `first` to below `last` with `step` positions in each turn."""
        e = self.e
        operands = [e.tracer.value(v) for v in values]

        def turn(index: SSAValue, *inner: SSAValue) -> list[Value]:
            out: list[Value] = list(inner)
            for k in range(step):
                here = e.emit(arith.AddiOp(index, e.tracer.scalar(k, i32))) if k else index
                out = self._once(here, out)
            return out

        block = _block(e, turn, [i32, *(value.type for value in operands)])
        op = scf.ForOp(first, last, e.tracer.scalar(step, i32), operands, block)
        e.add(op)
        return list(op.results)


def _plus(e: Equation, start: Value, low: SSAValue, steps: int) -> SSAValue:
    if isinstance(start, Known):
        return e.tracer.scalar(int(start.value) + steps, i32)
    return e.emit(arith.AddiOp(low, e.tracer.scalar(steps, i32)))


@rule(pjit.jit_p)
def _jit(e: Equation) -> Result:
    return e.tracer.inline(e.params["jaxpr"], e.arguments)


@rule(ad_checkpoint.remat_p)
def _checkpoint(e: Equation) -> Result:
    return e.tracer.inline(jax_core.ClosedJaxpr(e.params["jaxpr"], ()), e.arguments)


@rule(pallas_primitives.jaxpr_call_p)
def _jaxpr_call(e: Equation) -> Result:
    raise e.unsupported(
        "a call of a function over views of refs", "call the function on refs themselves"
    )


@rule(
    jax_core.closed_call_p,
    custom_derivatives.custom_jvp_call_p,
    custom_derivatives.custom_vjp_call_p,
)
def _call(e: Equation) -> Result:
    """Kernels are not differentiated: of a function with its own derivative only itself counts."""
    return e.tracer.inline(e.params["call_jaxpr"], e.arguments)


@rule(conditionals.platform_index_p)
def _platform_index(e: Equation) -> Result:
    for index, platforms in enumerate(e.params["platforms"]):
        if platforms is None or "mosaic" in platforms:
            return Known(index, "int32")
    raise e.unsupported(
        "lax.platform_dependent has no branch for kernels", "add a branch `mosaic`, or a default"
    )
