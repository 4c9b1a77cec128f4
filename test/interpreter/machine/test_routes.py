"""Where transfers go on v5e: to devices a power of two away on an axis (JAX's guide, Routing)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pallasite.diagnostics import KernelWarning, SourceLocation
from pallasite.interpreter.machine.routes import Routes, has_route
from pallasite.targets import TARGETS

V5E = TARGETS["v5e"]


def test_eight_devices_in_a_ring() -> None:
    """Whether 3 is a neighbour of 0 is open: so it is where they are two rings of four."""
    assert [to for to in range(1, 8) if not has_route(V5E, 0, to, 8)] == [5]
    assert [(at, at + 3) for at in range(5) if not has_route(V5E, at, at + 3, 8)] == [
        (1, 4), (2, 5), (3, 6),
    ]  # fmt: skip


@pytest.mark.parametrize("shape", [(8,), (2, 4), (4, 2), (2, 2, 2), (4, 4, 8), (3, 6)])
def test_neighbours_on_any_axis(shape: tuple[int, ...]) -> None:
    ids = np.arange(math.prod(shape)).reshape(shape)
    for axis in range(len(shape)):
        for away in (1, 2, -1):
            pairs = zip(ids.flat, np.roll(ids, away, axis).flat, strict=True)
            assert all(a == b or has_route(V5E, int(a), int(b), ids.size) for a, b in pairs)


@pytest.mark.parametrize("devices", [2, 3, 4])
def test_few_devices_reach_each_other(devices: int) -> None:
    assert all(
        a == b or has_route(V5E, a, b, devices) for a in range(devices) for b in range(devices)
    )


@pytest.mark.parametrize("target", ["v4", "v5p", "v6e", "v7x"])
def test_other_chips_route_everywhere(target: str) -> None:
    assert all(has_route(TARGETS[target], 0, to, 64) for to in range(64))


def test_a_line_is_told_of_once() -> None:
    routes = Routes(V5E, 8)
    here, there = SourceLocation("kernel.py", 3, 1), SourceLocation("kernel.py", 9, 1)
    with pytest.warns(KernelWarning, match="power of two") as told:
        for sender in range(5):
            routes.check(sender, sender + 3, here)
        routes.check(2, 5, there)
    assert [w.message.diagnostic.location for w in told] == [here, there]  # type: ignore[union-attr]
