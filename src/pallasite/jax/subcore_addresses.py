"""Signals and copies that address subcores, which JAX lowers from 0.10.2 on.

Before, JAX's modules have no number of a subcore: what it writes instead, a number counted through
all subcores of the chip, is one of a core to everybody else.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

from jax._src import core
from jax._src.lib import tpu
from jax._src.pallas import primitives
from jax._src.pallas.mosaic import primitives as tpu_primitives

from pallasite.diagnostics import Note, Unsupported
from pallasite.dialects.locations import position_of
from pallasite.frontend.jaxprs.internals import core_type, jax_core, tpu_core, transfer
from pallasite.frontend.jaxprs.locations import location_of

LOWERED = "subcore_id" in inspect.signature(tpu.sem_signal).parameters
"""Whether this JAX writes the numbers of subcores."""


def check_addresses(
    meshes: Sequence[Any], jaxprs: Sequence[jax_core.Jaxpr], *, lowered: bool = LOWERED
) -> None:
    """Raises `Unsupported` for the first such address in kernels of `meshes`, if not `lowered`."""
    if lowered or all(core_type(mesh) is tpu_core.CoreType.TC for mesh in meshes):
        return
    names = frozenset(name for mesh in meshes for name in mesh.shape)
    for jaxpr in jaxprs:
        for eqn in _equations(jaxpr):
            device = _device(eqn)
            if isinstance(device, dict) and not names.isdisjoint(device):
                location = location_of(eqn.source_info)
                raise Unsupported(
                    "subcore-address",
                    "a core of a SparseCore is addressed, which JAX lowers from 0.10.2 on",
                    None if location is None else position_of(location),
                    [Note("pip install -U jax, or meet the others with a barrier")],
                )


def _equations(jaxpr: jax_core.Jaxpr) -> Iterable[jax_core.JaxprEqn]:
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in core.jaxprs_in_params(eqn.params):
            yield from _equations(inner)


def _device(eqn: jax_core.JaxprEqn) -> Any:
    """The `device_id=` of a signal or copy."""
    if eqn.primitive is primitives.semaphore_signal_p:
        *_, device, _ = eqn.params["args_tree"].unflatten(eqn.invars)
        return device
    if eqn.primitive in (tpu_primitives.dma_start_p, tpu_primitives.dma_wait_p):
        return transfer(eqn.params["tree"], eqn.invars)[-1]
    return None
