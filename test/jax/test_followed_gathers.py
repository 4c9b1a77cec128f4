"""Gathers of narrow elements from many rows: what the notes say instead is one rewrite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

from pallasite import Diagnostic  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax


def call(body: Callable[..., None], x: Any, indices: Any) -> Any:
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, indices)


def test_narrow_rows_are_gathered_as_words_in_pieces() -> None:
    generator = np.random.default_rng(0)
    x = jnp.asarray(generator.standard_normal((32, 128)), jnp.bfloat16)
    indices = jnp.asarray(generator.integers(0, 32, (32, 128)), jnp.int16)

    def short(x: Any, indices: Any, o: Any) -> None:
        o[...] = jnp.take_along_axis(x[...], indices[...], 0, mode="promise_in_bounds")

    with simulate("v5e"), pytest.raises(Diagnostic) as refused:
        call(short, x, indices)
    assert refused.value.code == "gather-width"
    widen, pieces = (note.message for note in refused.value.notes[-2:])
    assert "cast the operand to a 32-bit type first, of indices of int32" in widen
    written, _ = pieces.removeprefix("gather in pieces of 8: ").split(", and jnp.concatenate")
    written = written.replace(": found = jnp.where", ":; found = jnp.where")
    piece, zeros, loop, choice = written.split("; ")
    source = f"{piece}\n{zeros}\n{loop}\n  {choice}"

    def followed(x_ref: Any, indices_ref: Any, o: Any) -> None:
        known = {
            "jnp": jnp,
            "x": x_ref[...].astype(jnp.float32),
            "indices": indices_ref[...].astype(jnp.int32),
        }
        found: list[Any] = []
        for j in range(0, 32, 8):
            known["j"] = j
            exec(source, known)
            found.append(known["found"])
        o[...] = jnp.concatenate(found).astype(x_ref.dtype)

    with simulate("v5e"):
        result = call(followed, x, indices)
    assert np.array_equal(result, np.take_along_axis(np.asarray(x), np.asarray(indices), 0))
