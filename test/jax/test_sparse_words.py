"""Refs of narrow elements that a subcore sees as words: their rows share these with neighbours
where arrays are tiled as on a TensorCore (`use_tc_tiling_on_sc`), and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from .since import require_jax  # noqa: E402

require_jax("0.10.1", "needs_layout_passes=")

import jax.numpy as jnp  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.api import parse  # noqa: E402
from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.frontend.aot import compile_ahead_of_time  # noqa: E402
from pallasite.jax import simulate  # noqa: E402
from pallasite.targets import get_target  # noqa: E402

from .sparse_kernels import TARGET, one_subcore, typed  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.feature("Y15")]

i32, i16, bf16, u8 = jnp.int32, jnp.int16, jnp.bfloat16, jnp.uint8
CASES = [(bf16, i32, (32, 128)), (u8, i32, (2, 16, 64)), (u8, i16, (16, 64)), (i32, u8, (4, 128))]


def words(x: Any, type: Any) -> Any:
    """`x` as elements of `type`, of which each is made of rows that follow each other."""
    array = np.asarray(x)
    *outer, rows, columns = array.shape
    bytes_ = array.view(np.uint8).reshape(*outer, rows, columns, -1)
    old, new = bytes_.shape[-1], jnp.dtype(type).itemsize
    if new > old:
        bytes_ = bytes_.reshape(*outer, rows * old // new, new // old, columns, old)
        bytes_ = np.moveaxis(bytes_, -3, -2)
    else:
        bytes_ = np.moveaxis(bytes_.reshape(*outer, rows, columns, old // new, new), -2, -3)
    found = np.ascontiguousarray(bytes_).reshape(*outer, -1, columns, new)
    return found.view(jnp.dtype(type)).reshape(*outer, -1, columns)


def kernel(old: Any, new: Any, shape: tuple[int, ...], buffer: bool, tiled: bool) -> Any:
    """Copies an array as elements of `new`, from HBM or from a buffer in VMEM."""
    rows = shape[-2] * jnp.dtype(old).itemsize // jnp.dtype(new).itemsize
    out = jax.ShapeDtypeStruct((*shape[:-2], rows, shape[-1]), new)

    def body(x: Any, o: Any, taken: Any) -> None:
        if buffer:
            pltpu.sync_copy(x, taken)
        pltpu.sync_copy((taken if buffer else x).bitcast(new), o)

    params = pltpu.CompilerParams(use_tc_tiling_on_sc=tiled)
    return one_subcore(body, out, [pltpu.VMEM(shape, old)], compiler_params=params)


def array(type: Any, shape: tuple[int, ...]) -> Any:
    return jnp.asarray(np.random.default_rng(5).integers(0, 120, shape), type)


@pytest.mark.parametrize("buffer", [False, True])
@pytest.mark.parametrize(("old", "new", "shape"), CASES)
def test_rows_share_words(old: Any, new: Any, shape: tuple[int, ...], buffer: bool) -> None:
    x = array(old, shape)
    with simulate(target=TARGET, form="vreg", checks="all"):
        found = np.asarray(kernel(old, new, shape, buffer, tiled=True)(x))
    np.testing.assert_array_equal(found.view(np.uint8), words(x, new).view(np.uint8))


@pytest.mark.parametrize(("old", "new", "shape"), CASES[:3])
def test_words_of_rows_that_share_none_are_refused(
    old: Any, new: Any, shape: tuple[int, ...]
) -> None:
    with simulate(target=TARGET), pytest.raises(Unsupported, match="a bitcast of memref"):
        kernel(old, new, shape, buffer=False, tiled=False)(array(old, shape))


@pytest.mark.parametrize("buffer", [False, True])
def test_narrow_elements_of_words_are_not_copied_to_others(buffer: bool) -> None:
    """libtpu 0.0.51: "Source and target trailing tiles differ"."""
    old, new, shape = CASES[3]
    with simulate(target=TARGET), pytest.raises(Unsupported, match="seen as narrower elements"):
        kernel(old, new, shape, buffer, tiled=False)(array(old, shape))


def test_odd_rows() -> None:
    """Rows of a buffer begin anywhere, in the middle of words as well."""

    def body(x: Any, o: Any, taken: Any) -> None:
        pltpu.sync_copy(x, taken)
        for row in range(4):
            pltpu.sync_copy(taken.at[2 * row + 1], o.at[row])

    x = array(i32, (8, 128))
    with simulate(target=TARGET, form="vreg"):
        found = one_subcore(body, typed(4, 128, dtype=i32), [pltpu.VMEM((8, 128), i32)])(x)
    np.testing.assert_array_equal(found, x[1::2])


@pytest.mark.aot
@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("buffer", [False, True])
def test_the_compiler_agrees(compiler: Any, buffer: bool, tiled: bool) -> None:
    old, new, shape = CASES[0]
    x = array(old, shape)
    with simulate(target=TARGET):
        call = jax.jit(kernel(old, new, shape, buffer, tiled))
        text = call.trace(x).lower(lowering_platforms=("tpu",)).as_text()
    verdict = compile_ahead_of_time(
        parse(text), topology=get_target(TARGET).topology, layout_passes=True, compiler=compiler
    )
    assert verdict.accepted == tiled, verdict.message
