"""Tables that SMEM does not hold: what the note advises runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import Diagnostic  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax

TABLE = np.arange(1 << 19, dtype=np.int32)


def first(table: Any, o: Any) -> None:
    o[...] = jnp.full((8, 128), table[7])


def first_of_part(table: Any, o: Any, part: Any) -> None:
    pltpu.sync_copy(table.at[pl.ds(1024, 1024)], part)
    o[...] = jnp.full((8, 128), part[7])


def call(body: Any, space: Any, scratch: tuple[Any, ...] = ()) -> Any:
    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.int32),
        in_specs=[pl.BlockSpec(memory_space=space)],
        scratch_shapes=scratch,
    )(TABLE)


def test_a_whole_table_is_refused() -> None:
    with simulate(target="v5e"), pytest.raises(Diagnostic) as refused:
        call(first, pltpu.SMEM)
    assert refused.value.code == "smem-exhausted"
    assert any("pltpu.sync_copy(table.at" in note.message for note in refused.value.notes)


def test_so_is_a_prefetched_one_in_a_grid() -> None:
    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(2,), out_specs=pl.BlockSpec((8, 128), lambda i, _: (i, 0))
    )
    shape = jax.ShapeDtypeStruct((16, 128), jnp.int32)
    with simulate(target="v5e"), pytest.raises(Diagnostic) as refused:
        pl.pallas_call(first, out_shape=shape, grid_spec=grid)(TABLE)
    assert refused.value.code == "smem-exhausted"
    assert any("pltpu.sync_copy(table.at" in note.message for note in refused.value.notes)


@pytest.mark.parametrize("form", ["pallas", "mosaic", "vreg"])
def test_a_part_of_it_is_copied(form: str) -> None:
    with simulate(target="v5e", form=form):
        found = call(first_of_part, pl.ANY, (pltpu.SMEM((1024,), jnp.int32),))
    np.testing.assert_array_equal(found, np.full((8, 128), 1031))
