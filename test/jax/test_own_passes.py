"""Passes of the user's run on every kernel of a simulated program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

import pallasite.jax  # noqa: E402
from pallasite.diagnostics import UsageError  # noqa: E402
from pallasite.dialects import arith  # noqa: E402
from pallasite.dialects.kernel import form_of  # noqa: E402
from pallasite.lowering.pipelines import LowerToDmaPass  # noqa: E402

pytestmark = pytest.mark.jax

FORMS: list[str] = []


@dataclass(frozen=True)
class DivisionsAreProducts(ModulePass):
    """Wrong on purpose, so that it shows."""

    name = "divisions-are-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        FORMS.append(form_of(op))
        for division in [d for d in op.walk() if isinstance(d, arith.DivfOp)]:
            product = arith.MulfOp(division.lhs, division.rhs)
            block = division.parent
            assert block is not None
            block.insert_op_before(product, division)
            division.result.replace_all_uses_with(product.result)
            division.detach()


def quarter(x: Any) -> Any:
    def body(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] / 4.0

    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


@pytest.mark.parametrize(
    ("form", "passes", "seen"),
    [
        ("vreg", (DivisionsAreProducts(),), "mosaic"),
        ("tiles", (LowerToDmaPass("v6e"), DivisionsAreProducts()), "dma"),
        ("pallas", (DivisionsAreProducts(),), "pallas"),
    ],
)
def test_in_a_simulation(form: str, passes: tuple[ModulePass, ...], seen: str) -> None:
    x = jnp.arange(8 * 128.0).reshape(8, 128)
    FORMS.clear()
    with pallasite.jax.simulate("v6e", form, passes=passes):
        np.testing.assert_array_equal(quarter(x), x * 4)
        np.testing.assert_array_equal(jax.jit(quarter)(x), x * 4)
    assert set(FORMS) == {seen}
    with pallasite.jax.simulate("v6e", form):
        np.testing.assert_array_equal(quarter(x), x / 4)


@dataclass(frozen=True)
class Listing(DivisionsAreProducts):
    """Cannot be hashed."""

    places: list[int] = field(default_factory=list[int])


def test_passes_that_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="hashable"):
        pallasite.jax.simulate(passes=(Listing(),))
