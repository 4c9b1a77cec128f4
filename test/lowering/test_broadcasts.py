"""Dimensions that grow fill axes along which a value is the same; what is copied moves first."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pallasite

from .memory_kernels import kernel


def maxima_as_rows(rows: int, columns: int, turned: bool) -> ModuleOp:
    """The maxima of `columns` rows, side by side in each of `rows` rows; `turned`, transposed."""
    lengths = (columns, rows) if turned else (rows, columns)
    kind, result = (f"vector<{m}x{n}xf32>" for m, n in ((rows, columns), lengths))
    turn = f"%t = tpu.transpose %all, [1, 0] : {kind} -> {result}" if turned else ""
    return kernel(
        [f"{columns}x128xf32", f"{lengths[0]}x{lengths[1]}xf32"],
        f"""%y = vector.load %a[%z, %z] : A, vector<{columns}x128xf32>
        %least = arith.constant dense<0xFF800000> : vector<{columns}xf32>
        %m = vector.multi_reduction <maximumf>, %y, %least [1]
            : vector<{columns}x128xf32> to vector<{columns}xf32>
        %row = vector.shape_cast %m : vector<{columns}xf32> to vector<1x{columns}xf32>
        %all = vector.broadcast %row : vector<1x{columns}xf32> to {kind}
        {turn}
        tpu.vector_store %b[%z, %z], {"%t" if turned else "%all"} {{strides = array<i32>}}
            : B, {result},""",
    )


@pytest.mark.parametrize("rows,columns", [(128, 128), (64, 40), (300, 16), (8, 200)])
@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("target", ["v5e", "v6e"])
def test_copies_of_rows_turn_without_a_transposition(
    target: str, turned: bool, rows: int, columns: int
) -> None:
    y = np.random.default_rng(0).integers(-99, 99, (columns, 128)).astype(np.float32)
    lowered = pallasite.lower(maxima_as_rows(rows, columns, turned), form="vreg", target=target)
    (actual,) = pallasite.run(lowered, [y], form="vreg", target=target)
    expected = np.broadcast_to(y.max(1), (rows, columns))
    assert np.array_equal(actual, expected.T if turned else expected)
    made = Counter(op.name for op in lowered.walk())
    assert not made["tpu.transpose"]
    # One register of maxima per eight rows; turned, they lie as they are stored.
    moves = made["tpu.sublane_shuffle"] + made["arith.select"] + made["tpu.dynamic_gather"]
    assert moves <= (0 if turned else 4 * -(-columns // 8))


def turned_copies(
    source: str, shape: tuple[int, ...], order: tuple[int, ...], kind: str
) -> ModuleOp:
    """`source` broadcast to `shape`, the dimensions of which are put into another order."""
    sizes = (shape, turn(shape, order))
    before, result = (f"vector<{'x'.join(map(str, s))}x{kind}>" for s in sizes)
    zeros = ", ".join(["%z"] * len(shape))
    given = ", ".join(["%z"] * source.count("x"))
    return kernel(
        [source, result.removeprefix("vector<").removesuffix(">")],
        f"""%x = vector.load %a[{given}] : A, vector<{source}>
        %all = vector.broadcast %x : vector<{source}> to {before}
        %t = tpu.transpose %all, {list(order)} : {before} -> {result}
        tpu.vector_store %b[{zeros}], %t {{strides = array<i32>}} : B, {result},""",
    )


def turn(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(shape[d] for d in order)


@pytest.mark.parametrize(
    "source,shape,order,kind,most",
    [
        # A row becomes a column, which is one gather per register.
        ("1x128xi8", (128, 128), (1, 0), "i8", 48),
        ("1x128xf32", (128, 128), (1, 0), "f32", 80),
        # Rows of matrices are spread over the sublanes where the copies lie there.
        ("16x128xf32", (16, 16, 128), (1, 0, 2), "f32", 80),
        ("100x128xi8", (8, 100, 128), (1, 0, 2), "i8", 600),
    ],
)
@pytest.mark.parametrize("target", ["v5e", "v6e"])
def test_copies_are_moved_from_what_they_are_copies_of(
    target: str, source: str, shape: tuple[int, ...], order: tuple[int, ...], kind: str, most: int
) -> None:
    module = turned_copies(source, shape, order, kind)
    sizes = [int(n) for n in source.split("x")[:-1]]
    x = np.random.default_rng(0).integers(-99, 99, sizes)
    x = x.astype({"i8": np.int8, "f32": np.float32}[kind])
    lowered = pallasite.lower(
        module, form="vreg", target=target, allow_beyond_reference=kind == "i8"
    )
    (actual,) = pallasite.run(lowered, [x], form="vreg", target=target)
    assert np.array_equal(actual, np.broadcast_to(x, shape).transpose(order))
    assert sum(op.name != "arith.constant" for op in lowered.walk()) <= most


@pytest.mark.parametrize("target", ["v5e", "v6e"])
def test_sums_of_rows_are_selected_into_lanes(target: str) -> None:
    module = kernel(
        ["128x16x8xf32", "16x128xf32"],
        """%x = vector.load %a[%z, %z, %z] : A, vector<128x16x8xf32>
        %zero = arith.constant dense<0.0> : vector<128x16xf32>
        %s = vector.multi_reduction <add>, %x, %zero [2]
            : vector<128x16x8xf32> to vector<128x16xf32>
        %t = tpu.transpose %s, [1, 0] : vector<128x16xf32> -> vector<16x128xf32>
        tpu.vector_store %b[%z, %z], %t {strides = array<i32>} : B, vector<16x128xf32>,""",
    )
    x = np.random.default_rng(0).integers(-9, 9, (128, 16, 8)).astype(np.float32)
    lowered = pallasite.lower(module, form="vreg", target=target)
    (actual,) = pallasite.run(lowered, [x], form="vreg", target=target)
    assert np.array_equal(actual, x.sum(2).T)
    made = Counter(op.name for op in lowered.walk())
    # Every register of sums has one lane to give; masks of the padding were there before.
    assert not made["tpu.transpose"] and not made["tpu.sublane_shuffle"]
    assert made["arith.select"] <= 256 + 254
