"""Where a kernel runs: its grid point, its core, its device, and the numbers of other devices."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax import lax
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from pallasite.dialects import arith
from pallasite.dialects.pallas import AxisIndexOp, NumProgramsOp, ProgramIdOp
from pallasite.dialects.tpu import DeviceIdOp
from pallasite.frontend.jaxprs.internals import jax_core, pallas_primitives
from pallasite.frontend.jaxprs.rules import Result, rule
from pallasite.frontend.jaxprs.tracer import Equation, Tracer, Value


@rule(pallas_primitives.program_id_p)
def _program_id(e: Equation) -> Result:
    return e.emit(ProgramIdOp(_axis(e)))


@rule(pallas_primitives.num_programs_p)
def _num_programs(e: Equation) -> Result:
    return e.emit(NumProgramsOp(_axis(e)))


def _axis(e: Equation) -> int:
    axis, axes = int(e.params["axis"]), e.tracer.surroundings.axes
    # An index map is given the place in the grid, but has to ask for the grid's sizes.
    is_size = e.equation.primitive is pallas_primitives.num_programs_p
    if e.tracer.surroundings.is_map and not is_size:
        raise e.unsupported(
            f"'{e.name}' of axis {axis} in an index map",
            "take it as a parameter: lambda i, j: (i, j) has one per axis of the grid",
            code="no-such-axis",
        )
    if axes is None:
        raise e.unsupported(
            f"'{e.name}' of axis {axis} of a kernel without a grid",
            "give pallas_call a grid=",
            code="no-such-axis",
        )
    if not 0 <= axis < axes:
        raise e.unsupported(
            f"'{e.name}' of axis {axis} of a grid with {axes} axes",
            "count the axes from 0",
            code="no-such-axis",
        )
    return axis


@rule(lax.axis_index_p)
def _axis_index(e: Equation) -> Result:
    return axis_index(e.tracer, e.params["axis_name"])


def axis_index(tracer: Tracer, name: Any) -> SSAValue:
    """The index of this program along a named axis, of the grid or of the mesh of devices."""
    surroundings = tracer.surroundings
    if name in surroundings.names:
        return tracer.emit(AxisIndexOp(str(name)))
    mesh = surroundings.mesh
    if mesh is None or name not in mesh.axis_names:
        raise tracer.unsupported(
            f"axis '{name}' is no axis of the grid, and none of a mesh of devices",
            "call the kernel inside jax.shard_map over a mesh with that axis",
            code="no-such-axis",
        )
    position = mesh.axis_names.index(name)
    device = tracer.emit(DeviceIdOp(result_types=[i32]))
    inner = math.prod(mesh.mesh_shape[position + 1 :])
    quotient = tracer.emit(arith.DivSIOp(device, tracer.scalar(inner, i32)))
    return tracer.emit(arith.RemSIOp(quotient, tracer.scalar(mesh.mesh_shape[position], i32)))


@dataclass(frozen=True)
class Destination:
    """Where a signal or a transfer goes; None for what is here."""

    device: SSAValue | None = None
    core: SSAValue | None = None
    subcore: SSAValue | None = None

    @property
    def operands(self) -> list[list[SSAValue]]:
        """Device, core and subcore as operations take them: each is optional."""
        values = (self.device, self.core, self.subcore)
        return [[] if value is None else [value] for value in values]

    def on_core(self, e: Equation, core: Value | None) -> Destination:
        """With the core that the parameter `core_index=` of `e` names, if it does."""
        if core is None:
            return self
        if self.core is not None:
            raise e.unsupported(
                "core_index= and a core axis in device_id=",
                "give one of them",
                code="bad-device-id",
            )
        return replace(self, core=e.tracer.value(core))


def destination_of(tracer: Tracer, device_id: Any, avals: Any, kind: Any) -> Destination:
    """The device, and the core on it, that `device_id` names; here if it is None.

    `device_id` is what the program gave (a scalar, one coordinate per mesh axis, or a dictionary by
    axis), `avals` its abstract values in the same structure (spec/pallas_semantics.md 3.6).
    """
    if device_id is None:
        return Destination()
    device, named = device_and_cores(tracer, device_id, avals, kind, tracer.surroundings.names)
    if len(named) > 1:
        raise tracer.unsupported(
            f"a device id with {len(named)} core axes", "name one core axis", code="bad-device-id"
        )
    return Destination(device, next(iter(named.values()), None))


def device_and_cores(
    tracer: Tracer, device_id: Any, avals: Any, kind: Any, cores: Collection[Hashable]
) -> tuple[SSAValue | None, dict[Hashable, SSAValue]]:
    """The number of the device that `device_id` names, None if it does not, and positions along
    axes of `cores`."""
    mesh = tracer.surroundings.mesh
    leaves, tree = jax.tree.flatten(device_id, is_leaf=lambda x: x is not None and _is_value(x))
    kinds = jax.tree.leaves(avals)
    needed = list(mesh.axis_names) if mesh is not None and isinstance(device_id, dict) else []
    here = [axis_index(tracer, name) for name in needed]
    named: list[Hashable] = []

    def compute(*numbers: Any) -> Any:
        given = jax.tree.unflatten(tree, numbers[: len(leaves)])
        indices = dict(zip(needed, numbers[len(leaves) :], strict=True))
        device, others = pallas_primitives.device_id_to_logical(mesh, given, kind, indices.get)
        unknown = [name for name in others if name not in cores]
        if unknown:
            raise ValueError(f"device_id names axis '{unknown[0]}', which no mesh has")
        named.extend(others)
        return [n for n in (device, *others.values()) if n is not None], device is None

    number = jax_core.ShapedArray((), "int32")
    no_device = False

    def values_only(*numbers: Any) -> Any:
        nonlocal no_device
        results, no_device = compute(*numbers)
        return results

    try:
        arguments: list[Value] = [*leaves, *here]
        found = tracer.expand(values_only, arguments, [*kinds, *[number] * len(here)])
    except (ValueError, NotImplementedError) as error:
        raise tracer.unsupported(
            f"a device id that does not fit the mesh: {error}",
            "give one coordinate per axis of the mesh, or device_id_type=LOGICAL and a number"
            if mesh is not None and mesh.axis_names
            else "call the kernel within jax.shard_map over a mesh of devices, which it only knows "
            "if it names an axis: device_id={'x': i}",
            code="bad-device-id",
        ) from error
    results = [tracer.value(v) for v in found]
    device = None if no_device else results.pop(0)
    return device, dict(zip(named, results, strict=True))


def _is_value(x: Any) -> bool:
    return not isinstance(x, (dict, tuple, list))
