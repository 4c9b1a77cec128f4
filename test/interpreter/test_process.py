import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from pallasite import api, parse, run

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


def threads() -> set[int]:
    """Of NumPy's BLAS."""
    return {pool["num_threads"] for pool in threadpool_info() if "numpy" in pool["filepath"]}


def test_results_are_the_same_after_tuning():
    subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM], check=True)


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
