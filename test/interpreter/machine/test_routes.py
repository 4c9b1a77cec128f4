"""Where transfers go on v5e: to devices a power of two away (JAX's guide, Routing)."""

from __future__ import annotations

import pytest

from pallasite.diagnostics import KernelWarning, SourceLocation
from pallasite.interpreter.machine.routes import Routes, has_route
from pallasite.targets import TARGETS

V5E = TARGETS["v5e"]


def test_offsets_of_eight_devices() -> None:
    assert [to for to in range(8) if not has_route(V5E, 0, to, 8)] == [3, 5]
    assert [to for to in range(8) if not has_route(V5E, 6, to, 8)] == [1, 3]


@pytest.mark.parametrize("devices", [2, 3, 4])
def test_few_devices_reach_each_other(devices: int) -> None:
    assert all(has_route(V5E, a, b, devices) for a in range(devices) for b in range(devices))


@pytest.mark.parametrize("target", ["v4", "v5p", "v6e", "v7x"])
def test_other_chips_route_everywhere(target: str) -> None:
    assert all(has_route(TARGETS[target], 0, to, 64) for to in range(64))


def test_a_line_is_told_of_once() -> None:
    routes = Routes(V5E, 8)
    here, there = SourceLocation("kernel.py", 3, 1), SourceLocation("kernel.py", 9, 1)
    with pytest.warns(KernelWarning, match="power of two") as told:
        for receiver in range(1, 8):
            routes.check(0, receiver, here)
        routes.check(2, 5, there)
    assert [w.message.diagnostic.location for w in told] == [here, there]  # type: ignore[union-attr]
