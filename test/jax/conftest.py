"""JAX is started before the modules here use it, and an older one takes names of today."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import pytest

from ..jax_on_cpu import INSTALLED, start
from .since import require_jax

start()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("since_jax"):
        require_jax(*marker.args)


NEW_NAMES = {"out_type": "out_shape", "scratch_types": "scratch_shapes"}


def _take_new_names() -> None:
    """`pl.kernel` of an older JAX takes the names that two of its parameters have today."""
    from jax.experimental import pallas as pl

    kernel: Any = pl.kernel
    known = inspect.signature(kernel).parameters
    old_names = {new: old for new, old in NEW_NAMES.items() if new not in known}
    if not old_names:
        return

    @functools.wraps(kernel)
    def renamed(*args: Any, **options: Any) -> Any:
        return kernel(*args, **{old_names.get(n, n): v for n, v in options.items()})

    pl.kernel = renamed


if INSTALLED:
    _take_new_names()
