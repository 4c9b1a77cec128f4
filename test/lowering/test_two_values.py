"""`any` and `all`: masks are folded before values are chosen, and no result is compared."""

from __future__ import annotations

import numpy as np
import pytest

import pallasite

from .memory_kernels import kernel


def _kernel(
    shape: tuple[int, int], axis: int, kind: str, values: tuple[float, float], predicate: str,
    wanted: tuple[int, int],
):  # fmt: skip
    whole = "x".join(map(str, shape))
    left = shape[1 - axis]
    result = f"1x{left}" if axis == 0 else f"{left}x1"
    initial = "0xFF800000" if kind == "maximumf" else "0x7F800000"
    return kernel(
        [f"{whole}xf32", f"{result}xi32"],
        f"""%x = vector.load %a[%z, %z] : A, vector<{whole}xf32>
        %half = arith.constant dense<0.5> : vector<{whole}xf32>
        %m = arith.cmpf ogt, %x, %half : vector<{whole}xf32>
        %yes = arith.constant dense<{values[0]:.1f}> : vector<{whole}xf32>
        %no = arith.constant dense<{values[1]:.1f}> : vector<{whole}xf32>
        %v = arith.select %m, %yes, %no : vector<{whole}xi1>, vector<{whole}xf32>
        %low = arith.constant dense<{initial}> : vector<{left}xf32>
        %r = vector.multi_reduction <{kind}>, %v, %low [{axis}]
            : vector<{whole}xf32> to vector<{left}xf32>
        %bound = arith.constant dense<1.0> : vector<{left}xf32>
        %c = arith.cmpf {predicate}, %r, %bound : vector<{left}xf32>
        %s = vector.shape_cast %c : vector<{left}xi1> to vector<{result}xi1>
        %p = arith.constant dense<{wanted[0]}> : vector<{result}xi32>
        %q = arith.constant dense<{wanted[1]}> : vector<{result}xi32>
        %w = arith.select %s, %p, %q : vector<{result}xi1>, vector<{result}xi32>
        tpu.vector_store %b[%z, %z], %w {{strides = array<i32>}} : B, vector<{result}xi32>,""",
    )


# The comparison may ask for either value, or for both: then it is left as it is.
@pytest.mark.parametrize("predicate", ["oge", "olt", "ogt"])
@pytest.mark.parametrize(
    "kind,values,shape,axis",
    [
        ("maximumf", (1.0, 0.0), (16, 256), 1), ("maximumf", (0.0, 1.0), (13, 200), 1),
        ("minimumf", (1.0, 0.0), (16, 256), 0), ("minimumf", (0.0, 1.0), (16, 200), 0),
    ],
)  # fmt: skip
def test_any_and_all(
    shape: tuple[int, int], axis: int, kind: str, values: tuple[float, float], predicate: str
) -> None:
    x = np.zeros(shape, np.float32)
    x[3:9, 40:] = x[:, 7] = x[2, :] = 1
    x[4, 150] = np.nan
    with np.errstate(invalid="ignore"):
        chosen = np.where(x > 0.5, *values)
    folded = (chosen.max if kind == "maximumf" else chosen.min)(axis, keepdims=True)
    compare = {"oge": np.greater_equal, "olt": np.less, "ogt": np.greater}
    expected = np.where(compare[predicate](folded, 1.0), 7, -3)
    module = _kernel(shape, axis, kind, values, predicate, (7, -3))
    lowered = pallasite.lower(module, form="vreg", target="v5e")
    (actual,) = pallasite.run(lowered, [x], form="vreg", target="v5e")
    assert np.array_equal(actual, expected)
    if predicate != "ogt":
        # One comparison per register of the operand, none of what was reduced.
        assert str(lowered).count("arith.cmpf") == -(-shape[0] // 8) * 2
