"""Transfers of as many rows of a buffer in VMEM as are known at run time only.

The TPU compiler's verdict is asked of the program as it is and of our registers: those of a
buffer of which such a part may end within a tile lie row by row.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

jax = pytest.importorskip("jax")

from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite  # noqa: E402
from pallasite.frontend.aot import compile_ahead_of_time  # noqa: E402
from pallasite.jax import trace  # noqa: E402
from pallasite.targets import get_target  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.aot]
ANY = pl.BlockSpec(memory_space=pl.ANY)
NUMBER = pl.BlockSpec(memory_space=pltpu.SMEM)
ROWS = 64


def agrees(call: Any, arguments: list[Any], expected: Any, target: str, compiler: Any) -> None:
    """All forms give `expected`, and the TPU compiler takes kernel and registers."""
    module = trace(call, *arguments, target=target)
    for form in ("pallas", "mosaic", "tiles", "vreg"):
        (result,) = pallasite.run(module, list(arguments), form=form, target=target)
        np.testing.assert_array_equal(result, expected)
    for form in ("mosaic", "vreg"):
        verdict = compile_ahead_of_time(
            pallasite.lower(module, form, target),
            topology=get_target(target).topology,
            layout_passes=form == "mosaic",
            compiler=compiler,
        )
        assert verdict.accepted, (form, verdict.message)


@pytest.mark.parametrize("target", ["v5e", "v7x"])
@pytest.mark.parametrize(
    ("shape", "element", "multiple", "size"),
    [
        ((8, 128), np.int32, 1, 5), ((4, 128), np.int32, 1, 3), ((12, 128), np.float32, 1, 11),
        ((16, 128), np.float32, 4, 12), ((16, 128), ml_dtypes.bfloat16, 2, 6),
    ],
)  # fmt: skip
def test_stored_rows(
    shape: tuple[int, int], element: Any, multiple: int, size: int, target: str, compiler: Any
) -> None:
    def body(size: Any, data: Any, old: Any, o: Any, buffer: Any, done: Any) -> None:
        buffer[...] = data[...] + data[...]
        rows = pl.multiple_of(size[0], multiple)
        first = pl.multiple_of(size[1], multiple)
        copy = pltpu.make_async_copy(buffer.at[pl.ds(0, rows)], o.at[pl.ds(first, rows)], done)
        copy.start()
        copy.wait()

    data = np.arange(shape[0] * shape[1]).reshape(shape).astype(element)
    old = np.ones((ROWS, shape[1]), element)
    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(old.shape, element),
        in_specs=[NUMBER, pl.BlockSpec(memory_space=pltpu.VMEM), ANY],
        out_specs=ANY,
        scratch_shapes=[pltpu.VMEM(shape, element), pltpu.SemaphoreType.DMA],
        input_output_aliases={2: 0},
    )
    first = 6 * multiple
    expected = old.copy()
    expected[first : first + size] = (data + data)[:size]
    agrees(call, [np.array([size, first], np.int32), data, old], expected, target, compiler)


@pytest.mark.parametrize("element", [np.int32, np.float32])
def test_loaded_rows_of_one_of_two_buffers(element: Any, compiler: Any) -> None:
    def body(size: Any, x: Any, o: Any, buffers: Any, done: Any) -> None:
        buffers[...] = jax.numpy.zeros_like(buffers)
        copy = pltpu.make_async_copy(
            x.at[pl.ds(0, size[0])], buffers.at[1, pl.ds(0, size[0])], done
        )
        copy.start()
        copy.wait()
        o[...] = buffers[1]

    x = np.arange(ROWS * 128).reshape(ROWS, 128).astype(element)
    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((16, 128), element),
        in_specs=[NUMBER, ANY],
        scratch_shapes=[pltpu.VMEM((2, 16, 128), element), pltpu.SemaphoreType.DMA],
    )
    expected = np.where(np.arange(16)[:, None] < 11, x[:16], 0)
    agrees(call, [np.array([11], np.int32), x], expected, "v5e", compiler)


@pytest.mark.parametrize("shape", [(32, 128), (2, 3, 16, 128)])
@pytest.mark.parametrize("element", [np.float32, ml_dtypes.bfloat16])
def test_waits_for_rows_that_are_counted_as_words(
    shape: tuple[int, ...], element: Any, compiler: Any
) -> None:
    """The copy is one of known size; how many rows of words are waited for is not known."""

    def body(count: Any, x: Any, o: Any, buffer: Any, done: Any) -> None:
        pltpu.make_async_copy(x, buffer, done).start()
        words = buffer.bitcast(np.uint32).reshape(-1, 128)
        rows = words.at[pl.ds(0, count[0])]
        pltpu.make_async_copy(rows, rows, done).wait()
        o[...] = buffer[...]

    x = np.arange(np.prod(shape)).reshape(shape).astype(element)
    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(shape, element),
        in_specs=[NUMBER, ANY],
        scratch_shapes=[pltpu.VMEM(shape, element), pltpu.SemaphoreType.DMA],
    )
    count = np.array([x.nbytes // 512], np.int32)
    agrees(call, [count, x], x, "v5e", compiler)
