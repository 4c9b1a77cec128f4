"""Masks become numbers, with a sign or without one, and numbers become masks of their low bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pallasite
from pallasite.dialects import make_context
from pallasite.interpreter.options import Options
from pallasite.interpreter.run import execute
from pallasite.lowering.pipelines import STEPS
from pallasite.passes.registry import get_all_passes
from pallasite.targets import get_target

from .memory_kernels import kernel

TYPES: dict[str, Any] = {
    "f32": np.float32, "bf16": ml_dtypes.bfloat16, "i32": np.int32, "i16": np.int16, "i8": np.int8,
}  # fmt: skip
KINDS = [("extui", "i32"), ("extsi", "i32"), ("extui", "i16"), ("extsi", "i16"), ("extsi", "i8"),
         ("uitofp", "f32"), ("sitofp", "f32")]  # fmt: skip


def vector(element: str) -> str:
    return f"vector<16x200x{element}>"


def run(body: str, values: list[Any], result: str, target: str, **options: bool) -> list[Any]:
    """What forms mosaic and vreg give for a body that makes `%r` of the vectors `%x` and `%y`."""
    (element,) = {name for name, kind in TYPES.items() if values[0].dtype == kind}
    module = kernel(
        [f"16x200x{element}", f"16x200x{element}", f"16x200x{result}"],
        f"""%x = vector.load %a[%z, %z] : A, {vector(element)}
        %y = vector.load %b[%z, %z] : B, {vector(element)}
        {body}
        tpu.vector_store %c[%z, %z], %r {{strides = array<i32>}} : C, {vector(result)},""",
    )
    runs = [
        pallasite.run(module, values, form=f, target=target, **options) for f in ("mosaic", "vreg")
    ]
    return [np.asarray(found) for (found,) in runs]


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("kind, result", KINDS)
def test_masks_that_hold_everywhere_become_numbers(kind: str, result: str, target: str) -> None:
    values = [np.zeros((16, 200), np.float32)] * 2
    body = f"""%m = arith.cmpf true, %x, %y : {vector("f32")}
        %r = arith.{kind} %m : {vector("i1")} to {vector(result)}"""
    number = -1 if kind in ("extsi", "sitofp") else 1
    for found in run(body, values, result, target, allow_beyond_reference=True):
        np.testing.assert_array_equal(found, np.full((16, 200), number, TYPES[result]))


@pytest.mark.parametrize("element, target", [("f32", "v5e"), ("bf16", "v6e"), ("i8", "v6e")])
@pytest.mark.parametrize("kind, result", KINDS)
def test_masks_become_numbers(kind: str, result: str, element: str, target: str) -> None:
    made = np.random.default_rng(0)
    values = [made.integers(-9, 9, (16, 200)).astype(TYPES[element]) for _ in range(2)]
    compared = "arith.cmpi sgt" if element == "i8" else "arith.cmpf ogt"
    # The mask governs data of the width that was compared, too.
    body = f"""%m = {compared}, %x, %y : {vector(element)}
        %s = arith.select %m, %x, %y : {vector("i1")}, {vector(element)}
        tpu.vector_store %b[%z, %z], %s {{strides = array<i32>}} : B, {vector(element)},
        %r = arith.{kind} %m : {vector("i1")} to {vector(result)}"""
    number = -1 if kind in ("extsi", "sitofp") else 1
    expected = np.where(values[0] > values[1], number, 0).astype(TYPES[result])
    for found in run(body, values, result, target, allow_beyond_reference=True):
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("element, result", [("f32", "i16"), ("i32", "i8"), ("i16", "i8")])
@pytest.mark.parametrize("kind", ["extui", "extsi"])
@pytest.mark.parametrize("target", ["v4", "v6e"])
def test_masks_of_wide_data_become_narrow_numbers(
    element: str, result: str, kind: str, target: str
) -> None:
    """In one step, as `fold-kernel` joins the two of `canonicalize-mosaic`."""
    compare = "arith.cmpf ogt" if element == "f32" else "arith.cmpi sgt"
    module = kernel(
        [f"32x256x{element}"] * 2 + [f"16x200x{result}"],
        f"""%row = arith.constant 3 : index
        %lane = arith.constant 5 : index
        %x = vector.load %a[%row, %lane] : A, {vector(element)}
        %y = vector.load %b[%row, %lane] : B, {vector(element)}
        %m = {compare}, %x, %y : {vector(element)}
        %r = arith.{kind} %m : {vector("i1")} to {vector(result)}
        tpu.vector_store %c[%z, %z], %r {{strides = array<i32>}} : C, {vector(result)},""",
    )
    module = pallasite.lower(module, "dma", target, allow_beyond_reference=True)
    passes, names = get_all_passes(), list(STEPS["tiles"])
    names.insert(names.index("vectors-to-tiles"), "fold-kernel")
    for name in names:
        options = {} if name == "fold-kernel" else {"target": target}
        passes[name]()(**options).apply(make_context(), module)
    x, y = np.random.default_rng(0).integers(-9, 9, (2, 32, 256)).astype(TYPES[element])
    expected = np.where(x > y, -1 if kind == "extsi" else 1, 0)[3:19, 5:205]
    for poison in (0, 1):
        ran = execute(module, [[x, y]], Options(poison=poison), target=get_target(target))
        assert np.array_equal(ran.outputs[0][0], expected)


@pytest.mark.parametrize("element", ["i32", "i16", "i8"])
def test_low_bits_become_masks(element: str) -> None:
    made = np.random.default_rng(0)
    values = [made.integers(-9, 9, (16, 200)).astype(TYPES[element]) for _ in range(2)]
    body = f"""%m = arith.trunci %x : {vector(element)} to {vector("i1")}
        %r = arith.extui %m : {vector("i1")} to {vector("i32")}"""
    for found in run(body, values, "i32", "v5e"):
        assert np.array_equal(found, values[0] & 1)


CASTS = {
    "bf16": "arith.truncf %f : {f32} to {r}", "f32": "arith.addf %f, %f : {r}",
    "i16": "arith.fptosi %f : {f32} to {r}", "i8": "arith.fptosi %f : {f32} to {r}",
}  # fmt: skip


@pytest.mark.parametrize("target", ["v4", "v5e", "v6e"])
@pytest.mark.parametrize("element", ["f32", "bf16", "i16", "i8"])
@pytest.mark.parametrize("result", CASTS)
@pytest.mark.parametrize("numbers", [(1.0, -2.0), (-0.0, 0.0), (1.5, 200.0)])
def test_numbers_that_masks_choose(
    numbers: tuple[float, float], result: str, element: str, target: str
) -> None:
    """As they are cast one by one; what a type does not hold is rounded or saturates."""
    made = np.random.default_rng(0)
    values = [made.integers(-2, 3, (16, 200)).astype(TYPES[element]) for _ in range(2)]
    compared = "arith.cmpi sgt" if element[0] == "i" else "arith.cmpf ogt"
    one, other = (f"arith.constant dense<{n}> : {vector('f32')}" for n in numbers)
    cast = CASTS[result].format(f32=vector("f32"), r=vector(result))
    body = f"""%one = {one}
        %other = {other}
        %m = {compared}, %x, %y : {vector(element)}
        %f = arith.select %m, %one, %other : {vector("i1")}, {vector("f32")}
        %r = {cast}"""
    chosen = np.where(values[0] > values[1], *np.array(numbers, np.float32))
    if result == "f32":
        expected = chosen + chosen
    elif result == "bf16":
        expected = chosen.astype(TYPES[result])
    else:
        expected = np.minimum(chosen, np.iinfo(TYPES[result]).max).astype(TYPES[result])
    for found in run(body, values, result, target):
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("predicate", ["ugt", "uge", "ule", "ult"])
@pytest.mark.parametrize("element, number", [("i8", n) for n in (0, 1, 127, 128, 9)] + [("i16", 0)])
def test_unsigned_numbers_and_constants(
    number: int, element: str, predicate: str, target: str
) -> None:
    values = [np.arange(3200).astype(TYPES[element]).reshape(16, 200)] * 2
    body = f"""%n = arith.constant dense<{number}> : {vector(element)}
        %m = arith.cmpi {predicate}, %x, %n : {vector(element)}
        %r = arith.select %m, %x, %n : {vector("i1")}, {vector(element)}"""
    whole = values[0].astype(np.int64) % (1 << 8 * values[0].itemsize)
    holds = {"ugt": whole > number, "uge": whole >= number, "ule": whole <= number,
             "ult": whole < number}[predicate]  # fmt: skip
    expected = np.where(holds, values[0], np.array(number).astype(TYPES[element]))
    for found in run(body, values, element, target, allow_beyond_reference=True):
        assert np.array_equal(found, expected)
