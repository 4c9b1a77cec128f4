"""Random kernels that overwrite what they have read give in later forms what form `mosaic` gives.

    PALLASITE_EXAMPLES=20 pytest -n0 test/jax/test_random_overwrites.py

takes twenty times as many.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

pytest.importorskip("jax")

import pallasite
from pallasite.diagnostics import Unsupported
from pallasite.interpreter.options import Options
from pallasite.interpreter.run import execute
from pallasite.jax.simulation import kernels
from pallasite.targets import get_target

from .random_overwrites import Overwrites

pytestmark = pytest.mark.jax

MORE = int(os.environ.get("PALLASITE_EXAMPLES", "1"))
PARTS = 4
FORMS = ("mosaic", "tiles", "vreg")
TARGETS = ("v5e", "v6e", "v4", "v7x")


@pytest.mark.parametrize("part", range(PARTS))
def test_later_forms_as_mosaic(part: int) -> None:
    accepted, seeds, target = 0, range(part, 48 * MORE, PARTS), TARGETS[part]
    for seed in seeds:
        kernel = Overwrites(seed)
        try:
            (module,) = kernels(kernel.call(), *kernel.inputs, form="mosaic", target=target)
            forms = [pallasite.lower(module, form, target) for form in FORMS]
        except Unsupported as error:
            assert error.location is not None, kernel.text
            continue
        accepted += 1
        wanted, *others = (
            execute(
                form, [kernel.inputs], Options(poison=seed // PARTS % 2), target=get_target(target)
            )
            for form in forms
        )
        for other in others:
            for actual, expected in zip(other.outputs[0], wanted.outputs[0], strict=True):
                np.testing.assert_array_equal(
                    np.asarray(actual, np.float64), np.asarray(expected, np.float64), kernel.text
                )
    assert accepted > len(seeds) // 2
