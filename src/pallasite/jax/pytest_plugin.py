"""Pytest: the fixture `tpu_simulator`, and `PALLASITE_SIMULATE` for a whole test run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pallasite.jax.simulation import simulate


def pytest_configure(config: pytest.Config) -> None:
    """Switches the whole run over if the environment says so."""
    from pallasite.diagnostics import Diagnostic
    from pallasite.jax.environment import simulate_from_environment

    try:
        simulate_from_environment()
    except Diagnostic as error:
        raise pytest.UsageError(str(error)) from error


@pytest.fixture
def tpu_simulator(request: pytest.FixtureRequest) -> Iterator[simulate]:
    """The test runs its TPU kernels on the modelled TPU.

    `@pytest.mark.parametrize("tpu_simulator", ["v6e", {"target": "v4", "checks": "race"}],
    indirect=True)` picks the target, or all arguments of `pallasite.jax.simulate`.
    """
    from pallasite.jax.simulation import simulate

    wanted = getattr(request, "param", {})
    simulation = simulate(wanted) if isinstance(wanted, str) else simulate(**wanted)
    with simulation:
        yield simulation
