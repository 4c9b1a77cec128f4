"""`fold-kernel`: what folds away is not judged, what is left answers as before, bit for bit."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pallasite import api
from pallasite.diagnostics import Unsupported
from pallasite.interpreter import run
from pallasite.passes.fold_kernel import fold_kernel
from pallasite.targets import get_target

from .checking import kernel, load, memref

SHAPE = "32x128"
BYTES, WORDS, MASK = (f"vector<{SHAPE}x{t}>" for t in ("i8", "i32", "i1"))
ARGUMENTS = ", ".join(
    [f"%{n}: {memref(f'{SHAPE}x{t}')}" for n, t in (("a", "i8"), ("b", "i8"), ("x", "i32"))]
    + [f"%s: {memref('2xi32', '#tpu.memory_space<smem>')}", f"%o: {memref(f'{SHAPE}xi8')}"]
)
GIVEN = (
    load("u", "a", f"{SHAPE}xi8")
    + load("v", "b", f"{SHAPE}xi8")
    + load("w", "x", f"{SHAPE}xi32")
    + f"""%n = memref.load %s[%c0] : {memref("2xi32", "#tpu.memory_space<smem>")}
    %five = arith.constant 5 : i32
    %one = arith.constant 1 : i32
    %zero = arith.constant 0 : i32
    %c = arith.cmpi sgt, %n, %five : i32
    %true = arith.constant true
    %i0 = arith.constant dense<0> : {BYTES}
    %ones = arith.constant dense<-1> : {BYTES}
    %z = arith.constant dense<0> : {WORDS}
    %p = arith.cmpi sgt, %w, %z : {WORDS}
    %q = arith.cmpi slt, %w, %z : {WORDS}
    %bad = arith.maxsi %u, %v : {BYTES}
    %wrong = arith.select %p, %q, %p : {MASK}, {MASK}
    """
)
"""Values, of which no chip computes `%bad` and `%wrong`."""


def stored(body: str) -> str:
    """A kernel that stores `%r`."""
    store = "tpu.vector_store %o[%c0, %c0], %r {strides = array<i32>} : "
    return kernel(ARGUMENTS, f"{GIVEN}{body}\n{store}{memref(f'{SHAPE}xi8')}, {BYTES},")


def test_maxima_of_bytes_are_refused() -> None:
    for body in (f"%r = arith.addi %bad, %i0 : {BYTES}", f"%r = arith.ori %u, %bad : {BYTES}"):
        with pytest.raises(Unsupported, match=r"arith\.maxsi"):
            api.lower(api.parse(stored(body)), "mosaic", "v5e")


def test_quotients_of_bytes_are_refused_unless_both_are_one_value() -> None:
    """A sum of bytes is refused before what is computed twice is one; nothing is divided by 0."""
    for right in ("%v", "%i0"):
        with pytest.raises(Unsupported, match=r"arith\.divsi"):
            api.lower(api.parse(stored(f"%r = arith.divsi %u, {right} : {BYTES}")), "mosaic", "v5e")


@pytest.mark.parametrize(
    "body",
    [
        f"%r = arith.subi %bad, %bad : {BYTES}",
        f"%r = arith.xori %bad, %bad : {BYTES}",
        f"%r = arith.maxsi %u, %u : {BYTES}",
        f"%r = arith.divsi %u, %u : {BYTES}",
        f"%r = arith.remui %bad, %bad : {BYTES}",
        f"%r = arith.divui %i0, %u : {BYTES}",
        f"%e = arith.cmpi ugt, %u, %i0 : {BYTES}\n"
        f"%r = arith.select %e, %u, %i0 : {MASK}, {BYTES}",
        f"%k = arith.constant dense<127> : {BYTES}\n%e = arith.cmpi sge, %k, %u : {BYTES}\n"
        f"%r = arith.select %e, %k, %u : {MASK}, {BYTES}",
        f"%r = arith.muli %bad, %i0 : {BYTES}",
        f"%r = arith.andi %i0, %bad : {BYTES}",
        f"%r = arith.maxui %bad, %ones : {BYTES}",
        f"%t = arith.addi %u, %bad : {BYTES}\n%r = arith.subi %t, %bad : {BYTES}",
        f"%t = arith.subi %bad, %u : {BYTES}\n%r = arith.subi %bad, %t : {BYTES}",
        f"%t = arith.xori %bad, %u : {BYTES}\n%r = arith.xori %bad, %t : {BYTES}",
        f"%t = arith.xori %bad, %ones : {BYTES}\n%r = arith.andi %t, %bad : {BYTES}",
        f"%r = vector.shuffle %bad, %u {list(range(32, 64))} : {BYTES}, {BYTES}",
        f"%r = arith.select %true, %u, %bad : {BYTES}",
        f"%k = arith.constant dense<-1> : {BYTES}\n"
        f"%r = arith.select %wrong, %k, %ones : {MASK}, {BYTES}",
        f"%k = arith.constant dense<-1> : {BYTES}\n"
        f"%t = arith.xori %bad, %ones : {BYTES}\n%d = arith.xori %t, %k : {BYTES}\n"
        f"%r = arith.subi %bad, %d : {BYTES}",
        f"%k = arith.constant dense<300> : {WORDS}\n%t = arith.trunci %k : {WORDS} to {BYTES}\n"
        f"%d = arith.maxsi %t, %ones : {BYTES}\n%r = arith.ori %u, %d : {BYTES}",
        f"%k = arith.constant dense<5> : {WORDS}\n%t = arith.trunci %k : {WORDS} to {MASK}\n"
        f"%r = arith.select %t, %u, %bad : {MASK}, {BYTES}",
        f"%m = scf.if %c -> ({MASK}) {{\n  %t = arith.constant dense<true> : {MASK}\n"
        f"  scf.yield %t : {MASK}\n}} else {{\n  %t = arith.constant dense<true> : {MASK}\n"
        f"  scf.yield %t : {MASK}\n}}\n%r = arith.select %m, %u, %v : {MASK}, {BYTES}",
        f"%k = arith.constant dense<true> : {MASK}\n"
        f"%t = vector.shape_cast %k : {MASK} to vector<32x128x1xi1>\n"
        "%d = arith.extui %t : vector<32x128x1xi1> to vector<32x128x1xi32>\n"
        f"%e = vector.shape_cast %d : vector<32x128x1xi32> to {WORDS}\n"
        f"%f = arith.addi %e, %w : {WORDS}\n%r = arith.trunci %f : {WORDS} to {BYTES}",
        f"%t = tpu.transpose %p, [1, 0] : {MASK} -> vector<128x32xi1>\n"
        f"%d = tpu.transpose %t, [1, 0] : vector<128x32xi1> -> {MASK}\n"
        f"%r = arith.select %d, %u, %v : {MASK}, {BYTES}",
        f"%r = arith.select %wrong, %u, %u : {MASK}, {BYTES}",
        f"%t = arith.select %p, %u, %bad : {MASK}, {BYTES}\n"
        f"%r = arith.select %p, %t, %v : {MASK}, {BYTES}",
        f"%e = arith.cmpi ule, %bad, %bad : {BYTES}\n"
        f"%r = arith.select %e, %u, %v : {MASK}, {BYTES}",
        f"%r = scf.if %true -> ({BYTES}) {{\n  scf.yield %u : {BYTES}\n}} else {{\n"
        f"  scf.yield %bad : {BYTES}\n}}",
        f"%m = scf.if %c -> ({MASK}) {{\n  scf.yield %p : {MASK}\n}} else {{\n"
        f"  scf.yield %p : {MASK}\n}}\n%r = arith.select %m, %u, %v : {MASK}, {BYTES}",
        f"%m = scf.for %i = %zero to %one step %one iter_args(%k = %p) -> ({MASK}) : i32 {{\n"
        f"  %t = arith.ori %k, %q : {MASK}\n  scf.yield %t : {MASK}\n}}\n"
        f"%r = arith.select %m, %u, %v : {MASK}, {BYTES}",
        f"%m = scf.for %i = %zero to %n step %one iter_args(%k = %p) -> ({MASK}) : i32 {{\n"
        f"  scf.yield %k : {MASK}\n}}\n%r = arith.select %m, %u, %v : {MASK}, {BYTES}",
    ],
)  # fmt: skip
def test_what_folds_away_is_not_judged(body: str) -> None:
    module = api.parse(stored(body))
    rng = np.random.default_rng(7)
    arguments: list[Any] = [
        *(rng.integers(-128, 128, (32, 128), np.int8) for _ in range(2)),
        rng.integers(-9, 9, (32, 128), np.int32),
        np.array([3, 4], np.int32),
    ]
    results = [((32, 128), "int8")]
    outcomes = [
        api.run(
            module, arguments, form=form, target="v5e", results=results,
            allow_beyond_reference=form == "mosaic",
        )
        for form in ("mosaic", "tiles")
    ]  # fmt: skip
    np.testing.assert_array_equal(*(outcome[0] for outcome in outcomes))


def test_the_larger_of_bytes_is_refused_however_it_is_written() -> None:
    """`jnp.fmax` of integers: no integer is unequal to itself."""

    def choose(unequal: str, join: str) -> str:
        return f"""%m = arith.cmpi sgt, %u, %v : {BYTES}
            %e = arith.cmpi {unequal} : {BYTES}
            %t = {join} %m, %e : {MASK}
            %r = arith.select %t, %u, %v : {MASK}, {BYTES}"""

    for body in (choose("ne, %v, %v", "arith.ori"), choose("eq, %v, %v", "arith.andi")):
        module = api.parse(stored(body))
        with pytest.raises(Unsupported, match="larger or smaller"):
            api.lower(module, "mosaic", "v5e")
        api.lower(module, "mosaic", "v5e", allow_beyond_reference=True)
    for body in (choose("eq, %v, %v", "arith.ori"), choose("ne, %u, %v", "arith.ori")):
        api.lower(api.parse(stored(body)), "mosaic", "v5e")


FLOATS = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3.5]
INTEGERS = [0, 1, -1, 2, -7, 2**31 - 1, -(2**31)]


def _binary(op: str, element: str, constant: Any, first: bool) -> str:
    """`op` between what is loaded and a constant, or, where that is None, itself."""
    type = f"vector<8x128x{element}>"
    known = "" if constant is None else f"%k = arith.constant dense<{constant}> : {type}\n"
    other = "%u" if constant is None else "%k"
    left, right = (other, "%u") if first else ("%u", other)
    return kernel(
        f"%a: {memref(f'8x128x{element}')}, %o: {memref(f'8x128x{element}')}",
        load("u", "a", f"8x128x{element}")
        + f"""{known}%r = arith.{op} {left}, {right} : {type}
        tpu.vector_store %o[%c0, %c0], %r {{strides = array<i32>}} :
          {memref(f"8x128x{element}")}, {type},""",
    )


def _same_bits(text: str, values: list[Any], dtype: Any) -> None:
    array = np.resize(np.array(values, dtype), (8, 128))
    answers: list[Any] = []
    for fold in (False, True):
        module = api.with_call(api.parse(text), [array], [((8, 128), array.dtype.name)])
        if fold:
            fold_kernel(module)
        done = run.execute(module, [[array]], target=get_target("v5e"))
        answers.append(np.asarray(done.outputs[0][0]).view(np.uint32))
    np.testing.assert_array_equal(*answers)


@pytest.mark.parametrize("op", ["addf", "subf", "mulf", "divf", "maximumf", "minimumf", "maxnumf"])
def test_floats_keep_every_bit(op: str) -> None:
    words = ["0.0", "-0.0", "1.0", "0x7F800000", "0xFF800000", "0x7FC00000", None]
    for constant in words:
        for first in (False, True):
            _same_bits(_binary(op, "f32", constant, first), FLOATS, np.float32)


@pytest.mark.parametrize(
    "op",
    ["addi", "subi", "muli", "andi", "ori", "xori", "maxsi", "minsi", "maxui", "minui", "shli"],
)
def test_integers_keep_every_bit(op: str) -> None:
    for constant in (*INTEGERS, None):
        for first in (False, True):
            if op != "shli" or (constant == 0 and not first):
                _same_bits(_binary(op, "i32", constant, first), INTEGERS, np.int32)


@pytest.mark.parametrize(
    ("source", "result", "dim"),
    [("1x128", "1x128", 0), ("1x128", "8x128", 0), ("8x1", "8x1", 1), ("8x1", "8x16", 1)],
)
@pytest.mark.parametrize("target", ["v4", "v5e", "v6e"])
def test_gathers_among_one_element_take_it(source: str, result: str, dim: int, target: str) -> None:
    """Of any width, on any chip, whatever the indices are."""
    old, new, words = f"{source}xbf16", f"{result}xbf16", f"{result}xi32"
    body = load("v", "x", old) + load("i", "n", words) + (
        f"%r = tpu.dynamic_gather %v[%i] in [{dim}] : vector<{old}>, vector<{words}> -> "
        f"vector<{new}>\nvector.store %r, %o[%c0, %c0] : {memref(new)}, vector<{new}>"
    )  # fmt: skip
    text = kernel(f"%x: {memref(old)}, %n: {memref(words)}, %o: {memref(new)}", body)
    rows, columns = (int(n) for n in source.split("x"))
    shape = tuple(int(n) for n in result.split("x"))
    x = np.arange(rows * columns).reshape(rows, columns).astype(ml_dtypes.bfloat16)
    indices = np.arange(-3, np.prod(shape) - 3, dtype=np.int32).reshape(shape)
    for form in ("mosaic", "tiles", "vreg"):
        (answer,) = api.run(
            api.parse(text), [x, indices], form=form, target=target, results=[(shape, x.dtype)]
        )
        np.testing.assert_array_equal(answer, np.broadcast_to(x, shape))


NEGATED = f"%e = arith.xori %{{0}}, %set : {MASK}\n  scf.yield %e : {MASK}\n"
PASSED = f"  scf.yield %{{0}} : {MASK}\n"


def branch(name: str, condition: str, then: str, otherwise: str) -> str:
    return (
        f"%{name} = scf.if %{condition} -> ({MASK}) {{\n{then}}} else {{\n{otherwise}}}\n"
    )  # fmt: skip


@pytest.mark.parametrize(("between", "condition", "taken"), [
    ("", "c", True),
    ("%again = arith.cmpi sgt, %n, %five : i32\n", "again", True),
    ("scf.if %c {\n  vector.store %i0, %o[%c0, %c0] : OUT\n}\n", "c", True),
    ("vector.store %i0, %o[%c0, %c0] : OUT\n", "c", False),
    ("%again = arith.cmpi sgt, %n, %one : i32\n", "again", False),
])  # fmt: skip
def test_a_mask_that_two_branches_negate(between: str, condition: str, taken: bool) -> None:
    """Of two branches by one condition libtpu 0.0.51 makes one, where nothing stands between."""
    out = f"{memref(f'{SHAPE}xi8')}, {BYTES}"
    body = (
        f"%set = arith.constant dense<true> : {MASK}\n"
        + branch("first", "c", NEGATED.format("p"), PASSED.format("p"))
        + between.replace("OUT", out)
        + branch("m", condition, NEGATED.format("first"), PASSED.format("first"))
        + f"%r = arith.select %m, %u, %v : {MASK}, {BYTES}"
    )
    module = api.parse(stored(body))
    if not taken:
        with pytest.raises(Unsupported, match="carries a vector of booleans"):
            api.lower(module, "tiles", "v5e")
        return
    rng = np.random.default_rng(3)
    u, v = (rng.integers(-128, 128, (32, 128), np.int8) for _ in range(2))
    w = rng.integers(-9, 9, (32, 128), np.int32)
    for number in (3, 9):
        given = [u, v, w, np.array([number, 4], np.int32)]
        for form in ("mosaic", "tiles"):
            (found,) = api.run(
                module, given, form=form, target="v5e", results=[((32, 128), "int8")],
                allow_beyond_reference=form == "mosaic",
            )  # fmt: skip
            np.testing.assert_array_equal(found, np.where(w > 0, u, v))
