"""Loads and stores of rows: in other orders, several at once, from where they are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

import pallasite
from pallasite.frontend.aot import compile_ahead_of_time
from pallasite.targets import get_target

from .memory_kernels import kernel

Array = NDArray[Any]
TYPES: dict[str, Any] = {
    "f32": np.float32, "bf16": ml_dtypes.bfloat16, "i32": np.int32, "i8": np.int8,
}  # fmt: skip
TARGETS = ["v5e", "v6e"]


def spread(rows: tuple[int, ...], columns: int, element: str, flat: bool = False) -> ModuleOp:
    """A row that is repeated."""
    ends = "x".join(map(str, (*rows, columns)))
    row = f"{columns}x{element}" if flat else f"1x{columns}x{element}"
    zeros = ", ".join(["%z"] * (len(rows) + 1))
    return kernel([row, f"{ends}x{element}"], f"""
    %v = vector.load %a[{"%z" if flat else "%z, %z"}] : A, vector<{row}>
    %w = vector.broadcast %v : vector<{row}> to vector<{ends}x{element}>
    tpu.vector_store %b[{zeros}], %w {{strides = array<i32>}} : B, vector<{ends}x{element}>,
    """)  # fmt: skip


def rolled(rows: int, columns: int, amount: int, element: str = "f32") -> ModuleOp:
    """Rows that are rolled by a constant."""
    kind = f"{rows}x{columns}x{element}"
    return kernel([kind, kind], f"""
    %n = arith.constant {amount} : i32
    %v = vector.load %a[%z, %z] : A, vector<{kind}>
    %w = tpu.dynamic_rotate %v by %n dim 0 : vector<{kind}>, i32 -> vector<{kind}>
    tpu.vector_store %b[%z, %z], %w {{strides = array<i32>}} : B, vector<{kind}>,
    """)  # fmt: skip


def counts(module: ModuleOp, values: Array, expected: Array, target: str) -> Counter[str]:
    """The operations of its registers, once the answer of every form is checked."""
    kinds = Counter[str]()
    for form in ("mosaic", "dma", "tiles", "vreg"):
        lowered = pallasite.lower(module.clone(), form=form, target=target)
        result = pallasite.simulate(
            lowered, [values], form=form, target=target, checks=("init", "race")
        )
        assert not result.findings, form
        assert np.array_equal(result.outputs[0][0], expected), form
        kinds = Counter(op.name for op in lowered.walk())
    return kinds


def numbers(shape: tuple[int, ...], element: str) -> Array:
    drawn = np.random.default_rng(sum(shape)).integers(-99, 99, shape)
    return drawn.astype(TYPES[element])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize(
    ("rows", "columns"),
    [((32,), 256), ((8,), 512), ((20,), 1024), ((5,), 256), ((3, 8), 256), ((64,), 384),
     ((16,), 2048)],
)  # fmt: skip
def test_repeated_rows_are_right(
    rows: tuple[int, ...], columns: int, element: str, flat: bool, target: str
) -> None:
    values = numbers((columns,) if flat else (1, columns), element)
    expected = np.broadcast_to(values, (*rows, columns))
    counts(spread(rows, columns, element, flat), values, expected, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("element", "stores"), [("f32", 8), ("bf16", 4)])
def test_all_tiles_of_a_row_are_loaded_at_once(element: str, stores: int, target: str) -> None:
    values = numbers((1, 256), element)
    module = spread((32,), 256, element)
    kinds = counts(module, values, np.broadcast_to(values, (32, 256)), target)
    assert kinds["tpu.shuffled_load"] == 1
    assert kinds["tpu.store"] == stores
    assert not kinds["tpu.load"] + kinds["tpu.sublane_shuffle"]
    assert kinds["tpu.pack_subelements"] == (element == "bf16")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("amount", [1, 3, 5, 11, 15])
@pytest.mark.parametrize(("rows", "columns"), [(16, 256), (16, 128), (24, 100), (13, 128)])
def test_rolled_rows_are_right(rows: int, columns: int, amount: int, target: str) -> None:
    values = numbers((rows, columns), "f32")
    module = rolled(rows, columns, amount)
    counts(module, values, np.roll(values, amount, 0), target)


def test_the_ends_of_a_roll_are_loaded_at_once() -> None:
    values = numbers((16, 256), "f32")
    kinds = counts(rolled(16, 256, 3), values, np.roll(values, 3, 0), "v5e")
    assert (kinds["tpu.load"], kinds["tpu.store"]) == (4, 5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("element", "step", "most"), [("bf16", 5, 60), ("i8", 5, 60), ("bf16", 2, 60)]
)
def test_packed_rows_that_are_stored_one_by_one_change_places_together(
    element: str, step: int, most: int, target: str
) -> None:
    """Whether they come from one register or from several, and what was stored before."""
    rows = [(step * row) % (17 if step == 5 else 32) for row in range(16)]
    moves = f"""
    %none = arith.constant dense<{0.0 if element == "bf16" else 0}> : vector<16x256x{element}>
    tpu.vector_store %b[%z, %z], %none {{strides = array<i32>}} : B, vector<16x256x{element}>,
    """
    moves += "".join(f"""
    %i{row} = arith.constant {source} : index
    %o{row} = arith.constant {row} : index
    %v{row} = vector.load %a[%i{row}, %z] : A, vector<1x256x{element}>
    tpu.vector_store %b[%o{row}, %z], %v{row} {{strides = array<i32>}} : B, vector<1x256x{element}>,
    """ for row, source in enumerate(rows))  # fmt: skip
    module = kernel([f"32x256x{element}", f"16x256x{element}"], moves)
    values = numbers((32, 256), element)
    found = counts(module, values, values[rows], target)
    assert sum(n for kind, n in found.items() if kind.startswith("tpu.")) <= most


@pytest.mark.parametrize("target", TARGETS)
def test_the_few_rows_of_memory_that_are_used_fill_registers(target: str) -> None:
    """However many were set to one number before."""
    adds = "".join(f"""
    %i{row} = arith.constant {row} : index
    %s{row} = vector.load %b[%z, %z] : B, vector<1x256xf32>
    %v{row} = vector.load %a[%i{row}, %z] : A, vector<1x256xf32>
    %w{row} = arith.addf %s{row}, %v{row} : vector<1x256xf32>
    tpu.vector_store %b[%z, %z], %w{row} {{strides = array<i32>}} : B, vector<1x256xf32>,
    """ for row in range(6))  # fmt: skip
    module = kernel(["24x256xf32", "8x256xf32"], f"""
    %none = arith.constant dense<0.0> : vector<8x256xf32>
    tpu.vector_store %b[%z, %z], %none {{strides = array<i32>}} : B, vector<8x256xf32>,
    {adds}""")  # fmt: skip
    values = numbers((24, 256), "f32")
    expected = np.zeros((8, 256), np.float32)
    for row in range(6):
        expected[0] += values[row]
    found = counts(module, values, expected, target)
    assert (found["tpu.store"], found["arith.addf"]) == (8, 6)


@pytest.mark.aot
@pytest.mark.parametrize("target", ["v4", "v5e", "v5p", "v6e", "v7x"])
@pytest.mark.parametrize(
    "module",
    [spread((32,), 256, "f32"), spread((32,), 256, "bf16"), spread((64,), 512, "i8"),
     rolled(16, 256, 3), rolled(13, 128, 5)],
)  # fmt: skip
def test_the_compiler_takes_them(module: ModuleOp, target: str, compiler: Any) -> None:
    lowered = pallasite.lower(module.clone(), form="vreg", target=target)
    verdict = compile_ahead_of_time(
        lowered, topology=get_target(target).topology, layout_passes=False, compiler=compiler
    )
    assert verdict.accepted, verdict.message
