"""Whole kernels that JAX lowered: read, verified, printed in both forms, read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from pallasite.frontend.text import read_text

from ...jaxlib_context import mosaic_context
from ...printing import printed

MODULES = sorted((Path(__file__).parents[2] / "data").glob("*.mosaic.mlir"))


@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.name.split(".")[0])
def test_round_trip(path: Path, generic: bool) -> None:
    module = read_text(path.read_text(), path.name)
    module.verify()
    again = read_text(printed(module, generic=generic))
    again.verify()
    assert module.is_structurally_equivalent(again)


@pytest.mark.jax
@pytest.mark.parametrize("generic", [False, True], ids=["custom", "generic"])
@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.name.split(".")[0])
def test_jaxlib_reads_the_same(path: Path, generic: bool) -> None:
    ir = pytest.importorskip("jaxlib.mlir.ir")
    text = path.read_text()
    with mosaic_context(), ir.Location.unknown():
        ours = ir.Module.parse(printed(read_text(text, path.name), generic=generic))
        assert str(ours) == str(ir.Module.parse(text))
