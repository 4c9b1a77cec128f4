import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import OpenBLASController, threadpool_info, threadpool_limits

from pallasite import api, parse, run
from pallasite.interpreter import process
from pallasite.interpreter.process import (
    about_to_multiply,
    one_blas_thread,
    products_on_one_thread,
)

EXAMPLES = Path(__file__).parents[2] / "examples"

PROGRAM = """
import numpy as np
from pallasite.interpreter.process import tune
a = np.random.default_rng(0).integers(-9, 9, (300, 300)).astype(np.float32)
before = a @ a + a
tune()
tune()
assert (a @ a + a == before).all()
"""

FAULTS = """
import resource
import numpy as np
from pallasite.interpreter.process import keep_freed
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        held = [np.ones(1 << 18, np.float32) for _ in range(6)]
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
keep_freed()
faults()
print(faults())
"""


def threads() -> set[int]:
    """Of NumPy's BLAS."""
    return {pool["num_threads"] for pool in threadpool_info() if "numpy" in pool["filepath"]}


def test_results_are_the_same_after_tuning():
    subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM], check=True)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is about glibc")
def test_freed_blocks_come_back_without_page_faults():
    found = subprocess.run([sys.executable, "-c", FAULTS], check=True, capture_output=True)
    # Of 20 times 6 MiB, each time 1,536 pages, most come anew otherwise.
    assert int(found.stdout) < 100


def test_kernels_run_on_one_thread(monkeypatch: pytest.MonkeyPatch):
    seen: set[int] = set()
    product = np.matmul

    def matmul(*operands: Any, **options: Any) -> Any:
        seen.update(threads())
        return product(*operands, **options)

    monkeypatch.setattr(np, "matmul", matmul)
    kernel = parse((EXAMPLES / "matmul.pallas.mlir").read_text())
    with threadpool_limits(2, "blas"):
        run(kernel, api.random_inputs(kernel), form="pallas")
        assert threads() == {2}
    assert seen == {1}


def test_threads_that_overlap_leave_the_number_of_blas_threads_as_it_was():
    # Who enters first leaves first, on another thread: theirs are no nested contexts.
    first, second = ExitStack(), ExitStack()
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        limits = one.submit(threadpool_limits, 2, "blas").result()
        one.submit(lambda: first.enter_context(one_blas_thread())).result()
        other.submit(lambda: second.enter_context(one_blas_thread())).result()
        assert threads() == {1}
        one.submit(first.close).result()
        assert threads() == {1}, "the other one still runs a kernel"
        other.submit(second.close).result()
        left = threads()
        one.submit(limits.unregister).result()
    assert left == {2}


@pytest.mark.parametrize("step", ["num_threads", "set_num_threads", "_disown"])
@pytest.mark.parametrize("leaving", [False, True])
def test_an_interrupt_leaves_blas_right_after_the_next_run(
    step: str, leaving: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    def interrupting(patched: pytest.MonkeyPatch) -> None:
        if step == "_disown":
            patched.setattr(process, "_disown", interrupt)
        else:
            value: Any = property(interrupt) if step == "num_threads" else interrupt
            patched.setattr(OpenBLASController, step, value)

    with threadpool_limits(2, "blas"):
        with monkeypatch.context() as patched:
            try:
                if not leaving:
                    interrupting(patched)
                with one_blas_thread():
                    interrupting(patched)
            except KeyboardInterrupt:
                pass
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {2}


def test_a_thread_that_holds_the_limits_of_blas_does_not_keep_others_from_one_thread():
    """To threadpoolctl 3.8, what a thread has limited no other one limits meanwhile."""
    with threadpool_limits(2, "blas"), ThreadPoolExecutor(1) as other:

        def run() -> set[int]:
            with one_blas_thread():
                return threads()

        assert other.submit(run).result() == {1}
        assert threads() == {2}


def test_blas_is_limited_from_the_first_product_on():
    with threadpool_limits(2, "blas"):
        about_to_multiply()
        assert threads() == {2}, "nobody would lift the limit"
        with products_on_one_thread():
            assert threads() == {2}
            with products_on_one_thread():
                about_to_multiply()
                about_to_multiply()
                assert threads() == {1}
            assert threads() == {2}
            about_to_multiply()
            assert threads() == {1}
        assert threads() == {2}
