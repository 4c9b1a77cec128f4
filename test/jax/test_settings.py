"""Meshes, threads, settings of JAX and parameters of calls, where they are in the way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jax.sharding import AxisType, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from .support import line_of, told  # noqa: E402

pytestmark = pytest.mark.jax

HERE = Path(__file__).name
X = np.arange(4096, dtype=np.float32).reshape(32, 128)


def double(x: Any) -> Any:
    def body(x: Any, o: Any) -> None:  # the kernel
        o[...] = 2.0 * x[...]

    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)  # the call


def mesh_of(kind: AxisType) -> Any:
    return jax.make_mesh((2, 2), ("x", "y"), axis_types=(kind, kind))


def over_all(x: Any) -> Any:
    return jax.shard_map(double, in_specs=P("x", "y"), out_specs=P("x", "y"), check_vma=False)(x)


def over_one(x: Any) -> Any:
    spec = P("x")
    return jax.shard_map(
        double, in_specs=spec, out_specs=spec, check_vma=False, axis_names={"x"}
    )(x)  # fmt: skip


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("program", [double, over_one])
def test_arrays_over_several_devices(program: Callable[[Any], Any], kind: AxisType) -> None:
    mesh = mesh_of(kind)
    place = P("x") if program is over_one else P("x", "y")
    x = jax.device_put(X, NamedSharding(mesh, place))
    with simulate(), jax.set_mesh(mesh), pytest.raises((NotImplementedError, ValueError)) as caught:
        jax.jit(program)(x)
    note = told(caught.value)
    marks = ("the kernel", "the call")
    assert any(f"{HERE}:{line_of(__file__, mark)}:" in note for mark in marks)
    assert "jax.shard_map(f, mesh=mesh, in_specs=..., out_specs=..., check_vma=False)" in note
    x = jax.device_put(X, NamedSharding(mesh, P("x", "y")))
    with simulate(), jax.set_mesh(mesh):
        np.testing.assert_array_equal(jax.jit(over_all)(x), 2 * X)


def test_what_a_result_differs_over() -> None:
    mesh = mesh_of(AxisType.Auto)
    program = jax.shard_map(double, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    with simulate(), pytest.raises(ValueError, match="check_vma") as caught:
        program(X)
    assert HERE in told(caught.value) and "check_vma=False" in told(caught.value)


def caught_in_a_thread(run: Callable[[], Any]) -> list[BaseException]:
    errors: list[BaseException] = []

    def go() -> None:
        try:
            jax.block_until_ready(run())
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    return errors


def test_threads_enter_simulations_of_their_own() -> None:
    """What `jax.jit` compiled in one thread is compiled anew in another."""
    program = jax.jit(double)
    with simulate():
        program(X)
        (error,) = caught_in_a_thread(lambda: program(X))
        assert not caught_in_a_thread(lambda: simulate()(program)(X))
    assert isinstance(error, ValueError) and "interpret mode" in str(error)
    assert f"{HERE}:{line_of(__file__, 'the kernel')}:" in told(error)
    assert "belongs to the thread that enters it" in told(error)
    (error,) = caught_in_a_thread(lambda: jax.jit(lambda x: program(x) + 1)(X))
    assert "belongs to the thread" not in told(error)


@pytest.mark.parametrize("reduce", [jnp.any, jnp.all])
def test_what_is_lowered_with_wide_numbers(reduce: Any) -> None:
    """JAX writes floats of Python's for such a reduction, when it lowers the program."""

    def body(x: Any, o: Any) -> None:
        o[...] = lax.while_loop(lambda v: reduce(v < 8.0), lambda v: v + v, x[...])

    def program(x: Any) -> Any:
        with jax.enable_x64(False):
            return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    with simulate(), jax.enable_x64(True), pytest.raises(ValueError, match="float64") as caught:
        jax.jit(program)(X[:8] + 1)
    assert "call the program, not only the kernel, inside" in told(caught.value)
    with simulate(), jax.enable_x64(True), jax.enable_x64(False):
        found = jax.jit(program)(X[:8] + 1)
    expected = X[:8] + 1
    while getattr(np, reduce.__name__)(expected < 8):
        expected = expected + expected
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_products_of_bytes_where_all_products_are_to_be_precise(form: str) -> None:
    x = (X[:, :32] % 7).astype(np.int8)

    def product(precision: Any) -> Any:
        def body(x: Any, o: Any) -> None:
            o[...] = jnp.dot(
                x[...], x[...], precision=precision, preferred_element_type=jnp.int32
            )  # fmt: skip

        return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((32, 32), jnp.int32))(x)

    with simulate(form=form), jax.default_matmul_precision("highest"):
        with pytest.raises(Unsupported, match=r"precision=lax\.Precision\.DEFAULT"):
            product(None)
        found = product(lax.Precision.DEFAULT)
    np.testing.assert_array_equal(found, x.astype(np.int32) @ x.astype(np.int32))


def test_aliases_are_a_dictionary() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + 1.0

    def program(x: Any, aliases: Any) -> Any:
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(body, out_shape=shape, input_output_aliases=aliases)(x)

    with simulate():
        with pytest.raises(AttributeError) as caught:
            program(X, [(0, 0)])
        assert HERE in told(caught.value) and "input_output_aliases={0: 0}" in told(caught.value)
        np.testing.assert_array_equal(program(X, {0: 0}), X + 1)


@pytest.mark.parametrize("form", ["pallas", "vreg"])
def test_a_chosen_ref_is_for_copies(form: str) -> None:
    def loads(number: Any, x: Any, y: Any, o: Any) -> None:
        o[...] = pl.select_ref(number[0], x, y)[...]  # the choice

    def copies(number: Any, x: Any, y: Any, o: Any) -> None:
        pltpu.sync_copy(pl.select_ref(number[0], x, y), o)

    def chooses(number: Any, x: Any, y: Any, o: Any) -> None:
        o[...] = jnp.where(number[0] == 0, x[...], y[...])

    def program(body: Any, number: int) -> Any:
        smem, vmem = (pl.BlockSpec(memory_space=space) for space in (pltpu.SMEM, pltpu.VMEM))
        return pl.pallas_call(
            body, out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype), in_specs=[smem, vmem, vmem]
        )(jnp.array([number], jnp.int32), X, -X)

    with simulate(form=form):
        with pytest.raises(NotImplementedError, match="multi-ref") as caught:
            program(loads, 0)
        assert f"{HERE}:{line_of(__file__, 'the choice')}:" in told(caught.value)
        assert "pltpu.sync_copy(pl.select_ref(i, a, b), ref)" in told(caught.value)
        for body in (copies, chooses):
            np.testing.assert_array_equal(program(body, 0), X)
            np.testing.assert_array_equal(program(body, 1), -X)


def test_a_program_is_lowered_for_one_platform() -> None:
    traced = jax.jit(double).trace(X)
    with simulate():
        with pytest.raises(Unsupported, match="for one platform, got tpu, cpu"):
            traced.lower(lowering_platforms=("tpu", "cpu"))
        assert "tpu_custom_call" in traced.lower(lowering_platforms=("tpu",)).as_text()
