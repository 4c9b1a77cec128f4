"""Blocks that are transposed hold zeros below their last register.

The TPU compiler does not send these through the cross-lane unit: its code is shorter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from pallasite import api
from pallasite.dialects import arith, tpu
from pallasite.frontend.aot import compile_ahead_of_time
from pallasite.targets import get_target

from .memory_kernels import kernel

ROWS = (1, 8, 16)
"""Registers of 8 rows that a block of 16 holds."""


def lowered(registers: int, target: str) -> ModuleOp:
    rows = 8 * registers
    body = f"""
    %v = vector.load %a[%z, %z] : A, vector<{rows}x128xf32>
    %t = vector.transpose %v, [1, 0] : vector<{rows}x128xf32> to vector<128x{rows}xf32>
    tpu.vector_store %b[%z, %z], %t {{strides = array<i32>}} : B, vector<128x{rows}xf32>,
    """
    return api.lower(kernel([f"{rows}x128xf32", f"128x{rows}xf32"], body), "vreg", target)


def rolled(module: ModuleOp) -> tpu.RollVectorsOp:
    (roll,) = [op for op in module.walk() if isinstance(op, tpu.RollVectorsOp)]
    return roll


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("registers", ROWS)
def test_a_block_ends_with_zeros(registers: int, target: str) -> None:
    module = lowered(registers, target)
    operands = rolled(module).operands
    assert len(operands) == 16
    constant = [isinstance(v.owner, arith.ConstantOp) for v in operands]
    assert constant == [False] * registers + [True] * (16 - registers)
    a = np.arange(registers * 8 * 128, dtype=np.float32).reshape(-1, 128)
    (result,) = api.run(module, [a], form="vreg", target=target)
    np.testing.assert_array_equal(result, a.T)


@pytest.mark.aot
@pytest.mark.parametrize("target", ["v5e", "v6e"])
def test_zeros_make_the_code_shorter(target: str, compiler: Any) -> None:
    def code_bytes(module: ModuleOp) -> int:
        topology = get_target(target).topology
        verdict = compile_ahead_of_time(
            module, topology=topology, layout_passes=False, compiler=compiler
        )
        assert verdict.accepted, verdict.message
        assert verdict.code_bytes
        return verdict.code_bytes

    with_zeros, repeated = lowered(1, target), lowered(1, target)
    roll = rolled(repeated)
    roll.operands = [roll.operands[0]] * len(roll.operands)
    assert code_bytes(with_zeros) < code_bytes(repeated)
