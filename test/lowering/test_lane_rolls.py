"""Rolls of loaded columns by amounts known at run time: tiles are loaded from where they go."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pallasite
from pallasite.diagnostics import ExecutionError
from pallasite.frontend.aot import compile_ahead_of_time
from pallasite.targets import get_target

from .memory_kernels import kernel

LARGEST = 2**31 - 1


def rolled(shape: tuple[int, ...], more: str = "") -> ModuleOp:
    """The columns of `%a`, rolled by the number in `%b`, with `more` in front of the roll."""
    text = "x".join(map(str, shape)) + "xi32"
    kind, zeros, dim = f"vector<{text}>", ", ".join(["%z"] * len(shape)), len(shape) - 1
    return kernel([text, "1x1xi32", text], f"""
        %s = vector.load %b[%z, %z] : B, vector<1x1xi32>
        %n = vector.extract %s[0, 0] : i32 from vector<1x1xi32>
        %x = vector.load %a[{zeros}] : A, {kind}
        {more}
        %y = tpu.dynamic_rotate %x by %n dim {dim} : {kind}, i32 -> {kind}
        tpu.vector_store %c[{zeros}], %y {{strides = array<i32>}} : C, {kind},
    """)  # fmt: skip


def numbers(shape: tuple[int, ...]) -> Any:
    return np.arange(np.prod(shape), dtype=np.int32).reshape(shape)


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("shape", [(16, 256), (3, 512), (2, 8, 1024), (11, 2048), (8, 384)])
def test_every_amount(shape: tuple[int, ...], target: str) -> None:
    columns, values = shape[-1], numbers(shape)
    amounts = [0, 1, 127, 128, 129, columns - 1, columns, columns + 300, -1, -130, -5 * columns - 3]
    for form in ("mosaic", "tiles", "vreg"):
        lowered = pallasite.lower(rolled(shape), form=form, target=target)
        for amount in (*amounts, LARGEST, -LARGEST - 1):
            given = np.full((1, 1), amount, np.int32)
            (actual,) = pallasite.run(lowered, [values, given], form=form, target=target)
            assert np.array_equal(actual, np.roll(values, amount % columns, -1)), (form, amount)


@pytest.mark.parametrize(("shape", "registers"), [((16, 256), 4), ((8, 512), 4), ((8, 2048), 16)])
def test_registers_are_chosen_between_once(shape: tuple[int, ...], registers: int) -> None:
    lowered = pallasite.lower(rolled(shape), form="vreg", target="v5e")
    kinds = Counter(op.name for op in lowered.walk())
    assert kinds["arith.select"] == kinds["tpu.dynamic_rotate"] == registers
    assert kinds["tpu.store"] == registers


def test_columns_that_are_overwritten_before_the_roll() -> None:
    more = """%k = arith.constant dense<3> : vector<8x256xi32>
        tpu.vector_store %a[%z, %z], %k {strides = array<i32>} : A, vector<8x256xi32>,"""
    values = numbers((8, 256))
    given = np.full((1, 1), 200, np.int32)
    (actual,) = pallasite.run(rolled((8, 256), more), [values, given], form="vreg", target="v5e")
    assert np.array_equal(actual, np.roll(values, 200, 1))


@pytest.mark.parametrize("form", ["tiles", "vreg"])
def test_rows_that_may_leave_the_ref(form: str) -> None:
    module = kernel(["16x256xi32", "1x2xi32", "8x256xi32"], """
        %s = vector.load %b[%z, %z] : B, vector<1x2xi32>
        %n = vector.extract %s[0, 0] : i32 from vector<1x2xi32>
        %r = vector.extract %s[0, 1] : i32 from vector<1x2xi32>
        %e = arith.constant 8 : i32
        %m = arith.muli %r, %e : i32
        %i = arith.index_cast %m : i32 to index
        %x = vector.load %a[%i, %z] : A, vector<8x256xi32>
        %y = tpu.dynamic_rotate %x by %n dim 1 : vector<8x256xi32>, i32 -> vector<8x256xi32>
        tpu.vector_store %c[%z, %z], %y {strides = array<i32>} : C, vector<8x256xi32>,
    """)  # fmt: skip
    lowered, values = pallasite.lower(module, form=form, target="v5e"), numbers((16, 256))
    given = np.array([[130, 1]], np.int32)
    (actual,) = pallasite.run(lowered, [values, given], form=form, target="v5e")
    assert np.array_equal(actual, np.roll(values[8:], 130, 1))
    with pytest.raises(ExecutionError, match="is outside memref"):
        pallasite.run(lowered, [values, np.array([[130, 2]], np.int32)], form=form, target="v5e")


@pytest.mark.aot
@pytest.mark.parametrize("target", ["v4", "v5e", "v5p", "v6e", "v7x"])
@pytest.mark.parametrize("shape", [(16, 256), (3, 512), (2, 8, 1024)])
def test_the_compiler_takes_them(shape: tuple[int, ...], target: str, compiler: Any) -> None:
    lowered = pallasite.lower(rolled(shape), form="vreg", target=target)
    verdict = compile_ahead_of_time(
        lowered, topology=get_target(target).topology, layout_passes=False, compiler=compiler
    )
    assert verdict.accepted, verdict.message
