from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from xdsl.parser import Parser

from pallasite.diagnostics import ExecutionError
from pallasite.dialects import make_context
from pallasite.interpreter.facts import Facts
from pallasite.interpreter.machine.machine import Machine
from pallasite.interpreter.machine.mxu import MatrixUnits
from pallasite.interpreter.meanings import lookup
from pallasite.targets import get_target

SEED = np.random.default_rng(0)
A = SEED.standard_normal((16, 256)).astype(ml_dtypes.bfloat16).astype(np.float32)
B = SEED.standard_normal((256, 256)).astype(ml_dtypes.bfloat16).astype(np.float32)
LHS, RHS, OUT = "vector<16x256xbf16>", "vector<256x256xbf16>", "vector<16x256xf32>"


def run(core, *texts):
    """Executes ops on `core`; `%a` is the left operand, `%b` the right one. The last result."""
    body = "\n".join(texts)
    source = f"func.func @f(%a: {LHS}, %b: {RHS}) {{\n{body}\nfunc.return\n}}"
    module = Parser(make_context(), source).parse_module()
    func = next(iter(module.body.block.ops))
    arguments = dict(zip(func.body.block.args, (A, B), strict=True))
    result = None
    for op in list(func.body.block.ops)[:-1]:
        function = lookup(op).factory(op, Facts(get_target("v7x")))
        result = function(core, *(arguments[v] for v in op.operands))
    return result


@pytest.fixture
def core():
    return SimpleNamespace(mxus=MatrixUnits())


def push(register=0, transpose="false"):
    attributes = (
        f"{{mxu_index = 0 : i32, staging_register = {register} : i32, transpose = {transpose}}}"
    )
    return f"tpu.matmul_push_rhs %b {attributes} : {RHS}"


def multiply(load=None):
    loaded = "" if load is None else f"load_staged_rhs = {load} : i32, "
    return f"tpu.matmul_acc_lhs 0, %a {{{loaded}mxu_index = 0 : i32}} : {LHS}"


POP = f"%r = tpu.matmul_pop 0 {{mxu_index = 0 : i32}} : {OUT}"


def test_products_accumulate_until_they_are_popped(core):
    result = run(core, push(), multiply(0), multiply(), POP)
    np.testing.assert_allclose(result, 2 * (A @ B), rtol=1e-5, atol=1e-4)
    assert (run(core, POP) == 0).all()


def test_accumulators_overlap(core):
    """Every eight rows of 256 sums take two registers; a product may add to part of another."""
    first, second = (f"tpu.matmul_acc_lhs {n}, %a {{{t}mxu_index = 0 : i32}} : {LHS}" for n, t in (
        (0, "load_staged_rhs = 0 : i32, "), (2, "")))  # fmt: skip
    whole = "%r = tpu.matmul_pop 0 {mxu_index = 0 : i32} : vector<24x256xf32>"
    part = "%r = tpu.matmul_pop 2 {mxu_index = 0 : i32} : vector<8x256xf32>"
    expected = np.zeros((24, 256), np.float32)
    expected[:16] += A @ B
    expected[8:] += A @ B
    middle = run(core, push(), first, second, part)
    np.testing.assert_allclose(middle, expected[8:16], rtol=1e-5, atol=1e-4)
    expected[8:16] = 0
    np.testing.assert_allclose(run(core, whole), expected, rtol=1e-5, atol=1e-4)


def test_transposed_push(core):
    result = run(core, push(1, "true"), multiply(1), POP)
    np.testing.assert_allclose(result, A @ B.T, rtol=1e-5, atol=1e-4)


def test_results_leave_the_queue_in_order(core):
    queue = f"tpu.matmul_lhs_fifo %a {{load_staged_rhs = 0 : i32, mxu_index = 0 : i32}} : {LHS}"
    again = f"tpu.matmul_lhs_fifo %a {{load_staged_rhs = 1 : i32, mxu_index = 0 : i32}} : {LHS}"
    pop = f"%r = tpu.matmul_pop_fifo 0 : {OUT}"
    run(core, push(0), push(1, "true"), queue, again)
    np.testing.assert_allclose(run(core, pop), A @ B, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(run(core, pop), A @ B.T, rtol=1e-5, atol=1e-4)
    with pytest.raises(ExecutionError, match="none is queued"):
        run(core, pop)


def test_misuse_is_refused(core):
    with pytest.raises(ExecutionError, match="before a right-hand side is loaded"):
        run(core, multiply())
    with pytest.raises(ExecutionError, match="holds nothing"):
        run(core, multiply(1))
    with pytest.raises(ExecutionError, match="pushed twice"):
        run(core, push(), push())


def test_what_is_left_at_the_end_is_found():
    machine = Machine(get_target("v7x"), checks=("sync",))
    run(machine.cores[0], push())
    machine.run([])
    assert [f.code for f in machine.findings] == ["mxu-not-empty"]
