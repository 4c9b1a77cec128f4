"""Signals and copies that name a subcore of their own mesh, which JAX sends to their own.

`device_id={"subcore": n}` names a subcore of another kind, by the axes of that one's mesh. Of the
axes of the mesh that runs, JAX 0.10.2 takes no notice (`_device_id_to_logical` of its Mosaic
lowering): the signal goes to the subcore that gives it. So does a TPU; the program is told.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jax._src import core as jax_core

from pallasite.frontend.jaxprs.internals import (
    core_type,
    mesh_of_memory,
    pallas_primitives,
    tpu_primitives,
    transfer,
)
from pallasite.jax.odd_equations import warn_at


def warn_of_unnamed_subcores(jaxpr: jax_core.Jaxpr, mesh: Any) -> None:
    """Warns of every signal and copy of a kernel on the subcores of `mesh` that names one of them
    by its axes alone."""
    for equation in _equations(jaxpr):
        device_id, semaphore = _named(equation)
        if not isinstance(device_id, dict):
            continue
        theirs = mesh_of_memory(semaphore.aval.memory_space)
        if theirs is not None and core_type(theirs) is not core_type(mesh):
            continue
        names = [name for name in device_id if name in mesh.shape]
        if names:
            warn_at(
                equation,
                "unnamed-subcore",
                f"device_id names axis '{names[0]}' of the mesh that runs the kernel, of which JAX "
                f"takes no notice: '{equation.primitive.name}' reaches the subcore that runs it",
                "subcores of one kind have no names for each other",
                "let them meet by plsc.subcore_barrier(), and in VMEM_SHARED or HBM",
            )


def _equations(jaxpr: jax_core.Jaxpr) -> Iterator[jax_core.JaxprEqn]:
    yield from jaxpr.eqns
    for inner in jax_core.subjaxprs(jaxpr):
        yield from _equations(inner)


def _named(equation: jax_core.JaxprEqn) -> tuple[Any, Any]:
    """The device id of a signal or of a copy that begins, and the semaphore that it counts on."""
    if equation.primitive is pallas_primitives.semaphore_signal_p:
        semaphore, _, _, device_id, _ = equation.params["args_tree"].unflatten(equation.invars)
        return device_id, semaphore
    if equation.primitive is tpu_primitives.dma_start_p:
        _, _, semaphore, _, device_id = transfer(equation.params["tree"], equation.invars)
        return device_id, semaphore
    return None, None
