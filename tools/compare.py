"""Whether two runs of a kernel gave the same answer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

TOLERANCES = {2: 2e-2, 1: 0.15}
"""By bytes per element of a float type, relative to the largest magnitude; wider: 1e-4.

Passes may reorder sums, and narrow types round what comes out.
"""


def difference(old: NDArray[Any], new: NDArray[Any]) -> str | None:
    """What differs between two results, None if they are the same up to rounding."""
    if old.shape != new.shape or old.dtype != new.dtype:
        return f"{old.dtype.name}{list(old.shape)} became {new.dtype.name}{list(new.shape)}"
    if old.dtype.kind in "iub" or old.dtype.name.startswith(("int", "uint")):
        count = int(np.count_nonzero(old != new))
        return f"{count} of {old.size} elements differ" if count else None
    a, b = old.astype(np.float64), new.astype(np.float64)
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)):
        return "NaN or infinity in different places"
    scale = float(np.max(np.abs(a[finite]), initial=1e-30))
    worst = float(np.max(np.abs(a[finite] - b[finite]), initial=0.0)) / scale
    if worst <= TOLERANCES.get(old.dtype.itemsize, 1e-4):
        return None
    return f"relative error {worst:.3g}"
