"""Copies between memories: starting and awaiting DMAs, to other devices too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import IntegerAttr, MemRefType, i32
from xdsl.ir import Attribute, Block, Region, SSAValue

from pallasite.dialects import arith, scf
from pallasite.dialects.tpu import EnqueueDmaOp, WaitDma2Op
from pallasite.frontend.jaxprs.devices import Destination, destination_of
from pallasite.frontend.jaxprs.internals import (
    core_of_memory,
    kind,
    state_types,
    tpu_core,
    tpu_primitives,
    transfer,
)
from pallasite.frontend.jaxprs.refs import viewed
from pallasite.frontend.jaxprs.rules import Result, rule
from pallasite.frontend.jaxprs.tracer import Equation, Tracer
from pallasite.frontend.jaxprs.types import is_bool

Finish = Callable[[list["SSAValue | None"]], None]


@rule(tpu_primitives.dma_start_p)
def _start(e: Equation) -> Result:
    tree = e.params["tree"]
    source, target, semaphore, source_semaphore, device_id = transfer(tree, e.arguments)
    source_aval, _, semaphore_aval, _, id_avals = transfer(tree, e.inputs)
    if e.params["add"]:
        raise e.unsupported(
            "a copy that adds", "copy to a buffer of its own and add when it has arrived"
        )
    if is_bool(source_aval.dtype):
        raise e.unsupported(
            "a copy of booleans, which memory holds as words",
            "copy int8 or int32",
            code="unsupported-type",
        )
    _check_core(e, semaphore_aval)
    where = destination_of(e.tracer, device_id, id_avals, e.params["device_id_type"])
    start_copy(e, [source, target, semaphore, source_semaphore], where, _check_alike)
    return []


@rule(tpu_primitives.dma_wait_p)
def _wait(e: Equation) -> Result:
    tree = e.params["tree"]
    source, target, semaphore, _, device_id = transfer(tree, e.arguments)
    _, _, semaphore_aval, _, id_avals = transfer(tree, e.inputs)
    _check_core(e, semaphore_aval)
    if e.params.get("insert_dummy_device"):
        where = no_device(e.tracer)
    else:
        where = destination_of(e.tracer, device_id, id_avals, e.params["device_id_type"])
    await_copy(e, [source, target, semaphore], where)
    return []


def _check_alike(e: Equation, refs: Sequence[SSAValue | None]) -> None:
    """A copy moves elements as they are."""
    source, target = (cast("MemRefType[Attribute]", ref.type) for ref in refs[:2] if ref)
    if (here := source.element_type) != (there := target.element_type):
        raise e.unsupported(
            f"a copy of {here} to {there}: copies do not convert",
            f"copy to a buffer of {here} and convert the value",
            code="unequal-copy",
        )
    if (here := source.get_shape()) != (there := target.get_shape()):
        raise e.unsupported(
            f"a copy of shape {here} to shape {there}",
            "copy parts of one shape: ref.at[pl.ds(start, size)]",
            code="unequal-copy",
        )


def _check_core(e: Equation, semaphore: Any) -> None:
    if core_of_memory(semaphore.memory_space) not in (None, tpu_core.CoreType.TC):
        raise e.unsupported(
            "a copy to other cores than the TensorCore", "use semaphores of the TensorCore"
        )


def no_device(tracer: Tracer) -> Destination:
    """What JAX names where a wait has no device and its operation wants one."""
    zero = tracer.scalar(0, i32)
    return Destination(zero, zero)


def start_copy(
    e: Equation,
    refs: Sequence[Any],
    where: Destination,
    check: Callable[[Equation, Sequence[SSAValue | None]], None] | None = None,
) -> None:
    """Emits the start of a copy to `where`, between any of the refs that are selected.

    `refs` are source, target, semaphore and source semaphore (or None) as the program gives them.
    `check` raises for source and target that cannot be copied.
    """

    def start(found: list[SSAValue | None]) -> None:
        if check is not None:
            check(e, found)
        source, target, arrived, sent = ([ref] if ref is not None else [] for ref in found)
        properties = {"priority": IntegerAttr(e.params["priority"], i32)}
        operands = [source[0], sent, target[0], arrived, *where.operands]
        e.add(EnqueueDmaOp(operands=operands, properties=properties))

    with_views(e.tracer, refs, start)


def await_copy(e: Equation, refs: Sequence[Any], where: Destination) -> None:
    """Emits the wait for a copy: `refs` are its source, target and semaphore."""

    def wait(found: list[SSAValue | None]) -> None:
        source, target, arrived = found
        e.add(WaitDma2Op(operands=[arrived, source, target, *where.operands[:2]]))

    with_views(e.tracer, refs, wait)


def with_views(
    tracer: Tracer, refs: Sequence[Any], finish: Finish, done: Sequence[SSAValue | None] = ()
) -> None:
    """Emits the views that `refs` are, then what `finish` makes of them.

    A ref that is selected among several at run time becomes a branch for each of them.
    """
    if not refs:
        finish(list(done))
        return
    first, *rest = refs
    if isinstance(first, state_types.TransformedRef):
        if getattr(first, "multiref", False):
            _select(tracer, first, rest, finish, done)
            return
        inner, transforms = first.ref, first.transforms

        def view(found: list[SSAValue | None]) -> None:
            ref = found[len(done)]
            assert ref is not None
            with_views(tracer, rest, finish, [*done, viewed(tracer, ref, transforms)])

        if isinstance(inner, state_types.TransformedRef):
            with_views(tracer, [inner], view, done)
        else:
            view([*done, tracer.value(inner)])
        return
    with_views(tracer, rest, finish, [*done, None if first is None else tracer.value(first)])


def _select(
    tracer: Tracer,
    selected: Any,
    rest: Sequence[Any],
    finish: Finish,
    done: Sequence[SSAValue | None],
) -> None:
    (select,) = selected.transforms
    if not isinstance(select, kind(state_types, "SelectTransform")):
        raise tracer.unsupported("a view of several refs", "select one with pl.select_ref")
    index: Any = select.idx

    def choose(index: SSAValue, options: Sequence[Any]) -> None:
        first, *others = options
        if not others:
            with_views(tracer, [first, *rest], finish, done)
            return
        zero = tracer.scalar(0, index.type)
        is_first = tracer.emit(arith.CmpiOp(index, zero, "eq"))
        then, otherwise = Block(), Block()
        with tracer.inside(then):
            with_views(tracer, [first, *rest], finish, done)
            tracer.add(scf.YieldOp())
        with tracer.inside(otherwise):
            less = index
            if len(others) > 1:
                less = tracer.emit(arith.SubiOp(index, tracer.scalar(1, index.type)))
            choose(less, others)
            tracer.add(scf.YieldOp())
        tracer.add(scf.IfOp(is_first, [], Region(then), Region(otherwise)))

    choose(tracer.value(index), selected.ref)
