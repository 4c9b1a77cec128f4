"""Whether two runs of a kernel gave the same answer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

TOLERANCES = {2: 2e-2, 1: 0.15}
"""By bytes per element of a float type, wider: 1e-4; relative to the element's magnitude, or to
the median magnitude if that is larger (a sum may cancel).

Passes may leave out intermediate rounding, and narrow types round what comes out.
"""


def difference(
    old: NDArray[Any], new: NDArray[Any], compared: NDArray[np.bool_] | None = None
) -> str | None:
    """What differs between two results, None if they are the same up to rounding.

    Only elements where `compared` is set count, all if it is not given.
    """
    if old.shape != new.shape or old.dtype != new.dtype:
        return f"{old.dtype.name}{list(old.shape)} became {new.dtype.name}{list(new.shape)}"
    where = np.ones(old.shape, bool) if compared is None else compared
    if old.dtype.kind in "iub" or old.dtype.name.startswith(("int", "uint")):
        return _described((old != new) & where, old, new, "{count} of {size} elements differ")
    a, b = old.astype(np.float64), new.astype(np.float64)
    finite = np.isfinite(a)
    other = ~finite & ~((a == b) | (np.isnan(a) & np.isnan(b)))
    strange = ((finite != np.isfinite(b)) | other) & where
    if strange.any():
        return _described(strange, old, new, "NaN or infinity in different places")
    # Zeros in place of what is not compared, so that it neither differs nor sets the scale.
    a, b = (np.where(finite & where, x, 0.0) for x in (a, b))
    magnitude = np.abs(a)
    typical = float(np.median(magnitude[magnitude > 0])) if magnitude.any() else 1e-30
    error = np.abs(a - b) / np.maximum(magnitude, typical)
    wrong = error > TOLERANCES.get(old.dtype.itemsize, 1e-4)
    worst = float(np.max(error, initial=0.0))
    return _described(wrong, old, new, f"relative error {worst:.3g}")


def _described(
    wrong: NDArray[np.bool_], old: NDArray[Any], new: NDArray[Any], text: str
) -> str | None:
    """`text` and the first wrong element, None if no element is wrong."""
    count = int(np.count_nonzero(wrong))
    if not count:
        return None
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = f", first at {list(first)}: {old[first]} became {new[first]}" if first else ""
    return text.format(count=count, size=old.size) + place
