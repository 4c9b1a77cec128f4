"""Elements of flat arrays at a distance are refused with what to write instead, which is run here
as the note says it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

from pallasite.jax import simulate  # noqa: E402

from .support import told  # noqa: E402

pytestmark = pytest.mark.jax


def grid(note: str) -> dict[str, Any]:
    """The arrays `i` and `j` that a note speaks of."""
    found = re.search(r"i and j = lax.broadcasted_iota\(jnp.int32, (\(.*?\)), 0\) and 1", note)
    if found is None:
        return {}
    shape = eval(found[1])
    return {name: lax.broadcasted_iota(jnp.int32, shape, n) for n, name in enumerate("ij")}


def call(body: Any, shape: tuple[int, ...], x: Any, target: str, form: str = "tiles") -> Any:
    with simulate(target, form):
        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(shape, x.dtype))(x)


def refused(body: Any, shape: tuple[int, ...], x: Any, target: str) -> str:
    with pytest.raises(Exception, match=r"strides .* of a flat array of") as caught:
        call(body, shape, x, target)
    return told(caught.value)


@pytest.mark.parametrize(
    ("target", "size", "taken", "kind"),
    [
        ("v5e", 96, slice(None, None, 3), "float32"),
        ("v5e", 128, slice(1, None, 2), "int8"),
        ("v5e", 128, slice(None, None, 3), "bfloat16"),
        ("v5e", 192, slice(None, None, 3), "int32"),
        ("v6e", 1024, slice(2, 301, 4), "bfloat16"),
        ("v4", 96, slice(None, None, 3), "float32"),
        ("v4", 1024, slice(5, None, 2), "bfloat16"),
    ],
)
def test_loads(target: str, size: int, taken: slice, kind: str) -> None:
    x = jnp.asarray(np.arange(size) % 100 - 50, kind)
    expected = np.asarray(x)[taken]

    def strided(x: Any, o: Any) -> None:
        o[...] = x[taken]

    note = refused(strided, expected.shape, x, target)
    (text,) = re.findall(
        r"(?:split the value|that chooses columns): (.*?)(?:, with i|$)", note, re.M
    )

    def advised(ref: Any, o: Any) -> None:
        names = {"jnp": jnp, "lax": lax, "ref": ref, **grid(note)}
        o[...] = eval(text, names).astype(o.dtype)

    for form in ("pallas", "tiles"):
        np.testing.assert_array_equal(call(advised, expected.shape, x, target, form), expected)


@pytest.mark.parametrize(
    ("target", "size", "start", "stride", "kind"),
    [
        ("v5e", 96, 0, 3, "float32"), ("v5e", 192, 1, 3, "bfloat16"), ("v5e", 1024, 0, 2, "int32"),
        ("v4", 1024, 3, 4, "float32"),
    ],
)  # fmt: skip
def test_stores(target: str, size: int, start: int, stride: int, kind: str) -> None:
    value = jnp.asarray(np.arange(size // stride) % 100 - 50, kind)
    expected = np.zeros(size, np.float32)
    expected[start::stride] = value

    def strided(x: Any, o: Any) -> None:
        o[...] = jnp.zeros_like(o)
        o[start::stride] = x[...]

    note = refused(strided, (size,), value, target)
    (text,) = re.findall(r"choose: ref\[...\] = (.*?), with k", note)

    def advised(x: Any, ref: Any) -> None:
        ref[...] = jnp.zeros_like(ref)
        k = lax.broadcasted_iota(jnp.int32, ref.shape, 0)
        names = {"jnp": jnp, "lax": lax, "ref": ref, "value": x[...], "k": k, **grid(note)}
        ref[...] = eval(text, names)

    for form in ("pallas", "tiles"):
        found = call(advised, (size,), value, target, form)
        np.testing.assert_array_equal(found.astype(jnp.float32), expected)


def test_stores_from_the_midst() -> None:
    value = jnp.arange(8.0)
    expected = np.zeros(192, np.float32)
    expected[2:18:2] = value

    def strided(x: Any, o: Any) -> None:
        o[...] = jnp.zeros_like(o)
        o[2:18:2] = x[...]

    def advised(x: Any, o: Any) -> None:
        o[...] = jnp.zeros_like(o)
        for n in range(8):
            o[2 + 2 * n : 3 + 2 * n] = x[...][n : n + 1]

    assert "store the elements one by one, ref[2:3] = value[1:2]" in refused(
        strided, (192,), value, "v5e"
    )
    np.testing.assert_array_equal(call(advised, (192,), value, "v5e"), expected)
