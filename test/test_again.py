"""A module that is run again is lowered once, until it changes."""

from __future__ import annotations

import copy
import gc
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f32
from xdsl.ir import Operation

import pallasite
from pallasite import again, api
from pallasite.diagnostics import ExecutionError, UsageError
from pallasite.dialects.arith import AddfOp, ConstantOp, MulfOp
from pallasite.lowering.vectors_to_tiles import converter
from pallasite.lowering.whole import Lowering
from pallasite.passes.canonicalize_mosaic import driver as canonicalize_mosaic
from pallasite.passes.fold_kernel import driver as fold_kernel
from pallasite.passes.rules import AllRules
from pallasite.targets import TARGETS

SCALE = """
pallas.kernel @scale
  input %x: tensor<8x128xf32> in vmem
  output %o: tensor<8x128xf32> in vmem
{
  %v = pallas.load %x[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
  %two = arith.constant 2.0 : f32
  %all = vector.broadcast %two : f32 to vector<8x128xf32>
  %w = arith.addf %v, %all : vector<8x128xf32>
  pallas.store %w, %o[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
}
"""
X = np.arange(1024, dtype=np.float32).reshape(8, 128)


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The forms to which modules were lowered since."""
    forms: list[str] = []
    run = Lowering.run

    def watched(self: Lowering, module: ModuleOp, form: str) -> ModuleOp:
        forms.append(form)
        return run(self, module, form)

    monkeypatch.setattr(Lowering, "run", watched)
    return forms


def only(module: ModuleOp, kind: type[Operation]) -> Any:
    (found,) = [op for op in module.walk() if isinstance(op, kind)]
    return found


def test_a_module_is_lowered_once_for_each_form(lowered: list[str]) -> None:
    module = api.parse(SCALE)
    for seed in range(3):
        for form in ("tiles", "vreg"):
            (y,) = pallasite.run(module, [X + seed], form=form, seed=seed)
            np.testing.assert_array_equal(y, X + seed + 2)
    assert lowered == ["tiles", "vreg"]


def set_constant(module: ModuleOp) -> None:
    only(module, ConstantOp).properties["value"] = FloatAttr(3.0, f32)


def replace_sum(module: ModuleOp) -> None:
    add = only(module, AddfOp)
    new = MulfOp(add.lhs, add.lhs)
    add.parent.insert_op_before(new, add)
    add.result.replace_all_uses_with(new.result)
    add.detach()
    add.erase()


def swap_operand(module: ModuleOp) -> None:
    add = only(module, AddfOp)
    add.operands[1] = add.operands[0]


@pytest.mark.parametrize(
    ("change", "expected"),
    [(set_constant, X + 3), (replace_sum, X * X), (swap_operand, X + X)],
)
def test_a_module_that_changes_is_lowered_again(
    change: Any, expected: Any, lowered: list[str]
) -> None:
    module = api.parse(SCALE)
    for wanted in (X + 2, expected, expected):
        (y,) = pallasite.run(module, [X])
        np.testing.assert_array_equal(y, wanted)
        if wanted is not expected:
            change(module)
    assert len(lowered) == 2


def test_a_rule_of_the_user_counts_from_now_on(
    lowered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = api.parse(SCALE)
    pallasite.run(module, [X])
    known = converter._RULES.of
    ours = known[AddfOp]
    monkeypatch.setitem(known, AddfOp, ours)  # to be there again afterwards
    asked: list[Operation] = []

    @converter.rule(AddfOp)
    def watched(c: Any, op: Any) -> None:
        asked.append(op)
        ours(c, op)

    for _ in range(2):
        np.testing.assert_array_equal(pallasite.run(module, [X])[0], X + 2)
    assert len(asked) == 1 and len(lowered) == 2


@pytest.mark.parametrize("rules", [fold_kernel.KERNEL, canonicalize_mosaic._RULES])
def test_so_does_one_of_several_rules(
    lowered: list[str], monkeypatch: pytest.MonkeyPatch, rules: AllRules[Any]
) -> None:
    module = api.parse(SCALE)
    pallasite.run(module, [X])
    monkeypatch.setitem(rules.of, AddfOp, [*rules.of.get(AddfOp, ())])
    asked: list[Operation] = []
    rules.rule(AddfOp)(lambda op, folder: asked.append(op))
    pallasite.run(module, [X])
    assert asked and len(lowered) == 2


def test_a_changed_target_is_another_one(
    lowered: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = api.parse(SCALE)
    for mxu in ("v5e", "v6e"):
        monkeypatch.setitem(TARGETS, "mine", replace(TARGETS[mxu], name="mine"))
        pallasite.run(module, [X], target="mine")
    assert len(lowered) == 2


def test_other_names_are_told_in_messages(lowered: list[str]) -> None:
    module = api.parse(SCALE)
    pallasite.run(module, [X])
    only(module, AddfOp).result.name_hint = "sum"
    pallasite.run(module, [X])
    assert len(lowered) == 2


def test_failures_and_passes_of_the_user_are_not_kept(lowered: list[str]) -> None:
    module = api.parse(SCALE)
    for _ in range(2):
        with pytest.raises(ExecutionError, match="steps"):
            pallasite.run(module, [X], max_steps=1)
        with pytest.raises(UsageError, match="inputs"):
            pallasite.run(module, [])
        np.testing.assert_array_equal(pallasite.run(module, [X])[0], X + 2)
    assert len(lowered) == 1


def test_threads_that_run_a_module_at_once_do_not_meet() -> None:
    module = api.parse(SCALE)

    def run(number: int) -> bool:
        return bool((pallasite.run(module, [X + number])[0] == X + number + 2).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(40)))


def test_what_is_odd_is_said_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Lowering.run

    def odd(self: Lowering, module: ModuleOp, form: str) -> ModuleOp:
        self.tell(UsageError("odd", "this is odd"))
        return run(self, module, form)

    monkeypatch.setattr(Lowering, "run", odd)
    module = api.parse(SCALE)
    for _ in range(3):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            pallasite.run(module, [X])
        assert [str(w.message) for w in found if "this is odd" in str(w.message)] != []
        assert len(found) == 1


def test_what_is_known_goes_with_the_module() -> None:
    module = api.parse(SCALE)
    pallasite.run(module, [X])
    gone = weakref.ref(module)
    other = module.clone()
    assert again._NAME not in vars(other)
    assert not vars(copy.copy(vars(module)[again._NAME]))["kernels"]
    del module
    gc.collect()
    assert gone() is None


def test_few_kernels_are_kept_and_no_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    module = api.parse(SCALE)
    for form in ("pallas", "mosaic", "dma", "tiles", "vreg"):
        pallasite.run(module, [X], form=form)
    assert len(vars(module)[again._NAME].kernels) == again.MOST_KERNELS
    monkeypatch.setattr(again, "MOST_OPERATIONS", 3)
    other = api.parse(SCALE)
    pallasite.run(other, [X])
    assert not vars(other)[again._NAME].kernels
