"""Conversions of every rounding mode give the same in registers as in the kernel."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pallasite import api
from pallasite.diagnostics import Diagnostic
from pallasite.frontend import read

DTYPES: dict[str, Any] = {
    "f32": np.float32, "bf16": ml_dtypes.bfloat16, "f8E5M2": ml_dtypes.float8_e5m2,
    "i32": np.int32, "i16": np.int16, "i8": np.int8,
}  # fmt: skip
SHAPE = (32, 128)


def values(kind: str) -> Any:
    generator = np.random.default_rng(0)
    dtype = DTYPES[kind]
    if kind.startswith("i"):
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max, SHAPE, dtype, endpoint=True)
    numbers = generator.standard_normal(SHAPE) * 10.0 ** generator.integers(-3, 4, SHAPE)
    words = numbers.astype(np.float32)
    # The last one is a NaN whose only bits are below those of a bfloat16.
    special = [np.nan, np.inf, -np.inf, -0.0, 0.5, 1.5, 2.5, 127.7, -128.7, 1e30]
    words.ravel()[: len(special)] = special
    words.view(np.int32).ravel()[len(special)] = 0x7F80_0001
    with np.errstate(invalid="ignore"):
        return words.astype(dtype)


def kernel(op: str, source: str, result: str) -> str:
    old, new = (f"memref<32x128x{kind}, #tpu.memory_space<vmem>>" for kind in (source, result))
    before, after = (f"vector<32x128x{kind}>" for kind in (source, result))
    between = "to" if op.startswith("arith") else "->"
    words, _, mode = op.partition(" ")
    mode = f" {mode}" if mode else ""
    return f"""
    func.func @kernel(%a: {old}, %o: {new}) attributes {{dimension_semantics = [],
        scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
        tpu.core_type = #tpu.core_type<tc>}} {{
      %c0 = arith.constant 0 : index
      %x = vector.load %a[%c0, %c0] : {old}, {before}
      %y = {words} %x{mode} : {before} {between} {after}
      vector.store %y, %o[%c0, %c0] : {new}, {after}
      return
    }}"""


def moded(op: str, mode: str) -> str:
    return f"tpu.{op} {{rounding_mode = #tpu.rounding_mode<{mode}>}}"


def results(text: str, source: str, result: str, target: str) -> list[Any]:
    return [
        api.run(
            read(text), [values(source)], form=form, target=target,
            results=[(SHAPE, DTYPES[result])],
        )[0].astype(np.float64)
        for form in ("mosaic", "vreg")
    ]  # fmt: skip


BOTH = ("to_nearest_even", "towards_zero")
CASES = [
    *((moded("truncf", mode), "f32", "bf16") for mode in BOTH),
    *((f"arith.truncf {mode}", "f32", "bf16") for mode in ("to_nearest_even", "toward_zero")),
    *((moded("truncf", "to_nearest_even"), kind, "f8E5M2") for kind in ("f32", "bf16")),
    *((moded("fptosi", mode), source, result)
      for mode in BOTH for source in ("f32", "bf16") for result in ("i32", "i16", "i8")),
    *((moded("fptoui", mode), source, result)
      for mode in BOTH for source in ("f32", "bf16") for result in ("i16", "i8")),
    (moded("fptoui", "towards_zero"), "f32", "i32"),
    *((moded(op, "to_nearest_even"), source, result) for op in ("sitofp", "uitofp")
      for source in ("i32", "i16", "i8") for result in ("f32", "bf16")),
]  # fmt: skip


@pytest.mark.parametrize("target", ["v5e", "v7x"])
@pytest.mark.parametrize(("op", "source", "result"), CASES, ids=str)
def test_rounding(op: str, source: str, result: str, target: str):
    kernel_values, registers = results(kernel(op, source, result), source, result, target)
    np.testing.assert_array_equal(registers, kernel_values)


@pytest.mark.parametrize(
    ("op", "source", "result"),
    [
        *((f"arith.truncf {mode}", "f32", "bf16")
          for mode in ("downward", "upward", "to_nearest_away")),
        ("arith.truncf toward_zero", "f32", "f8E5M2"),
        (moded("truncf", "towards_zero"), "bf16", "f8E5M2"),
        (moded("sitofp", "towards_zero"), "i32", "f8E5M2"),
        (moded("uitofp", "towards_zero"), "i8", "f8E5M2"),
    ],
    ids=str,
)  # fmt: skip
def test_roundings_that_registers_lack(op: str, source: str, result: str):
    with pytest.raises(Diagnostic) as caught:
        api.lower(read(kernel(op, source, result)), "tiles", allow_beyond_reference=True)
    assert caught.value.code == "rounding-mode" and caught.value.location is not None


@pytest.mark.parametrize(
    ("op", "source", "result"),
    [
        (moded("sitofp", "towards_zero"), "i32", "bf16"),
        (moded("uitofp", "towards_zero"), "i16", "f32"),
        (moded("fptoui", "to_nearest_even"), "f32", "i32"),
    ],
    ids=str,
)
def test_roundings_that_the_compiler_refuses(op: str, source: str, result: str):
    text = kernel(op, source, result)
    with pytest.raises(Diagnostic) as caught:
        api.run(read(text), [values(source)], results=[(SHAPE, DTYPES[result])])
    assert caught.value.code == "rounding-mode"
    registers, given = (
        api.run(
            read(text), [values(source)], form=form, allow_beyond_reference=True,
            results=[(SHAPE, DTYPES[result])],
        )[0]
        for form in ("vreg", "mosaic")
    )  # fmt: skip
    np.testing.assert_array_equal(registers.astype(np.float64), given.astype(np.float64))
