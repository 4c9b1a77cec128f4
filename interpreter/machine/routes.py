"""Where the network between chips takes a transfer (JAX, "Distributed Computing in Pallas for
TPUs", Routing: to any device of the pod; on v5e, to those a power of two away)."""

from __future__ import annotations

from pallasite.diagnostics import Diagnostic, Note, SourceLocation, warn
from pallasite.targets import Target


def has_route(target: Target, sender: int, receiver: int, devices: int) -> bool:
    """Whether the network takes a transfer from one device to another, by their logical ids among
    `devices` in a ring: the shorter way counts, and the longer one, too."""
    ahead = (receiver - sender) % devices
    return target.routes_any_offset or any(d & (d - 1) == 0 for d in (ahead, devices - ahead))


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
                f"{self.target.name} only send to those a power of two away",
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
