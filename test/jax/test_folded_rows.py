"""Transfers of wide arrays of words whose rows are seen in several dimensions, and of their parts.

The TPU compiler's verdict is asked of the program as it is and of our registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.frontend.aot import compile_ahead_of_time  # noqa: E402
from pallasite.jax import trace  # noqa: E402
from pallasite.targets import get_target  # noqa: E402

pytestmark = pytest.mark.jax
View = Callable[[Any, Any], Any]
ANY = pl.BlockSpec(memory_space=pl.ANY)
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)


def rows(start: Any, size: int, array: Any) -> Any:
    """A part along the first dimension, of a ref or an array."""
    if isinstance(array, np.ndarray):
        return array[start : start + size]
    return array.at[pl.ds(start, size)]


def plane(array: Any, *place: Any) -> Any:
    return array[place] if isinstance(array, np.ndarray) else array.at[place]


TAKEN: dict[str, tuple[tuple[int, ...], View]] = {
    "whole": ((32, 256), lambda x, i: x.reshape(8, 4, 256)),
    "planes": ((3, 16, 256), lambda x, i: x.reshape(12, 4, 256)),
    "units": ((12, 256), lambda x, i: x.reshape(12, 1, 256)),
    "few rows": ((3, 4, 200), lambda x, i: x.reshape(6, 2, 200)),
    "deep": ((32, 256), lambda x, i: x.reshape(4, 2, 2, 2, 256)),
    "and back": ((32, 256), lambda x, i: x.reshape(8, 4, 256).reshape(2, 16, 256)),
    "one known": ((32, 256), lambda x, i: plane(x.reshape(8, 4, 256), 3)),
    "one": ((32, 256), lambda x, i: plane(x.reshape(8, 4, 256), i)),
    "one row": ((32, 200), lambda x, i: plane(x.reshape(8, 4, 200), i, 1)),
    "every": ((32, 256), lambda x, i: plane(x.reshape(4, 2, 4, 256), slice(None), i)),
    "within": ((32, 256), lambda x, i: rows(1, 3, x.reshape(16, 2, 256))),
    "across": ((32, 256), lambda x, i: rows(3, 2, x.reshape(16, 2, 256))),
    "parts": ((32, 256), lambda x, i: rows(2 * i, 2, x.reshape(16, 2, 256))),
    "tiles": ((32, 256), lambda x, i: rows(4 * i, 4, x.reshape(16, 2, 256))),
    "inner": ((32, 256), lambda x, i: rows(1, 2, plane(x.reshape(8, 4, 256), i))),
    "of one tile": (
        (24, 384), lambda x, i: plane(x.reshape(6, 4, 384), slice(4, 6), slice(3, 4)),
    ),
    "of one row of two tiles": (
        (48, 384), lambda x, i: plane(x.reshape(2, 12, 2, 384), i, slice(3, 5), slice(1, 2)),
    ),
    "of an unknown tile": (
        (24, 384), lambda x, i: plane(x.reshape(3, 2, 4, 384), i, slice(None), slice(1, 3)),
    ),
    "lanes": (
        (32, 200), lambda x, i: plane(x.reshape(8, 4, 200), 3, slice(None), slice(128, 200)),
    ),
    "columns": ((16, 512), lambda x, i: x.reshape(4, 4, 2, 256)),
    "columns and back": ((16, 256), lambda x, i: x.reshape(16, 2, 128).reshape(2, 8, 256)),
    "columns of padded rows": ((2, 12, 256), lambda x, i: plane(x.reshape(2, 12, 2, 128), i, i)),
    "rows of columns": ((16, 256), lambda x, i: rows(7, 2, x.reshape(16, 2, 128))),
    "one of columns": ((16, 512), lambda x, i: plane(x.reshape(16, 2, 256), slice(None), i)),
}  # fmt: skip
REFUSED: dict[str, tuple[tuple[int, ...], View]] = {
    "cut": ((32, 256), lambda x, i: rows(1, 4, x.reshape(16, 2, 256))),
    "odd": ((32, 256), lambda x, i: rows(4 * i, 3, x.reshape(16, 2, 256))),
    "unknown": ((32, 256), lambda x, i: rows(i, 4, x.reshape(32, 1, 256))),
    "inner": ((32, 256), lambda x, i: plane(x.reshape(8, 4, 256), slice(None), 1)),
    "lanes": (
        (32, 256), lambda x, i: plane(x.reshape(8, 4, 256), 3, slice(None), slice(64, 128)),
    ),
    "of two tiles": (
        (24, 384), lambda x, i: plane(x.reshape(6, 4, 384), slice(2, 6), slice(3, 4)),
    ),
    "of two rows of two tiles": (
        (64, 384), lambda x, i: plane(x.reshape(4, 8, 2, 384), i, slice(2, 6), slice(1, 2)),
    ),
    "half columns": ((16, 320), lambda x, i: x.reshape(16, 5, 64)),
    "rows of columns": ((16, 256), lambda x, i: rows(5, 6, x.reshape(16, 2, 128))),
    "columns as rows": ((16, 256), lambda x, i: x.reshape(16, 2, 128).reshape(32, 128)),
    "merged": ((4, 8, 256), lambda x, i: rows(3, 10, x.reshape(32, 256))),
    "apart": ((32, 256), lambda x, i: rows(1, 2, x.reshape(8, 4, 256)).reshape(8, 256)),
    "columns": ((16, 512), lambda x, i: plane(x, slice(None), slice(0, 128)).reshape(2, 8, 128)),
}  # fmt: skip


def call(shape: tuple[int, ...], view: View, space: Any) -> tuple[Any, Any, Any]:
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    expected = view(x, 1)

    def body(place: Any, x: Any, o: Any) -> None:
        pltpu.sync_copy(view(x, place[0]), o)

    copied = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(expected.shape, jnp.int32),
        in_specs=[SMEM, pl.BlockSpec(memory_space=space)],
        out_specs=ANY,
    )
    return copied, (jnp.array([1]), jnp.asarray(x)), expected


def accepts(module: Any, compiler: Any, target: str, *, layout_passes: bool) -> bool:
    topology = get_target(target).topology
    return compile_ahead_of_time(
        module, topology=topology, layout_passes=layout_passes, compiler=compiler
    ).accepted


@pytest.mark.aot
@pytest.mark.parametrize("space", [pltpu.HBM, pltpu.VMEM])
@pytest.mark.parametrize("case", TAKEN)
def test_parts(case: str, space: Any, compiler: Any) -> None:
    copied, arguments, expected = call(*TAKEN[case], space)
    target = "v5e" if space == pltpu.HBM else "v6e"
    module = trace(copied, *arguments, target=target)
    for form in ("pallas", "mosaic", "tiles", "vreg"):
        (result,) = pallasite.run(module, list(arguments), form=form, target=target)
        np.testing.assert_array_equal(result, expected)
    assert accepts(pallasite.lower(module, "mosaic", target), compiler, target, layout_passes=True)
    assert accepts(pallasite.lower(module, "vreg", target), compiler, target, layout_passes=False)


@pytest.mark.aot
@pytest.mark.parametrize("space", [pltpu.HBM, pltpu.VMEM])
@pytest.mark.parametrize("case", REFUSED)
def test_refused_parts(case: str, space: Any, compiler: Any) -> None:
    copied, arguments, _ = call(*REFUSED[case], space)
    module = trace(copied, *arguments, target="v5e")
    with pytest.raises(Unsupported) as caught:
        pallasite.lower(module, "mosaic", "v5e")
    assert caught.value.code in ("unaligned-slice", "view-layout") and caught.value.notes
    mosaic = pallasite.lower(module, "mosaic", "v5e", allow_beyond_reference=True)
    assert not accepts(mosaic, compiler, "v5e", layout_passes=True)


@pytest.mark.parametrize("case", REFUSED)
def test_beyond_the_reference(case: str) -> None:
    """What is lowered all the same is right."""
    copied, arguments, expected = call(*REFUSED[case], pltpu.VMEM)
    module = trace(copied, *arguments, target="v5e")
    try:
        lowered = pallasite.lower(module, "vreg", "v5e", allow_beyond_reference=True)
    except Unsupported:
        return
    (result,) = pallasite.run(lowered, list(arguments), form="vreg", target="v5e")
    np.testing.assert_array_equal(result, expected)
