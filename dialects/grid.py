"""Grids of registers: which register is which, and operations on groups of registers.

Only the `tiles` form has these. A value is `vector<G...x8x128[xp]xT>`: leading dimensions count
registers, the last two or three are one register (docs/internals/dialects.md). None of the
operations changes a register's content, except `reduce`, `matmul` and `transpose_blocks`,
which stand for a chain or a loop of register operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from math import prod

from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    IntegerAttr,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.grid_base import (
    Renaming,
    expect,
    fill,
    grid_of,
)
from pallasite.dialects.grid_groups import FirstExtremumOp, MatmulOp, ReduceOp, TransposeBlocksOp
from pallasite.dialects.types import (
    dense_integers,
    integer_attribute,
    integers_in,
    vector_type,
    with_grid,
)


@irdl_op_definition
class SliceOp(Renaming):
    """A box of registers.

    Example: `%b = grid.slice %a [1, 0] [2, 1] [1, 1]
    : vector<4x1x8x128xf32> -> vector<2x1x8x128xf32>`
    """

    name = "grid.slice"

    offsets = prop_def(DenseArrayBase.constr(i64))
    sizes = prop_def(DenseArrayBase.constr(i64))
    strides = prop_def(DenseArrayBase.constr(i64))

    assembly_format = (
        "$value $offsets $sizes $strides attr-dict `:` type($value) `->` type($result)"
    )

    def __init__(
        self,
        value: SSAValue | Operation,
        offsets: Sequence[int],
        sizes: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> None:
        source = SSAValue.get(value)
        properties = {
            "offsets": dense_integers(offsets),
            "sizes": dense_integers(sizes),
            "strides": dense_integers(strides or [1] * len(sizes)),
        }
        fill(self, [source], with_grid(vector_type(source), sizes), properties)

    def verify_(self) -> None:
        grid = grid_of(self.value)
        offsets, sizes, strides = (integers_in(a) for a in (self.offsets, self.sizes, self.strides))
        if not len(offsets) == len(sizes) == len(strides) == len(grid):
            raise VerifyException(
                f"expected {len(grid)} offsets, sizes and strides, "
                f"got {len(offsets)}, {len(sizes)} and {len(strides)}"
            )
        for offset, size, stride, extent in zip(offsets, sizes, strides, grid, strict=True):
            if offset < 0 or size < 1 or stride < 1 or offset + (size - 1) * stride >= extent:
                raise VerifyException(
                    f"offset {offset}, size {size}, stride {stride} leave a grid of size {extent}"
                )
        expect(self.result, self.value, sizes)


@irdl_op_definition
class ConcatOp(IRDLOperation):
    """Grids one after the other along one grid dimension.

    Example: `%c = grid.concat %a, %b dim 0
    : vector<2x8x128xf32>, vector<1x8x128xf32> -> vector<3x8x128xf32>`
    """

    name = "grid.concat"

    parts = var_operand_def(VectorType)
    dim = prop_def(IntegerAttr[I64])
    result = result_def(VectorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$parts `dim` $dim attr-dict `:` type($parts) `->` type($result)"

    def __init__(self, parts: Sequence[SSAValue | Operation], dim: int) -> None:
        values = [SSAValue.get(p) for p in parts]
        first = vector_type(values[0])
        grid = list(grid_of(values[0]))
        grid[dim] = sum(grid_of(v)[dim] for v in values)
        fill(self, values, with_grid(first, grid), {"dim": integer_attribute(dim, i64)})

    def verify_(self) -> None:
        dim = self.dim.value.data
        if not self.parts:
            raise VerifyException("expected at least one part")
        grids = [grid_of(p) for p in self.parts]
        if not 0 <= dim < len(grids[0]) or any(len(g) != len(grids[0]) for g in grids):
            raise VerifyException(f"dimension {dim} is out of range for a grid {list(grids[0])}")
        for part, grid in zip(self.parts, grids, strict=True):
            expect(part, self.result, (*grids[0][:dim], grid[dim], *grids[0][dim + 1 :]))
        total = sum(g[dim] for g in grids)
        expect(self.result, self.parts[0], (*grids[0][:dim], total, *grids[0][dim + 1 :]))


@irdl_op_definition
class ReshapeOp(Renaming):
    """The same registers in row-major order in another grid.

    Example: `%b = grid.reshape %a : vector<4x8x128xf32> -> vector<2x2x8x128xf32>`
    """

    name = "grid.reshape"

    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue | Operation, result_type: Attribute) -> None:
        fill(self, [SSAValue.get(value)], result_type)

    def verify_(self) -> None:
        before, after = grid_of(self.value), grid_of(self.result)
        if prod(before) != prod(after):
            raise VerifyException(f"expected {prod(before)} registers, got {prod(after)}")
        expect(self.result, self.value, after)


@irdl_op_definition
class TransposeOp(Renaming):
    """Grid dimension i of the result is grid dimension `permutation[i]` of the operand.

    Example: `%b = grid.transpose %a [1, 0] : vector<4x2x8x128xf32> -> vector<2x4x8x128xf32>`
    """

    name = "grid.transpose"

    permutation = prop_def(DenseArrayBase.constr(i64))

    assembly_format = "$value $permutation attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue | Operation, permutation: Sequence[int]) -> None:
        source = SSAValue.get(value)
        grid = grid_of(source)
        kind = with_grid(vector_type(source), [grid[d] for d in permutation])
        fill(self, [source], kind, {"permutation": dense_integers(permutation)})

    def verify_(self) -> None:
        grid, permutation = grid_of(self.value), [*integers_in(self.permutation)]
        if sorted(permutation) != list(range(len(grid))):
            raise VerifyException(f"{permutation} is no permutation of {len(grid)} grid dimensions")
        expect(self.result, self.value, [grid[d] for d in permutation])

    @property
    def keeps_all(self) -> bool:
        """Whether the result is the operand, register by register."""
        permutation = integers_in(self.permutation)
        return list(permutation) == sorted(permutation)


@irdl_op_definition
class BroadcastOp(Renaming):
    """Registers repeated by NumPy's rule on the grid dimensions.

    Example: `%b = grid.broadcast %a : vector<8x128xi1> -> vector<4x2x8x128xi1>`
    """

    name = "grid.broadcast"

    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue | Operation, result_type: Attribute) -> None:
        fill(self, [SSAValue.get(value)], result_type)

    def verify_(self) -> None:
        source, target = grid_of(self.value), grid_of(self.result)
        pairs = zip_longest(reversed(source), reversed(target), fillvalue=1)
        if len(source) > len(target) or any(a not in (1, b) for a, b in pairs):
            raise VerifyException(f"grid {list(source)} does not broadcast to {list(target)}")
        expect(self.result, self.value, target)


@irdl_op_definition
class PoisonOp(IRDLOperation):
    """Registers of unknown content, which no result that matters may depend on.

    Example: `%p = grid.poison : vector<2x8x128xf32>`
    """

    name = "grid.poison"

    result = result_def(VectorType)

    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, result_type: Attribute) -> None:
        fill(self, [], result_type)

    def verify_(self) -> None:
        grid_of(self.result)


@irdl_op_definition
class PositionOp(IRDLOperation):
    """Registers of i32, each a splat of its position along one grid dimension times `step`.

    Example: `%p = grid.position dim 0 step 8 : vector<4x2x8x128xi32>`
    """

    name = "grid.position"

    dim = prop_def(IntegerAttr[I64])
    step = prop_def(IntegerAttr[I64])
    result = result_def(VectorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "`dim` $dim `step` $step attr-dict `:` type($result)"

    def __init__(self, dim: int, step: int, result_type: Attribute) -> None:
        super().__init__(
            result_types=[result_type],
            properties={"dim": IntegerAttr(dim, i64), "step": IntegerAttr(step, i64)},
        )

    def verify_(self) -> None:
        grid = grid_of(self.result)
        if vector_type(self.result).element_type != i32:
            raise VerifyException(f"expected registers of i32, got {self.result.type}")
        if not 0 <= self.dim.value.data < len(grid):
            raise VerifyException(
                f"dimension {self.dim.value.data} is out of range for a grid {list(grid)}"
            )


@irdl_op_definition
class TakeOp(Renaming):
    """Registers by their row-major number in the operand's grid; -1 is poison.

    Example: `%b = grid.take %a [3, -1] : vector<4x8x128xf32> -> vector<2x8x128xf32>`
    """

    name = "grid.take"

    indices = prop_def(DenseArrayBase.constr(i64))

    assembly_format = "$value $indices attr-dict `:` type($value) `->` type($result)"

    def __init__(
        self, value: SSAValue | Operation, indices: Sequence[int], result_type: Attribute
    ) -> None:
        fill(self, [SSAValue.get(value)], result_type, {"indices": dense_integers(indices)})

    def verify_(self) -> None:
        source, target = grid_of(self.value), grid_of(self.result)
        indices = integers_in(self.indices)
        if len(indices) != prod(target):
            raise VerifyException(f"expected {prod(target)} indices, got {len(indices)}")
        bad = [i for i in indices if not -1 <= i < prod(source)]
        if bad:
            raise VerifyException(f"index {bad[0]} is not one of {prod(source)} registers")
        expect(self.result, self.value, target)

    @property
    def keeps_all(self) -> bool:
        """Whether the result is the operand, register by register."""
        indices = integers_in(self.indices)
        return super().keeps_all and indices == tuple(range(len(indices)))


Grid = Dialect(
    "grid",
    [
        SliceOp,
        ConcatOp,
        ReshapeOp,
        TransposeOp,
        BroadcastOp,
        PoisonOp,
        PositionOp,
        TakeOp,
        ReduceOp,
        FirstExtremumOp,
        MatmulOp,
        TransposeBlocksOp,
    ],
)

__all__ = [
    "BroadcastOp",
    "ConcatOp",
    "FirstExtremumOp",
    "Grid",
    "MatmulOp",
    "PoisonOp",
    "PositionOp",
    "ReduceOp",
    "ReshapeOp",
    "SliceOp",
    "TakeOp",
    "TransposeBlocksOp",
    "TransposeOp",
]
