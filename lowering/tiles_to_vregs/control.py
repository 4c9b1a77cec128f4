"""Unrolls structured control flow: a grid that it carries becomes one value per register."""

from __future__ import annotations

from xdsl.ir import Operation

from pallasite.dialects import func, scf, tpu
from pallasite.lowering.tiles_to_vregs.branches import emit_conditional
from pallasite.lowering.tiles_to_vregs.unroll import Unroller, rule


@rule(
    scf.ForOp, scf.IfOp, scf.WhileOp, scf.YieldOp, scf.ConditionOp, scf.IndexSwitchOp,
    tpu.RegionOp, tpu.TraceOp, tpu.YieldOp, func.ReturnOp,
)  # fmt: skip
def unroll_structured(op: Operation, u: Unroller) -> None:
    """Expands operands, results and block arguments, one to many; nothing else changes.

    The exception are results of conditionals that are only passed on (`branches`). An operation
    without grids is kept.
    """
    split = any([u.is_grid(v.type) for v in (*op.operands, *op.results)])
    operands = u.expanded(op.operands)
    regions = [u.region(region) for region in op.regions]
    if not split and regions == [*op.regions]:
        u.keep(op)
        return
    for region in regions:
        if region.parent is op:
            op.detach_region(region)
    made = type(op).create(
        operands=operands,
        result_types=u.expanded_types([r.type for r in op.results]),
        properties=op.properties,
        attributes=op.attributes,
        location=op.location,
        regions=regions,
    )
    values = emit_conditional(made, u.emit) if isinstance(made, scf.IfOp) else u.emit(made).results
    u.define_all(op.results, values)
