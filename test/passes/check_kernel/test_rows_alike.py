"""Reductions of rows that are the same, whose results lie along lanes on v4, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.jax import trace  # noqa: E402

from ...asking import asked  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.aot]
Kernel = Callable[[Any], Any]


def repeated(x: Any) -> Any:
    return jnp.broadcast_to(x[:1], x.shape)


def iota(axis: int) -> Any:
    return lax.broadcasted_iota(jnp.int32, (8, 128), axis)


def carried(begin: Kernel, step: Kernel) -> Kernel:
    return lambda x: lax.fori_loop(0, 3, lambda _, total: total + step(x), begin(x))


def rows(x: Any) -> Any:
    return jnp.sum(repeated(x), 1)


def column(x: Any) -> Any:
    return jnp.sum(x, 1)


TAKEN: dict[str, Kernel] = {
    "constants": lambda x: jnp.sum(jnp.full((4, 8, 128), x[0, 0]), 2),
    "copies": rows,
    "largest of computed copies": lambda x: jnp.max(jnp.exp(repeated(x)) * x[1:2], 1),
    "masks of lanes": lambda x: jnp.sum(jnp.where(iota(1) < x[0, 0], 1, 0), 1),
    "meets a row": lambda x: rows(x) + x[0, :8],
    "meets a column": lambda x: (column(x) + rows(x))[:, None],
    "begins as copies": carried(rows, rows),
    "a column is carried": lambda x: carried(column, rows)(x)[:, None],
    "a column of copies": lambda x: jnp.broadcast_to(x[:1, :1], (8, 1)).reshape(8),
    "a dimension for a while": lambda x: x[:, :, None].reshape(8, 2, 64),
}
REFUSED: dict[str, Kernel] = {
    "rows": column,
    "masks of rows": lambda x: jnp.sum(jnp.where(iota(0) < x[0, 0], 1, 0), 1),
    "along matrices": lambda x: jnp.sum(jnp.full((4, 8, 128), x[0, 0]), (1, 2)),
    "begins as copies": carried(rows, column),
    "places of copies": lambda x: jnp.argmax(repeated(x), 1),
    "a column in two dimensions": lambda x: column(x)[:, None].reshape(2, 4),
    "columns of matrices": lambda x: jnp.full((4, 2, 1), x[0, 0]).reshape(8),
}


def module_of(function: Kernel) -> Any:
    def body(x: Any, o: Any) -> None:
        o[...] = function(x[...])

    x = jnp.ones((8, 128), jnp.float32)
    return trace(pl.pallas_call(body, out_shape=jax.eval_shape(function, x)), x, target="v4")


@pytest.mark.parametrize("case", TAKEN)
def test_taken(case: str, compiler: Any) -> None:
    module = module_of(TAKEN[case])
    for form in ("mosaic", "vreg"):
        lowered = pallasite.lower(module, form, "v4")
        assert asked(lowered, "v4", compiler, layout_passes=form == "mosaic").accepted


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, compiler: Any) -> None:
    module = module_of(REFUSED[case])
    with pytest.raises(Unsupported) as caught:
        pallasite.lower(module, "mosaic", "v4")
    assert caught.value.code == "sublane-gather"
    beyond = pallasite.lower(module, "mosaic", "v4", allow_beyond_reference=True)
    assert not asked(beyond, "v4", compiler, layout_passes=True).accepted
