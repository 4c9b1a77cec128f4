"""Accesses and moves of packed types: every form gives the answer of the `mosaic` form."""

from __future__ import annotations

import numpy as np
import pytest

import pallasite
from pallasite import api
from pallasite.diagnostics import Unsupported

VMEM = "#tpu.memory_space<vmem>"


def memref(shape: str) -> str:
    return f"memref<{shape}, {VMEM}>"


def zeros(shape: str) -> str:
    return ", ".join(["%c0"] * shape.count("x"))


def kernel(operands: dict[str, str], body: str) -> str:
    """A kernel over whole arrays in VMEM, each loaded as %name from %name_ref; the last is
    the output, into which the body's value %r goes."""
    arguments = ", ".join(f"%{n}_ref: {memref(s)}" for n, s in operands.items())
    *given, (out, result) = operands.items()
    loads = "".join(
        f"%{n} = vector.load %{n}_ref[{zeros(s)}] : {memref(s)}, vector<{s}>\n" for n, s in given
    )
    store = (
        f"vector.store %r, %{out}_ref[{zeros(result)}] : {memref(result)}, vector<{result}>\n"
        if "%r = " in body
        else ""
    )
    return f"""
func.func @kernel({arguments}) attributes {{dimension_semantics = [], scalar_prefetch = 0 : i64,
    scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>}} {{
  %c0 = arith.constant 0 : index
  {loads}{body}
  {store}return
}}"""


def agree(text: str, target: str = "v5e", beyond: bool = False) -> None:
    """Runs `text` in forms mosaic and vreg on seeded inputs."""
    from pallasite.dialects.kernel import kernel_function
    from pallasite.interpreter.arrays import dtype_of

    module = pallasite.parse(text)
    function = kernel_function(module)
    assert function is not None
    kinds = [a.type for a in function.body.block.args]
    rng = np.random.default_rng(7)
    arrays = [rng.integers(0, 7, k.get_shape()).astype(dtype_of(k.element_type)) for k in kinds]
    *inputs, result = arrays
    answers = [
        api.run(
            module, inputs, form=form, target=target, results=[(result.shape, result.dtype)],
            allow_beyond_reference=beyond,
        )[0]
        for form in ("mosaic", "vreg")
    ]  # fmt: skip
    np.testing.assert_array_equal(*(a.astype(np.float32) for a in answers))


@pytest.mark.parametrize("element", ["bf16", "i8", "i4"])
@pytest.mark.parametrize(("start", "size"), [(128, 256), (1024 + 640, 1024)])
def test_flat_vectors_from_within_a_register(element: str, start: int, size: int) -> None:
    shape, part = f"4096x{element}", f"{size}x{element}"
    body = f"""%i = arith.constant {start} : index
  %r = vector.load %x_ref[%i] : {memref(shape)}, vector<{part}>"""
    agree(kernel({"x": shape, "o": part}, body), beyond=True)


@pytest.mark.parametrize("element", ["bf16", "i8"])
@pytest.mark.parametrize("dim", [0, 1])
def test_gathers(element: str, dim: int) -> None:
    shape, index = f"16x128x{element}", f"16x128xi{16 if element == 'bf16' else 8}"
    gather = (
        f"%r = tpu.dynamic_gather %x[%i] in [{dim}] : vector<{shape}>, vector<{index}> -> "
        f"vector<{shape}>"
    )
    agree(kernel({"x": shape, "i": index, "o": shape}, gather), "v6e")


@pytest.mark.parametrize("element, rows", [("bf16", 16), ("i8", 32)])
def test_gathered_rows_wrap(element: str, rows: int) -> None:
    """Indices of any size, in the two or four registers that hold the elements as words."""
    bits = 16 if element == "bf16" else 8
    shape = f"{rows}x128x{element}"
    words, narrow = f"vector<{rows}x128xi32>", f"vector<{rows}x128xi{bits}>"
    body = f"""%j = arith.muli %i, %i : {words}
  %k = arith.muli %j, %i : {words}
  %l = arith.subi %k, %j : {words}
  %t = arith.trunci %l : {words} to {narrow}
  %r = tpu.dynamic_gather %x[%t] in [0] : vector<{shape}>, {narrow} -> vector<{shape}>"""
    agree(kernel({"x": shape, "i": f"{rows}x128xi32", "o": shape}, body), "v6e")


@pytest.mark.parametrize("shape", ["24x300xi16", "5x7xi8", "2x40x128xi8", "300xi16", "300xi32"])
def test_iota(shape: str) -> None:
    rank = shape.count("x")
    iota = f"%r = tpu.iota {{dimensions = array<i32: {rank - 1}>}} : vector<{shape}>"
    agree(kernel({"o": shape}, iota), beyond=True)


@pytest.mark.parametrize(
    "shape, dim", [("5x7xf32", 1), ("12x128xf32", 0), ("3x16x130xf32", 2), ("20x130xbf16", 1)]
)
def test_ragged_rotations_by_a_run_time_amount(shape: str, dim: int) -> None:
    rows = "vector<1x1xi32>"
    rotate = f"""
  %one = vector.load %n_ref[%c0, %c0] : {memref("8x128xi32")}, {rows}
  %n4 = vector.extract %one[0, 0] : i32 from {rows}
  %r = tpu.dynamic_rotate %x by %n4 dim {dim} : vector<{shape}>, i32 -> vector<{shape}>"""
    agree(kernel({"x": shape, "n": "8x128xi32", "o": shape}, rotate))


@pytest.mark.parametrize("target", ["v4", "v5e"])
@pytest.mark.parametrize(
    "array, part, index",
    [
        ("1000xbf16", "150xbf16", "256"), ("300xi8", "44xi8", "0"), ("300xi16", "128xi16", "0"),
        ("5000xf8E5M2", "700xf8E5M2", "512"),
    ],
)  # fmt: skip
def test_flat_stores_of_part_of_the_words(target: str, array: str, part: str, index: str) -> None:
    store = f"""
  vector.store %y, %o_ref[%c0] : {memref(array)}, vector<{array}>
  %at = arith.constant {index} : index
  vector.store %x, %o_ref[%at] : {memref(array)}, vector<{part}>"""
    agree(kernel({"x": part, "y": array, "o": array}, store), target, beyond=True)


@pytest.mark.parametrize("target", ["v4", "v5e"])
@pytest.mark.parametrize("element", ["i4", "i8", "bf16"])
def test_stores_of_part_of_the_rows_of_words(target: str, element: str) -> None:
    array, part = f"70x130x{element}", f"9x5x{element}"
    store = f"""
  vector.store %y, %o_ref[%c0, %c0] : {memref(array)}, vector<{array}>
  %row = arith.constant 5 : index
  %column = arith.constant 124 : index
  vector.store %x, %o_ref[%row, %column] : {memref(array)}, vector<{part}>"""
    agree(kernel({"x": part, "y": array, "o": array}, store), target)


@pytest.mark.parametrize(
    "array, part, strides",
    [
        ("16x128xbf16", "8x128xbf16", "2, 1"), ("24x100xi8", "4x100xi8", "5, 1"),
        ("4x16x128xbf16", "2x16x128xbf16", "2, 1, 1"), ("24x100xf32", "4x100xf32", "5, 1"),
    ],
)  # fmt: skip
def test_strided_loads(array: str, part: str, strides: str) -> None:
    load = f"""
  %r = tpu.strided_load %x_ref[{zeros(array)}] {{strides = array<i32: {strides}>}} :
    {memref(array)}, vector<{part}>"""
    agree(kernel({"x": array, "o": part}, load))


@pytest.mark.parametrize(
    "old, new",
    [
        ("16x128xf32", "8x256xf32"), ("8x4x128xi32", "8x512xi32"), ("64x128xi8", "2x32x128xi8"),
        ("4x16x128xi8", "64x128xi8"), ("30x128xf32", "6x5x128xf32"), ("5x128xbf16", "1x5x128xbf16"),
    ],
)  # fmt: skip
def test_reshaped_refs(old: str, new: str) -> None:
    load = f"""
  %view = tpu.memref_reshape %x_ref : {memref(old)} -> {memref(new)}
  %r = vector.load %view[{zeros(new)}] : {memref(new)}, vector<{new}>"""
    agree(kernel({"x": old, "o": new}, load))


def test_rows_of_words_of_a_reshaped_packed_ref() -> None:
    load = f"""
  %c1 = arith.constant 1 : index
  %flat = tpu.memref_reshape %x_ref : {memref("4x16x128xbf16")} -> {memref("64x128xbf16")}
  %words = tpu.memref_bitcast %flat : {memref("64x128xbf16")} -> {memref("32x128xi32")}
  %r = tpu.strided_load %words[%c1, %c0] {{strides = array<i32: 2, 1>}} :
    {memref("32x128xi32")}, vector<16x128xi32>"""
    agree(kernel({"x": "4x16x128xbf16", "o": "16x128xi32"}, load))


@pytest.mark.parametrize("shape", ["8x130xf32", "300xf32"])
def test_masks_carried_by_loops_travel_as_words(shape: str) -> None:
    mask = shape.replace("f32", "i1")
    loop = f"""
  %z = arith.constant dense<3.0> : vector<{shape}>
  %m = arith.cmpf olt, %x, %z : vector<{shape}>
  %ones = arith.constant dense<true> : vector<{mask}>
  %i0 = arith.constant 0 : i32
  %i3 = arith.constant 3 : i32
  %i1 = arith.constant 1 : i32
  %e = scf.for %i = %i0 to %i3 step %i1 iter_args(%c = %m) -> (vector<{mask}>) : i32 {{
    %n = arith.xori %c, %ones : vector<{mask}>
    scf.yield %n : vector<{mask}>
  }}
  %r = arith.select %e, %x, %z : vector<{mask}>, vector<{shape}>"""
    text = kernel({"x": shape, "o": shape}, loop)
    agree(text, beyond=True)
    with pytest.raises(Unsupported, match="carries a vector of booleans"):
        agree(text)


@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
def test_branches_that_only_pass_values_on_are_selects(element: str) -> None:
    shape = f"8x128x{element}"
    body = f"""
  %one = vector.load %n_ref[%c0, %c0] : {memref("8x128xi32")}, vector<1x1xi32>
  %n0 = vector.extract %one[0, 0] : i32 from vector<1x1xi32>
  %i3 = arith.constant 3 : i32
  %b = arith.cmpi slt, %n0, %i3 : i32
  %r = scf.if %b -> (vector<{shape}>) {{
    scf.yield %x : vector<{shape}>
  }} else {{
    scf.yield %y : vector<{shape}>
  }}"""
    operands = {"x": shape, "y": shape, "n": "8x128xi32", "o": shape}
    agree(kernel(operands, body))
    arrays = [np.zeros((8, 128), np.float32) for _ in operands][:-1]
    module = pallasite.parse(kernel(operands, body))
    described = api.with_call(module, arrays, [((8, 128), np.float32)])
    selects = [op for op in api.lower(described).walk() if op.name == "arith.select"]
    assert selects and all("xi1>" in str(op.operands[0].type) for op in selects)


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("other", ["bf16", "i8"])
def test_masks_of_different_widths_meet_as_masks_of_words(other: str, target: str) -> None:
    words, narrow, masks = "40x130xi32", f"40x130x{other}", "40x130xi1"
    less = "arith.cmpf olt" if other == "bf16" else "arith.cmpi slt"
    three = "3.0" if other == "bf16" else "3"
    body = f"""
  %z = arith.constant dense<3> : vector<{words}>
  %n = arith.constant dense<{three}> : vector<{narrow}>
  %a = arith.cmpi slt, %x, %z : vector<{words}>
  %b = {less}, %y, %n : vector<{narrow}>
  %m = arith.xori %a, %b : vector<{masks}>
  %r = arith.select %m, %x, %z : vector<{masks}>, vector<{words}>"""
    agree(kernel({"x": words, "y": narrow, "o": words}, body), target)


@pytest.mark.parametrize("element", ["bf16", "i16"])
@pytest.mark.parametrize(("row", "rows"), [(7, 1), (12, 1), (15, 3), (12, 20)])
def test_masks_of_words_for_rows_in_the_second_half_of_registers(
    element: str, row: int, rows: int
) -> None:
    held, part, words = f"64x256x{element}", f"{rows}x256x{element}", f"{rows}x256xi32"
    masks = f"{rows}x256xi1"
    body = f"""
  %row = arith.constant {row} : index
  %a = vector.load %x_ref[%row, %c0] : {memref(held)}, vector<{part}>
  %b = vector.load %y_ref[%row, %c0] : {memref(held)}, vector<{part}>
  %lanes = tpu.iota {{dimensions = array<i32: 1>}} : vector<{words}>
  %n = arith.constant dense<137> : vector<{words}>
  %m = arith.cmpi slt, %lanes, %n : vector<{words}>
  %r = arith.select %m, %a, %b : vector<{masks}>, vector<{part}>"""
    agree(kernel({"x": held, "y": held, "o": part}, body))


@pytest.mark.parametrize("target", ["v5e", "v6e", "v7x"])
@pytest.mark.parametrize("shape", ["16x256", "3x5x250", "40", "300"])
@pytest.mark.parametrize("element", ["bf16", "i16", "i8"])
def test_masks_of_narrow_values_for_stores_of_words(shape: str, element: str, target: str) -> None:
    narrow, words = f"{shape}x{element}", f"{shape}xi32"
    less, three = ("arith.cmpf olt", "3.0") if element == "bf16" else ("arith.cmpi slt", "3")
    store = f"tpu.vector_store %o_ref[{zeros(words)}]"
    body = f"""
  %n = arith.constant dense<{three}> : vector<{narrow}>
  %z = arith.constant dense<3> : vector<{words}>
  %m = {less}, %y, %n : vector<{narrow}>
  {store}, %z {{strides = array<i32>}} : {memref(words)}, vector<{words}>,
  {store}, %x masked %m {{strides = array<i32>}} : {memref(words)}, vector<{words}>,
      vector<{shape}xi1>"""
    agree(kernel({"x": words, "y": narrow, "o": words}, body), target)
