"""vmap, custom derivatives, loops and conditions around simulated kernels
(spec/pallas_semantics.md 6)."""

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

from .support import equal, told  # noqa: E402

pytestmark = pytest.mark.jax


def square_body(x: Any, o: Any) -> None:
    o[...] = x[...] * x[...]


def square(x: Any) -> Any:
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(
        square_body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(x.shape[0] // 8,),
        in_specs=[block], out_specs=block,
    )(x)  # fmt: skip


def ramp(*shape: int) -> Any:
    return jnp.arange(np.prod(shape), dtype=jnp.float32).reshape(shape) % 11


def test_vmap_nested() -> None:
    x = ramp(3, 2, 16, 128)
    with simulate():
        equal(jax.vmap(jax.vmap(square))(x), x * x)
        equal(jax.jit(jax.vmap(jax.vmap(square), in_axes=1, out_axes=1))(x), x * x)


def test_vmap_of_one_operand() -> None:
    def scale(x: Any, y: Any) -> Any:
        def body(x: Any, y: Any, o: Any) -> None:
            o[...] = x[...] * y[...]

        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)

    x, y = ramp(4, 8, 128), ramp(8, 128)
    with simulate():
        equal(jax.vmap(scale, in_axes=(0, None))(x, y), x * y)


def test_vmap_of_scalar_prefetch() -> None:
    def pick(index: Any, x: Any) -> Any:
        def body(index: Any, x: Any, o: Any) -> None:
            o[...] = x[...]

        grid = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(1,),
            in_specs=[pl.BlockSpec((8, 128), lambda i, index: (index[0], 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, index: (0, 0)),
        )
        shape = jax.ShapeDtypeStruct((8, 128), x.dtype)
        return pl.pallas_call(body, out_shape=shape, grid_spec=grid)(index, x)

    x = ramp(32, 128)
    index = jnp.array([[3], [0], [2]], jnp.int32)
    with simulate():
        out = jax.vmap(pick, in_axes=(0, None))(index, x)
    equal(out, np.asarray(x).reshape(4, 8, 128)[[3, 0, 2]])


def test_gradient_through_custom_vjp() -> None:
    @jax.custom_vjp
    def f(x: Any) -> Any:
        return square(x)

    def forward(x: Any) -> Any:
        return square(x), x

    def backward(x: Any, g: Any) -> Any:
        def body(x: Any, g: Any, o: Any) -> None:
            o[...] = 2.0 * x[...] * g[...]

        return (pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, g),)

    f.defvjp(forward, backward)
    x = ramp(8, 128)
    with simulate():
        equal(jax.grad(lambda x: f(x).sum())(x), 2 * x)
        value, gradient = jax.jit(jax.value_and_grad(lambda x: f(x).sum()))(x)
    equal(value, (x * x).sum())
    equal(gradient, 2 * x)


def test_jvp_and_plain_reverse_mode() -> None:
    x = ramp(8, 128)

    def f(x: Any) -> Any:
        return pl.pallas_call(square_body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    with simulate():
        out, tangent = jax.jvp(f, (x,), (jnp.ones_like(x),))
        equal(out, x * x)
        equal(tangent, 2 * x)
        with pytest.raises(Exception, match="reverse-mode"):
            jax.grad(lambda x: f(x).sum())(x)


def products(x: Any, y: Any) -> Any:
    def body(x: Any, y: Any, o: Any) -> None:
        o[...] = x[...] * y[...]

    return pl.pallas_call(body, out_shape=x)(x, y)


@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_a_derivative_by_some_operands(form: Any) -> None:
    """JAX's rule makes a call of it whose blocks are not those of the kernel."""
    x, y = ramp(8, 128), 3 * ramp(8, 128)
    with simulate(form=form):
        with pytest.raises(jax.errors.JaxRuntimeError, match="and this one by some") as caught:
            jax.jvp(lambda x: products(x, y), (x,), (x,))
        assert "test_transformations.py" in str(caught.value)
        assert "jnp.zeros_like(y)" in told(caught.value)
        out, tangent = jax.jvp(products, (x, y), (x, jnp.zeros_like(y)))
    equal(out, x * y)
    equal(tangent, x * y)


@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_second_derivatives(form: Any) -> None:
    @jax.custom_jvp
    def cube(x: Any) -> Any:
        return products(products(x, x), x)

    @cube.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return cube(x), 3 * x * x * t

    def slope(function: Any, x: Any) -> Any:
        return jax.jvp(function, (x,), (jnp.ones_like(x),))[1]

    x = ramp(8, 128) % 7
    with simulate(form=form):
        with pytest.raises(jax.errors.JaxRuntimeError, match="and this one by some"):
            slope(lambda x: slope(lambda x: products(x, x), x), x)
        equal(slope(lambda x: slope(cube, x), x), 6 * x)


def test_loops_and_conditions() -> None:
    x = ramp(8, 128) % 2 + 1.0

    @jax.jit
    def f(x: Any) -> Any:
        carry, ys = jax.lax.scan(lambda c, _: (square(c), c.sum()), x, None, length=3)
        carry = jax.lax.cond(ys[0] > 0, square, lambda x: x, carry)
        return jax.lax.while_loop(lambda c: c[0, 0] < 0, square, carry)

    with simulate():
        equal(f(x), x**16)
        equal(jax.lax.fori_loop(0, 2, lambda _, x: square(x), x), x**4)
        equal(jax.lax.map(square, jnp.stack([x, 2 * x])), jnp.stack([x * x, 4 * x * x]))


def test_without_jit_and_with_checks() -> None:
    x = ramp(16, 128)
    with simulate(), jax.disable_jit():
        equal(square(x), x * x)
    with simulate(checks="all"):
        equal(jax.checkpoint(square)(x), x * x)


def test_ahead_of_time() -> None:
    x = ramp(16, 128)
    with simulate():
        traced = jax.jit(square).trace(x)
    compiled = traced.lower().compile()
    equal(compiled(x), x * x)


@pytest.mark.parametrize("form", ["pallas", "tiles"])
@pytest.mark.parametrize("space", ["smem", "any"])
def test_operands_without_blocks_for_examples(space: str, form: str) -> None:
    """What cannot be mapped is called in turn, as the note says."""

    def body(x: Any, o: Any) -> None:
        if space == "any":
            pltpu.sync_copy(x, o)
        else:
            o[...] = jnp.full(o.shape, x[1])

    spec = pl.BlockSpec(memory_space=getattr(pltpu, space.upper(), pl.ANY))
    shape = (8, 128) if space == "any" else (4,)
    call = pl.pallas_call(
        body, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32), in_specs=[spec]
    )
    x = ramp(3, *shape)
    with simulate(form=form):
        with pytest.raises(Exception, match=r".") as caught:
            jax.block_until_ready(jax.vmap(call)(x))
        said = "\n".join([str(caught.value), *caught.value.__notes__])
        assert "call the kernel in turn, with jax.lax.map" in said
        result = jax.block_until_ready(jax.lax.map(call, x))
    equal(result, x if space == "any" else jnp.broadcast_to(x[:, 1, None, None], (3, 8, 128)))


@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_examples_along_a_dimension_of_the_tiles(form: str) -> None:
    """They are moved to the front, as the note says; no other block is proposed."""
    x = ramp(16, 3, 128)
    with simulate(form=form):
        with pytest.raises(Exception, match=r".") as caught:
            jax.block_until_ready(jax.vmap(square, in_axes=1)(x))
        said = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
        assert "jnp.moveaxis(x, 1, 0), and map it with in_axes=0" in said
        assert "take all" not in said
        result = jax.vmap(square, in_axes=0)(jnp.moveaxis(x, 1, 0))
    equal(result, jnp.moveaxis(x * x, 1, 0))


def test_blocks_that_are_wrong_without_examples_too() -> None:
    """A kernel's own mistake is not put down to what maps it."""
    spec = pl.BlockSpec((4, 128), lambda i: (i, 0))
    call = pl.pallas_call(
        lambda x, o: o.__setitem__(..., x[...]),
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        grid=(2,),
        in_specs=[spec],
        out_specs=spec,
    )
    with simulate(form="pallas"), pytest.raises(Diagnostic, match="multiple of 8") as caught:
        jax.vmap(call)(ramp(3, 8, 128))
    assert not any("jax.vmap" in note.message for note in caught.value.notes)


@pytest.mark.parametrize("form", ["pallas", "mosaic", "tiles"])
def test_sizes_of_the_grid_that_vmap_loses(form: str) -> None:
    """JAX drops them where it loops over what is prefetched."""

    def body(shift: Any, x: Any, o: Any) -> None:
        o[...] = x[...] + shift[0].astype(jnp.float32)

    def call(size: Any, shift: Any, x: Any) -> Any:
        block = pl.BlockSpec((8, 128), lambda i, shift: (i, 0))
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1, grid=(size,), in_specs=[block], out_specs=block
        )
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(body, grid_spec=spec, out_shape=shape)(shift, x)

    shifts, x = jnp.array([[1], [2], [4]]), ramp(3, 32, 128)
    with simulate(form=form):
        with pytest.raises(Diagnostic) as caught:
            jax.jit(lambda n: jax.vmap(lambda *mapped: call(n, *mapped))(shifts, x))(4)
        alike = jax.jit(lambda n: jax.vmap(lambda x: call(n, shifts[1], x))(x))(4)
        looped = jax.jit(lambda n: jax.lax.map(lambda mapped: call(n, *mapped), (shifts, x)))(4)
    assert "jax.lax.map" in str(caught.value) and caught.value.location is not None
    equal(alike, x + 2)
    equal(looped, x + shifts[:, :, None])
