"""Kernels written in the `pallas` form: they read, print, run, and run the same in every form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pallasite
from pallasite import api
from pallasite.diagnostics import VerifyError
from pallasite.dialects.kernel import FORMS
from pallasite.dialects.kernel_call import call_of
from pallasite.targets import DEFAULT_TARGET

from ..printing import printed

DATA = Path(__file__).parent / "data"
EXAMPLE = Path(__file__).parents[2] / "examples" / "matmul.pallas.mlir"
KERNELS = sorted(path.stem for path in DATA.glob("*.mlir"))
DEVICES = {"ring": 4}
TARGETS = {"subcores": "v7x"}


def read(name: str) -> ModuleOp:
    path = DATA / f"{name}.mlir"
    return pallasite.parse(path.read_text(), name=path.name)


def inputs_for(name: str, module: ModuleOp) -> list[list[Any]]:
    """Seeded inputs of every device."""
    inputs = [api.random_inputs(module, seed) for seed in range(DEVICES.get(name, 1))]
    match name:
        case "pipeline_kinds":
            inputs[0][0] = np.array([2, 3, 1, 0], np.int32)
        case "dynamic_grid":
            _, x, m, z = inputs[0]
            inputs[0] = [np.array(3, np.int32), x, m > 0, z > 0]
        case "subcores":
            rows = np.random.default_rng(1).integers(0, 64, 256, np.int32)
            inputs[0][1:] = [rows, rows % 8]
        case _:
            pass
    return inputs


def outputs(name: str, module: ModuleOp, inputs: list[list[Any]], **options: Any) -> list[Any]:
    """The results of every device in a row."""
    given = inputs if len(inputs) > 1 else inputs[0]
    target = TARGETS.get(name, DEFAULT_TARGET)
    return api.simulate(module, given, devices=len(inputs), target=target, **options).all()


@pytest.mark.parametrize("name", KERNELS)
def test_text(name: str) -> None:
    module = read(name)
    for generic in (False, True):
        again = pallasite.parse(printed(module, generic=generic), name=name)
        assert module.is_structurally_equivalent(again)


@pytest.mark.filterwarnings("ignore:.*unwritten-output")
@pytest.mark.parametrize("name", KERNELS)
def test_every_form_gives_the_same(name: str) -> None:
    module = read(name)
    inputs = inputs_for(name, module)
    expected = outputs(name, module, inputs, form="pallas", checks=("race", "init", "sync"))
    for form in FORMS:
        driver = "reference" if form == "pallas" else "compiled"
        actual = outputs(name, module, inputs, form=form, driver=driver)
        for left, right in zip(expected, actual, strict=True):
            np.testing.assert_array_equal(left, right, err_msg=form)


def run(name: str, *arguments: Any) -> Any:
    return pallasite.run(read(name), list(arguments), form="pallas")


def rounded(array: Any) -> Any:
    import ml_dtypes

    return array.astype(ml_dtypes.bfloat16).astype(np.float32)


def test_matmul() -> None:
    module = read("matmul")
    x, y = api.random_inputs(module)
    (o,) = run("matmul", x, y)
    exact = rounded(x) @ y.astype(np.float32)
    np.testing.assert_allclose(o, np.maximum(exact, 0), rtol=1e-5, atol=1e-4)


def test_softmax() -> None:
    x = api.random_inputs(read("softmax"))[0]
    o, best = run("softmax", x)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(o, e / e.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(best[:, 0], x.argmax(1))


def test_gather() -> None:
    _, x, z = api.random_inputs(read("gather"))
    ids = np.array([4, 0, 5], np.int32)
    (o,) = run("gather", ids, x, z)
    expected = z.copy()
    expected[:, 8:32] = (x[:, ids] + ids[:, None, None].astype(np.float32)).reshape(2, 24, 128)
    np.testing.assert_array_equal(o, expected)


def test_scoped_dma() -> None:
    x = api.random_inputs(read("scoped_dma"))[0]
    o, count = run("scoped_dma", x)
    expected = x[:16].copy()
    expected[8:] = np.where(x[:16:2] > 0, x[:16:2], expected[8:])
    expected[3] = o[3]
    np.testing.assert_array_equal(o, expected)
    np.testing.assert_allclose(o[3], x[:16].sum(), rtol=1e-4)
    np.testing.assert_array_equal(count, [16, 8])


def test_pipeline() -> None:
    x, y = api.random_inputs(read("pipeline"))
    (o,) = run("pipeline", x, y)
    exact = x.astype(np.float32) @ y.astype(np.float32)
    np.testing.assert_allclose(o, exact, rtol=1e-5, atol=1e-4)


def test_pipeline_kinds() -> None:
    table, x, y = inputs_for("pipeline_kinds", read("pipeline_kinds"))[0]
    (o,) = run("pipeline_kinds", table, x, y)
    parts = [y[8 * i : 8 * i + 8] for i in range(3)]
    expected = x[table[1]] + np.concatenate([p for part in parts for p in (part, part)])[:40] + 2
    np.testing.assert_array_equal(o, expected)


@pytest.mark.feature("Y19")
def test_subcores() -> None:
    module = read("subcores")
    inputs = inputs_for("subcores", module)
    rows, taken, given = inputs[0]
    sums, totals = outputs("subcores", module, inputs, form="pallas", checks=("all",))
    expected = np.tile(rows[:8], (2, 1, 1))
    np.add.at(expected, (np.arange(256) // 128, given), rows[taken])
    np.testing.assert_array_equal(sums, expected.reshape(16, 128))
    last = rows[taken].reshape(32, 8, 128)[:, 3, :16]
    np.testing.assert_array_equal(totals, np.cumsum(last, axis=1, dtype=np.int32))


def test_kernels_of_one_call_agree() -> None:
    source = (DATA / "subcores.mlir").read_text()
    source = source.replace("needs_layout_passes = false", "needs_layout_passes = true")
    with pytest.raises(VerifyError, match="@adding has others than @filling"):
        call_of(pallasite.parse(source))


def test_dynamic_grid() -> None:
    steps, x, m, z = inputs_for("dynamic_grid", read("dynamic_grid"))[0]
    o, p = run("dynamic_grid", steps, x, m, z)
    left = np.repeat([3, 2, 1], 8)[:, None].astype(np.float32)
    np.testing.assert_array_equal(o[:24], np.where(m[:24], x[:24], left))
    np.testing.assert_array_equal(p, np.concatenate([~m[:24], z[24:]]))


def test_masked() -> None:
    x, _ = api.random_inputs(read("masked"))
    mask = inputs_for("masked", read("masked"))[0][1]
    o, p = run("masked", x, mask)
    expected = np.where(mask, x, 0)
    before = expected.copy()
    before[2] = np.where(mask[3], expected[9], expected[2])
    expected[9] = np.where(mask[3], x[5], expected[9])
    np.testing.assert_array_equal(o, expected)
    np.testing.assert_array_equal(p, before)


def test_ring() -> None:
    module = read("ring")
    inputs = inputs_for("ring", module)
    results = outputs("ring", module, inputs, form="pallas")
    for device, result in enumerate(results):
        np.testing.assert_array_equal(result, inputs[device - 1][0])


def test_example_is_the_readme_s() -> None:
    code = EXAMPLE.read_text().split("\n", 1)[1]
    assert code in (EXAMPLE.parents[1] / "README.md").read_text()
    module = pallasite.parse(EXAMPLE.read_text(), name=EXAMPLE.name)
    x, y = api.random_inputs(module)
    (o,) = pallasite.run(module, [x, y], form="pallas")
    exact = x.astype(np.float32) @ y.astype(np.float32)
    np.testing.assert_allclose(o, exact, rtol=1e-5, atol=1e-4)
