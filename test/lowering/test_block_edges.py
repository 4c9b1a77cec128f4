"""What a block has beyond the edge of its array is undefined in every form, whatever was there.

JAX's interpreters have NaN there (`uninitialized_memory` of its `InterpretParams`); the hardware
keeps what an earlier block left, which looks like an answer.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i64
from xdsl.ir import Attribute

import pallasite
from pallasite.diagnostics import VerifyError
from pallasite.dialects.kernel import SLOTS
from pallasite.interpreter.options import Options
from pallasite.interpreter.run import execute
from pallasite.targets import get_target

FORMS = ("pallas", "mosaic", "dma", "tiles", "vreg")
DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}
COPY = """
pallas.kernel @copy grid (i = {steps})
  input %x: tensor<{shape}x{element}> in vmem block ({block}) at ({at}) buffers {buffers}
  output %o: tensor<{padded}x{element}> in vmem block ({block}) at ({at})
{{
  %a = pallas.load %x[...] : memref<{ref}x{element}, #tpu.memory_space<vmem>>
  pallas.store %a, %o[...] : memref<{ref}x{element}, #tpu.memory_space<vmem>>
}}
"""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("buffers", [1, 2])
@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize(
    ("shape", "block", "at"),
    [
        ((56, 128), (16, 128), "i, 0"),  # a whole tile is left of the last block
        ((60, 128), (16, 128), "i, 0"),
        ((16, 900), (16, 256), "0, i"),
        ((3500,), (1024,), "i"),
    ],
)
def test_it_is_undefined(
    shape: tuple[int, ...], block: tuple[int, ...], at: str, element: str, buffers: int, form: str
) -> None:
    padded = tuple(-(-size // part) * part for size, part in zip(shape, block, strict=True))
    text = COPY.format(
        steps=max(size // part for size, part in zip(padded, block, strict=True)),
        shape="x".join(map(str, shape)), padded="x".join(map(str, padded)), at=at,
        block=", ".join(map(str, block)), ref="x".join(map(str, block)), element=element,
        buffers=buffers,
    )  # fmt: skip
    module = pallasite.lower(pallasite.parse(text), form=form)
    x = np.arange(np.prod(shape)).reshape(shape).astype(DTYPES[element])
    inside = tuple(map(slice, shape))
    behind = np.ones(padded, bool)
    behind[inside] = False
    for poison in (0, 1):
        (got,) = execute(module, [[x]], Options(poison=poison), target=get_target("v5e")).outputs[0]
        np.testing.assert_array_equal(got[inside], x)
        undefined = got[behind].astype(np.float32)
        assert np.isnan(undefined).all() if poison == 0 else len(np.unique(undefined)) == 1


@pytest.mark.parametrize("count", [IntegerAttr(0, i64), IntegerAttr(-1, i64), UnitAttr()])
def test_the_number_of_blocks_is_checked(count: Attribute) -> None:
    text = COPY.format(
        steps=2, shape="12x128", padded="16x128", at="i, 0", block="8, 128", ref="8x128",
        element="f32", buffers=2,
    )  # fmt: skip
    module = pallasite.lower(pallasite.parse(text), form="dma")
    for op in module.walk():
        if SLOTS in op.attributes:
            op.attributes[SLOTS] = count
    with pytest.raises(VerifyError, match=f"expected at least 1 for {SLOTS}"):
        pallasite.run(module, [np.zeros((12, 128), np.float32)], form="dma")
