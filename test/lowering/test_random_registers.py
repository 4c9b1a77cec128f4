"""Programs of single registers mean the same where loads and stores are joined, moved or parted.

    PALLASITE_EXAMPLES=20 pytest -n0 test/lowering/test_random_registers.py

takes twenty times as many.
"""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pytest

import pallasite
from pallasite.interpreter.options import Options
from pallasite.interpreter.run import execute
from pallasite.targets import get_target

from .random_registers import Program

MORE = int(os.environ.get("PALLASITE_EXAMPLES", "1"))
PARTS = 4
V5E = get_target("v5e")
SAVED = ("tpu.load", "arith.select", "tpu.sublane_shuffle")


@pytest.mark.parametrize("part", range(PARTS))
def test_random_registers(part: int) -> None:
    fewer = Counter[str]()
    for seed in range(part, 160 * MORE, PARTS):
        program = Program(seed)
        module = pallasite.parse(program.text)
        lowered = pallasite.lower(module, "vreg", "v5e")
        # What is undefined holds two patterns.
        for form in (module, lowered) if seed % 3 == 0 else (lowered,):
            results = execute(form, [program.inputs], Options(poison=seed % 2), target=V5E).outputs[
                0
            ]
            for actual, wanted in zip(results, program.expected, strict=True):
                np.testing.assert_array_equal(actual, wanted, f"{seed}\n{program.text}")
        before, after = (Counter(op.name for op in m.walk()) for m in (module, lowered))
        fewer.update(name for name in SAVED if after[name] < before[name])
        fewer["tpu.shuffled_load"] += after["tpu.shuffled_load"] > 0
    assert all(fewer[name] for name in (*SAVED, "tpu.shuffled_load")), fewer
