"""What authors call the memory of a part of a kernel: JAX's module says nothing."""

from __future__ import annotations

from collections.abc import Iterator

from pallasite.diagnostics import SourceLocation
from pallasite.dialects import memref, tpu
from pallasite.dialects.func import FuncOp
from pallasite.dialects.locations import position_of
from pallasite.dialects.walking import of_kind, operations_of
from pallasite.frontend.jaxprs.internals import jax_core, pallas_primitives
from pallasite.frontend.jaxprs.locations import location_of
from pallasite.frontend.jaxprs.windows import give_names

_Names = tuple[str, ...]


def name_scoped(func: FuncOp, jaxpr: jax_core.Jaxpr) -> None:
    """Gives what `pl.run_scoped` allocates in `func` the names of the parameters that it is for,
    by the line of the call; those of a line with several are not told apart."""
    regions = of_kind(func, tpu.RegionOp)
    if not regions:
        return
    named: dict[SourceLocation, set[_Names]] = {}
    for location, names in _scopes(jaxpr):
        named.setdefault(location, set()).add(names)
    for region in regions:
        location = position_of(region.location)
        found = named.get(location, set()) if location is not None else set[_Names]()
        memory = [
            op.results[0]
            for op in operations_of(region.body.block)
            if isinstance(op, memref.AllocaOp | tpu.SemAllocOp)
        ]
        if len(found) == 1 and len(names := next(iter(found))) == len(memory):
            give_names(memory, names)


def _scopes(jaxpr: jax_core.Jaxpr) -> Iterator[tuple[SourceLocation, _Names]]:
    """Where a jaxpr, and those in it, allocate for a part, and what the parameters are called."""
    for equation in jaxpr.eqns:
        if equation.primitive is not pallas_primitives.run_scoped_p:
            continue
        location = location_of(equation.source_info)
        location = None if location is None else position_of(location)
        names = equation.params["jaxpr"].debug_info.arg_names
        if location is not None and names is not None:
            yield location, tuple(names)
    for inner in jax_core.subjaxprs(jaxpr):
        yield from _scopes(inner)
