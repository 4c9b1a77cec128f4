"""Integers at the ends of their types, known to the compiler or not, are computed alike by all."""

from __future__ import annotations

import os

import numpy as np
import pytest

from pallasite import api
from pallasite.diagnostics import Diagnostic

from .random_ends import COUNT, SHAPE, chain

FORMS = ("mosaic", "dma", "vreg")
TARGETS = ("v5e", "v6e", "v7x", "v4")
KERNELS = 6 * int(os.environ.get("PALLASITE_EXAMPLES", "1"))
RESULTS = [((COUNT,), np.int32), (SHAPE, np.int32)]


def refused(seed: int, target: str) -> bool:
    """Compares a random chain with its model in every form; whether a form refuses it."""
    module, given, expected = chain(seed)
    for form in FORMS:
        try:
            found = api.run(
                module, [given], form=form, target=target, results=RESULTS,
                allow_beyond_reference=True,
            )  # fmt: skip
        except Diagnostic as error:
            assert error.code == "narrow-integer", (seed, form, error)
            return True
        for one, other in zip(found, expected, strict=True):
            assert np.array_equal(np.asarray(one), other), (seed, form, str(module))
    return False


@pytest.mark.parametrize("target", TARGETS)
def test_chains(target: str) -> None:
    first = TARGETS.index(target) * KERNELS
    turned_away = sum(refused(seed, target) for seed in range(first, first + KERNELS))
    assert turned_away <= KERNELS // 4
