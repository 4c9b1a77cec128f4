"""Which JAX a test needs: tests are written for the newest that is supported.

What an older one lacks is said by `@pytest.mark.since_jax("0.10.1", "what came with it")`, or by
`require_jax` for a module that cannot be imported without it.
"""

from __future__ import annotations

import pytest


def require_jax(version: str, what: str) -> None:
    """Skips the test, or the module that is imported, with an older JAX, which lacks `what`."""
    import jax

    if not is_at_least(version):
        told = f"JAX {version} brought {what}, this is {jax.__version__}"
        pytest.skip(told, allow_module_level=True)


def is_at_least(version: str) -> bool:
    """Whether the JAX that is installed is `version` or newer."""
    import jax

    return _numbers(jax.__version__) >= _numbers(version)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))
