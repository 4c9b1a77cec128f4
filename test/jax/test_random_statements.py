"""Random kernels of many statements give in later forms what JAX's interpreter gives.

    PALLASITE_EXAMPLES=20 pytest -n0 test/jax/test_random_statements.py

takes twenty times as many.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import pallasite  # noqa: E402
from pallasite.diagnostics import Diagnostic, Unsupported  # noqa: E402
from pallasite.frontend.aot import compile_ahead_of_time  # noqa: E402
from pallasite.interpreter.options import Options  # noqa: E402
from pallasite.interpreter.run import execute  # noqa: E402
from pallasite.jax.simulation import kernels  # noqa: E402
from pallasite.targets import get_target  # noqa: E402

from .random_statements import Program  # noqa: E402

pytestmark = pytest.mark.jax

MORE = int(os.environ.get("PALLASITE_EXAMPLES", "1"))
TARGETS = ("v5e", "v6e", "v4", "v7x")


def lowered(seed: int, form: str, target: str) -> tuple[Any, Any] | None:
    """A program and its kernel; None if JAX or a diagnostic of the kernel's line refuses it."""
    program = Program(seed)
    try:
        (module,) = kernels(program.call(), *program.inputs, form="mosaic", target=target)
    except Diagnostic as error:
        assert isinstance(error, Unsupported) and error.location is not None, program.text
        return None
    except NotImplementedError:
        return None
    return program, pallasite.lower(module, form, target)


@pytest.mark.parametrize("seed", range(24 * MORE))
def test_later_forms_as_interpreted(seed: int) -> None:
    """Targets and forms in turn, and what is undefined holds two patterns."""
    form, target = ("tiles", "vreg")[seed // 4 % 2], TARGETS[seed % 4]
    made = lowered(seed, form, target)
    if made is None:
        return
    program, module = made
    model = get_target(target)
    run = execute(module, [program.inputs], Options(poison=seed % 2), target=model).outputs[0]
    expected = jax.jit(program.call(interpret=True))(*program.inputs)
    for actual, wanted in zip(run, expected, strict=True):
        np.testing.assert_array_equal(
            np.asarray(actual, np.float64), np.asarray(wanted, np.float64), program.text
        )


def test_most_programs_are_accepted() -> None:
    """The comparison would be idle otherwise."""
    assert sum(lowered(seed, "mosaic", "v6e") is not None for seed in range(12)) >= 6


@pytest.mark.aot
@pytest.mark.parametrize("seed", range(1000, 1000 + 4 * MORE))
def test_the_compiler_takes_what_we_take(seed: int, compiler: Any) -> None:
    target = TARGETS[seed % 4]
    for form in ("mosaic", "vreg"):
        made = lowered(seed, form, target)
        if made is None:
            return
        verdict = compile_ahead_of_time(
            made[1],
            topology=get_target(target).topology,
            layout_passes=form == "mosaic",
            compiler=compiler,
        )
        assert verdict.accepted, f"{verdict.message}\n{made[0].text}"
