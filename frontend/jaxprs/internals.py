"""What the tracer uses of JAX's private interface; every such module is imported here only.

The names are those of JAX 0.10.2. Older versions that `pallasite.jax` takes lack some: what is not
in all of them is asked for by `primitives` and `kind`, so that a rule for a primitive that this JAX
does not have is a rule for nothing, and no object is of a class that it does not have. What older
versions say in another way is said here as the newest does: `core_type`, `transfer`, ...
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from jax._src import (
    ad_checkpoint,
    ad_util,
    checkify,
    custom_derivatives,
    debugging,
    dtypes,
    pjit,
    source_info_util,
)
from jax._src import core as jax_core
from jax._src.interpreters import partial_eval
from jax._src.lax import lax as lax_internal
from jax._src.lax.control_flow import conditionals
from jax._src.pallas import core as pallas_core
from jax._src.pallas import einshape as pallas_einshape
from jax._src.pallas import helpers as pallas_helpers
from jax._src.pallas import primitives as pallas_primitives
from jax._src.pallas import utils as pallas_utils
from jax._src.pallas.mosaic import core as tpu_core
from jax._src.pallas.mosaic import lowering as tpu_lowering
from jax._src.pallas.mosaic import pallas_call_registration as tpu_calls
from jax._src.pallas.mosaic import pipeline as tpu_pipeline
from jax._src.pallas.mosaic import primitives as tpu_primitives
from jax._src.pallas.mosaic import random as tpu_random
from jax._src.pallas.mosaic import sc_core as subcore_core
from jax._src.pallas.mosaic import sc_primitives as subcore_primitives
from jax._src.state import indexing as state_indexing
from jax._src.state import primitives as state_primitives
from jax._src.state import types as state_types

_PARTS = 5
"""Of a transfer, where transforms are part of their refs."""


def _first_module(*names: str) -> Any:
    """The module that versions of JAX know by one of `names`, newest first."""
    for name in names:
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    raise ImportError(f"this JAX has none of {', '.join(names)}")


prng = _first_module("jax._src.random.prng", "jax._src.prng")
threefry2x32 = _first_module("jax._src.random.threefry2x32", "jax._src.prng")


def _first(*candidates: tuple[Any, str]) -> Any:
    """What versions of JAX have in one of several modules by a name."""
    return next(getattr(module, name) for module, name in candidates if hasattr(module, name))


class Missing:
    """Stands for a class that this JAX does not have: nothing is one of it."""


def primitives(module: Any, *names: str) -> tuple[Any, ...]:
    """The primitives of `module` by these names that this JAX has."""
    return tuple(getattr(module, name) for name in names if hasattr(module, name))


def kind(module: Any, name: str) -> Any:
    """The class `name` of `module`; `Missing` if this JAX does not have it."""
    return getattr(module, name, Missing)


debug_checks_enabled = _first(
    (pallas_core, "debug_checks_enabled"), (pallas_helpers, "debug_checks_enabled")
)
poison_buffers_enabled: Callable[[], bool] = getattr(
    pallas_core, "poison_buffers_enabled", lambda: False
)
"""Whether `jax_pallas_poison_buffers` is set, which not all versions of JAX have."""
memory_space_to_tpu = _first(
    (tpu_core, "memory_space_to_tpu_memory_space"),
    (tpu_calls.lowering, "_memory_space_to_tpu_memory_space"),
)
_CoreMemorySpaces = (kind(pallas_core, "CoreMemorySpace"), kind(tpu_core, "CoreMemorySpace"))


def core_type(mesh: Any) -> Any:
    """The `CoreType` of the cores of `mesh`."""
    return mesh.core_type if hasattr(mesh, "core_type") else mesh.kernel_type


def core_of_memory(space: Any) -> Any:
    """The `CoreType` of the cores whose own memory `space` is; None for a space of any core."""
    if not isinstance(space, _CoreMemorySpaces):
        return None
    return core_type(space.mesh) if hasattr(space, "mesh") else space.core_type


def mesh_of_memory(space: Any) -> Any:
    """The mesh of the cores whose own memory `space` is, where JAX says it; else None."""
    return getattr(space, "mesh", None) if isinstance(space, _CoreMemorySpaces) else None


def transfer(tree: Any, leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Of a transfer or its wait: source, target, semaphore, semaphore of the sender, device.

    The first four are refs with their transforms, None where there is none. Before 0.10.2 JAX
    flattens the transforms apart from their refs, and with a class of its own for refs in them.
    """
    parts = tree.unflatten(leaves)
    if len(parts) == _PARTS:
        return parts
    unflatten: Any = tpu_primitives._dma_unflatten  # pyright: ignore[reportPrivateUsage]
    *pairs, device = unflatten(tree, leaves)
    refs = [
        state_types.TransformedRef(ref, tuple(transforms)) if transforms else ref
        for ref, transforms in zip(pairs[::2], pairs[1::2], strict=True)
    ]
    return (*refs, device)


__all__ = [
    "ad_checkpoint",
    "ad_util",
    "checkify",
    "conditionals",
    "core_of_memory",
    "core_type",
    "custom_derivatives",
    "debug_checks_enabled",
    "debugging",
    "dtypes",
    "jax_core",
    "kind",
    "lax_internal",
    "memory_space_to_tpu",
    "mesh_of_memory",
    "pallas_core",
    "pallas_einshape",
    "pallas_primitives",
    "pallas_utils",
    "partial_eval",
    "pjit",
    "poison_buffers_enabled",
    "primitives",
    "prng",
    "source_info_util",
    "state_indexing",
    "state_primitives",
    "state_types",
    "subcore_core",
    "subcore_primitives",
    "threefry2x32",
    "tpu_calls",
    "tpu_core",
    "tpu_lowering",
    "tpu_pipeline",
    "tpu_primitives",
    "tpu_random",
    "transfer",
]
