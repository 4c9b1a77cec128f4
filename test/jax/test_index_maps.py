"""Index maps that ask for blocks outside of their arrays: the note has the line of the map."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")

from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

from .mistakes import X, call, scaled  # noqa: E402

pytestmark = pytest.mark.jax


def blocks(index_map: Any) -> dict[str, Any]:
    inputs, output = pl.BlockSpec((8, 128), index_map), pl.BlockSpec((8, 128), lambda i: (i, 0))
    return {"grid": (2,), "in_specs": [inputs], "out_specs": [output]}


def kernel(index_map: Any) -> Any:
    return call(scaled, X, **{**blocks(index_map), "out_specs": blocks(index_map)["out_specs"][0]})


def pipeline(index_map: Any) -> Any:
    inner = pltpu.emit_pipeline(scaled, **blocks(index_map))
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return call(lambda x, o: inner(x, o), X, in_specs=[anywhere], out_specs=anywhere)


@pytest.mark.parametrize("form", ["dma", "vreg"])
@pytest.mark.parametrize("program", [kernel, pipeline])
def test_a_block_outside_has_the_line_of_its_map(program: Callable[[Any], Any], form: Any) -> None:
    behind = lambda i: (i + 1, 0)  # noqa: E731
    with simulate(form=form), pytest.raises(Exception, match="outside") as caught:
        program(behind)
    line = behind.__code__.co_firstlineno
    note = rf"{Path(__file__).name}:{line}:\d+: note: the index map of the operand asks for this"
    assert re.search(note, str(caught.value))
