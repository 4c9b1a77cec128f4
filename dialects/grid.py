"""Grids of registers: which register is which, and operations on groups of registers.

Only the `tiles` form has these. A value is `vector<G...x8x128[xp]xT>`: leading dimensions count
registers, the last two or three are one register (docs/internals.md, "The `grid` dialect"). None
of the operations changes a register's content, except `reduce`, `matmul` and `transpose_blocks`,
which stand for a chain or a loop of register operations.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from itertools import zip_longest
from math import prod
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import (
    I64,
    BoolAttr,
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.arith import binary_op
from pallasite.dialects.types import bit_width, split_grid, with_grid
from pallasite.layouts.registers import LANES, native_tile

Vector = VectorType[Attribute]
Dense = DenseArrayBase[Any]


def _vector(value: SSAValue) -> Vector:
    return cast(Vector, value.type)


def _integers(attribute: Dense) -> list[int]:
    return [int(v) for v in attribute.get_values()]


def _dense(values: Sequence[int]) -> Dense:
    return DenseArrayBase.from_list(i64, list(values))


def _grid(value: SSAValue) -> tuple[int, ...]:
    """The grid of a value; raises if it is no grid of registers."""
    split = split_grid(value.type)
    if split is None:
        raise VerifyException(f"expected a grid of registers, got {value.type}")
    return split[0]


def _expect(value: SSAValue, like: SSAValue, grid: Sequence[int]) -> None:
    """`value` has the registers of `like` in the grid `grid`."""
    expected = with_grid(_vector(like), grid)
    if value.type != expected:
        raise VerifyException(f"expected {expected}, got {value.type}")


class _Renaming(IRDLOperation, ABC):
    """An operation on one grid that costs no instruction."""

    value = operand_def(VectorType)
    result = result_def(VectorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())


@irdl_op_definition
class SliceOp(_Renaming):
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
        super().__init__(
            operands=[source],
            result_types=[with_grid(_vector(source), sizes)],
            properties={
                "offsets": _dense(offsets),
                "sizes": _dense(sizes),
                "strides": _dense(strides or [1] * len(sizes)),
            },
        )

    def verify_(self) -> None:
        grid = _grid(self.value)
        offsets, sizes, strides = (_integers(a) for a in (self.offsets, self.sizes, self.strides))
        if not len(offsets) == len(sizes) == len(strides) == len(grid):
            raise VerifyException(f"expected {len(grid)} offsets, sizes and strides")
        for offset, size, stride, extent in zip(offsets, sizes, strides, grid, strict=True):
            if offset < 0 or size < 1 or stride < 1 or offset + (size - 1) * stride >= extent:
                raise VerifyException(
                    f"offset {offset}, size {size}, stride {stride} leave a grid of size {extent}"
                )
        _expect(self.result, self.value, sizes)


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
        first = _vector(values[0])
        grid = list(_grid(values[0]))
        grid[dim] = sum(_grid(v)[dim] for v in values)
        super().__init__(
            operands=[values],
            result_types=[with_grid(first, grid)],
            properties={"dim": IntegerAttr(dim, i64)},
        )

    def verify_(self) -> None:
        dim = self.dim.value.data
        if not self.parts:
            raise VerifyException("expected at least one part")
        grids = [_grid(p) for p in self.parts]
        if not 0 <= dim < len(grids[0]) or any(len(g) != len(grids[0]) for g in grids):
            raise VerifyException(f"dimension {dim} is out of range for a grid {list(grids[0])}")
        for part, grid in zip(self.parts, grids, strict=True):
            _expect(part, self.result, (*grids[0][:dim], grid[dim], *grids[0][dim + 1 :]))
        total = sum(g[dim] for g in grids)
        _expect(self.result, self.parts[0], (*grids[0][:dim], total, *grids[0][dim + 1 :]))


@irdl_op_definition
class ReshapeOp(_Renaming):
    """The same registers in row-major order in another grid.

    Example: `%b = grid.reshape %a : vector<4x8x128xf32> -> vector<2x2x8x128xf32>`
    """

    name = "grid.reshape"

    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue | Operation, result_type: Attribute) -> None:
        super().__init__(operands=[value], result_types=[result_type])

    def verify_(self) -> None:
        before, after = _grid(self.value), _grid(self.result)
        if prod(before) != prod(after):
            raise VerifyException(f"expected {prod(before)} registers, got {prod(after)}")
        _expect(self.result, self.value, after)


@irdl_op_definition
class TransposeOp(_Renaming):
    """Grid dimension i of the result is grid dimension `permutation[i]` of the operand.

    Example: `%b = grid.transpose %a [1, 0] : vector<4x2x8x128xf32> -> vector<2x4x8x128xf32>`
    """

    name = "grid.transpose"

    permutation = prop_def(DenseArrayBase.constr(i64))

    assembly_format = "$value $permutation attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue | Operation, permutation: Sequence[int]) -> None:
        source = SSAValue.get(value)
        grid = _grid(source)
        super().__init__(
            operands=[source],
            result_types=[with_grid(_vector(source), [grid[d] for d in permutation])],
            properties={"permutation": _dense(permutation)},
        )

    def verify_(self) -> None:
        grid, permutation = _grid(self.value), _integers(self.permutation)
        if sorted(permutation) != list(range(len(grid))):
            raise VerifyException(f"{permutation} is no permutation of {len(grid)} grid dimensions")
        _expect(self.result, self.value, [grid[d] for d in permutation])


@irdl_op_definition
class BroadcastOp(_Renaming):
    """Registers repeated by NumPy's rule on the grid dimensions.

    Example: `%b = grid.broadcast %a : vector<8x128xi1> -> vector<4x2x8x128xi1>`
    """

    name = "grid.broadcast"

    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue | Operation, result_type: Attribute) -> None:
        super().__init__(operands=[value], result_types=[result_type])

    def verify_(self) -> None:
        source, target = _grid(self.value), _grid(self.result)
        pairs = zip_longest(reversed(source), reversed(target), fillvalue=1)
        if len(source) > len(target) or any(a not in (1, b) for a, b in pairs):
            raise VerifyException(f"grid {list(source)} does not broadcast to {list(target)}")
        _expect(self.result, self.value, target)


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
        super().__init__(result_types=[result_type])

    def verify_(self) -> None:
        _grid(self.result)


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
        grid = _grid(self.result)
        if _vector(self.result).element_type != i32:
            raise VerifyException(f"expected registers of i32, got {self.result.type}")
        if not 0 <= self.dim.value.data < len(grid):
            raise VerifyException(
                f"dimension {self.dim.value.data} is out of range for a grid {list(grid)}"
            )


@irdl_op_definition
class TakeOp(_Renaming):
    """Registers by their row-major number in the operand's grid; -1 is poison.

    Example: `%b = grid.take %a [3, -1] : vector<4x8x128xf32> -> vector<2x8x128xf32>`
    """

    name = "grid.take"

    indices = prop_def(DenseArrayBase.constr(i64))

    assembly_format = "$value $indices attr-dict `:` type($value) `->` type($result)"

    def __init__(
        self, value: SSAValue | Operation, indices: Sequence[int], result_type: Attribute
    ) -> None:
        super().__init__(
            operands=[value], result_types=[result_type], properties={"indices": _dense(indices)}
        )

    def verify_(self) -> None:
        source, target = _grid(self.value), _grid(self.result)
        indices = _integers(self.indices)
        if len(indices) != prod(target):
            raise VerifyException(f"expected {prod(target)} indices, got {len(indices)}")
        bad = [i for i in indices if not -1 <= i < prod(source)]
        if bad:
            raise VerifyException(f"index {bad[0]} is not one of {prod(source)} registers")
        _expect(self.result, self.value, target)


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """A left fold over one grid dimension, which stays with size 1.

    Example: `%s = grid.reduce %a dim 0 kind "arith.addf"
    : vector<4x2x8x128xf32> -> vector<1x2x8x128xf32>`
    """

    name = "grid.reduce"

    value = operand_def(VectorType)
    dim = prop_def(IntegerAttr[I64])
    kind = prop_def(StringAttr)
    result = result_def(VectorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$value `dim` $dim `kind` $kind attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue | Operation, dim: int, kind: str) -> None:
        source = SSAValue.get(value)
        grid = _grid(source)
        super().__init__(
            operands=[source],
            result_types=[with_grid(_vector(source), (*grid[:dim], 1, *grid[dim + 1 :]))],
            properties={"dim": IntegerAttr(dim, i64), "kind": StringAttr(kind)},
        )

    def verify_(self) -> None:
        grid, dim = _grid(self.value), self.dim.value.data
        if not 0 <= dim < len(grid):
            raise VerifyException(f"dimension {dim} is out of range for a grid {list(grid)}")
        try:
            binary_op(self.kind.data)
        except ValueError as error:
            raise VerifyException(str(error)) from error
        _expect(self.result, self.value, (*grid[:dim], 1, *grid[dim + 1 :]))


@irdl_op_definition
class MatmulOp(IRDLOperation):
    """A matrix product over grids of native tiles, in groups of the MXU's size.

    `lhs` is a grid (M, K), `rhs` (K, N) or with `transpose_rhs` (N, K), `acc` (M, N) of 32-bit
    registers. `contracting` and `columns` are the elements of one group along K and N.
    """

    name = "grid.matmul"

    T: ClassVar = VarConstraint("T", AnyAttr())

    lhs = operand_def(VectorType)
    rhs = operand_def(VectorType)
    acc = operand_def(T)
    transpose_rhs = opt_prop_def(BoolAttr)
    precision = opt_prop_def()
    contracting = prop_def(IntegerAttr[I64])
    columns = prop_def(IntegerAttr[I64])
    result = result_def(T)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = (
        "$lhs `,` $rhs `,` $acc attr-dict `:` type($lhs) `,` type($rhs) `,` type($acc)"
    )

    def __init__(
        self,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
        acc: SSAValue | Operation,
        *,
        transpose_rhs: bool,
        contracting: int,
        columns: int,
        precision: Attribute | None = None,
    ) -> None:
        initial = SSAValue.get(acc)
        super().__init__(
            operands=[lhs, rhs, initial],
            result_types=[initial.type],
            properties={
                "transpose_rhs": BoolAttr.from_bool(transpose_rhs),
                "precision": precision,
                "contracting": IntegerAttr(contracting, i64),
                "columns": IntegerAttr(columns, i64),
            },
        )

    def verify_(self) -> None:
        for value in self.operands:
            if len(_grid(value)) != 2:
                raise VerifyException(f"expected a matrix of registers, got {value.type}")
        if bit_width(self.acc.type) != 32:
            raise VerifyException(f"expected 32-bit accumulators, got {self.acc.type}")
        for size in (self.contracting.value.data, self.columns.value.data):
            if size < LANES or size % LANES:
                raise VerifyException(f"group size {size} is no positive multiple of {LANES}")
        transposed = self.transpose_rhs is not None and bool(self.transpose_rhs.value.data)
        (lhs_rows, lhs_columns), rhs, acc = (_extent(v) for v in self.operands)
        depth, width = (rhs[1], rhs[0]) if transposed else rhs
        # Each grid is padded to its own tiles, so that extents agree up to less than one tile.
        tile = max(native_tile(bit_width(v.type))[0] for v in self.operands)
        slack = max(tile, LANES)
        pairs = {"rows": (lhs_rows, acc[0]), "contraction": (lhs_columns, depth),
                 "columns": (width, acc[1])}  # fmt: skip
        for name, (one, two) in pairs.items():
            if abs(one - two) >= slack:
                raise VerifyException(f"{name} differ: {one} and {two} elements")


def _extent(value: SSAValue) -> tuple[int, int]:
    """Rows and columns of the padded matrix that a grid of native tiles holds."""
    rows, columns = _grid(value)
    height, width = native_tile(bit_width(value.type))
    return rows * height, columns * width


@irdl_op_definition
class TransposeBlocksOp(_Renaming):
    """The transposed matrix of native tiles, in blocks of 128x128 elements; grid (.., R, C).

    Example: `%b = grid.transpose_blocks %a : vector<16x2x8x128xf32> -> vector<32x1x8x128xf32>`
    """

    name = "grid.transpose_blocks"

    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue | Operation, result_type: Attribute | None = None) -> None:
        source = SSAValue.get(value)
        if result_type is None:
            *lead, rows, columns = _grid(source)
            side = _side(source)
            grid = (*lead, columns * side, -(-rows // side))
            result_type = with_grid(_vector(source), grid)
        super().__init__(operands=[source], result_types=[result_type])

    def verify_(self) -> None:
        source, target = _grid(self.value), _grid(self.result)
        if len(source) < 2 or len(target) != len(source):
            raise VerifyException(f"expected matrices of registers, got {self.value.type}")
        side = _side(self.value)
        (rows, columns), (high, wide) = source[-2:], target[-2:]
        fits = -(-rows // side) == wide and -(-high // side) == columns
        if source[:-2] != target[:-2] or not fits:
            raise VerifyException(f"{self.result.type} does not hold {self.value.type} transposed")
        _expect(self.result, self.value, target)


def _side(value: SSAValue) -> int:
    """How many registers above each other make 128 rows."""
    return LANES // native_tile(bit_width(value.type))[0]


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
        MatmulOp,
        TransposeBlocksOp,
    ],
)
