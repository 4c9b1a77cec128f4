"""Dimensions that grow fill axes along which a value is the same; what is copied moves first."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pallasite

from .test_absorb_moves import kernel


def maxima_as_rows(rows: int, columns: int, turned: bool) -> ModuleOp:
    """The maxima of `columns` rows, side by side in each of `rows` rows; `turned`, transposed."""
    lengths = (columns, rows) if turned else (rows, columns)
    kind, result = (f"vector<{m}x{n}xf32>" for m, n in ((rows, columns), lengths))
    turn = f"%t = tpu.transpose %all, [1, 0] : {kind} -> {result}" if turned else ""
    return kernel(
        [f"{columns}x128xf32", f"{lengths[0]}x{lengths[1]}xf32"],
        f"""%y = vector.load %a[%z, %z] : A, vector<{columns}x128xf32>
        %least = arith.constant dense<0xFF800000> : vector<{columns}xf32>
        %m = vector.multi_reduction <maximumf>, %y, %least [1]
            : vector<{columns}x128xf32> to vector<{columns}xf32>
        %row = vector.shape_cast %m : vector<{columns}xf32> to vector<1x{columns}xf32>
        %all = vector.broadcast %row : vector<1x{columns}xf32> to {kind}
        {turn}
        tpu.vector_store %b[%z, %z], {"%t" if turned else "%all"} {{strides = array<i32>}}
            : B, {result},""",
    )


@pytest.mark.parametrize("rows,columns", [(128, 128), (64, 40), (300, 16), (8, 200)])
@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("target", ["v5e", "v6e"])
def test_copies_of_rows_turn_without_a_transposition(
    target: str, turned: bool, rows: int, columns: int
) -> None:
    y = np.random.default_rng(0).integers(-99, 99, (columns, 128)).astype(np.float32)
    lowered = pallasite.lower(maxima_as_rows(rows, columns, turned), form="vreg", target=target)
    (actual,) = pallasite.run(lowered, [y], form="vreg", target=target)
    expected = np.broadcast_to(y.max(1), (rows, columns))
    assert np.array_equal(actual, expected.T if turned else expected)
    made = Counter(op.name for op in lowered.walk())
    assert not made["tpu.transpose"]
    # One register of maxima per eight rows; turned, they lie as they are stored.
    moves = made["tpu.sublane_shuffle"] + made["arith.select"] + made["tpu.dynamic_gather"]
    assert moves <= (0 if turned else 4 * -(-columns // 8))
