"""`grid` operations that stand for a chain or loop of register operations; see `grid`."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import (
    I64,
    BoolAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import Operation, SSAValue
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
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.arith import binary_op
from pallasite.dialects.grid_base import expect, grid_of
from pallasite.dialects.tpu.keywords import ContractPrecisionAttr
from pallasite.dialects.types import (
    bit_width,
    element_of,
    is_float,
    vector_of,
    vector_type,
    with_grid,
)
from pallasite.layouts.registers import LANES, native_tile


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
        super().__init__(
            operands=[source],
            result_types=[with_grid(vector_type(source), _folded(source, dim))],
            properties={"dim": IntegerAttr(dim, i64), "kind": StringAttr(kind)},
        )

    def verify_(self) -> None:
        dim = self.dim.value.data
        _expect_dim(self.value, dim)
        try:
            binary_op(self.kind.data)
        except ValueError as error:
            raise VerifyException(str(error)) from error
        expect(self.result, self.value, _folded(self.value, dim))


@irdl_op_definition
class FirstExtremumOp(IRDLOperation):
    """The extremum of each sublane and lane over one grid dimension, and the first place of it.

    Both results keep the dimension with size 1. `kind` says which extremum; as in JAX, NaN is more
    extreme than any number. Of two zeros `best` is either. `place` is the position of the first
    register that holds the extremum, times `step`, in i32. `numbers` promises that nothing is NaN.

    Example: `%best, %place = grid.first_extremum %a dim 0 step 8 kind "arith.maximumf"
    : vector<4x2x8x128xf32> -> vector<1x2x8x128xf32>, vector<1x2x8x128xi32>`
    """

    name = "grid.first_extremum"

    value = operand_def(VectorType)
    dim = prop_def(IntegerAttr[I64])
    step = prop_def(IntegerAttr[I64])
    kind = prop_def(StringAttr)
    numbers = opt_prop_def(UnitAttr)
    best = result_def(VectorType)
    place = result_def(VectorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = (
        "$value `dim` $dim `step` $step `kind` $kind attr-dict `:` type($value) `->` "
        "type($best) `,` type($place)"
    )

    def __init__(
        self, value: SSAValue | Operation, dim: int, step: int, kind: str, *, numbers: bool
    ) -> None:
        source = SSAValue.get(value)
        best = with_grid(vector_type(source), _folded(source, dim))
        super().__init__(
            operands=[source],
            result_types=[best, vector_of(i32, best.get_shape())],
            properties={
                "dim": IntegerAttr(dim, i64),
                "step": IntegerAttr(step, i64),
                "kind": StringAttr(kind),
                "numbers": UnitAttr() if numbers else None,
            },
        )

    def verify_(self) -> None:
        _expect_dim(self.value, self.dim.value.data)
        if self.kind.data not in ("arith.maximumf", "arith.minimumf"):
            raise VerifyException(f"expected a maximum or minimum of floats, got {self.kind.data}")
        if bit_width(self.value.type) != 32 or not is_float(element_of(self.value)):
            raise VerifyException(f"expected registers of f32, got {self.value.type}")
        folded = _folded(self.value, self.dim.value.data)
        expect(self.best, self.value, folded)
        places = vector_of(i32, vector_type(self.best).get_shape())
        if self.place.type != places:
            raise VerifyException(f"expected places {places}, got {self.place.type}")


def _folded(value: SSAValue, dim: int) -> tuple[int, ...]:
    """The grid of `value` with size 1 along `dim`."""
    grid = grid_of(value)
    return (*grid[:dim], 1, *grid[dim + 1 :])


def _expect_dim(value: SSAValue, dim: int) -> None:
    grid = grid_of(value)
    if not 0 <= dim < len(grid):
        raise VerifyException(f"dimension {dim} is out of range for a grid {list(grid)}")


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
    precision = opt_prop_def(ContractPrecisionAttr)
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
        precision: ContractPrecisionAttr | None = None,
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
            if len(grid_of(value)) != 2:
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
    rows, columns = grid_of(value)
    height, width = native_tile(bit_width(value.type))
    return rows * height, columns * width


@irdl_op_definition
class TransposeBlocksOp(IRDLOperation):
    """The transposed matrix of native tiles, in blocks of 128x128 elements; grid (.., R, C).

    Example: `%b = grid.transpose_blocks %a : vector<16x2x8x128xf32> -> vector<32x1x8x128xf32>`
    """

    name = "grid.transpose_blocks"

    value = operand_def(VectorType)
    result = result_def(VectorType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue | Operation) -> None:
        source = SSAValue.get(value)
        *lead, rows, columns = grid_of(source)
        side = _side(source)
        grid = (*lead, columns * side, -(-rows // side))
        result = with_grid(vector_type(source), grid)
        super().__init__(operands=[source], result_types=[result])

    def verify_(self) -> None:
        source, target = grid_of(self.value), grid_of(self.result)
        if len(source) < 2 or len(target) != len(source):
            raise VerifyException(f"expected matrices of registers, got {self.value.type}")
        side = _side(self.value)
        (rows, columns), (high, wide) = source[-2:], target[-2:]
        fits = -(-rows // side) == wide and -(-high // side) == columns
        if source[:-2] != target[:-2] or not fits:
            raise VerifyException(f"{self.result.type} does not hold {self.value.type} transposed")
        expect(self.result, self.value, target)


def _side(value: SSAValue) -> int:
    """How many registers above each other make 128 rows."""
    return LANES // native_tile(bit_width(value.type))[0]
