"""Random kernels give the `mosaic` form's answer in every form, or a diagnostic, and no poison."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .random_families import FAMILIES
from .random_forms import check, differs
from .random_kernels import generate

TARGETS = ("v5e", "v6e", "v4")
MORE = int(os.environ.get("PALLASITE_EXAMPLES", "1"))
"""A multiple of the usual number of kernels (docs/internals/testing.md)."""
SEEDS = st.integers(0, (1 << 20) - 1)


def few(examples: int) -> settings:
    """Hypothesis' usual settings, for kernels that take longer than most examples."""
    return settings(
        deadline=None, max_examples=examples * MORE,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
@few(6)
@given(seed=SEEDS)
def test_one_family(family: str, seed: int) -> None:
    case = generate(seed, (family,), 1)
    verdict = check(case, TARGETS[seed % len(TARGETS)])
    assert not verdict.problems, case.text


@pytest.mark.parametrize("target", TARGETS)
@few(20)
@given(seed=SEEDS)
def test_mixtures(target: str, seed: int) -> None:
    case = generate(seed)
    verdict = check(case, target)
    assert not verdict.problems, case.text


def test_generation_depends_on_the_seed_only() -> None:
    one, other = generate(7), generate(7)
    assert one.text == other.text
    assert all(np.array_equal(a, b) for a, b in zip(one.inputs, other.inputs, strict=True))


def test_most_kernels_are_accepted() -> None:
    """The comparison would be idle if the forms refused what is generated."""
    refused = sum(bool(check(generate(seed), "v6e", ("tiles",)).refusal) for seed in range(20))
    assert refused <= 8


def test_differences_are_seen() -> None:
    zero = np.zeros((2, 3), np.float32)
    near, far = zero.copy(), zero.copy()
    near[1, 2], far[1, 2] = 1e-6, 1.0
    assert differs(zero, zero, 0) == ""
    assert differs(-zero, zero, 0) == ""
    assert "first at (1, 2)" in differs(near, zero, 0)
    assert differs(near, zero, 1e-3) == ""
    assert "1 of 6" in differs(far, zero, 1e-3)
