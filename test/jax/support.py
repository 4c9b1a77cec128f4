"""Arrays, comparisons and messages that the tests of many kernels share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np


def ramp(*shape: int, dtype: Any = jnp.float32) -> Any:
    """0, 1, 2, ... in that shape."""
    return jnp.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


def equal(actual: Any, expected: Any) -> None:
    """Asserts that the values are the same, NaN equal to NaN."""
    np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected))


def told(error: BaseException) -> str:
    """What an error says, with its notes."""
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


def line_of(file: str, mark: str) -> int:
    """The number of the line of `file` that ends in a comment `mark`."""
    lines = Path(file).read_text().splitlines()
    return 1 + next(i for i, line in enumerate(lines) if line.endswith("# " + mark))
