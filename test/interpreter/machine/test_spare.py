"""Memory that one run leaves to the next holds nothing of it, and is bounded."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.parser import Parser

from pallasite.dialects import make_context
from pallasite.interpreter.machine.memory import HostMemory
from pallasite.interpreter.machine.spare import ALIGNMENT, LEAST, Spare, fresh
from pallasite.interpreter.run import execute
from pallasite.targets import get_target


def block(size: int) -> np.ndarray:
    return np.zeros(size, np.uint8)


def test_blocks_are_found_by_their_size() -> None:
    spare = Spare()
    big = block(LEAST * 2)
    spare.keep([block(LEAST), big])
    assert spare.take(LEAST * 2) is big
    assert spare.take(LEAST * 2) is None
    assert spare.kept == LEAST


def test_old_blocks_make_room() -> None:
    spare = Spare(limit=LEAST * 3)
    spare.keep([block(LEAST), block(LEAST), block(LEAST * 2)])
    assert spare.kept == LEAST * 3
    spare.keep([block(LEAST * 3)])
    assert spare.take(LEAST) is None and spare.take(LEAST * 2) is None
    assert spare.take(LEAST * 3) is not None
    spare.keep([block(LEAST * 4), block(LEAST - 1)])
    assert spare.kept == 0


def test_blocks_are_used_again_after_the_run_only() -> None:
    spare = Spare()
    host = HostMemory(None, spare)
    mine = host.block(LEAST)
    host.leave(mine)
    assert host.block(LEAST) is not mine
    host.close()
    assert HostMemory(None, spare).block(LEAST) is mine


HALF_WRITTEN = """
func.func @main(%x: memref<256x256xf32, #tpu.memory_space<vmem>>,
                %o: memref<256x256xf32, #tpu.memory_space<vmem>>)
    attributes {tpu.core_type = #tpu.core_type<tc>} {
  %c0 = arith.constant 0 : index
  %v = vector.load %x[%c0, %c0]
      : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<128x256xf32>
  vector.store %v, %o[%c0, %c0]
      : memref<256x256xf32, #tpu.memory_space<vmem>>, vector<128x256xf32>
  return
}
"""


def test_runs_see_nothing_of_each_other() -> None:
    module = Parser(make_context(), HALF_WRITTEN, "kernel.mlir").parse_module()
    spare = Spare()

    def run(value: float) -> np.ndarray:
        x = np.full((256, 256), value, np.float32)
        return execute(module, [[x]], target=get_target("v5e"), spare=spare).outputs[0][0]

    first, second = run(1.0), run(2.0)
    assert spare.kept > 0
    assert (first[:128] == 1).all() and (second[:128] == 2).all()
    # What nobody writes is poison, whatever the block held before.
    assert first[128:].tobytes() == second[128:].tobytes()
    assert np.isnan(second[128:]).all()


@pytest.mark.parametrize("size", [1, LEAST - 1, LEAST, 3 * LEAST + 4, 1 << 21])
def test_large_blocks_begin_where_xla_takes_them(size: int) -> None:
    for block in [fresh(size) for _ in range(4)]:
        assert block.shape == (size,) and block.flags.c_contiguous and block.flags.writeable
        assert size < LEAST or block.ctypes.data % ALIGNMENT == 0
