"""Rolls of loaded rows by amounts known at run time: by loads, right for every amount."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import pallasite

from .memory_kernels import kernel

Array = NDArray[np.int32]


def rolled(shape: tuple[int, ...], more: str = "") -> str:
    """A body that rolls the rows of `%a` by the number in its first element."""
    kind, zeros = f"vector<{'x'.join(map(str, shape))}xi32>", ", ".join(["%z"] * len(shape))
    first, dim = ", ".join(["0"] * len(shape)), len(shape) - 2
    return f"""%x = vector.load %a[{zeros}] : A, {kind}
        %n = vector.extract %x[{first}] : i32 from {kind}
        %y = tpu.dynamic_rotate %x by %n dim {dim} : {kind}, i32 -> {kind}
        {more}
        tpu.vector_store %b[{zeros}], %y {{strides = array<i32>}} : B, {kind},"""


def answers(shape: tuple[int, ...], body: str, amounts: list[int]) -> list[tuple[Array, Array]]:
    """The operand and the result for every amount; registers are neither rotated nor chosen."""
    text = "x".join(map(str, shape)) + "xi32"
    lowered = pallasite.lower(kernel([text, text], body), form="vreg", target="v5e")
    assert "dynamic_rotate" not in str(lowered) and "arith.select" not in str(lowered)
    found: list[tuple[Array, Array]] = []
    for amount in amounts:
        value = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
        value[(0,) * len(shape)] = amount
        (actual,) = pallasite.run(lowered, [value], form="vreg", target="v5e", checks=("init",))
        found.append((value, np.asarray(actual)))
    return found


@pytest.mark.parametrize("shape", [(16, 128), (20, 256), (37, 100), (2, 24, 128)])
def test_every_amount(shape: tuple[int, ...]) -> None:
    rows = shape[-2]
    for value, actual in answers(shape, rolled(shape), [0, 1, 7, rows - 1, rows, rows + 9]):
        amount = value.flat[0]
        assert np.array_equal(actual, np.roll(value, amount, -2))


@pytest.mark.parametrize("shape", [(20, 256), (12, 384)])
def test_rows_of_several_tiles_by_every_amount(shape: tuple[int, int]) -> None:
    # The rows become several each, and the amount as many times what it was, which must not wrap.
    text, kind = f"{shape[0]}x{shape[1]}xi32", f"vector<{shape[0]}x{shape[1]}xi32>"
    body = f"""%s = vector.load %b[%z, %z] : B, vector<8x128xi32>
        %n = vector.extract %s[0, 0] : i32 from vector<8x128xi32>
        %x = vector.load %a[%z, %z] : A, {kind}
        %y = tpu.dynamic_rotate %x by %n dim 0 : {kind}, i32 -> {kind}
        tpu.vector_store %c[%z, %z], %y {{strides = array<i32>}} : C, {kind},"""
    lowered = pallasite.lower(kernel([text, "8x128xi32", text], body), form="vreg", target="v5e")
    assert "dynamic_rotate" not in str(lowered)
    value = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    for amount in (3, -3, (1 << 30) + 5, (1 << 31) - 1, -(1 << 31)):
        given = np.full((8, 128), amount, np.int32)
        (actual,) = pallasite.run(lowered, [value, given], form="vreg", target="v5e")
        assert np.array_equal(np.asarray(actual), np.roll(value, amount % shape[0], 0))


def test_rows_of_several_tiles_by_a_large_constant() -> None:
    body = """%n = arith.constant 1073741829 : i32
        %x = vector.load %a[%z, %z] : A, vector<24x256xi32>
        %y = tpu.dynamic_rotate %x by %n dim 0 : vector<24x256xi32>, i32 -> vector<24x256xi32>
        tpu.vector_store %b[%z, %z], %y {strides = array<i32>} : B, vector<24x256xi32>,"""
    module = kernel(["24x256xi32", "24x256xi32"], body)
    value = np.arange(24 * 256, dtype=np.int32).reshape(24, 256)
    (actual,) = pallasite.run(module, [value], form="vreg", target="v5e")
    assert np.array_equal(np.asarray(actual), np.roll(value, 1073741829 % 24, 0))


def test_two_rolls_of_one_buffer() -> None:
    more = """%w = tpu.dynamic_rotate %x by %n dim 0 : vector<16x128xi32>, i32 -> vector<16x128xi32>
        tpu.vector_store %b[%z, %z], %w {strides = array<i32>} : B, vector<16x128xi32>,"""
    for value, actual in answers((16, 128), rolled((16, 128), more), [5]):
        assert np.array_equal(actual, np.roll(value, 5, 0))


def test_rows_overwritten_before_the_roll() -> None:
    body = rolled((16, 128)).replace("%n =", """%k = arith.constant dense<3> : vector<16x128xi32>
        tpu.vector_store %a[%z, %z], %k {strides = array<i32>} : A, vector<16x128xi32>,
        %n =""")  # fmt: skip
    module = kernel(["16x128xi32", "16x128xi32"], body)
    value = np.arange(16 * 128, dtype=np.int32).reshape(16, 128) + 5
    (actual,) = pallasite.run(module, [value], form="vreg", target="v5e")
    assert np.array_equal(actual, np.roll(value, 5, 0))


@pytest.mark.parametrize("steps", [3, 40])
def test_blocks_of_a_pipeline(steps: int) -> None:
    # Few steps have buffers of their own, many are views of one.
    text = """
builtin.module attributes {tpu.call = {operands = [tensor<ROWSx256xi32>], results = [tensor<ROWSx256xi32>], aliases = array<i64>, settings = "{}"}} {
  func.func @f(%i: i32, %a: memref<16x256xi32, #tpu.memory_space<vmem>>, %b: memref<16x256xi32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: STEPS>, window_params = [{transform_indices = @t, window_bounds = array<i64: 16, 256>}, {transform_indices = @t, window_bounds = array<i64: 16, 256>}], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>} {
    %z = arith.constant 0 : index
    %x = vector.load %a[%z, %z] : memref<16x256xi32, #tpu.memory_space<vmem>>, vector<16x256xi32>
    %y = tpu.dynamic_rotate %x by %i dim 0 : vector<16x256xi32>, i32 -> vector<16x256xi32>
    tpu.vector_store %b[%z, %z], %y {strides = array<i32>} : memref<16x256xi32, #tpu.memory_space<vmem>>, vector<16x256xi32>,
    func.return
  }
  func.func @t(%i: i32) -> (i32, i32) {
    %z = arith.constant 0 : i32
    func.return %i, %z : i32, i32
  }
}"""  # noqa: E501
    text = text.replace("ROWS", str(16 * steps)).replace("STEPS", str(steps))
    value = np.arange(16 * steps * 256, dtype=np.int32).reshape(-1, 256)
    lowered = pallasite.lower(pallasite.parse(text), form="vreg", target="v5e")
    assert "dynamic_rotate" not in str(lowered)
    (actual,) = pallasite.run(lowered, [value], form="vreg", target="v5e", checks=("race", "init"))
    blocks = [np.roll(block, n, 0) for n, block in enumerate(np.split(value, steps))]
    assert np.array_equal(actual, np.concatenate(blocks))


@pytest.mark.parametrize("first", [0, 8])
def test_part_of_a_buffer(first: int) -> None:
    """What lies behind the part is data, and stays."""
    kind = "memref<40x128xi32, #tpu.memory_space<vmem>>"
    part = "memref<16x128xi32, #tpu.memory_space<vmem>>"
    body = f"""%all = memref.alloca() : {kind}
        %x = vector.load %a[%z, %z] : A, vector<40x128xi32>
        tpu.vector_store %all[%z, %z], %x {{strides = array<i32>}} : {kind}, vector<40x128xi32>,
        %first = arith.constant {first} : i32
        %zero = arith.constant 0 : i32
        %part = tpu.memref_slice %all[%first, %zero] : {kind} -> {part}
        %v = vector.load %part[%z, %z] : {part}, vector<16x128xi32>
        %n = vector.extract %x[0, 0] : i32 from vector<40x128xi32>
        %y = tpu.dynamic_rotate %v by %n dim 0 : vector<16x128xi32>, i32 -> vector<16x128xi32>
        tpu.vector_store %part[%z, %z], %y {{strides = array<i32>}} : {part}, vector<16x128xi32>,
        %w = vector.load %all[%z, %z] : {kind}, vector<40x128xi32>
        tpu.vector_store %b[%z, %z], %w {{strides = array<i32>}} : B, vector<40x128xi32>,"""
    module = kernel(["40x128xi32", "40x128xi32"], body)
    for amount in (0, 1, 7, 15, 16):
        value = np.arange(40 * 128, dtype=np.int32).reshape(40, 128)
        value[0, 0] = amount
        (actual,) = pallasite.run(module, [value], form="vreg", target="v5e", checks=("init",))
        expected = value.copy()
        expected[first : first + 16] = np.roll(value[first : first + 16], amount, 0)
        assert np.array_equal(actual, expected), amount


def test_matrices_whose_rows_a_view_joins_get_no_room_between_them() -> None:
    space = "#tpu.memory_space<vmem>"
    body = f"""%v = tpu.memref_reshape %a : A -> memref<32x128xi32, {space}>
        %r = vector.load %v[%z, %z] : memref<32x128xi32, {space}>, vector<32x128xi32>
        %m = arith.addi %r, %r : vector<32x128xi32>
        tpu.vector_store %v[%z, %z], %m {{strides = array<i32>}} : memref<32x128xi32, {space}>,
            vector<32x128xi32>,
        {rolled((2, 16, 128))}"""
    module = kernel(["2x16x128xi32"] * 2, body)
    value = np.arange(2 * 16 * 128, dtype=np.int32).reshape(2, 16, 128)
    value[0, 0, 0] = 5
    (actual,) = pallasite.run(module, [value], form="vreg", target="v5e")
    assert np.array_equal(actual, np.roll(2 * value, 10, -2))
