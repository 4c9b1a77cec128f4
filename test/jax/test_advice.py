"""What the notes of refused operations advise is accepted and right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

pytestmark = pytest.mark.jax

RANDOM = np.random.default_rng(0)
HALVES = [RANDOM.integers(-30000, 30000, (24, 130)).astype(np.int16) for _ in range(2)]
BYTES = [RANDOM.integers(-8, 8, (64, 64)).astype(np.int8) for _ in range(2)]
FLOATS = RANDOM.standard_normal((130, 40)).astype(np.float32)
Value = Callable[..., Any]
Advice = tuple[str, str, Value, Value, list[Any], Any]
"""Target, a part of the note, what is refused, what is written instead, operands, result."""
ADVICE: dict[str, Advice] = {
    "larger of narrow integers": (
        "v6e",
        "compare as float32",
        jnp.maximum,
        lambda a, b: jnp.maximum(a.astype("float32"), b.astype("float32")).astype("int16"),
        HALVES,
        np.maximum(*HALVES),
    ),
    "larger of narrow integers as int32": (
        "v5e",
        "compare as float32",
        lambda a, b: jnp.maximum(a.astype("int32"), b.astype("int32")).astype("int16"),
        lambda a, b: jnp.maximum(a.astype("float32"), b.astype("float32")).astype("int16"),
        HALVES,
        np.maximum(*HALVES),
    ),
    "product of integers of two widths": (
        "v5e",
        "cast the operands to int8",
        lambda a, b: jnp.dot(a.astype("int4"), b, preferred_element_type="int32"),
        lambda a, b: jnp.dot(a.astype("int4").astype("int8"), b, preferred_element_type="int32"),
        BYTES,
        BYTES[0].astype(np.int32) @ BYTES[1].astype(np.int32),
    ),
    "row of sums without a gather along sublanes": (
        "v4",
        "jnp.sum(x, 1, keepdims=True).T",
        lambda x: jnp.sum(x, 1)[None],
        lambda x: jnp.sum(x, 1, keepdims=True).T,
        [FLOATS],
        FLOATS.sum(1)[None],
    ),
}


@pytest.mark.parametrize("case", ADVICE)
def test_advice(case: str) -> None:
    target, advice, wrong, right, operands, expected = ADVICE[case]

    def run(compute: Value, form: str) -> Any:
        def body(*refs: Any) -> None:
            *inputs, out = refs
            out[...] = compute(*(ref[...] for ref in inputs))

        shape = jax.ShapeDtypeStruct(expected.shape, expected.dtype)
        with simulate(target, form):
            return pl.pallas_call(body, out_shape=shape)(*operands)

    for form in ("pallas", "vreg"):
        with pytest.raises(Unsupported) as caught:
            run(wrong, form)
        assert any(advice in note.message for note in caught.value.notes)
        np.testing.assert_allclose(run(right, form), expected, rtol=1e-5, atol=1e-5)
