"""Whole operands in VMEM, and blocks, that are larger than what a kernel gets of it.

Arrays that another order of dimensions pads less are copied into VMEM outside of the kernel, on
v7x all inputs that fit. The TPU compiler's verdict is asked of the program as it is and of our
registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.jax import trace  # noqa: E402

from ..asking import asked  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.aot]
f32 = jnp.float32


def first_rows(shape: tuple[int, ...], target: str) -> Any:
    """A kernel that adds 1 to the first rows of one operand."""

    def body(x: Any, o: Any) -> None:
        o[...] = x[:8] + 1

    call = pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((8, *shape[1:]), f32))
    return trace(call, jax.ShapeDtypeStruct(shape, f32), target=target)


@pytest.mark.parametrize(("shape", "target"), [
    ((65536, 1), "v5e"), ((40000, 129), "v5e"), ((20000, 3, 128), "v5e"), ((100000, 64), "v6e"),
    ((65536, 1), "v7x"),
])  # fmt: skip
def test_copied_outside(shape: tuple[int, ...], target: str, compiler: Any) -> None:
    module = first_rows(shape, target)
    for form in ("mosaic", "dma", "vreg"):
        lowered = pallasite.lower(module, form, target)
        assert asked(lowered, target, compiler, layout_passes=form != "vreg").accepted
    (result,) = pallasite.run(module, [np.ones(shape, np.float32)], form="vreg", target=target)
    np.testing.assert_array_equal(result, np.full((8, *shape[1:]), 2))


@pytest.mark.parametrize(("shape", "target"), [
    ((65536, 127), "v5e"), ((33000, 128), "v5e"), ((240000, 64), "v5e"), ((100000, 64), "v7x"),
    ((70000, 128), "v7x"), ((65536, 1), "v5p"),
])  # fmt: skip
def test_too_large(shape: tuple[int, ...], target: str, compiler: Any) -> None:
    module = first_rows(shape, target)
    with pytest.raises(Unsupported) as caught:
        pallasite.lower(module, "mosaic", target)
    assert caught.value.code == "vmem-exhausted"
    beyond = pallasite.lower(module, "mosaic", target, allow_beyond_reference=True)
    assert not asked(beyond, target, compiler, layout_passes=True).accepted


def blocks(sizes: list[int], columns: int, limit: int, target: str, aliased: bool = False) -> Any:
    """A kernel that reads the first rows of blocks, two of each array, of so many MiB."""
    mib = 1 << 20

    def body(*refs: Any) -> None:
        refs[-1][0:8, :] = sum(ref[0:8, :] for ref in refs[:-1])

    rows = [size * mib // 1024 for size in sizes]
    shapes = [jax.ShapeDtypeStruct((2 * count, columns), f32) for count in rows]
    specs = [pl.BlockSpec((count, columns), lambda i: (i, 0)) for count in rows]
    call = pl.pallas_call(
        body, grid=(2,), in_specs=specs,
        out_specs=pl.BlockSpec((8, columns), lambda i: (i, 0)),
        out_shape=shapes[0] if aliased else jax.ShapeDtypeStruct((16, columns), f32),
        input_output_aliases={0: 0} if aliased else {},
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=limit * mib),
    )  # fmt: skip
    return trace(call, *shapes, target=target)


@pytest.mark.parametrize(("sizes", "columns", "limit", "target", "taken"), [
    # Arrays of twice the blocks' MiB, and 10 MiB that are left.
    ([20], 256, 13, "v7x", True), ([20], 256, 14, "v7x", False), ([20], 256, 13, "v6e", False),
    ([10, 5], 256, 13, "v7x", True), ([5, 17], 256, 20, "v7x", False),
    ([5, 17], 256, 9, "v7x", True), ([12, 12, 2], 256, 17, "v7x", False),
    ([2, 5, 17], 256, 6, "v7x", False), ([2, 2, 17], 256, 35, "v7x", True),
    ([4], 100, 2, "v5e", True), ([4], 100, 2, "v6e", True), ([4], 100, 2, "v5p", False),
    ([4], 100, 2, "v4", False), ([4], 256, 2, "v5e", False),
])  # fmt: skip
def test_blocks(
    sizes: list[int], columns: int, limit: int, target: str, taken: bool, compiler: Any
) -> None:
    """Blocks of arrays that are in VMEM anyway need no buffers; the smallest are there first."""
    module = blocks(sizes, columns, limit, target)
    if not taken:
        with pytest.raises(Unsupported) as caught:
            pallasite.lower(module, "mosaic", target)
        assert caught.value.code == "vmem-exhausted"
        assert not asked(module, target, compiler, layout_passes=True).accepted
        return
    for form in ("mosaic", "dma", "vreg"):
        lowered = pallasite.lower(module, form, target)
        assert asked(lowered, target, compiler, layout_passes=form != "vreg").accepted


def test_results_are_not_copied_before(compiler: Any) -> None:
    module = blocks([5], 256, 2, "v7x", aliased=True)
    with pytest.raises(Unsupported) as caught:
        pallasite.lower(module, "mosaic", "v7x")
    assert caught.value.code == "vmem-exhausted"
    assert not asked(module, "v7x", compiler, layout_passes=True).accepted


MODES = (pl.Buffered(3), pl.Buffered(2, use_lookahead=True), pl.Buffered(1))


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_whole_arrays_have_one_buffer_whatever_is_asked(mode: Any, compiler: Any) -> None:
    def body(x: Any, y: Any, o: Any) -> None:
        o[...] = x[...] + y[...]

    def moved(i: Any) -> Any:
        return i, 0

    spec = pl.BlockSpec((8, 128), moved)
    call = pl.pallas_call(
        body,
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (0, 0), pipeline_mode=mode), spec],
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct((32, 128), f32),
    )
    x, y = np.ones((8, 128), np.float32), np.arange(4096, dtype=np.float32).reshape(32, 128)
    module = trace(call, x, y, target="v5e")
    (result,) = pallasite.run(module, [x, y], form="pallas", target="v5e")
    np.testing.assert_array_equal(result, y + 1)
    lowered = pallasite.lower(module, "mosaic", "v5e")
    assert "double_buffered" not in str(lowered)
    assert asked(lowered, "v5e", compiler, layout_passes=True).accepted
