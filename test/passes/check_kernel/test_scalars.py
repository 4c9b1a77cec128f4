"""What the TPU compiler computes on scalars; it was asked about each of these."""

from __future__ import annotations

import pytest

from ..checking import SMEM, beyond, check, kernel, memref

BITS = """%k = arith.constant 1 : i32
%b = arith.cmpi eq, %x, %k : i32
%d = arith.cmpi eq, %y, %k : i32
"""


def scalars(body: str, given: str, made: str | None = None) -> str:
    """A kernel that makes `%r` of type `made` of two scalars `%x`, `%y` of type `given`."""
    source, result = memref(f"4x{given}", SMEM), memref(f"4x{made or given}", SMEM)
    return kernel(
        f"%a: {source}, %o: {result}",
        f"%x = memref.load %a[%c0] : {source}\n%y = memref.load %a[%c0] : {source}\n{body}\n"
        f"memref.store %r, %o[%c0] : {result}",
    )


@pytest.mark.parametrize("target", ["v4", "v5e", "v7x"])
@pytest.mark.parametrize("op", ["exp", "tan", "erf", "log1p", "roundeven", "rsqrt"])
def test_functions_that_the_scalar_unit_has(op: str, target: str) -> None:
    check(scalars(f"%r = math.{op} %x : f32", "f32"), target)


@pytest.mark.parametrize("op", ["trunc", "cbrt", "atan", "acos", "sinh", "expm1", "erfc", "log10"])
def test_functions_that_it_lacks(op: str) -> None:
    beyond(scalars(f"%r = math.{op} %x : f32", "f32"), "scalar-operation")


@pytest.mark.parametrize("op", ["math.powf", "math.copysign", "arith.maxnumf", "arith.minnumf"])
def test_operations_of_two_floats_that_it_lacks(op: str) -> None:
    beyond(scalars(f"%r = {op} %x, %y : f32", "f32"), "scalar-operation")


@pytest.mark.parametrize("op", ["remf", "maximumf", "divf"])
def test_operations_of_two_floats(op: str) -> None:
    check(scalars(f"%r = arith.{op} %x, %y : f32", "f32"))


def test_operations_on_words() -> None:
    for op in ("divsi", "remui", "ceildivui", "shrsi", "maxui"):
        check(scalars(f"%r = arith.{op} %x, %y : i32", "i32"))
    check(scalars("%r = math.ctlz %x : i32", "i32"))
    for op in ("ctpop", "cttz"):
        beyond(scalars(f"%r = math.{op} %x : i32", "i32"), "scalar-operation")
    for op in ("arith.floordivsi", "arith.ceildivsi", "math.ipowi"):
        beyond(scalars(f"%r = {op} %x, %y : i32", "i32"), "scalar-operation")


def test_booleans() -> None:
    def combined(op: str) -> str:
        text = (
            f"{BITS}%e = {op}, %b, %d : i1\n" if "cmpi" in op else f"{BITS}%e = {op} %b, %d : i1\n"
        )
        return scalars(text + "%r = arith.extui %e : i1 to i32", "i32")

    for op in ("andi", "ori", "xori", "cmpi eq", "cmpi ult"):
        check(combined(f"arith.{op}"))
    for op in ("addi", "muli", "maxsi", "minui", "shli", "divsi", "cmpi slt"):
        beyond(combined(f"arith.{op}"), "scalar-type")


def test_casts_of_booleans() -> None:
    check(scalars(BITS + "%r = arith.extui %b : i1 to i8", "i32", "i8"))
    check(scalars(BITS + "%r = arith.uitofp %b : i1 to bf16", "i32", "bf16"))
    beyond(scalars(BITS + "%r = arith.extsi %b : i1 to i32", "i32"), "scalar-type")
    beyond(scalars(BITS + "%r = arith.sitofp %b : i1 to f32", "i32", "f32"), "scalar-type")


@pytest.mark.parametrize("target", ["v4", "v5e", "v7x"])
@pytest.mark.parametrize("op", ["index_cast", "index_castui"])
def test_booleans_as_indices(op: str, target: str) -> None:
    """What is known is folded; JAX counts by booleans where the kernel indexes with one."""

    def read_at(index: str) -> str:
        table = memref("4xi32", SMEM)
        load = f"%r = memref.load %a[%i] : {table}"
        return scalars(f"{BITS}{index}\n{load}", "i32")

    beyond(read_at(f"%i = arith.{op} %b : i1 to index"), "scalar-type", target)
    check(read_at(f"%w = arith.extui %b : i1 to i32\n%i = arith.{op} %w : i32 to index"), target)
    check(read_at(f"%t = arith.constant true\n%i = arith.{op} %t : i1 to index"), target)


@pytest.mark.parametrize("op", ["andi", "ori", "xori"])
def test_bits_of_two_extended_scalars(op: str) -> None:
    """The compiler combines them before it extends them; with another word it does not."""
    extended = "%e = arith.extui %x : i8 to i32\n%n = arith.trunci %e : i32 to i8\n"
    extended += "%f = arith.extui %n : i8 to i32\n%g = arith.extsi %n : i8 to i32\n"
    beyond(scalars(extended + f"%r = arith.{op} %e, %f : i32", "i8", "i32"), "scalar-type")
    check(scalars(extended + f"%r = arith.{op} %e, %g : i32", "i8", "i32"))
    check(scalars(extended + f"%k = arith.constant 3 : i32\n%r = arith.{op} %e, %k : i32",
                  "i8", "i32"))  # fmt: skip


@pytest.mark.parametrize("element", ["bf16", "f8E5M2", "f8E4M3FN", "f8E4M3B11FNUZ"])
def test_narrow_floats_are_read_and_written(element: str) -> None:
    check(scalars(f"%r = arith.extf %x : {element} to f32", element, "f32"))
    check(scalars(f"%r = arith.truncf %x : f32 to {element}", "f32", element))


def test_narrow_floats_become_each_other_through_float32() -> None:
    for element in ("f8E4M3", "f8E3M4", "f8E4M3FNUZ", "f8E5M2FNUZ"):
        read = scalars(f"%r = arith.extf %x : {element} to f32", element, "f32")
        beyond(read, "scalar-type")
    beyond(scalars("%r = arith.extf %x : f8E5M2 to bf16", "f8E5M2", "bf16"), "scalar-type")
    beyond(scalars("%r = arith.truncf %x : bf16 to f8E5M2", "bf16", "f8E5M2"), "scalar-type")


def test_floats_that_are_written_only() -> None:
    check(scalars("%h = arith.truncf %x : f32 to f16\n%r = arith.bitcast %h : f16 to i16",
                  "f32", "i16"))  # fmt: skip
    beyond(scalars("%h = arith.truncf %x : f32 to f16\n%r = arith.extf %h : f16 to f32", "f32"),
           "scalar-type")  # fmt: skip
    beyond(scalars("%r = arith.fptosi %x : f4E2M1FN to i32", "f4E2M1FN", "i32"), "scalar-type")
    beyond(scalars("%r = arith.bitcast %x : f16 to i16", "f16", "i16"), "scalar-type")


def test_fractions_are_cut_off() -> None:
    convert = "%r = tpu.fptosi %x {{rounding_mode = #tpu.rounding_mode<{}>}} : f32 -> i32"
    check(scalars(convert.format("towards_zero"), "f32", "i32"))
    beyond(scalars(convert.format("to_nearest_even"), "f32", "i32"), "scalar-type")


def test_what_the_compiler_computes_itself() -> None:
    constants = """%k = arith.constant 1.0 : f32
        %l = arith.truncf %k : f32 to bf16
        %m = arith.addf %l, %l : bf16
        %c = arith.cmpf ogt, %k, %k : f32
        %r = arith.select {} : bf16"""
    check(scalars(constants.format("%c, %x, %m"), "bf16"))
    check(scalars(constants.replace("addf %l, %l", "mulf %n, %l").replace(
        "%m =", "%n = math.floor %l : bf16\n%m =").format("%c, %x, %m"), "bf16"))  # fmt: skip
    unknown = "%e = arith.extf %x : bf16 to f32\n%d = arith.cmpf ogt, %e, %k : f32\n%r"
    beyond(scalars(constants.format("%d, %x, %m").replace("%r", unknown), "bf16"), "scalar-type")


@pytest.mark.parametrize("target", ["v4", "v6e"])
def test_seeds_of_at_most_two_words(target: str) -> None:
    def seeded(words: int) -> str:
        operands, types = ", ".join(["%s"] * words), ", ".join(["i32"] * words)
        seeds = f'"tpu.prng_set_seed_32"({operands}) : ({types}) -> ()'
        return kernel("", f"%s = arith.constant 3 : i32\n{seeds}")

    check(seeded(1), target)
    check(seeded(2), target)
    beyond(seeded(3), "seed-words", target)


@pytest.mark.parametrize("type", ["bf16", "f8E5M2", "f8E4M3FN"])
def test_constants_of_narrow_floats_are_not_stored(type: str) -> None:
    half = "%h = arith.constant 0.5 : f32\n"
    beyond(scalars(f"%r = arith.constant 0.5 : {type}", type), "scalar-type")
    beyond(scalars(f"{half}%r = arith.truncf %h : f32 to {type}", type), "scalar-type")
    check(
        scalars(f"%w = arith.extf %x : {type} to f32\n%r = arith.truncf %w : f32 to {type}", type)
    )
    check(scalars("%r = arith.constant 0.5 : f32", "f32"))


def test_constants_of_narrow_integers_are_stored() -> None:
    for type in ("i8", "i16"):
        check(scalars(f"%r = arith.constant 5 : {type}", type))
