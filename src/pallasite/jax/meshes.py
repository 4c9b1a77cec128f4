"""Kernels over a mesh of cores: what no core can hand on.

The cores of a device share HBM, but each has VMEM and SMEM of its own (spec/pallas_semantics.md
sections 1.10 and 8.4). A result there of a kernel of several cores would be that of one of them;
JAX refuses such references in VMEM where it sees them.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from jax._src.pallas.mosaic import core as tpu_core

from pallasite.diagnostics import Note, Unsupported
from pallasite.dialects.locations import position_of
from pallasite.frontend.jaxprs.internals import jax_core
from pallasite.frontend.jaxprs.locations import location_of, location_of_function

_OF_ONE_CORE = (tpu_core.MemorySpace.VMEM, tpu_core.MemorySpace.SMEM)


def check_results(
    meshes: Sequence[Any], jaxprs: Sequence[jax_core.Jaxpr], out_avals: Sequence[Any]
) -> None:
    """Raises `Unsupported` for a result in the memory of a core where the mesh has several."""
    cores = max(prod(mesh.shape.values()) for mesh in meshes)
    if cores == 1:
        return
    for number, aval in enumerate(out_avals):
        space = getattr(aval, "memory_space", None)
        if space in _OF_ONE_CORE:
            # The first line of the kernel: its function may be one of JAX's.
            locations = [location_of(eqn.source_info) for eqn in jaxprs[0].eqns]
            locations += [location_of_function(jaxprs[0].debug_info)]
            raise Unsupported(
                "core-memory",
                f"result {number} of a kernel of {cores} cores is in {space.name}, of which each "
                "core has its own",
                next((position_of(loc) for loc in locations if loc is not None), None),
                [Note("cores share HBM only: use pltpu.HBM or pl.ANY, and copy from scratch")],
            )
