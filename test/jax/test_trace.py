"""`pallasite.jax.trace` and `kernels`: what a JAX function hands to the TPU compiler."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import UsageError  # noqa: E402
from pallasite.dialects.kernel import form_of  # noqa: E402
from pallasite.dialects.kernel_call import call_of  # noqa: E402
from pallasite.jax import kernels, trace  # noqa: E402

pytestmark = pytest.mark.jax


def scale_body(x: Any, o: Any, *, by: float) -> None:
    o[...] = x[...] * by


def scale(x: Any, by: float) -> Any:
    import functools

    body = functools.partial(scale_body, by=by)
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), name="scale")(x)


def twice(x: Any) -> Any:
    return scale(scale(x, 2.0), 3.0)


@pytest.mark.parametrize("form", ["pallas", "mosaic"])
def test_trace_is_the_kernel_and_its_call(form: str) -> None:
    shape = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    module = trace(lambda x: scale(x, 2.0), shape, form=form)
    assert form_of(module) == form
    call = call_of(module)
    assert call is not None
    assert [str(type) for type in call.operands] == ["tensor<8x128xf32>"]
    assert call.settings["kernel_name"] == "scale"
    x = np.ones((8, 128), np.float32)
    (out,) = pallasite.run(module, [x], form="vreg")
    np.testing.assert_array_equal(out, 2 * x)


def test_kernels_in_order() -> None:
    x = jnp.ones((8, 128))
    values = [pallasite.run(m, [np.asarray(x)])[0][0, 0] for m in kernels(twice, x)]
    assert values == [2.0, 3.0]
    second = trace(twice, x, call=1, target="v6e")
    assert pallasite.run(second, [np.asarray(x)])[0][0, 0] == 3.0


def test_no_such_kernel() -> None:
    with pytest.raises(UsageError, match="one of the 2 kernels of the function, got 2"):
        trace(twice, jnp.ones((8, 128)), call=2)


def test_trace_leaves_nothing_behind() -> None:
    x = jnp.ones((8, 128))
    f = jax.jit(twice)
    trace(f, x)
    with pytest.raises(ValueError, match="Only interpret mode"):
        f(x)


@pytest.mark.parametrize("form", ["pallas", "mosaic"])
def test_trace_keeps_no_module(form: str) -> None:
    def body(x: Any, o: Any) -> None:
        # A function of JAX's, whose own trace JAX keeps, with the context that it was traced in.
        o[...] = jnp.where(x[...] > 0, x[...], 0.0)

    x = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    kernel = pl.pallas_call(body, out_shape=x)
    module = weakref.ref(trace(kernel, x, form=form))
    gc.collect()
    assert module() is None


def test_a_function_without_kernels() -> None:
    with pytest.raises(UsageError, match="calls no kernel"):
        trace(lambda x: x + 1, jnp.ones(8))


def test_simulate_is_called_before_it_decorates() -> None:
    with pytest.raises(UsageError, match=r"@simulate\(\)"):
        pallasite.jax.simulate(twice)


@pytest.mark.parametrize("name", ["", "1st", "flash-attention", 'f"\\é\n'])
@pytest.mark.parametrize("form", ["pallas", "mosaic"])
def test_a_kernel_may_have_any_name(name: str, form: str) -> None:
    shape = jax.ShapeDtypeStruct((8, 128), jnp.float32)

    def double(x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    module = trace(pl.pallas_call(double, out_shape=shape, name=name), shape, form=form)
    (out,) = pallasite.run(pallasite.parse(str(module)), [np.ones((8, 128), np.float32)])
    assert out[0, 0] == 2
