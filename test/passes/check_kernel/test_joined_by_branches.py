"""Branches that join parts within registers: those that one part fills only get other names.

The TPU compiler's verdict is asked of the kernel as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import Unsupported  # noqa: E402

from ...asking import asked  # noqa: E402
from .test_renamed_registers import Way, kept, module_of  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.aot]
ROWS, WIDE, FLAT = (16, 128), (8, 256), (2048,)


def filled(first: int, second: int, axis: int = 0) -> Way:
    """`first` and `second` elements of one constant each."""

    def way(x: Any) -> Any:
        shapes = [(*x.shape[:axis], n, *x.shape[axis + 1 :]) for n in (first, second)]
        return jnp.concatenate([jnp.full(s, 7 + k, x.dtype) for k, s in enumerate(shapes)], axis)

    return way


def behind(count: int, taken: int) -> Way:
    """The operand from element `taken` on and what then is missing, behind `count` ones."""

    def way(x: Any) -> Any:
        parts = [x[taken : taken + len(x) - count], x[: max(taken - count, 0)]]
        return jnp.concatenate([jnp.ones_like(x[:count]), *parts[: 1 + (taken > count)]], 0)

    return way


def computed(count: int) -> Way:
    return lambda x: jnp.concatenate([x[:count] * 2, jnp.ones_like(x[count:])], 0)


def zeros(x: Any) -> Any:
    return jnp.zeros_like(x)


REFUSED: dict[str, tuple[Way, Way, tuple[int, ...], Any]] = {
    "constants": (filled(12, 4), zeros, ROWS, np.float32),
    "constants behind": (filled(4, 12), kept, ROWS, np.float32),
    "the last rows": (filled(4, 8), kept, (12, 128), np.float32),
    "constants along lanes": (filled(64, 192, 1), kept, WIDE, np.float32),
    "flat constants": (filled(512, 1536), kept, FLAT, np.float32),
    "bytes": (filled(48, 16), kept, (64, 128), np.int8),
    "half words or zeros": (filled(24, 8), zeros, (32, 128), jnp.bfloat16),
    "rows": (behind(4, 4), zeros, ROWS, np.float32),
    "rows from another register": (behind(4, 12), kept, (24, 128), np.float32),
    "flat": (behind(512, 512), zeros, FLAT, np.float32),
    "behind what is computed": (computed(4), kept, ROWS, np.float32),
}
TAKEN: dict[str, tuple[Way, Way, tuple[int, ...], Any]] = {
    "no register whole": (filled(4, 4), kept, (8, 128), np.float32),
    "none of a flat vector": (filled(512, 512), kept, (1024,), np.float32),
    "the same register": (behind(4, 4), kept, ROWS, np.float32),
    "the same constant": (filled(12, 4), filled(9, 7), ROWS, np.float32),
    "moved within registers": (behind(4, 0), kept, ROWS, np.float32),
    "whole registers computed": (computed(12), kept, ROWS, np.float32),
    "half words": (filled(24, 8), kept, (32, 128), jnp.bfloat16),
    "loaded half words": (behind(8, 8), zeros, (32, 128), jnp.bfloat16),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, compiler: Any) -> None:
    module, _ = module_of(*REFUSED[case])
    with pytest.raises(Unsupported) as caught:
        pallasite.lower(module, "mosaic", "v5e")
    assert caught.value.code == "renamed-registers"
    mosaic = pallasite.lower(module, "mosaic", "v5e", allow_beyond_reference=True)
    assert not asked(mosaic, "v5e", compiler, layout_passes=True).accepted


@pytest.mark.parametrize("case", TAKEN)
def test_taken(case: str, compiler: Any) -> None:
    module, _ = module_of(*TAKEN[case])
    for form in ("mosaic", "vreg"):
        lowered = pallasite.lower(module, form, "v5e")
        assert asked(lowered, "v5e", compiler, layout_passes=form != "vreg").accepted
