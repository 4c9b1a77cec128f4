"""What the TPU compiler does with masks, and what it does not."""

from __future__ import annotations

import pytest

from pallasite.diagnostics import Unsupported
from pallasite.frontend import read
from pallasite.passes.check_kernel import check_kernel
from pallasite.passes.fold_kernel import fold_kernel
from pallasite.targets import get_target

from ..checking import beyond, check, kernel, load, memref


def test_masks_are_reshaped_where_lanes_stay() -> None:
    def cast(old: str, new: str) -> str:
        compared = f"%m = arith.cmpf olt, %a, %a : vector<{old}xf32>\n"
        moved = f"%n = vector.shape_cast %m : vector<{old}xi1> to vector<{new}xi1>"
        shape = f"{old}xf32"
        at = ", ".join(["%c0"] * shape.count("x"))
        return kernel(f"%x: {memref(shape)}", load("a", "x", shape, at) + compared + moved)

    check(cast("3x5x7", "15x7"))
    check(cast("16x128x1", "16x128"))
    for new in ("16x2x2", "8x8", "2x32", "64"):
        check(cast("64x1", new))
    beyond(cast("32x2", "64x1"), "mask-reshape")
    beyond(cast("16x256", "32x128"), "mask-reshape")
    beyond(cast("128", "128x1"), "mask-reshape")

    back = "%p = vector.shape_cast %n : vector<128xi1> to vector<128x1xi1>\n      return"
    check(cast("128x1", "128").replace("return", back))
    on = "%p = vector.shape_cast %n : vector<32x128xi1> to vector<16x256xi1>\n      return"
    check(cast("16x256", "32x128").replace("return", on))

    def reduced(axis: int, size: int, source: str = "32x128") -> str:
        start = f"%s = arith.constant dense<0.0> : vector<{size}xf32>\n"
        kind = f"vector<{source}xf32> to vector<{size}xf32>"
        total = f"%r = vector.multi_reduction <maximumf>, %a, %s [{axis}] : {kind}\n"
        compared = f"%m = arith.cmpf olt, %r, %s : vector<{size}xf32>\n"
        moved = f"%n = vector.shape_cast %m : vector<{size}xi1> to vector<{size}x1xi1>"
        loaded = load("a", "x", f"{source}xf32", "%c0, %c0")
        return kernel(f"%x: {memref(f'{source}xf32')}", loaded + start + total + compared + moved)

    check(reduced(1, 32))
    check(reduced(1, 256, "256x128"))
    beyond(reduced(0, 128), "mask-reshape")


def test_masks_move_by_whole_registers() -> None:
    def moved(shape: str, move: str) -> str:
        compared = f"%m = arith.cmpf olt, %a, %a : vector<{shape}xf32>\n"
        at = ", ".join(["%c0"] * (shape.count("x") + 1))
        return kernel(f"%x: {memref(shape + 'xf32')}", load("a", "x", shape + "xf32", at)
                      + compared + move)  # fmt: skip

    def transpose(permutation: str, result: str) -> str:
        return moved("3x5x7", f"%t = tpu.transpose %m, [{permutation}] : vector<3x5x7xi1> -> "
                     f"vector<{result}xi1>")  # fmt: skip

    def concatenate(shape: str, dim: int, result: str) -> str:
        pair = f"vector<{shape}xi1>, vector<{shape}xi1>"
        return moved(shape, f"%t = tpu.concatenate %m, %m in {dim} : {pair} -> "
                     f"vector<{result}xi1>")  # fmt: skip

    check(transpose("0, 2, 1", "3x7x5"))
    beyond(transpose("1, 0, 2", "5x3x7"), "mask-transpose")
    check(concatenate("8x128", 1, "8x256"))
    check(concatenate("3x5x7", 0, "6x5x7"))
    beyond(concatenate("5x7", 0, "10x7"), "mask-concatenate")
    beyond(concatenate("128", 0, "256"), "mask-concatenate")


def test_byte_masks() -> None:
    def stored(size: int, element: str, start: int = 0) -> str:
        shape = f"{size}x{element}"
        whole = memref(f"8192x{element}")
        return kernel(
            f"%x: {memref(shape)}, %o: {whole}",
            load("a", "x", shape, "%c0")
            + f"%i = arith.constant {start} : index\n"
            + f"vector.store %a, %o[%i] : {whole}, vector<{shape}>",
        )

    beyond(stored(128, "i8"), "byte-mask", "v4")
    beyond(stored(512, "i8", 640), "byte-mask", "v4")
    for size, element in ((512, "i8"), (100, "bf16"), (100, "f32")):
        check(stored(size, element), "v4")
    check(stored(512, "i8", 1024), "v4")
    check(stored(128, "i8"), "v5e")
    check(stored(512, "i8", 640), "v5e")
    beyond(stored(1024, "i4", 512), "byte-mask", "v7x")
    check(stored(1024, "i4", 1024), "v7x")


def test_byte_masks_of_concatenations() -> None:
    def joined(element: str, first: int, size: int = 1024) -> str:
        kinds = f"vector<{first}x{element}>, vector<{size - first}x{element}>"
        return kernel(
            f"%x: {memref(f'{first}x{element}')}, %y: {memref(f'{size - first}x{element}')}",
            load("a", "x", f"{first}x{element}", "%c0")
            + load("b", "y", f"{size - first}x{element}", "%c0")
            + f"%c = tpu.concatenate %a, %b in 0 : {kinds} -> vector<{size}x{element}>",
        )

    for first in (16, 128, 300):
        beyond(joined("i8", first), "byte-mask", "v4")
        beyond(joined("f8E5M2", first), "byte-mask", "v4")
        for target in ("v4", "v5p", "v7x"):
            beyond(joined("i4", first), "byte-mask", target)
            check(joined("bf16", first), target)
        check(joined("i8", first), "v5p")
    check(joined("i8", 512), "v4")
    beyond(joined("i4", 512), "byte-mask", "v7x")
    check(joined("i4", 1024, 4096), "v7x")


@pytest.mark.parametrize("shape", ["3x5x7", "16x1", "1024"])
def test_no_choice_between_masks(shape: str) -> None:
    def choice(condition: str, first: str, second: str) -> str:
        mask, words = f"vector<{shape}xi1>", f"vector<{shape}xi32>"
        types = mask if condition == "%flag" else f"{mask}, {mask}"
        indices = ", ".join(["%c0"] * (shape.count("x") + 1))
        return kernel(
            f"%x: {memref(f'{shape}xi32')}, %flag: i1",
            load("a", "x", f"{shape}xi32", indices)
            + f"""%k = arith.constant dense<5> : {words}
            %yes = arith.constant dense<true> : {mask}
            %no = arith.constant dense<false> : {mask}
            %one = arith.constant true
            %ones = vector.broadcast %one : i1 to {mask}
            %flags = vector.broadcast %flag : i1 to {mask}
            %m = arith.cmpi sgt, %a, %k : {words}
            %n = arith.cmpi slt, %a, %k : {words}
            %s = arith.select {condition}, {first}, {second} : {types}""",
        )

    beyond(choice("%flag", "%m", "%n"), "mask-select")
    beyond(choice("%flag", "%yes", "%n"), "mask-select")
    beyond(choice("%m", "%n", "%m"), "mask-select")
    beyond(choice("%flag", "%flags", "%no"), "mask-select")
    check(choice("%flag", "%yes", "%no"))
    check(choice("%flag", "%ones", "%no"))
    check(choice("%m", "%no", "%ones"))


def test_no_choice_between_equal_masks() -> None:
    """The compiler removes common subexpressions after it has judged the choice."""
    compare = "%{0} = arith.cmpi ne, %{1}, %z : vector<8x128xi32>\n"
    text = kernel(
        f"%x: {memref('8x128xi32')}, %flag: i1",
        "%z = arith.constant dense<0> : vector<8x128xi32>\n"
        + load("a", "x", "8x128xi32")
        + compare.format("m", "a")
        + load("b", "x", "8x128xi32")
        + compare.format("n", "b")
        + "%s = arith.select %flag, %m, %n : vector<8x128xi1>",
    )
    beyond(text, "mask-select")


def test_conditions_that_compare_equal_values() -> None:
    """A comparison or difference of what is computed twice is known; then so is the choice."""
    compare = "%{0} = arith.cmpi ne, %{1}, %z : vector<8x128xi32>\n"
    store = f"vector.store %a, %x[%c0, %c0] : {memref('8x128xi32')}, vector<8x128xi32>\n"

    def text(condition: str, between: str = "") -> str:
        return kernel(
            f"%x: {memref('8x128xi32')}",
            "%z = arith.constant dense<0> : vector<8x128xi32>\n"
            + load("a", "x", "8x128xi32") + compare.format("m", "a")
            + between
            + load("b", "x", "8x128xi32") + compare.format("n", "b")
            + f"%c = {condition} %m, %n : vector<8x128xi1>\n"
            + "%p = arith.cmpi slt, %a, %z : vector<8x128xi32>\n"
            + "%s = arith.select %c, %m, %p : vector<8x128xi1>, vector<8x128xi1>\n"
            + "%r = arith.extui %s : vector<8x128xi1> to vector<8x128xi32>\n"
            + f"vector.store %r, %x[%c0, %c0] : {memref('8x128xi32')}, vector<8x128xi32>",
        )  # fmt: skip

    for condition in ("arith.cmpi eq,", "arith.cmpi ne,", "arith.xori"):
        module = read(text(condition))
        fold_kernel(module)
        check_kernel(module, get_target("v6e"))
        module = read(text(condition, store))
        fold_kernel(module)
        with pytest.raises(Unsupported, match="two vectors of booleans"):
            check_kernel(module, get_target("v6e"))


LANES = "tpu.iota {dimensions = array<i32: 1>} : vector<2x256xi32>"
ROWS = "tpu.iota {dimensions = array<i32: 0>} : vector<2x256xi32>"


def chosen(
    number: str, held: str = "2x256xbf16", values: str = "%v, %w", before: str = "", more: str = ""
) -> str:
    """A choice between two loaded values where `number`, made of `%n` and `%l`, is over 37."""
    part = "2x256" if held.startswith("16x") else held.rpartition("x")[0]
    element = held.rpartition("x")[2]
    words, kind = f"vector<{part}xi32>", f"vector<{part}x{element}>"
    zeros = ", ".join(["%c0"] * held.count("x"))
    body = f"""
      %v = vector.load %a[{zeros}] : {memref(held)}, {kind}
      %w = vector.load %b[{zeros}] : {memref(held)}, {kind}
      %bound = arith.constant dense<37> : {words}
      {before}
      %n = {number}
      %m = arith.cmpi sgt, %n, %bound : {words}
      {more}
      %r = arith.select %m, {values} : vector<{part}xi1>, {kind}"""
    row, full = memref("1x256xi32"), memref("2x256xi32")
    return kernel(f"%a: {memref(held)}, %b: {memref(held)}, %row: {row}, %full: {full}", body)


@pytest.mark.parametrize("element", ["bf16", "i16", "i8"])
def test_masks_of_a_row_for_few_wide_rows(element: str) -> None:
    held = f"2x256x{element}"
    for target in ("v5e", "v5p", "v6e", "v7x"):
        beyond(chosen(LANES, held), "mask-row", target)
    check(chosen(LANES, "2x256xf32"))
    if element != "i8":
        check(chosen(LANES, held), "v4")  # it selects words
    check(chosen(LANES.replace("2x256", "2x128"), f"2x128x{element}"))
    check(chosen(LANES.replace("2x256", "5x256"), f"5x256x{element}"))
    check(chosen(LANES, f"16x256x{element}"))  # a part of an array of whole tiles
    beyond(chosen(LANES.replace("2x256", "1x256"), f"1x256x{element}"), "mask-row")


def test_the_first_value_decides_which_registers_a_mask_is_for() -> None:
    zero = "%z = arith.constant dense<0.0> : vector<2x256xbf16>"
    beyond(chosen(LANES, values="%v, %z", more=zero), "mask-row")
    check(chosen(LANES, values="%z, %v", more=zero))


def lane_numbers(shape: str) -> tuple[str, str, str, str]:
    """What `chosen` takes for a mask of lanes and %s as the first value."""
    last, before = shape.count("x"), ""
    number = f"tpu.iota {{dimensions = array<i32: {last}>}} : vector<{shape}xi32>"
    if not last:
        row = f"vector<1x{shape}xi32>"
        before = f"%l = tpu.iota {{dimensions = array<i32: 1>}} : {row}"
        number = f"vector.shape_cast %l : {row} to vector<{shape}xi32>"
    return number, f"{shape}xbf16", "%s, %w", before


def test_elements_that_fill_their_rows_stay_in_registers_of_few_rows() -> None:
    def filled(column: str, shape: str = "2x256") -> str:
        last = shape.count("x")
        starts, sizes = ", ".join("0" * last + "5"), column.replace("x", ", ")
        strides = ", ".join("1" * (last + 1))
        part, kind = f"vector<{column}xbf16>", f"vector<{shape}xbf16>"
        more = (
            f"%e = vector.extract_strided_slice %v {{offsets = [{starts}], sizes = [{sizes}], "
            f"strides = [{strides}]}} : {kind} to {part}\n"
            f"%s = vector.broadcast %e : {part} to {kind}"
        )
        return chosen(*lane_numbers(shape), more=more)

    for target in ("v5e", "v5p", "v6e", "v7x"):
        beyond(filled("2x1"), "mask-row", target)
        beyond(filled("1x1", "1x256"), "mask-row", target)
        beyond(filled("1", "300"), "mask-row", target)
        check(filled("1x1"), target)
    check(filled("2x1"), "v4")
    check(filled("2x1", "2x128"))


def test_pieces_of_flat_vectors_stay_in_registers_of_few_rows() -> None:
    def turned(shape: str) -> str:
        kind, last = f"vector<{shape}xbf16>", shape.count("x")
        double = f"vector<{shape.replace('256', '512')}xbf16>"
        starts, strides = ", ".join("0" * last + "7"), ", ".join("1" * (last + 1))
        more = (
            f"%d = tpu.concatenate %v, %w in {last} : {kind}, {kind} -> {double}\n"
            f"%s = vector.extract_strided_slice %d {{offsets = [{starts}], sizes = "
            f"[{shape.replace('x', ', ')}], strides = [{strides}]}} : {double} to {kind}"
        )
        return chosen(*lane_numbers(shape), more=more)

    beyond(turned("256"), "mask-row", "v7x")
    check(turned("1x256"), "v7x")
    kind = "vector<256xbf16>"
    part = "%q = vector.extract_strided_slice %v {offsets = [1], sizes = [255], strides = [1]} : "
    more = f"""{part}{kind} to vector<255xbf16>
    %z = arith.constant dense<0.0> : vector<1xbf16>
    %s = tpu.concatenate %z, %q in 0 : vector<1xbf16>, vector<255xbf16> -> {kind}"""
    beyond(chosen(*lane_numbers("256"), more=more), "mask-row", "v6e")


def test_carried_vectors_stay_in_registers_of_few_rows() -> None:
    kind = "vector<2x256xbf16>"
    numbers = """%c1 = arith.constant 1 : index
    %c9 = arith.constant 9 : index
    %yes = arith.constant true
    """
    loop = f"""{numbers}%s = scf.for %i = %c0 to %c9 step %c1 iter_args(%u = %v) -> ({kind}) {{
      %t = arith.addf %u, %w : {kind}
      scf.yield %t : {kind}
    }}"""
    branch = f"""{numbers}%s = scf.if %yes -> ({kind}) {{
      scf.yield %v : {kind}
    }} else {{
      %t = arith.addf %v, %w : {kind}
      scf.yield %t : {kind}
    }}"""
    for more in (loop, branch):
        beyond(chosen(LANES, values="%s, %w", more=more), "mask-row", "v6e")
    zero = f"%z = arith.constant dense<0.0> : {kind}\n"
    inside = loop.replace("arith.addf %u, %w :", "arith.select %m, %u, %w : vector<2x256xi1>,")
    beyond(chosen(LANES, values="%z, %v", more=zero + inside), "mask-row", "v6e")
    check(chosen(LANES, values="%z, %v", more=zero + loop), "v6e")


def test_arithmetic_stays_in_registers_of_few_rows() -> None:
    kind = "vector<2x256xbf16>"
    one = f"%k = arith.constant dense<1.0> : {kind}\n"
    wide = kind.replace("bf16", "f32")
    for value in ("addf %v, %w", "mulf %w, %v", "subf %k, %v", "divf %v, %w"):
        text = chosen(LANES, values="%s, %w", more=f"{one}%s = arith.{value} : {kind}")
        beyond(text, "mask-row", "v6e")
        beyond(text, "mask-row", "v7x")
        if "divf" not in value:
            check(text, "v5e")  # it adds and multiplies words
    cast = f"%x = arith.extf %v : {kind} to {wide}\n%y = arith.truncf %x : {wide} to {kind}\n"
    check(chosen(LANES, values="%y, %w", more=cast), "v6e")
    after = f"{cast}%s = arith.addf VALUES : {kind}"
    check(chosen(LANES, values="%s, %w", more=after.replace("VALUES", "%y, %v")), "v6e")
    both = chosen(LANES, values="%s, %w", more=after.replace("VALUES", "%v, %y"))
    beyond(both, "mask-row", "v6e")
    words = "vector<2x256xi16>"
    masked = f"%s = arith.andi %v, %w : {words}"
    for target in ("v5e", "v6e", "v7x"):
        beyond(chosen(LANES, "2x256xi16", "%s, %w", more=masked), "mask-row", target)


def test_masks_that_are_the_same_in_all_rows() -> None:
    words = "vector<2x256xi32>"
    lanes = f"%l = {LANES}"
    beyond(chosen(f"arith.remsi %l, %bound : {words}", before=lanes), "mask-row")
    row = f"%q = vector.load %row[%c0, %c0] : {memref('1x256xi32')}, vector<1x256xi32>"
    spread = f"vector.broadcast %q : vector<1x256xi32> to {words}"
    beyond(chosen(spread, before=row), "mask-row")
    check(chosen(ROWS))
    check(chosen(f"arith.addi %l, %k : {words}", before=f"{lanes}\n%k = {ROWS}"))
    data = f"%q = vector.load %full[%c0, %c0] : {memref('2x256xi32')}, {words}"
    check(chosen(f"arith.addi %l, %q : {words}", before=f"{lanes}\n{data}"))
    element = f"%q = vector.load %row[%c0, %c0] : {memref('1x256xi32')}, vector<1x1xi32>"
    check(chosen(f"vector.broadcast %q : vector<1x1xi32> to {words}", before=element))


def test_bitcasts_of_masks() -> None:
    """What is refused lowers all the same where that is allowed (`beyond`)."""
    compared = "%m = arith.cmpf olt, %a, %a : vector<16x128xf32>\n"
    same = "%n = tpu.bitcast %m : vector<16x128xi1> -> vector<16x128xi1>"
    loaded = load("a", "x", "16x128xf32", "%c0, %c0")
    beyond(kernel(f"%x: {memref('16x128xf32')}", loaded + compared + same), "mask-bitcast")


def test_masks_do_not_cross_the_borders_of_regions() -> None:
    """What is refused lowers all the same where that is allowed (`beyond`)."""
    mask = "vector<8x128xi1>"
    before = load("a", "x", "8x128xf32", "%c0, %c0")
    before += "%m = arith.cmpf olt, %a, %a : vector<8x128xf32>\n%c1 = arith.constant 1 : index\n"
    ref = f"%x: {memref('8x128xf32')}"
    loop = "%r = scf.for %i = %c0 to %c1 step %c1 iter_args(%n = %m) -> (MASK) {"
    loop = loop.replace("MASK", mask) + f"\nscf.yield %n : {mask}\n}}"
    beyond(kernel(ref, before + loop), "carried-mask")
    branch = "%t = arith.constant true\n%r = scf.if %t -> (MASK) {".replace("MASK", mask)
    branch += f"\nscf.yield %m : {mask}\n}} else {{\nscf.yield %m : {mask}\n}}"
    beyond(kernel(ref, before + branch), "carried-mask")


def test_masks_do_not_rotate() -> None:
    """What is refused lowers all the same where that is allowed (`beyond`)."""
    compared = "%m = arith.cmpf olt, %a, %a : vector<8x128xf32>\n%k = arith.constant 1 : i32\n"
    mask = "vector<8x128xi1>"
    rotated = f"%n = tpu.dynamic_rotate %m by %k dim 1 : {mask}, i32 -> {mask}"
    loaded = load("a", "x", "8x128xf32", "%c0, %c0")
    beyond(kernel(f"%x: {memref('8x128xf32')}", loaded + compared + rotated), "mask-rotate")
