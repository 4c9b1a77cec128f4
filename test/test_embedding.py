"""What a process that embeds the library relies on: threads, settings and memory are its own."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

import pallasite
from pallasite import api
from pallasite.interpreter.machine.memory import Buffer
from pallasite.lowering.vectors_to_tiles import converter

EXAMPLES = Path(__file__).parents[1] / "examples"
MATMUL = (EXAMPLES / "matmul.pallas.mlir").read_text()
FORMS = ("pallas", "mosaic", "dma", "tiles", "vreg")


def outcome(module: ModuleOp, form: str) -> tuple[str, bytes]:
    lowered = pallasite.lower(module, form)
    (result,) = pallasite.run(lowered, api.random_inputs(module), form=form)
    return str(lowered), result.tobytes()


def settings() -> Sequence[Any]:
    return (
        gc.isenabled(), np.geterr(), sys.getrecursionlimit(), dict(os.environ),
        list(warnings.filters), list(sys.path),
    )  # fmt: skip


@pytest.fixture
def eager_switches() -> Any:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("eager_switches")
def test_threads_lower_and_run_one_module_at_once() -> None:
    module = pallasite.parse(MATMUL)
    # First, so that everything is imported: pytest parses what it imports, which CPython 3.11 does
    # not in two threads at once ("AST constructor recursion depth mismatch").
    expected = {form: outcome(module, form) for form in FORMS}
    before, barrier = str(module), Barrier(2)

    def work(forms: Sequence[str]) -> dict[str, tuple[str, bytes]]:
        barrier.wait()
        return {form: outcome(module, form) for form in forms}

    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(work, (FORMS, FORMS[::-1]))
    assert one == other == expected
    assert str(module) == before


FIRST_USE = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

sys.setswitchinterval(1e-6)
import pallasite
from pallasite import api

text, forms = Path(sys.argv[1]).read_text(), sys.argv[2:]
barrier = Barrier(3)

def work(number):
    found = {}
    barrier.wait()
    for form in forms[number:] + forms[:number]:
        module = pallasite.parse(text)
        lowered = pallasite.lower(module, form)
        driver = "reference" if number == 2 else "compiled"
        (result,) = pallasite.run(lowered, api.random_inputs(module), form=form, driver=driver)
        found[form] = str(lowered), result.tobytes()
    return found

with ThreadPoolExecutor(3) as threads:
    one, other, third = threads.map(work, range(3))
assert one == other == third
"""


def test_threads_are_the_first_to_use_anything() -> None:
    kernel = str(EXAMPLES / "matmul.pallas.mlir")
    subprocess.run([sys.executable, "-c", FIRST_USE, kernel, *FORMS], check=True)


class Interrupted(ModulePass):
    name = "interrupted"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise KeyboardInterrupt


def test_an_interrupted_lowering_leaves_the_settings_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = settings()
    module = pallasite.parse(MATMUL)
    with pytest.raises(KeyboardInterrupt):
        pallasite.lower(module, "vreg", passes=[Interrupted()])
    assert settings() == before

    def interrupted(*_: Any) -> None:
        assert not gc.isenabled()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(converter.Converter, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pallasite.lower(module, "vreg")
    assert settings() == before


INTERRUPTED = """
import gc, sys
import pallasite

disable = gc.disable

def interrupted():
    disable()
    raise KeyboardInterrupt

gc.disable = interrupted
try:
    pallasite.parse(open(sys.argv[1]).read())
except KeyboardInterrupt:
    assert gc.isenabled()
else:
    raise AssertionError("nothing was interrupted")
"""


def test_an_interrupt_leaves_the_collector_on() -> None:
    # In a process of its own: what other tests left running in threads may pause the collector.
    kernel = str(EXAMPLES / "matmul.pallas.mlir")
    subprocess.run([sys.executable, "-c", INTERRUPTED, kernel], check=True)


def test_no_operation_outlives_its_module() -> None:
    def living() -> list[Operation]:
        gc.collect()
        return [held for held in gc.get_objects() if isinstance(held, Operation)]

    module = pallasite.parse(MATMUL)
    # What other tests have left may go meanwhile, so numbers would not tell.
    inputs, before = api.random_inputs(module), {id(op) for op in living()}
    for form in FORMS:
        for driver in ("compiled", "reference"):
            # What a module is lowered to stays with it, and goes with it.
            pallasite.run(module.clone(), inputs, form=form, driver=driver, checks=["all"])
        left = [op.name for op in living() if id(op) not in before]
        assert not left, form


@pytest.mark.parametrize("form", ["pallas", "tiles", "vreg"])
def test_runs_of_one_kernel_leave_nothing(form: str) -> None:
    kernel = pallasite.lower(pallasite.parse(MATMUL), form)
    inputs = api.random_inputs(kernel)

    def objects(runs: int) -> int:
        for _ in range(runs):
            pallasite.run(kernel, inputs, form=form, checks=["all"])
        gc.collect()
        return len(gc.get_objects())

    objects(3)
    before = objects(3)
    assert objects(20) <= before + 3


@pytest.mark.parametrize("checks", [(), ("all",)])
def test_the_memory_of_a_run_does_not_wait_for_the_collector(checks: Sequence[str]) -> None:
    kernel = pallasite.lower(pallasite.parse(MATMUL), "tiles")
    inputs = api.random_inputs(kernel)

    def held() -> int:
        buffers = [found for found in gc.get_objects() if isinstance(found, Buffer)]
        return sum(len(buffer.bytes) for buffer in buffers if "bytes" in vars(buffer))

    for _ in range(2):
        pallasite.run(kernel, inputs, form="tiles", checks=checks)
    gc.collect()
    before = held()
    gc.disable()
    try:
        pallasite.run(kernel, inputs, form="tiles", checks=checks)
        assert held() <= before
    finally:
        gc.enable()
