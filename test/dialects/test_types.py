"""Questions about types, and the constructors of the `grid` dialect that answer with types."""

from __future__ import annotations

import pytest
from xdsl.dialects import test as xdsl_test
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
    bf16,
    f32,
    i1,
    i8,
    i32,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects import arith, grid, tpu
from pallasite.dialects.types import (
    array_attribute,
    bit_width,
    grid_shape,
    integer_attribute,
    integers_in,
    memory_space,
    register_rank,
    register_type,
    splat,
    splat_value,
    split_grid,
    tiling_of,
    with_grid,
)
from pallasite.layouts.tiling import Tiling


def value(type: Attribute) -> SSAValue:
    return xdsl_test.TestOp(result_types=[type]).results[0]


@pytest.mark.parametrize(
    ("type", "width"),
    [(f32, 32), (bf16, 16), (i1, 1), (IntegerType(4), 4), (IndexType(), 32),
     (VectorType(i8, [4]), 8), (MemRefType(bf16, [4]), 16)],
)  # fmt: skip
def test_bit_width(type: Attribute, width: int) -> None:
    assert bit_width(type) == width


@pytest.mark.parametrize(
    ("element", "shape"),
    [(f32, (8, 128)), (bf16, (8, 128, 2)), (i8, (8, 128, 4)), (i1, (8, 128)),
     (IntegerType(4), (8, 128, 8))],
)  # fmt: skip
def test_register_type(element: Attribute, shape: tuple[int, ...]) -> None:
    register = register_type(element)
    assert register.get_shape() == shape
    assert grid_shape(register) == ()
    assert register_rank(register) == len(shape)
    assert grid_shape(with_grid(register, (3, 2))) == (3, 2)


def test_masks_are_of_words_or_of_packed_elements() -> None:
    assert grid_shape(VectorType(i1, [4, 8, 128])) == (4,)
    assert grid_shape(VectorType(i1, [4, 8, 128, 2])) == (4,)
    assert split_grid(VectorType(f32, [8, 64])) is None
    assert split_grid(f32) is None


def test_memory_space_and_tiling() -> None:
    layout = tpu.TiledLayoutAttr.of(Tiling(((8, 128),), (2, 1)))
    space = tpu.MemorySpaceAttr(tpu.MemorySpace.VMEM)
    ref = MemRefType(f32, [16, 256], layout, space)
    assert memory_space(ref) == "vmem"
    assert tiling_of(ref) == Tiling(((8, 128),), (2, 1))
    assert memory_space(MemRefType(f32, [16])) is None
    assert tiling_of(MemRefType(f32, [16])) is None


def test_grid_constructors_infer_types() -> None:
    source = value(VectorType(f32, [4, 2, 8, 128]))
    shapes = {
        (2, 1): grid.SliceOp(source, [1, 0], [2, 1]),
        (4, 6): grid.ConcatOp([source, source, source], 1),
        (2, 4): grid.TransposeOp(source, [1, 0]),
        (1, 2): grid.ReduceOp(source, 0, "arith.addf"),
        (32, 1): grid.TransposeBlocksOp(source),
    }
    for shape, op in shapes.items():
        op.verify()
        result = op.results[0].type
        assert isinstance(result, VectorType)
        assert grid_shape(result) == shape


def test_grid_values_have_the_shape_of_registers() -> None:
    with pytest.raises(VerifyException, match="expected a grid of registers"):
        grid.PoisonOp(VectorType(f32, [4, 100])).verify()


def test_binary_operations_by_name() -> None:
    assert arith.binary_op("arith.addf") is arith.AddfOp
    assert arith.binary_op("arith.shrui") is arith.ShRUIOp
    assert set(arith.default_properties(arith.AddfOp)) == {"fastmath"}
    assert set(arith.default_properties(arith.AddiOp)) == {"overflowFlags"}
    assert arith.default_properties(arith.AndIOp) == {}
    with pytest.raises(ValueError, match=r"arith\.select is no elementwise binary operation"):
        arith.binary_op("arith.select")


def test_comparisons_of_constants_fold_by_their_sign() -> None:
    minus, one = (arith.ConstantOp.from_int_and_width(v, 32) for v in (-1, 1))
    for predicate, holds in {"slt": -1, "ult": 0, "eq": 0, "ne": -1, "sge": 0, "ugt": -1}.items():
        folded = arith.CmpiOp(minus, one, predicate).fold()
        assert folded is not None and folded[0].value.data == holds, predicate


def test_casts_of_constants_fold() -> None:
    minus = arith.ConstantOp.from_int_and_width(-1, 8)
    folded = {
        kind: kind(minus, target).fold()[0].value.data
        for kind, target in (
            (arith.ExtSIOp, i32),
            (arith.ExtUIOp, i32),
            (arith.IndexCastOp, IndexType()),
            (arith.IndexCastUIOp, IndexType()),
        )
    }
    assert list(folded.values()) == [-1, 255, -1, 255]


def test_attributes_are_made_once():
    assert integer_attribute(3, i32) is integer_attribute(3, i32)
    assert integer_attribute(3, i32) == IntegerAttr(3, i32) != integer_attribute(3, i8)
    assert array_attribute(i8, 1, -2) is array_attribute(i8, 1, -2)
    assert array_attribute(i8, 1, -2) == DenseArrayBase.from_list(i8, [1, -2])


@pytest.mark.parametrize("kind", [i1, i8, i32])
def test_integers_of_an_array_are_those_of_its_values(kind: IntegerType):
    array = DenseArrayBase.from_list(kind, [0, 1, 1])
    assert integers_in(array) == array.get_values() == integers_in(array)
    assert integers_in(DenseArrayBase.from_list(kind, [])) == ()


def test_a_constant_knows_its_splat_value_and_stays_equal():
    asked, other = (splat(VectorType(f32, (8, 128)), 2.5) for _ in range(2))
    assert splat_value(asked) == 2.5 == splat_value(asked)
    assert asked == other and hash(asked) == hash(other)
    assert str(asked) == str(other)
