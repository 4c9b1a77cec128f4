"""Our verdict on kernels next to the TPU compiler's: both tools, and the option that parts them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pallasite import api
from pallasite.diagnostics import Diagnostic
from pallasite.frontend.aot import Compiler
from pallasite.interpreter.arrays import dtype_of
from pallasite.targets import TARGETS
from pallasite.tools import tpu_run

from ..asking import asked

DATA = Path(__file__).parent.parent / "data"
VMEM = "#tpu.memory_space<vmem>"


def kernel(source: str, result: str, body: str) -> str:
    return f"""
func.func @kernel(%x: memref<{source}, {VMEM}>, %o: memref<{result}, {VMEM}>) attributes {{
    dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
    tpu.core_type = #tpu.core_type<tc>}} {{
  %c0 = arith.constant 0 : index
  {body}
  return
}}
"""


def copy(shape: str) -> str:
    indices = ", ".join(["%c0"] * shape.count("x"))
    return kernel(
        shape,
        shape,
        f"%a = vector.load %x[{indices}] : memref<{shape}, {VMEM}>, vector<{shape}>\n"
        f"  vector.store %a, %o[{indices}] : memref<{shape}, {VMEM}>, vector<{shape}>",
    )


ROW_SUM = kernel(
    "16x128xf32",
    "16xf32",
    f"""%a = vector.load %x[%c0, %c0] : memref<16x128xf32, {VMEM}>, vector<16x128xf32>
  %z = arith.constant dense<0.0> : vector<16xf32>
  %s = vector.multi_reduction <add>, %a, %z [1] : vector<16x128xf32> to vector<16xf32>
  vector.store %s, %o[%c0] : memref<16xf32, {VMEM}>, vector<16xf32>""",
)


@pytest.fixture
def row_sum(tmp_path: Path) -> tuple[str, str]:
    """A kernel whose result lies along sublanes, and its inputs."""
    path, inputs = tmp_path / "kernel.mlir", tmp_path / "in.npz"
    path.write_text(ROW_SUM)
    np.savez(inputs, np.arange(16 * 128, dtype=np.float32).reshape(16, 128))
    return str(path), str(inputs)


@pytest.mark.parametrize("form", ["mosaic", "dma", "tiles", "vreg"])
def test_every_form_refuses_what_the_reference_refuses(
    row_sum: tuple[str, str], form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, inputs = row_sum
    arguments = [path, "--inputs", inputs, "--form", form]
    assert tpu_run.main([*arguments, "--target", "v5e"]) == 0
    assert tpu_run.main([*arguments, "--target", "v4", "--format", "json"]) == 1
    report = capsys.readouterr()
    assert "sublane-gather" in report.out + report.err
    assert "keepdims" in report.out + report.err


def test_beyond_the_reference_on_request(row_sum: tuple[str, str], tmp_path: Path) -> None:
    path, inputs = row_sum
    out = str(tmp_path / "out.npz")
    arguments = [path, "--inputs", inputs, "--outputs", out, "--form", "vreg", "--target", "v4"]
    assert tpu_run.main([*arguments, "--allow-beyond-reference"]) == 0
    expected = np.arange(16 * 128, dtype=np.float32).reshape(16, 128).sum(axis=1)
    np.testing.assert_allclose(np.load(out)["arr_0"], expected, rtol=1e-6)


ACCEPTED = [
    "vadd_unaligned_f32", "vadd_grid_edge_f32", "cast_int4_bfloat16", "argmax_ax1_f32",
    "bool_output", "softmax_rows_f32", "mm_i8",
]  # fmt: skip
# What the compiler's own passes lower differs less from target to target than what ours do.
ASKED = [("mosaic", "v5e"), ("dma", "v5e"), ("dma", "v6e"), *(("vreg", name) for name in TARGETS)]


@pytest.mark.aot
@pytest.mark.parametrize(("form", "target"), ASKED)
def test_the_compiler_agrees(form: str, target: str, compiler: Compiler) -> None:
    for name in ACCEPTED:
        module = api.parse((DATA / f"{name}.stablehlo.mlir").read_text())
        if name == "mm_i8" and target == "v4":
            with pytest.raises(Diagnostic, match="v4 has no matmul of i8 by i8"):
                api.lower(module, form, target)
            continue
        verdict = asked(
            api.lower(module, form, target), target, compiler, layout_passes=form != "vreg"
        )
        assert verdict.accepted, (name, verdict.message)


@pytest.mark.aot
@pytest.mark.parametrize("shape", ["100xf32", "1000xbf16", "64xi8", "300xf32", "3x200xf32"])
def test_flat_and_small_arrays_in_registers(shape: str, compiler: Compiler) -> None:
    module = api.parse(copy(shape))
    memref = next(iter(module.body.block.ops)).body.block.args[0].type
    array = np.zeros(memref.get_shape(), dtype_of(memref.element_type))
    lowered = api.lower(api.with_call(module, [array]), "vreg", "v5e")
    verdict = asked(lowered, "v5e", compiler)
    assert verdict.accepted, verdict.message
