"""Rotations along lanes of packed registers: as they are where the chip has that, else as words.

libtpu 0.0.51 ends in a failed check (`SupportsVectorRotateLane`) on bytes before v6e, and aborts on
4-bit elements on every chip.
"""

from __future__ import annotations

from typing import cast

import ml_dtypes  # noqa: F401  # NumPy learns the names of narrow types.
import numpy as np
import pytest

from pallasite import api
from pallasite.dialects import tpu
from pallasite.dialects.types import AnyVector, bit_width

from ..passes.checking import kernel, memref

ROWS = 64
NAMES = {"f8E5M2": "float8_e5m2"}


def rolled(element: str) -> str:
    shape = f"{ROWS}x128x{element}"
    kind = f"vector<{shape}>"
    return kernel(
        f"%x: {memref(shape)}, %o: {memref(shape)}",
        f"""%v = vector.load %x[%c0, %c0] : {memref(shape)}, {kind}
    %n = arith.constant 3 : i32
    %r = tpu.dynamic_rotate %v by %n dim 1 : {kind}, i32 -> {kind}
    tpu.vector_store %o[%c0, %c0], %r {{strides = array<i32>}} : {memref(shape)}, {kind},""",
    )


@pytest.mark.parametrize(
    ("target", "element", "width"),
    [
        ("v4", "i8", 32), ("v5e", "i8", 32), ("v5p", "i8", 32), ("v6e", "i8", 8), ("v7x", "i8", 8),
        ("v5e", "f8E5M2", 32), ("v5e", "i4", 32), ("v7x", "i4", 32), ("v4", "i16", 16),
    ],
)  # fmt: skip
def test_width_of_what_rotates(target: str, element: str, width: int) -> None:
    dtype = np.dtype(NAMES.get(element, f"int{element[1:]}"))
    given = (np.arange(ROWS * 128) % 7).reshape(ROWS, 128).astype(dtype)
    module = api.with_call(api.parse(rolled(element)), [given], [((ROWS, 128), dtype.name)])
    lowered = api.lower(module, "vreg", target)
    turned = [op for op in lowered.walk() if isinstance(op, tpu.DynamicRotateOp)]
    assert turned
    assert {bit_width(cast(AnyVector, op.value.type)) for op in turned} == {width}
    (out,) = api.run(lowered, [given], form="vreg", target=target)
    np.testing.assert_array_equal(out, np.roll(given, 3, 1))
