"""Axes of cores have as many steps as the TPU compiler gives a kernel cores."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from pallasite import lower, run
from pallasite.diagnostics import Diagnostic, KernelWarning
from pallasite.frontend import read
from pallasite.passes.check_kernel import check_kernel
from pallasite.targets import get_target

from ..checking import check, refused


def kernel(bounds: str, semantics: str) -> str:
    named = ", ".join(f"#tpu.dimension_semantics<{kind}>" for kind in semantics.split())
    indices = ", ".join(f"%i{axis}: i32" for axis in range(len(semantics.split())))
    return f"""
    func.func @kernel({indices}) attributes {{iteration_bounds = array<i64: {bounds}>,
        dimension_semantics = [{named}], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
        window_params = [], tpu.core_type = #tpu.core_type<tc>}} {{
      return
    }}"""


@pytest.mark.parametrize(("target", "steps"), [
    ("v4", 1), ("v5e", 1), ("v5p", 2), ("v6e", 1), ("v7x", 1),
])  # fmt: skip
def test_axes_of_cores(target: str, steps: int) -> None:
    for good in ("core_parallel", "arbitrary core_parallel", "core_parallel arbitrary"):
        bounds = ", ".join(str(steps) if kind[0] == "c" else "4" for kind in good.split())
        check(kernel(bounds, good), target)
    refused(kernel(str(3 - steps), "core_parallel"), "core-parallel", target)
    refused(kernel(f"4, {3 - steps}", "parallel core_parallel"), "core-parallel", target)
    check(kernel("7", "parallel"), target)


@pytest.mark.parametrize("target", ["v4", "v5e", "v7x"])
def test_subcores_have_no_axes_of_tensor_cores(target: str) -> None:
    refused(kernel("1", "subcore_parallel"), "core-parallel", target)
    refused(kernel("2, 4", "parallel subcore_parallel"), "core-parallel", target)


def test_the_machine_has_both_cores_of_v4() -> None:
    text = kernel("2", "core_parallel")
    refused(text, "core-parallel", "v4")
    check_kernel(read(text), get_target("v4"), allow_beyond_reference=True)


def shared_axes(semantics: str, sizes: str, index_map: str) -> list[int]:
    """The axes that are warned of for an output whose blocks `index_map` tells."""
    kinds = zip("ij", sizes.split(), semantics.split(), strict=True)
    axes = ", ".join(f"{name} = {size} {kind}" for name, size, kind in kinds)
    module = read(f"""
    pallas.kernel @sum grid ({axes})
      input %x: tensor<64x512xf32> in vmem block (8, 128) at (i, j)
      output %o: tensor<64x512xf32> in vmem block (8, 128) at ({index_map})
    {{
      %a = pallas.load %x[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
      pallas.store %a, %o[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
    }}""")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        lower(module, form="dma", target="v5e", allow_beyond_reference=True)
    assert all(w.filename == __file__ for w in told if isinstance(w.message, KernelWarning))
    found = [w.message.diagnostic for w in told if isinstance(w.message, KernelWarning)]
    found = [d for d in found if d.code != "unwritten-output"]
    assert all(d.code == "parallel-shared-block" for d in found)
    return [int(d.message.split()[2]) for d in found]


@pytest.mark.parametrize(("semantics", "sizes", "index_map", "shared"), [
    ("parallel parallel", "2 4", "i, j", []),
    ("parallel arbitrary", "2 4", "i, 0", []),
    ("parallel parallel", "2 4", "i, 0", [1]),
    ("parallel parallel", "2 4", "0, 0", [0, 1]),
    ("parallel parallel", "1 4", "0, j", []),
    ("arbitrary arbitrary", "2 4", "0, 0", []),
])  # fmt: skip
def test_blocks_that_parallel_steps_share(
    semantics: str, sizes: str, index_map: str, shared: list[int]
) -> None:
    assert shared_axes(semantics, sizes, index_map) == shared


@pytest.mark.parametrize("form", ["pallas", "mosaic", "tiles"])
def test_the_line_that_asks_is_warned_of(form: str) -> None:
    module = read(SHARED)
    inputs = [np.zeros((64, 512), np.float32)]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", KernelWarning)
        lower(module, form=form)
        run(module, inputs, form=form)
    assert [w.filename for w in told] == 2 * [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error", KernelWarning)
        with pytest.raises(Diagnostic, match="axis 1") as raised:
            lower(module, form=form)
    assert (raised.value.code, raised.value.severity) == ("parallel-shared-block", "warning")


SHARED = """
pallas.kernel @sum grid (i = 2 parallel, j = 4 parallel)
  input %x: tensor<64x512xf32> in vmem block (8, 128) at (i, j)
  output %o: tensor<16x128xf32> in vmem block (8, 128) at (i, 0)
{
  %a = pallas.load %x[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
  pallas.store %a, %o[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
}"""
