"""Making an unrolled kernel executable costs what its operations do, and nothing on top."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

import pytest

import pallasite
from pallasite.interpreter.run import prepare
from pallasite.targets import get_target

REF = "memref<8x128xf32, #tpu.memory_space<vmem>>"
ALL = f"sublanes [{', '.join(['true'] * 8)}]"


def unrolled(additions: int) -> str:
    """A kernel of form `vreg` that adds a register to itself so often."""
    lines = [f"%{n + 1} = arith.addf %{n}, %0 : vector<8x128xf32>" for n in range(additions)]
    attributes = "dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64"
    return f"""func.func @kernel(%x: {REF})
        attributes {{{attributes}, tpu.core_type = #tpu.core_type<tc>}} {{
      %i = arith.constant 0 : index
      %0 = tpu.load %x[%i, %i] {ALL} : {REF}, vector<8x128xf32>
      {" ".join(lines)}
      tpu.store %x[%i, %i], %{additions} {ALL} : {REF}, vector<8x128xf32>,
      func.return
    }}"""


@contextmanager
def collections() -> Generator[list[int]]:
    """The generations that Python collects within, which it does often."""
    found: list[int] = []

    def told(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            found.append(info["generation"])

    before = gc.get_threshold()
    gc.callbacks.append(told)
    gc.set_threshold(50, 10, 10)
    try:
        yield found
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(told)


@pytest.mark.parametrize("additions", [20, 200])
def test_no_garbage_is_looked_for_meanwhile(additions: int) -> None:
    module = pallasite.parse(unrolled(additions))
    with collections() as found:
        prepared = prepare(module, target=get_target("v5e"))
    assert len(found) <= 3
    with collections() as found:
        prepared.program.function("kernel")
    assert len(found) <= 3
