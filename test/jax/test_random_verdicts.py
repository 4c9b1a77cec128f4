"""What we take and refuse of random kernels is what the TPU compiler takes and refuses.

    PALLASITE_EXAMPLES=50 pytest -n0 test/jax/test_random_verdicts.py

takes fifty times as many.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from jax._src.pallas.mosaic.error_handling import VerificationError  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jaxlib.mlir import ir  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.frontend import read  # noqa: E402
from pallasite.frontend.aot import compile_ahead_of_time  # noqa: E402
from pallasite.interpreter.options import Options  # noqa: E402
from pallasite.interpreter.run import execute  # noqa: E402
from pallasite.jax import simulate  # noqa: E402
from pallasite.targets import get_target  # noqa: E402

from .random_verdicts import Kernel  # noqa: E402
from .random_verdicts_accesses import Gathers, Masked, Randoms, Rolls, Strides  # noqa: E402
from .random_verdicts_arithmetic import Choices, Functions, Integers  # noqa: E402
from .random_verdicts_chains import Branches, Chains  # noqa: E402
from .random_verdicts_epilogues import Epilogues  # noqa: E402
from .random_verdicts_forms import Inner, Ranks, Recast  # noqa: E402
from .random_verdicts_grids import Awaited, Places, Tables  # noqa: E402
from .random_verdicts_limits import Limits, Shared  # noqa: E402
from .random_verdicts_lookups import Lookups  # noqa: E402
from .random_verdicts_loops import Scans, Scatters, States  # noqa: E402
from .random_verdicts_memory import Blocks, Scalars, Views  # noqa: E402
from .random_verdicts_mixtures import (  # noqa: E402
    Narrow,
    Nested,
    OddProducts,
    OddTables,
    Results,
    Steered,
)
from .random_verdicts_models import Attention, Norms, Quantized  # noqa: E402
from .random_verdicts_orders import Counts, Einsums, Joins, Transposed  # noqa: E402
from .random_verdicts_pipelines import Accumulators, Doubled, Pipelines  # noqa: E402
from .random_verdicts_products import Products  # noqa: E402
from .random_verdicts_ragged import Chosen, Gathered, Lengths  # noqa: E402
from .random_verdicts_reductions import Arrangements, Reductions  # noqa: E402
from .random_verdicts_signals import Meshes, Prints, Semaphores, Sizes  # noqa: E402
from .random_verdicts_values import Carried, Casts, Masks, Movements  # noqa: E402
from .random_verdicts_windows import Whens, Windows  # noqa: E402
from .random_verdicts_words import Bits, Numbers, Starts  # noqa: E402

pytestmark = pytest.mark.jax

MORE = int(os.environ.get("PALLASITE_EXAMPLES", "1"))
FAMILIES = (
    Views, Scalars, Blocks, Carried, Casts, Masks, Movements, Integers, Functions, Choices,
    Reductions, Arrangements, Products, Gathers, Rolls, Strides, Masked, Randoms, Tables, Awaited,
    Places, Numbers, Bits, Starts, Semaphores, Sizes, Meshes, Prints, Joins, Transposed, Einsums,
    Counts, Chains, Limits, Shared, Branches, Norms, Attention, Quantized, Scatters, Scans, States,
    Lookups, Accumulators, Pipelines, Doubled, Windows, Whens, Results, Nested, Narrow, OddTables,
    OddProducts, Steered, Ranks, Recast, Inner,
    Epilogues, Lengths, Gathered, Chosen,
)  # fmt: skip
TARGETS = ("v4", "v5e", "v5p", "v6e", "v7x")
FORMS = ("mosaic", "dma", "vreg")
REFUSALS = (pltpu.LoweringException, VerificationError, ir.MLIRError)


def written(kernel: Kernel, target: str) -> Any:
    """The kernel's module as JAX hands it to the TPU compiler; None if JAX refuses it."""
    call = kernel.call()
    try:
        with simulate(target=target):
            lowered = jax.jit(lambda *x: call(*x)).trace(*kernel.inputs)
            text = lowered.lower(lowering_platforms=("tpu",)).as_text(debug_info=True)
    except (NotImplementedError, ValueError, TypeError, Unsupported, *REFUSALS):
        return None
    return read(text, "random")


@pytest.mark.parametrize("seed", range(MORE))
@pytest.mark.parametrize("family", FAMILIES)
def test_numbers(family: type[Kernel], seed: int) -> None:
    """Every form gives what JAX interprets; what is undefined holds two patterns."""
    target = TARGETS[(seed + FAMILIES.index(family)) % len(TARGETS)]
    kernel, model = family(seed), get_target(target)
    module = written(kernel, target)
    if module is None:
        return
    try:
        pallasite.lower(module, "mosaic", target)
    except Unsupported as error:
        assert error.location is not None, kernel.text
        return
    if not kernel.compared:
        return
    try:
        expected = jax.jit(kernel.call(interpret=True))(*kernel.inputs)
    except (jax.errors.JaxRuntimeError, NotImplementedError):
        return  # It has not all views, nor XLA on a CPU products of 4-bit numbers.
    for form in ("mosaic", "vreg"):
        lowered = pallasite.lower(module, form, target)
        run = execute(lowered, [kernel.inputs], Options(poison=seed % 2), target=model).outputs[0]
        for actual, wanted in zip(run, expected, strict=True):
            np.testing.assert_allclose(
                np.asarray(actual, np.float64), np.asarray(wanted, np.float64),
                kernel.tolerance, kernel.tolerance, err_msg=kernel.text,
            )  # fmt: skip


@pytest.mark.aot
@pytest.mark.parametrize("seed", range(1000, 1000 + MORE))
@pytest.mark.parametrize("family", FAMILIES)
def test_verdicts(family: type[Kernel], seed: int, compiler: Any) -> None:
    """The compiler takes every form of what we take, and nothing of what we refuse."""
    target = TARGETS[(seed + FAMILIES.index(family)) % len(TARGETS)]
    kernel, topology = family(seed), get_target(target).topology
    module = written(kernel, target)
    if module is None:
        return
    try:
        forms = [pallasite.lower(module, form, target) for form in FORMS]
    except Unsupported as error:
        forms, refusal = [module], str(error)
    else:
        refusal = ""
    for form, lowered in zip(FORMS, forms, strict=False):
        layouts = form != "vreg"
        verdict = compile_ahead_of_time(
            lowered, topology=topology, layout_passes=layouts, compiler=compiler
        )
        told = f"{target} {form}\n{refusal or verdict.message}\n{kernel.text}"
        assert verdict.accepted == (not refusal), told
