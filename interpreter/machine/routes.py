"""Where the network between chips takes a transfer (JAX, "Distributed Computing in Pallas for
TPUs", Routing: to any device of the pod; on v5e, to those a power of two away)."""

from __future__ import annotations

from collections.abc import Iterator

from pallasite.diagnostics import Diagnostic, Note, SourceLocation, warn
from pallasite.targets import Target


def has_route(target: Target, sender: int, receiver: int, devices: int) -> bool:
    """Whether the network takes a transfer from one device to another, by their logical ids: the
    devices may be a mesh of any shape, of which each axis is a ring."""
    if target.routes_any_offset:
        return True
    return any(
        _is_power_of_two((receiver - sender) // stride % extent)
        or _is_power_of_two((sender - receiver) // stride % extent)
        for stride, extent in _axes(devices)
        if sender // (stride * extent) == receiver // (stride * extent)
        and sender % stride == receiver % stride
    )


def _axes(devices: int) -> Iterator[tuple[int, int]]:
    """The axes that meshes of so many devices may have: how far apart neighbours are by their ids,
    and how many devices are along it."""
    for extent in range(devices, 1, -1):
        if devices % extent == 0:
            for stride in range(1, devices // extent + 1):
                if devices // extent % stride == 0:
                    yield stride, extent


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


class Routes:
    """What has been said of transfers that have no route: each line is told of once."""

    def __init__(self, target: Target, devices: int) -> None:
        self.target = target
        self.devices = devices
        self.told: set[SourceLocation | None] = set()

    def check(self, sender: int, receiver: int, at: SourceLocation | None) -> None:
        """Warns of a transfer that the network does not take; it is made nevertheless.

        Not an error: logical ids say only by convention where devices are.
        """
        if at in self.told or has_route(self.target, sender, receiver, self.devices):
            return
        self.told.add(at)
        warn(
            Diagnostic(
                "no-route",
                f"device {sender} sends to device {receiver} of {self.devices}, and devices of "
                f"{self.target.name} only send to those a power of two away on an axis of the mesh",
                at,
                [
                    Note(
                        "send to a neighbour, jax.lax.rem(i + 1, n), and on from there, or in "
                        "steps of 1, 2, 4 ... devices"
                    )
                ],
                severity="warning",
            )
        )
