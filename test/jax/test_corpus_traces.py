"""Kernels traced to the `pallas` form and lowered are as good as what JAX serialises.

For every conformance kernel: the text of the trace reads back as it was, jaxlib verifies what is
written into the call, the result is the expected one, and the TPU compiler says what it says of
JAX's own module.

    PALLASITE_TRACES=REGEX pytest test/jax/test_corpus_traces.py

takes the kernels whose names match instead of the few below; PALLASITE_CORPUS is their folder,
PALLASITE_TRACES_FORMS the forms that are run, PALLASITE_TRACES_TARGETS the targets to compile for.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import pallasite
from pallasite import api
from pallasite.diagnostics import Diagnostic
from pallasite.dialects import make_context
from pallasite.dialects.kernel import form_of
from pallasite.dialects.pallas import EmitPipelineOp
from pallasite.frontend.aot import Compiler, compile_ahead_of_time, kernel_bytecode
from pallasite.lowering.pallas_to_mosaic import LowerToMosaicPass
from pallasite.targets import get_target

from ..conformance import CASES, CORPUS, EVERY, accepted, difference, inputs_of, loaded
from .same_module import canonical, described

pytestmark = pytest.mark.jax
pytest.importorskip("jax")

PATTERN = os.environ.get("PALLASITE_TRACES")
FEW = (
    "accum_revisit_squeezed", "bool_output", "emit_pipeline_mm", "flash_bf16", "io_alias",
    "masked_store_f32", "mm_f32_trhs", "red_all_smem_f32", "remote_ring_logical",
    "scalar_prefetch_gather",
)  # fmt: skip
ASKED = ("emit_pipeline_mm", "flash_bf16", "rej_f16_mul")
"""The kernels about which the compiler is asked by default."""
FORMS = tuple(os.environ.get("PALLASITE_TRACES_FORMS", "pallas,mosaic").split(","))
TARGETS = tuple(os.environ.get("PALLASITE_TRACES_TARGETS", "v5e").split(","))

REFUSED = [n for n in EVERY if n not in CASES and re.search(PATTERN or "buffered3|rej_load", n)]
CHOSEN = [n for n in CASES if (re.search(PATTERN, n) if PATTERN else n in FEW)]
JUDGED = [n for n in CASES if (re.search(PATTERN, n) if PATTERN else n in ASKED)]


@cache
def kernels() -> dict[str, tuple[Any, list[Any]]]:
    """The functions of `kernels.py` with the shapes of their arguments."""
    return {n: (f, sds) for n, f, sds in loaded("corpus_kernels", CORPUS / "kernels.py").CASES}


@cache
def traced(name: str) -> Any:
    from pallasite.jax import trace

    function, arguments = kernels()[name]
    return trace(function, *arguments)


@pytest.mark.parametrize("name", CHOSEN)
def test_text_reads_back(name: str) -> None:
    module = traced(name)
    assert form_of(module) == "pallas"
    text = str(module)
    assert str(pallasite.parse(text)) == text


@pytest.mark.since_jax("0.10.2", "the version of Mosaic that we write")
@pytest.mark.parametrize("name", CHOSEN)
def test_what_jax_serialises(name: str, jaxlib: Any) -> None:
    """jaxlib verifies the module, and it is JAX's own but for the order of pure operations.

    Pipelines are verified only: they follow a schedule of ours.
    """
    module = traced(name).clone()
    own = any(isinstance(op, EmitPipelineOp) for op in module.walk())
    LowerToMosaicPass().apply(make_context(), module)
    ours = jaxlib.deserialize(kernel_bytecode(module))
    if own:
        assert ours.operation.verify()
        return
    theirs = jaxlib.parse((CORPUS / name / "mosaic.mlir").read_text())
    assert described(canonical(jaxlib, ours)) == described(canonical(jaxlib, theirs))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CHOSEN)
def test_expected_result(name: str, form: str, tmp_path: Path) -> None:
    case = CASES[name]
    if not accepted(name, "v5e"):
        with pytest.raises(Diagnostic):
            api.lower(traced(name), form="tiles", target="v5e")
        return
    module = traced(name)
    outcome = api.simulate(
        module, inputs_of(name, module), form=form, target="v5e", devices=case["devices"]
    )
    assert difference(name, module, outcome, tmp_path) is None


@pytest.mark.parametrize("name", REFUSED)
def test_what_jax_refuses(name: str) -> None:
    with pytest.raises(Diagnostic):
        api.lower(traced(name), form="mosaic")


@pytest.mark.aot
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", JUDGED)
def test_compiler_says_the_same(name: str, target: str, compiler: Compiler) -> None:
    """Also where it refuses: then we may refuse first."""
    expected = accepted(name, target)
    try:
        lowered = api.lower(traced(name), form="mosaic", target=target)
    except Diagnostic as error:
        assert not expected, error
        return
    topology = get_target(target).topology
    verdict = compile_ahead_of_time(
        lowered, topology=topology, layout_passes=True, compiler=compiler
    )
    assert verdict.accepted == expected, verdict.message
