"""Nested pipelines: `pltpu.emit_pipeline` as an operation."""

from __future__ import annotations

from typing import Any

import jax
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, SSAValue

from pallasite.dialects.kernel import DYNAMIC
from pallasite.dialects.pallas import EmitPipelineOp, YieldOp
from pallasite.frontend.jaxprs.internals import pallas_core, primitives, state_types, tpu_pipeline
from pallasite.frontend.jaxprs.refs import viewed
from pallasite.frontend.jaxprs.rules import Result, rule
from pallasite.frontend.jaxprs.tracer import Equation, Surroundings, Tracer, Value
from pallasite.frontend.jaxprs.windows import Windows, axis_semantics, grid_sizes, name_arguments

STEPS = "a grid has an int32 number of steps along each axis, got {}"
STEPS_ADVICE = "write n // 2 instead of n / 2, or n.astype(jnp.int32)"


@rule(*primitives(tpu_pipeline, "emit_pipeline_p"))
def _emit_pipeline(e: Equation) -> Result:
    params, tracer = e.params, e.tracer
    grid_mapping = params["grid_mapping"]
    arguments = iter(e.arguments)

    def take(count: int) -> list[Value]:
        return [next(arguments) for _ in range(count)]

    captured = [take(len(m.index_map_jaxpr.consts)) for m in grid_mapping.block_mappings]
    bounds = [_bound(e, v) for v in take(grid_mapping.num_dynamic_grid_bounds)]
    offsets = _offsets(e, take(params["_num_extra_dynamic"]))
    closed_over = take(params["body_consts_len"])
    refs = _refs(tracer, params["args_tree"].unflatten(list(arguments)))
    sizes = grid_sizes(grid_mapping.grid)
    mapped = tuple(grid_mapping.vmapped_dims)
    # Index maps see what the kernel sees.
    made = Windows(tracer, sizes, surroundings=tracer.surroundings)
    windows = [
        made.of(mapping, consts)
        for mapping, consts in zip(grid_mapping.block_mappings, captured, strict=True)
    ]
    jaxpr = params["body_jaxpr"]
    block = Block(arg_types=[tracer.type_of(variable.aval) for variable in jaxpr.invars])
    name_arguments(block, jaxpr.debug_info)
    inner = Surroundings(
        axes=len(sizes) - len(mapped),
        names=tracer.surroundings.names,
        mesh=tracer.surroundings.mesh,
    )
    with tracer.inside(block, inner):
        tracer.run(jaxpr, list(block.args), closed_over)
        tracer.add(YieldOp())
    semantics = params["dimension_semantics"]
    inputs = grid_mapping.num_inputs
    tracer.add(
        EmitPipelineOp(
            refs[:inputs],
            refs[inputs:],
            windows,
            block,
            made.maps,
            grid=[DYNAMIC if size is None else size for size in sizes],
            bounds=bounds,
            offsets=offsets,
            semantics=None if semantics is None else axis_semantics(semantics),
            mapped=mapped,
            no_pipelining=params["no_pipelining"],
            trace_scopes=params["trace_scopes"],
        )
    )
    return []


def _bound(e: Equation, number: Value) -> SSAValue:
    """The size of an axis of the grid, known at run time."""
    bound = e.tracer.value(number)
    if bound.type != i32:
        raise e.unsupported(
            STEPS.format(bound.type),
            STEPS_ADVICE,
            code="unsupported-type",
        )
    return bound


def _offsets(e: Equation, dynamic: list[Value]) -> list[SSAValue]:
    """What is added to positions along each axis; empty if nothing is."""
    given: list[Any] = list(e.params["_static_grid_offsets"])
    if not any(given):
        return []
    rest = iter(dynamic)
    return [
        e.tracer.value(next(rest))
        if pallas_core.is_dynamic_dim(offset)
        else e.tracer.scalar(offset, i32)
        for offset in given
    ]


def _refs(tracer: Tracer, arguments: Any) -> list[SSAValue]:
    """The refs that the pipeline runs over, views resolved."""
    leaves = jax.tree.leaves(arguments, is_leaf=lambda x: isinstance(x, state_types.TransformedRef))
    return [_resolved(tracer, leaf) for leaf in leaves]


def _resolved(tracer: Tracer, ref: Any) -> SSAValue:
    if not isinstance(ref, state_types.TransformedRef):
        return tracer.value(ref)
    if ref.multiref:
        raise tracer.unsupported("a pipeline over a ref selected at run time", "select it outside")
    return viewed(tracer, _resolved(tracer, ref.ref), ref.transforms)
