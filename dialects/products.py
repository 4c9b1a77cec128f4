"""What products ask of the shapes of their operands before they are executed or lowered.

The C++ dialect takes any shapes, so this is no rule of the verifier.
"""

from __future__ import annotations

from pallasite.diagnostics import VerifyError
from pallasite.dialects.locations import source_location
from pallasite.dialects.tpu.matmul import MatmulOp


def check_product(op: MatmulOp) -> None:
    """The accumulator of a product has a dimension for each batch and each free dimension."""
    sides = [v.type.get_shape() for v in (op.lhs, op.rhs)]
    if op.dimension_numbers is not None:
        order = op.dimension_numbers.lists()[4]
        dimensions = list(zip(order[::2], order[1::2], strict=True))
    else:
        dimensions = [(0, 1 - _contracted(op, 0)), (1, 1 - _contracted(op, 1))]
        if [len(side) for side in sides] != [2, 2]:
            raise _no_product(op, "matrices, as there are no dimension numbers", *sides)
        depths = [side[_contracted(op, n)] for n, side in enumerate(sides)]
        if depths[0] != depths[1]:
            raise _no_product(op, "contracting dimensions of one size", *depths)
    expected = tuple(sides[side][dim] for side, dim in dimensions)
    given = op.acc.type.get_shape()
    if given != expected:
        raise _no_product(op, f"an accumulator of shape {list(expected)}", given)


def _contracted(op: MatmulOp, side: int) -> int:
    transposed = (op.transpose_lhs, op.transpose_rhs)[side].value.data
    return 1 - side if not transposed else side


def _no_product(op: MatmulOp, expected: str, *got: object) -> VerifyError:
    given = " and ".join(str(list(g) if isinstance(g, tuple) else g) for g in got)
    return VerifyError(
        "product-shape", f"'{op.name}': expected {expected}, got {given}", source_location(op)
    )
