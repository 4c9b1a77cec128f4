"""`--verify-each` catches every planted fault and names the pass that it was planted in."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from pallasite import api
from pallasite.diagnostics import ExecutionError, VerifyError
from pallasite.interpreter import run
from pallasite.interpreter.options import Options
from pallasite.interpreter.run import Outcome
from pallasite.targets import get_target
from pallasite.tools.verify_each import Conditions, verify_each

from . import mosaic_faults, register_faults, tile_faults, window_faults  # noqa: F401
from .faults import FAULTS, Fault
from .kernels import Kernel, argument, kernel

TARGET = "v5e"


def verified(kernel: Kernel, after_pass: api.AfterPass | None = None) -> Outcome:
    """Lowers `kernel` to registers, running it after every pass."""
    inputs = [kernel.arrays()]
    target = get_target(TARGET)

    def execute(module: ModuleOp, conditions: Conditions) -> Outcome:
        options = Options.of(seed=conditions.seed, poison=conditions.poison)
        return run.execute(module, inputs, options, target=target)

    # A choice between masks, which a fault is about, is beyond the reference.
    module = api.parse(kernel.text)
    return verify_each(
        module, "vreg", TARGET, execute, after_pass=after_pass, allow_beyond_reference=True
    )


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_the_guilty_pass_is_named(fault: Fault) -> None:
    verified(fault.kernel)
    with pytest.MonkeyPatch.context() as patch:
        fault.plant(patch)
        with pytest.raises(ExecutionError) as caught:
            verified(fault.kernel)
    assert caught.value.code in ("answer-changed", "no-longer-runs")
    assert fault.guilty in caught.value.message


RULES = {
    "product_of_constants_is_their_sum": "fold_float_constants of arith.mulf",
    "product_by_three_is_folded": "fold_neutral of arith.muli",
    "sign_is_lost_on_the_way_through_words": "legalize_extension of arith.extsi",
    "halves_of_a_split_shuffle_are_swapped": "split of tpu.sublane_shuffle",
}


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.name in RULES], ids=lambda f: f.name)
def test_the_wrong_rewrite_is_named_where_a_pass_can_stop_in_between(fault: Fault) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fault.plant(patch)
        with pytest.raises(ExecutionError) as caught:
            verified(fault.kernel)
    error = caught.value
    assert error.notes[0].message == f"the first wrong rewrite is {RULES[fault.name]}"
    assert error.location is not None and error.location.line


def test_a_module_that_is_not_valid_is_put_down_to_its_pass() -> None:
    def spoil(step: ModulePass, form: str, module: ModuleOp) -> None:
        if step.name == "windows-to-dma":
            wait = next(op for op in module.walk() if op.name == "tpu.wait_dma2")
            wait.operands = [*wait.operands, wait.operands[0]]

    with pytest.raises(VerifyError) as caught:
        verified(FAULTS[0].kernel, spoil)
    assert caught.value.message.startswith("windows-to-dma leaves a module that is not valid: ")


def test_unspecified_elements_are_not_compared() -> None:
    ref = argument("o:16x128xf32").memref
    store = (
        f"tpu.vector_store %o[%c0, %c0], %a {{strides = array<i32>}} : {ref}, vector<8x128xf32>,"
    )
    half = kernel(
        [argument("x:8x128xf32"), argument("o:16x128xf32")],
        f"""
        LOAD %a, x
        {store}
        """,
    )
    (output,) = verified(half).all()
    assert (output[:8] == half.arrays()[0]).all()
