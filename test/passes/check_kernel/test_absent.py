"""Operations on vectors that the TPU compiler lacks; it was asked about each of these."""

from __future__ import annotations

import pytest

from pallasite.diagnostics import Unsupported

from ..checking import beyond, check, kernel, load, memref, refused

ONE = ["math.erfc", "math.log10"]
PREDICATES = ["math.isnan", "math.isinf", "math.isfinite", "math.isnormal"]
TWO = ["arith.maxnumf", "arith.minnumf", "arith.floordivsi", "arith.ceildivsi", "arith.ceildivui",
       "math.ipowi"]  # fmt: skip


def vectors(op: str, operands: str, kind: str) -> str:
    shape = f"8x128x{kind}"
    return kernel(f"%a: {memref(shape)}", load("x", "a", shape) + f"%r = {op} {operands} : "
                  f"vector<{shape}>")  # fmt: skip


@pytest.mark.parametrize("op", [*ONE, *TWO])
def test_operations_that_the_vector_unit_lacks(op: str) -> None:
    kind = "i32" if op.endswith(("i", "vui")) else "f32"
    beyond(vectors(op, "%x" if op in ONE else "%x, %x", kind), "vector-operation")


@pytest.mark.parametrize("kind", ["f32", "bf16", "f8E5M2"])
@pytest.mark.parametrize("op", PREDICATES)
def test_kinds_of_numbers(op: str, kind: str) -> None:
    beyond(vectors(op, "%x", kind), "vector-operation", "v6e")


@pytest.mark.parametrize(("kind", "power"), [("f32", "i32"), ("bf16", "i32"), ("bf16", "i16")])
def test_integer_powers(kind: str, power: str) -> None:
    """libtpu 0.0.51: "Mismatched bitwidth in elementwise", or no instruction."""
    shape, other = f"16x128x{kind}", f"16x128x{power}"
    text = kernel(
        f"%a: {memref(shape)}, %b: {memref(other)}",
        load("x", "a", shape) + load("n", "b", other)
        + f"%r = math.fpowi %x, %n : vector<{shape}>, vector<{other}>",
    )  # fmt: skip
    beyond(text, "vector-operation", "v6e")


@pytest.mark.parametrize("op", ["arith.shli", "arith.shrsi", "arith.shrui"])
def test_masks_are_not_shifted(op: str) -> None:
    mask = "%m = arith.cmpi slt, %x, %x : vector<8x128xi32>\n"
    text = kernel(
        f"%a: {memref('8x128xi32')}",
        load("x", "a", "8x128xi32") + mask + f"%r = {op} %m, %m : vector<8x128xi1>",
    )
    refused(text, "narrow-integer")


@pytest.mark.parametrize("op", ["math.erf", "math.log1p", "math.tan"])
def test_operations_that_it_has(op: str) -> None:
    check(vectors(op, "%x", "f32"))


def test_three_operands() -> None:
    beyond(vectors("math.fma", "%x, %x, %x", "f32"), "vector-operation")
    beyond(vectors("math.clampf", "%x to [%x, %x]", "f32"), "vector-operation")
    beyond(vectors("vector.fma", "%x, %x, %x", "f32"), "vector-operation")


@pytest.mark.parametrize(
    ("op", "told"),
    [
        ("%s, %c = math.sincos %x : vector<8x128xf32>", "failed to legalize"),
        ("%r = vector.bitcast %x : vector<8x128xf32> to vector<8x128xi32>", "bitcast_convert"),
        ("%r = vector.step : vector<128xindex>", "jax.lax.broadcasted_iota"),
        ("%r = vector.constant_mask [3, 5] : vector<8x128xi1>", "jax.lax.broadcasted_iota"),
        ("%n = arith.constant 3 : index\n%r = vector.create_mask %n, %n : vector<8x128xi1>",
         "jax.lax.broadcasted_iota"),
        ("%r, %s = vector.deinterleave %x : vector<8x128xf32> -> vector<8x64xf32>", "outside"),
        ("%r = vector.interleave %x, %x : vector<8x128xf32> -> vector<8x256xf32>", "outside"),
        ("%r = vector.shuffle %x, %x [0, 9, 3] : vector<8x128xf32>, vector<8x128xf32>", "outside"),
    ],
    ids=lambda text: text.split(" : ")[0],
)  # fmt: skip
def test_operations_that_have_no_layout(op: str, told: str) -> None:
    shape = "8x128xf32"
    text = kernel(f"%a: {memref(shape)}", load("x", "a", shape) + op)
    beyond(text, "vector-operation")
    with pytest.raises(Unsupported, match=told):
        check(text)
