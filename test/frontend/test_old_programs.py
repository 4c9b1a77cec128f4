"""What older versions of JAX wrote for one kernel, `data/old_jax/many.py`: read, run and compiled.

The files are the StableHLO text of `python many.py` under the version in their name.
"""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pallasite
from pallasite.frontend.aot import Compiler, compile_ahead_of_time

OLD = sorted((Path(__file__).parents[1] / "data" / "old_jax").glob("*.mlir"))
NAMES = [path.stem for path in OLD]


@pytest.mark.parametrize("form", ["mosaic", "dma", "tiles", "vreg"])
@pytest.mark.parametrize("program", OLD, ids=NAMES)
def test_programs_of_older_versions_run(program: Path, form: str) -> None:
    rng = np.random.default_rng(0)
    half = ml_dtypes.bfloat16
    x, y, z = (
        rng.standard_normal(shape).astype(half).astype(np.float32)
        for shape in ((32, 256), (256, 128), (64, 128))
    )
    places = np.array([5, 0, 7, 2], np.int32)
    module = pallasite.parse(program.read_text())
    (found,) = pallasite.run(module, [places, x, y, z], form=form, target="v5e")
    product = x @ y
    kept = np.where(np.arange(128) < 100, np.roll(product, 3, 1), 0.0)
    rows = z.reshape(8, 8, 128)[places].reshape(32, 128)
    expected = kept * 4 - product.max(axis=1, keepdims=True) + rows
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.aot
@pytest.mark.parametrize("program", OLD, ids=NAMES)
def test_the_compiler_takes_programs_of_older_versions(program: Path, compiler: Compiler) -> None:
    for form in ("mosaic", "dma", "vreg"):
        module = pallasite.lower(pallasite.parse(program.read_text()), form, "v5e")
        verdict = compile_ahead_of_time(
            module, topology="v5e:2x2", layout_passes=form != "vreg", compiler=compiler
        )
        assert verdict.accepted, (form, verdict.message)
