"""Sums and products of vectors that keep what leaves a word, as the TPU compiler takes them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import pallasite
from pallasite import api
from pallasite.dialects import arith
from pallasite.frontend.aot import compile_ahead_of_time
from pallasite.targets import get_target

from ..passes.checking import beyond, check, kernel, memref, refused

ENDS = {bits: [0, 1, -1, 2, -2, 1 << (bits // 2), (1 << (bits // 2)) - 1, (1 << (bits - 1)) - 1,
               -(1 << (bits - 1)), 3 - (1 << (bits - 1))] for bits in (16, 32)}  # fmt: skip
SUMS, PRODUCTS = ("addui", "subui"), ("mului", "mulsi")
FORMS = ("mosaic", "dma", "tiles", "vreg")


def written(op: str, bits: int, *, first: bool = True, second: bool = True) -> str:
    """A kernel that stores both results of `op`, a carry as x or y, or only one of them."""
    shape = f"24x150xi{bits}"
    kind, flags = f"vector<{shape}>", "vector<24x150xi1>"
    types = f"{kind}, {flags}" if op in SUMS else kind
    names = ("x", "y", "o", "p")
    lines = [f"%{v} = vector.load %{v}r[%c0, %c0] : {memref(shape)}, {kind}" for v in "xy"]
    lines.append(f"%s, %t = arith.{op}_extended %x, %y : {types}")
    chosen = f"arith.select %t, %x, %y : {flags}, {kind}" if op in SUMS else ""
    lines.append(f"%u = {chosen}" if chosen else f"%u = arith.addi %t, %x : {kind}")
    stored = {"o": "s" if first else "x", "p": "u" if second else "x"}
    lines += [
        f"tpu.vector_store %{ref}r[%c0, %c0], %{value} {{strides = array<i32>}} : "
        f"{memref(shape)}, {kind},"
        for ref, value in stored.items()
    ]
    if not second:
        lines = [line for line in lines if not line.startswith("%u")]
    return kernel(", ".join(f"%{v}r: {memref(shape)}" for v in names), "\n".join(lines))


def inputs(bits: int) -> list[Any]:
    """The ends of the type meet each other, and random numbers."""
    draw = np.random.default_rng(bits)
    dtype = np.dtype(f"int{bits}")
    many = draw.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (2, 24, 150), endpoint=True)
    pairs = np.array([(a, b) for a in ENDS[bits] for b in ENDS[bits]]).T
    many[:, 3, : pairs.shape[1]] = pairs
    return list(many.astype(dtype))


def expected(op: str, bits: int, x: Any, y: Any) -> list[Any]:
    """Both results by Python's integers."""
    mask = (1 << bits) - 1
    a, b = (v.astype(object) for v in (x, y))
    if op != "mulsi":
        a, b = a & mask, b & mask
    exact = a + b if op == "addui" else a - b if op == "subui" else a * b
    low, high = exact & mask, exact >> bits
    if op in SUMS:
        second = np.where(np.not_equal(high, 0), x, y)
    else:
        second = ((high & mask) + (x.astype(object) & mask)) & mask
    return [
        np.asarray(r.astype(object) & mask).astype(f"uint{bits}").view(x.dtype)
        for r in (low, second)
    ]


def called(text: str, bits: int) -> Any:
    given = inputs(bits)
    return api.with_call(api.parse(text), given, [((24, 150), f"int{bits}")] * 2)


@pytest.mark.parametrize(("op", "bits", "target"), [
    *((op, 32, target) for op in (*SUMS, *PRODUCTS) for target in ("v4", "v6e")),
    ("addui", 16, "v6e"), ("addui", 16, "v7x"),
])  # fmt: skip
def test_numbers(op: str, bits: int, target: str) -> None:
    given = inputs(bits)
    module, wanted = called(written(op, bits), bits), expected(op, bits, *given)
    for form in FORMS:
        found = pallasite.run(
            module, given, form=form, target=target, allow_beyond_reference=op == "subui"
        )
        for one, other in zip(found, wanted, strict=True):
            assert np.array_equal(one, other), form


def test_what_is_refused() -> None:
    for target in ("v4", "v5e", "v6e", "v7x"):
        for op in ("addui", *PRODUCTS):
            check(written(op, 32), target)
        beyond(written("subui", 32), "vector-operation", target)
        narrow = partial(refused, code="narrow-integer", target=target)
        for op in PRODUCTS:
            narrow(written(op, 16))
        (check if target in ("v6e", "v7x") else partial(refused, code="narrow-integer"))(
            written("addui", 16), target=target
        )


@pytest.mark.parametrize("op", [*SUMS, *PRODUCTS])
def test_a_second_result_that_nobody_looks_at(op: str) -> None:
    """Then it is one operation, of any width that this takes."""
    for bits, target in ((32, "v4"), (16, "v6e")):
        module = called(written(op, bits, second=False), bits)
        made = api.lower(module, "dma", target)
        vectors = [o for o in made.walk() if o.dialect_name() == "arith" and len(o.operands) == 2]
        assert [o.name for o in vectors] == [f"arith.{op[:3]}i"]
        given = inputs(bits)
        found = pallasite.run(module, given, form="vreg", target=target)
        assert np.array_equal(found[0], expected(op, bits, *given)[0])


def test_scalars() -> None:
    """The scalar unit adds with a carry, and has none of the others."""
    ref = memref("4xi32", "#tpu.memory_space<smem>")
    for op in (*SUMS, *PRODUCTS):
        types = "i32, i1" if op in SUMS else "i32"
        last = "arith.select %t, %x, %s : i32" if op in SUMS else "arith.addi %s, %t : i32"
        text = kernel(
            f"%a: {ref}, %o: {ref}",
            f"%x = memref.load %a[%c0] : {ref}\n"
            f"%s, %t = arith.{op}_extended %x, %x : {types}\n"
            f"%r = {last}\nmemref.store %r, %o[%c0] : {ref}",
        )
        (check if op == "addui" else partial(beyond, code="scalar-operation"))(text)


@pytest.mark.aot
@pytest.mark.parametrize("op", [*SUMS, *PRODUCTS])
def test_the_compiler_agrees(op: str, compiler: Any) -> None:
    for bits, second in ((32, True), (16, True), (16, False)):
        module = called(written(op, bits, second=second), bits)
        for target in ("v5e", "v6e"):
            refusal, forms = "", [("mosaic", module)]
            try:
                forms.append(("vreg", api.lower(module, "vreg", target)))
            except pallasite.Diagnostic as error:
                refusal = str(error)
            for form, lowered in forms:
                verdict = compile_ahead_of_time(
                    lowered, topology=get_target(target).topology, layout_passes=form == "mosaic",
                    compiler=compiler,
                )  # fmt: skip
                assert verdict.accepted == (not refusal), (bits, second, target, form, refusal)


def test_products_of_halves_stay_words() -> None:
    """No operation of the lowered product is wider than 32 bits."""
    made = api.lower(called(written("mulsi", 32), 32), "tiles", "v5e")
    assert sum(isinstance(o, arith.MuliOp) for o in made.walk()) == 5
