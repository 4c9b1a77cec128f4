"""The DMA form of windows of any kind: its transfers, their order, and what they leave.

Random kernels mix blocked and element windows with padding, blocks cut by the edge, dimensions of
one element, blocks of rank 1, one or two buffers, outputs that may be visited again, arrays that an
input and an output share, index maps that read a prefetched table, dynamic grids and grids that two
cores share. `window_model` and `schedule_model` say what must happen.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pallasite
from pallasite import Diagnostic
from pallasite.dialects import make_context
from pallasite.dialects.core_split import core_split
from pallasite.dialects.kernel import describe_kernel, functions_of, kernel_function
from pallasite.lowering.windows_to_dma import WindowsToDmaPass
from pallasite.targets import get_target

from .dma_traces import BoxTrace, boxed
from .schedule_model import model, stays
from .window_model import TABLE, Case, Window, text_of, values_after

MORE = int(os.environ.get("PALLASITE_EXAMPLES", "1"))


def check_events(case: Case, target: str = "v5e") -> None:
    """The events of `case`, on each core, are those of the specification's schedule."""
    module = pallasite.parse(text_of(case, touching=True))
    kernel = kernel_function(module)
    assert kernel is not None
    split = core_split(
        describe_kernel(kernel), functions_of(module),
        [n for n, window in enumerate(case.windows) if window.output], get_target(target).cores,
    )  # fmt: skip
    WindowsToDmaPass(target=target).apply(make_context(), module)
    module.verify()
    function = kernel_function(module)
    assert function is not None
    for core in range(split.cores if split else 1):
        axes: list[int | range] = list(case.grid)
        bounds: list[Any] = [case.grid[axis] for axis in case.dynamic]
        arguments = [*bounds, TABLE, *(None for _ in case.windows)]
        single = list(case.grid)
        if split is not None:
            first, count = split.part(core, case.grid[split.axis])
            axes[split.axis] = range(first, first + count)
            single[split.axis] = 2  # which part a core has is known only when it runs
            arguments = [core, *arguments]
        windows = [
            replace(w, buffers=1) if stays(w.terms, case.grid, case.dynamic) else w
            for w in case.windows
        ]
        trace = BoxTrace(function, arguments, windows)
        events = model(axes, windows, lambda w: w.trivial(case.grid, case.dynamic))
        assert trace.events == [boxed(event, windows) for event in events]
        assert not any(trace.semaphores.values())


# Random kernels.

TERMS = ["0", "1", "d0", "d1", "d0/2", "d1/2", "d0+d1", "t"]


@st.composite
def windows(draw: st.DrawFn, grid: Sequence[int], output: bool) -> Window:
    """A window of rank 1 to 3 with every block inside its array, at least in part."""
    rank = draw(st.sampled_from([2, 2, 2, 3, 1]))
    low = high = None
    if rank == 1:
        block: tuple[int, ...] = (draw(st.sampled_from([128, 256, 1024])),)
    else:
        rows, columns = draw(st.sampled_from([8, 16])), draw(st.sampled_from([128, 256]))
        block = (rows, columns) if rank == 2 else (draw(st.sampled_from([1, 1, 2])), rows, columns)
    elements = rank > 1 and draw(st.booleans())
    names = [name for name in TERMS if "d1" not in name or len(grid) > 1]
    terms = [draw(st.sampled_from(names)) for _ in range(rank)]
    terms[-1] = draw(st.sampled_from(["0", "0", terms[-1]])) if rank > 1 else terms[-1]
    points = list(itertools.product(*map(range, grid))) or [(0,) * len(grid)]
    shape: list[int] = []
    if elements:
        grain = (1,) * (rank - 2) + (8, 128)
        low = tuple(
            draw(st.sampled_from([0, g])) * (b > g) for g, b in zip(grain, block, strict=True)
        )
        # Blocks that are written must not overlap.
        steps = block if output else grain
        terms = [text if text == "0" else f"{text}*{step}" if "+" not in text else "0"
                 for text, step in zip(terms, steps, strict=True)]  # fmt: skip
    at = Window(output, (), block, terms)
    last = [max(index[d] for index in map(at.index, points)) for d in range(rank)]
    for d, size in enumerate(block):
        end = (last[d] + 1) * size if low is None else last[d] - low[d] + size
        least = end - size + 1
        cut = draw(st.sampled_from([0, 0, 1, size // 2, size - 1]))
        shape.append(max(end - cut, least, 1))
    if low is not None:
        over = [last[d] - low[d] + size - shape[d] for d, size in enumerate(block)]
        high = tuple(max(o, 0) for o in over)
    revisits = output and draw(st.sampled_from([False, False, True]))
    buffers = 1 if revisits else draw(st.sampled_from([1, 2, 2]))
    return Window(output, tuple(shape), block, tuple(terms), buffers, low, high, revisits)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rank = draw(st.sampled_from([1, 2, 2]))
    grid = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    dynamic = draw(st.sampled_from([(), (), (0,), tuple(range(rank))]))
    if dynamic and draw(st.sampled_from([False, False, True])):
        grid = (0, *grid[1:])
    inputs = draw(st.lists(windows(grid, False), min_size=1, max_size=3))
    outputs = draw(st.lists(windows(grid, True), min_size=1, max_size=2))
    partners: dict[int, int] = {}
    aliases: dict[int, int] = {}
    for o in range(len(outputs)):
        n = draw(st.integers(0, len(inputs) - 1))
        if draw(st.booleans()):
            # The same array or one like it, blocks of the same shape, another map perhaps.
            other = inputs[n]
            terms = other.terms if draw(st.booleans()) else outputs[o].terms
            if other.low is None and len(terms) == len(other.terms) and _fits(other, terms, grid):
                outputs[o] = Window(True, other.array, other.block, terms, outputs[o].buffers)
                if n not in aliases and draw(st.booleans()):
                    aliases[n] = o
        if outputs[o].block == inputs[n].block:
            partners[len(inputs) + o] = n
    return Case(grid, [*inputs, *outputs], partners, aliases, dynamic, draw(st.booleans()))


def _fits(window: Window, terms: Sequence[str], grid: Sequence[int]) -> bool:
    """Whether every block of another index map lies in the window's array, at least in part."""
    other = Window(True, window.array, window.block, terms)
    points = itertools.product(*map(range, grid))
    starts = (i * b for p in points for i, b in zip(other.index(p), window.block, strict=True))
    return all(s < n for s, n in zip(starts, itertools.cycle(window.array), strict=False))


PADDED_BEFORE = Case(
    (4,),
    [
        Window(False, (32, 128), (16, 128), ("d0*8", "0"), 2, (8, 0), (0, 0)),
        Window(True, (64, 128), (16, 128), ("d0", "0")),
    ],
    {1: 0},
)


@settings(max_examples=20 * MORE, deadline=None)
@example(PADDED_BEFORE, "v5e")
@given(cases(), st.sampled_from(["v5e", "v5e", "v4"]))
def test_events_of_any_windows(case: Case, target: str) -> None:
    check_events(case, target)


@pytest.mark.filterwarnings("ignore:.*unwritten-output")
@pytest.mark.filterwarnings("ignore:.*parallel-shared-block")
@settings(max_examples=10 * MORE, deadline=None)
@given(cases(), st.integers(0, 3))
def test_values_of_any_windows(case: Case, seed: int) -> None:
    """What is accepted is right, in whatever order the transfers land."""
    module = pallasite.parse(text_of(case))
    generator = np.random.default_rng(seed)
    arrays = [generator.integers(-100, 100, w.array) for w in case.windows if not w.output]
    bounds = [np.int32(case.grid[axis]) for axis in case.dynamic]
    wanted = values_after(case, [a.astype(np.float64) for a in arrays])
    inputs = [*bounds, np.array(TABLE, np.int32), *(a.astype(np.float32) for a in arrays)]
    try:
        outputs = pallasite.run(
            module, inputs, form="dma", checks=("all",), seed=seed, allow_beyond_reference=True
        )
    except Diagnostic as error:
        refusals = ["block-revisited"] * (wanted is None) + ["broken-promise"] * bool(case.aliases)
        assert error.code in refusals
        return
    assert wanted is not None
    for output, expected in zip(outputs, wanted, strict=True):
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(np.asarray(output)[known], expected[known])
