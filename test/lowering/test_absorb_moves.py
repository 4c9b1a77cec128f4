"""Movement that loads and stores do on their way: right in every form, and no shuffle is left."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import pallasite

from .memory_kernels import kernel

Array = NDArray[np.generic]
NUMPY = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "i32": np.int32, "i8": np.int8}


@dataclass(frozen=True)
class Case:
    name: str
    operands: list[str]
    body: str
    answer: str
    moves: tuple[str, ...] = ("sublane_shuffle", "arith.select", "create_mask")


CASES = [
    Case(
        "slice_of_sum", ["16x256xf32", "16x256xf32", "8x128xf32"],
        """%x = vector.load %a[%z, %z] : A, vector<16x256xf32>
        %y = vector.load %b[%z, %z] : B, vector<16x256xf32>
        %s = arith.addf %x, %y : vector<16x256xf32>
        %t = vector.extract_strided_slice %s {offsets = [3, 128], sizes = [8, 128],
            strides = [1, 1]} : vector<16x256xf32> to vector<8x128xf32>
        tpu.vector_store %c[%z, %z], %t {strides = array<i32>} : C, vector<8x128xf32>,""",
        "(a + b)[3:11, 128:]",
    ),
    Case(
        "slice_of_a_slice", ["40x128xf32", "9x128xf32"],
        """%x = vector.load %a[%z, %z] : A, vector<40x128xf32>
        %s = vector.extract_strided_slice %x {offsets = [5, 0], sizes = [30, 128],
            strides = [1, 1]} : vector<40x128xf32> to vector<30x128xf32>
        %e = math.absf %s : vector<30x128xf32>
        %t = vector.extract_strided_slice %e {offsets = [7, 0], sizes = [9, 128],
            strides = [1, 1]} : vector<30x128xf32> to vector<9x128xf32>
        tpu.vector_store %b[%z, %z], %t {strides = array<i32>} : B, vector<9x128xf32>,""",
        "abs(a[12:21])",
    ),
    Case(
        "kept_for_another_use", ["16x128xf32", "8x128xf32", "24x128xf32"],
        """%x = vector.load %a[%z, %z] : A, vector<16x128xf32>
        %y = vector.load %b[%z, %z] : B, vector<8x128xf32>
        %s = vector.extract_strided_slice %x {offsets = [3, 0], sizes = [8, 128],
            strides = [1, 1]} : vector<16x128xf32> to vector<8x128xf32>
        %t = arith.addf %s, %y : vector<8x128xf32>
        %u = tpu.concatenate %x, %t in 0 : vector<16x128xf32>, vector<8x128xf32>
            -> vector<24x128xf32>
        tpu.vector_store %c[%z, %z], %u {strides = array<i32>} : C, vector<24x128xf32>,""",
        "concatenate([a, a[3:11] + b])",
        (),
    ),
    Case(
        "concatenated_words", ["2x5x200xf32", "2x9x200xf32", "2x14x200xf32"],
        """%x = vector.load %a[%z, %z, %z] : A, vector<2x5x200xf32>
        %y = vector.load %b[%z, %z, %z] : B, vector<2x9x200xf32>
        %u = tpu.concatenate %x, %y in 1 : vector<2x5x200xf32>, vector<2x9x200xf32>
            -> vector<2x14x200xf32>
        tpu.vector_store %c[%z, %z, %z], %u {strides = array<i32>} : C, vector<2x14x200xf32>,""",
        "concatenate([a, b], 1)",
    ),
    Case(
        "concatenated_pairs", ["6x128xbf16", "20x128xbf16", "26x128xbf16"],
        """%x = vector.load %a[%z, %z] : A, vector<6x128xbf16>
        %y = vector.load %b[%z, %z] : B, vector<20x128xbf16>
        %u = tpu.concatenate %x, %y in 0 : vector<6x128xbf16>, vector<20x128xbf16>
            -> vector<26x128xbf16>
        tpu.vector_store %c[%z, %z], %u {strides = array<i32>} : C, vector<26x128xbf16>,""",
        "concatenate([a, b])",
    ),
    Case(
        "odd_rows", ["64x128xbf16", "24x128xbf16"],
        """%r = arith.constant 7 : index
        %x = vector.load %a[%r, %z] : A, vector<24x128xbf16>
        tpu.vector_store %b[%z, %z], %x {strides = array<i32>} : B, vector<24x128xbf16>,""",
        "a[7:31]",
    ),
    Case(
        "bytes_between_words", ["64x128xi8", "32x128xi8"],
        """%r = arith.constant 11 : index
        %x = vector.load %a[%r, %z] : A, vector<32x128xi8>
        tpu.vector_store %b[%z, %z], %x {strides = array<i32>} : B, vector<32x128xi8>,""",
        "a[11:43]",
    ),
    Case(
        "rows_to_front", ["3x8x16x128xbf16", "3x16x8x128xbf16"],
        """%x = vector.load %a[%z, %z, %z, %z] : A, vector<3x8x16x128xbf16>
        %y = tpu.transpose %x, [0, 2, 1, 3] : vector<3x8x16x128xbf16> -> vector<3x16x8x128xbf16>
        tpu.vector_store %b[%z, %z, %z, %z], %y {strides = array<i32>}
            : B, vector<3x16x8x128xbf16>,""",
        "transpose(a, (0, 2, 1, 3))",
    ),
    Case(
        "front_to_rows", ["20x10x256xbf16", "10x20x256xbf16"],
        """%x = vector.load %a[%z, %z, %z] : A, vector<20x10x256xbf16>
        %y = tpu.transpose %x, [1, 0, 2] : vector<20x10x256xbf16> -> vector<10x20x256xbf16>
        tpu.vector_store %b[%z, %z, %z], %y {strides = array<i32>} : B, vector<10x20x256xbf16>,""",
        "transpose(a, (1, 0, 2))",
    ),
    Case(
        "front_to_half_registers", ["2x8x12x128xbf16", "2x12x8x128xbf16"],
        """%x = vector.load %a[%z, %z, %z, %z] : A, vector<2x8x12x128xbf16>
        %y = tpu.transpose %x, [0, 2, 1, 3] : vector<2x8x12x128xbf16> -> vector<2x12x8x128xbf16>
        tpu.vector_store %b[%z, %z, %z, %z], %y {strides = array<i32>}
            : B, vector<2x12x8x128xbf16>,""",
        "transpose(a, (0, 2, 1, 3))",
        ("sublanes [true, true, true, true, false",),
    ),
    Case(
        "half_registers_stored_together", ["6x8x128xf32", "1x8x8x128xbf16"],
        """%t = arith.constant 2 : index
        %x = vector.load %a[%z, %z, %z] : A, vector<6x8x128xf32>
        %y = vector.shape_cast %x : vector<6x8x128xf32> to vector<1x6x8x128xf32>
        %u = arith.truncf %y : vector<1x6x8x128xf32> to vector<1x6x8x128xbf16>
        tpu.vector_store %b[%z, %t, %z, %z], %u {strides = array<i32>}
            : B, vector<1x6x8x128xbf16>,
        %w = vector.load %a[%t, %z, %z] : A, vector<2x8x128xf32>
        %v = arith.truncf %w : vector<2x8x128xf32> to vector<2x8x128xbf16>
        %s = vector.shape_cast %v : vector<2x8x128xbf16> to vector<1x2x8x128xbf16>
        tpu.vector_store %b[%z, %z, %z, %z], %s {strides = array<i32>}
            : B, vector<1x2x8x128xbf16>,""",
        "concatenate([a[2:4], a])[None]",
        (),
    ),
    Case(
        "half_registers_of_a_part", ["3x4x8x128xf32", "3x5x8x128xbf16", "3x5x8x128xbf16"],
        """%o = vector.load %b[%z, %z, %z, %z] : B, vector<3x5x8x128xbf16>
        tpu.vector_store %c[%z, %z, %z, %z], %o {strides = array<i32>}
            : C, vector<3x5x8x128xbf16>,
        %x = vector.load %a[%z, %z, %z, %z] : A, vector<3x4x8x128xf32>
        %u = arith.truncf %x : vector<3x4x8x128xf32> to vector<3x4x8x128xbf16>
        %i = arith.constant 0 : i32
        %p = tpu.memref_slice %c[%i, %i, %i, %i] : C
            -> memref<3x4x8x128xbf16, #tpu.memory_space<vmem>>
        tpu.vector_store %p[%z, %z, %z, %z], %u {strides = array<i32>}
            : memref<3x4x8x128xbf16, #tpu.memory_space<vmem>>, vector<3x4x8x128xbf16>,""",
        "concatenate([a.astype(b.dtype), b[:, 4:]], 1)",
        (),
    ),
    *(
        Case(
            f"half_registers_of_{size}_at_{place}_of_{whole}",
            [f"3x{size}x8x128xf32", "3x8x8x128xbf16", "3x8x8x128xbf16"],
            f"""%o = vector.load %b[%z, %z, %z, %z] : B, vector<3x8x8x128xbf16>
            tpu.vector_store %c[%z, %z, %z, %z], %o {{strides = array<i32>}}
                : C, vector<3x8x8x128xbf16>,
            %x = vector.load %a[%z, %z, %z, %z] : A, vector<3x{size}x8x128xf32>
            %u = arith.truncf %x : vector<3x{size}x8x128xf32> to vector<3x{size}x8x128xbf16>
            %i = arith.constant 0 : i32
            %p = tpu.memref_slice %c[%i, %i, %i, %i] : C
                -> memref<3x{whole}x8x128xbf16, #tpu.memory_space<vmem>>
            %t = arith.constant {place} : index
            tpu.vector_store %p[%z, %t, %z, %z], %u {{strides = array<i32>}}
                : memref<3x{whole}x8x128xbf16, #tpu.memory_space<vmem>>,
                  vector<3x{size}x8x128xbf16>,""",
            f"concatenate([b[:, :{place}], a.astype(b.dtype), b[:, {place + size}:]], 1)",
            (),
        )
        for size, place, whole in ((4, 1, 6), (3, 2, 6), (4, 2, 7), (4, 2, 6))
    ),
    Case(
        "quarter_registers_stored_together", ["8x8x128xi32", "8x8x128xi8"],
        """%x = vector.load %a[%z, %z, %z] : A, vector<8x8x128xi32>
        %u = arith.trunci %x : vector<8x8x128xi32> to vector<8x8x128xi8>
        tpu.vector_store %b[%z, %z, %z], %u {strides = array<i32>} : B, vector<8x8x128xi8>,""",
        "a",
        ("sublanes [true, true, false",),
    ),
    Case(
        "rows_of_a_batch_spread", ["4x128xf32", "4x16x128xf32"],
        """%x = vector.load %a[%z, %z] : A, vector<4x128xf32>
        %y = vector.shape_cast %x : vector<4x128xf32> to vector<4x1x128xf32>
        %u = vector.broadcast %y : vector<4x1x128xf32> to vector<4x16x128xf32>
        tpu.vector_store %b[%z, %z, %z], %u {strides = array<i32>} : B, vector<4x16x128xf32>,""",
        "broadcast_to(a[:, None], (4, 16, 128))",
    ),
    Case(
        "packed_row_spread", ["16x256xbf16", "40x256xbf16"],
        """%r = arith.constant 5 : index
        %x = vector.load %a[%r, %z] : A, vector<1x256xbf16>
        %u = vector.broadcast %x : vector<1x256xbf16> to vector<40x256xbf16>
        tpu.vector_store %b[%z, %z], %u {strides = array<i32>} : B, vector<40x256xbf16>,""",
        "broadcast_to(a[5:6], (40, 256))",
        # Two shuffles make the one register of both columns of tiles that all five stores take.
        moves=("arith.select", "create_mask"),
    ),
    Case(
        "byte_row_spread", ["1x128xi8", "32x128xi8"],
        """%x = vector.load %a[%z, %z] : A, vector<1x128xi8>
        %u = vector.broadcast %x : vector<1x128xi8> to vector<32x128xi8>
        tpu.vector_store %b[%z, %z], %u {strides = array<i32>} : B, vector<32x128xi8>,""",
        "broadcast_to(a, (32, 128))",
    ),
    Case(
        "rolled", ["20x256xi32", "20x256xi32"],
        """%x = vector.load %a[%z, %z] : A, vector<20x256xi32>
        %n = arith.constant 27 : i32
        %u = tpu.dynamic_rotate %x by %n dim 0 : vector<20x256xi32>, i32 -> vector<20x256xi32>
        tpu.vector_store %b[%z, %z], %u {strides = array<i32>} : B, vector<20x256xi32>,""",
        "roll(a, 27, 0)",
    ),
    Case(
        "rolled_behind", ["2x20x256xi32", "2x20x256xi32"],
        """%x = vector.load %a[%z, %z, %z] : A, vector<2x20x256xi32>
        %n = arith.constant 7 : i32
        %u = tpu.dynamic_rotate %x by %n dim 1 : vector<2x20x256xi32>, i32 -> vector<2x20x256xi32>
        tpu.vector_store %b[%z, %z, %z], %u {strides = array<i32>} : B, vector<2x20x256xi32>,""",
        "roll(a, 7, 1)",
    ),
    Case(
        "rolled_by_other_amounts", ["2x16x256xi32", "2x16x256xi32"],
        """%x = vector.load %a[%z, %z, %z] : A, vector<2x16x256xi32>
        %n = arith.constant 3 : i32
        %u = tpu.dynamic_rotate %x by %n dim 1 {stride = 2 : si32, stride_dimension = 0 : si32}
            : vector<2x16x256xi32>, i32 -> vector<2x16x256xi32>
        tpu.vector_store %b[%z, %z, %z], %u {strides = array<i32>} : B, vector<2x16x256xi32>,""",
        "stack([roll(a[0], 3, 0), roll(a[1], 5, 0)])",
        (),
    ),
    Case(
        "rolled_all_the_way", ["20x256xi32", "20x256xi32"],
        """%x = vector.load %a[%z, %z] : A, vector<20x256xi32>
        %n = arith.constant 40 : i32
        %u = tpu.dynamic_rotate %x by %n dim 0 : vector<20x256xi32>, i32 -> vector<20x256xi32>
        tpu.vector_store %b[%z, %z], %u {strides = array<i32>} : B, vector<20x256xi32>,""",
        "a",
    ),
    Case(
        "part_rolled", ["20x256xi32", "24x256xi32"],
        """%x = vector.load %a[%z, %z] : A, vector<20x256xi32>
        tpu.vector_store %b[%z, %z], %x {strides = array<i32>} : B, vector<20x256xi32>,
        %c = arith.constant 4 : index
        %y = vector.load %a[%c, %z] : A, vector<16x256xi32>
        %n = arith.constant 3 : i32
        %u = tpu.dynamic_rotate %y by %n dim 0 : vector<16x256xi32>, i32 -> vector<16x256xi32>
        %d = arith.constant 8 : index
        tpu.vector_store %b[%d, %z], %u {strides = array<i32>} : B, vector<16x256xi32>,""",
        "concatenate([a[:8], roll(a[4:], 3, 0)])",
        (),
    ),
    Case(
        "rows_joined", ["4x5x128xf32", "20x128xf32"],
        """%x = vector.load %a[%z, %z, %z] : A, vector<4x5x128xf32>
        %y = vector.shape_cast %x : vector<4x5x128xf32> to vector<20x128xf32>
        %u = math.absf %y : vector<20x128xf32>
        tpu.vector_store %b[%z, %z], %u {strides = array<i32>} : B, vector<20x128xf32>,""",
        "abs(a.reshape(20, 128))",
    ),
    Case(
        "rows_split", ["30x256xf32", "3x10x256xf32"],
        """%x = vector.load %a[%z, %z] : A, vector<30x256xf32>
        %y = math.absf %x : vector<30x256xf32>
        %u = vector.shape_cast %y : vector<30x256xf32> to vector<3x10x256xf32>
        tpu.vector_store %b[%z, %z, %z], %u {strides = array<i32>} : B, vector<3x10x256xf32>,""",
        "abs(a).reshape(3, 10, 256)",
    ),
    Case(
        "part_of_what_a_loop_carries", ["32x128xf32", "8x128xf32"],
        """%x = vector.load %a[%z, %z] : A, vector<32x128xf32>
        %l = arith.constant 0 : i32
        %h = arith.constant 3 : i32
        %s = arith.constant 1 : i32
        %r = scf.for %i = %l to %h step %s iter_args(%k = %x) -> (vector<32x128xf32>) : i32 {
          %y = vector.load %a[%z, %z] : A, vector<32x128xf32>
          %t = arith.addf %k, %y : vector<32x128xf32>
          %u = vector.extract_strided_slice %t {offsets = [8, 0], sizes = [8, 128],
              strides = [1, 1]} : vector<32x128xf32> to vector<8x128xf32>
          tpu.vector_store %b[%z, %z], %u {strides = array<i32>} : B, vector<8x128xf32>,
          %w = arith.addf %y, %y : vector<32x128xf32>
          scf.yield %w : vector<32x128xf32>
        }""",
        "3 * a[8:16]",
    ),
    Case(
        "roll_of_what_a_loop_carries", ["13x128xf32", "13x128xf32"],
        """%x = vector.load %a[%z, %z] : A, vector<13x128xf32>
        %l = arith.constant 0 : i32
        %h = arith.constant 3 : i32
        %s = arith.constant 1 : i32
        %n = arith.constant 5 : i32
        %r = scf.for %i = %l to %h step %s iter_args(%k = %x) -> (vector<13x128xf32>) : i32 {
          %u = tpu.dynamic_rotate %k by %n dim 0 : vector<13x128xf32>, i32 -> vector<13x128xf32>
          tpu.vector_store %b[%z, %z], %u {strides = array<i32>} : B, vector<13x128xf32>,
          %y = vector.load %a[%z, %z] : A, vector<13x128xf32>
          %w = arith.addf %y, %y : vector<13x128xf32>
          scf.yield %w : vector<13x128xf32>
        }""",
        "roll(2 * a, 5, 0)",
    ),
]  # fmt: skip


LOWER_RANKS = [
    Case(
        "row_of_a_matrix", ["16x128xELEMENT", "128xELEMENT"],
        """%i = arith.constant 5 : index
        %x = vector.load %a[%i, %z] : A, vector<128xELEMENT>
        tpu.vector_store %b[%z], %x {strides = array<i32>} : B, vector<128xELEMENT>,""",
        "a[5]",
    ),
    Case(
        "matrix_of_many", ["3x2x16x256xELEMENT", "16x256xELEMENT"],
        """%i = arith.constant 1 : index
        %j = arith.constant 2 : index
        %x = vector.load %a[%j, %i, %z, %z] : A, vector<16x256xELEMENT>
        tpu.vector_store %b[%z, %z], %x {strides = array<i32>} : B, vector<16x256xELEMENT>,""",
        "a[2, 1]",
    ),
    Case(
        "stored_twice", ["40x128xELEMENT", "2x40x128xELEMENT"],
        """%i = arith.constant 1 : index
        %x = vector.load %a[%z, %z] : A, vector<40x128xELEMENT>
        vector.store %x, %b[%z, %z, %z] : B, vector<40x128xELEMENT>
        vector.store %x, %b[%i, %z, %z] : B, vector<40x128xELEMENT>""",
        "stack([a, a])",
    ),
    Case(
        "rows_stored", ["128xELEMENT", "2x128xELEMENT"],
        """%i = arith.constant 1 : index
        %x = vector.load %a[%z] : A, vector<128xELEMENT>
        vector.store %x, %b[%z, %z] : B, vector<128xELEMENT>
        vector.store %x, %b[%i, %z] : B, vector<128xELEMENT>""",
        "stack([a, a])",
    ),
]  # fmt: skip
"""The TPU compiler was asked about these (v5e): it takes them."""


@pytest.mark.parametrize("element", ["f32", "i32"])
@pytest.mark.parametrize("case", LOWER_RANKS, ids=lambda case: case.name)
def test_vectors_of_lower_rank_than_memory(case: Case, element: str) -> None:
    operands = [text.replace("ELEMENT", element) for text in case.operands]
    body = case.body.replace("ELEMENT", element)
    test_memory_moves(Case(case.name, operands, body, case.answer, ()))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_memory_moves(case: Case) -> None:
    module = kernel(case.operands, case.body)
    rng = np.random.default_rng(0)
    inputs: list[Array] = []
    for text in case.operands[:-1]:
        *shape, element = text.split("x")
        numbers = rng.integers(-50, 50, [int(n) for n in shape])
        inputs.append(numbers.astype(NUMPY[element]))
    names = dict(zip("abc", inputs, strict=False))
    expected = eval(case.answer, {"__builtins__": {}}, {**vars(np), **names})
    lowered = pallasite.lower(module, form="vreg", target="v5e")
    (actual,) = pallasite.run(lowered, inputs, form="vreg", target="v5e")
    assert np.array_equal(actual, expected)
    text = str(lowered)
    assert not [move for move in case.moves if move in text]
