"""What Python refuses while a kernel is traced is explained: the line, the rule, what to write."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from pallasite.diagnostics import VerifyError  # noqa: E402
from pallasite.jax import simulate  # noqa: E402

from .mistaken_kernels import (  # noqa: E402
    WRONG,
    Body,
    adds_refs,
    adds_rightly,
    reverses_by_gather,
    reverses_rightly,
)
from .support import told  # noqa: E402

pytestmark = pytest.mark.jax


def copies(source: Any, target: Any, semaphore: Any) -> None:
    pltpu.make_async_copy(source, target, semaphore).start()


def awaits(source: Any, target: Any, semaphore: Any) -> None:
    pltpu.make_async_copy(source, target, semaphore).wait()


COPIES: list[tuple[Callable[..., None], str]] = [
    (lambda x, o, s, r, sems: copies(x[...], s, sems.at[0]), "write ref.at[...]"),
    (lambda x, o, s, r, sems: copies(x, s, sems), "sems.at[i]"),
    (lambda x, o, s, r, sems: awaits(x, s, r), "pltpu.SemaphoreType.DMA"),
    (lambda x, o, s, r, sems: pl.semaphore_signal(sems.at[0]), "pltpu.SemaphoreType.REGULAR"),
    (lambda x, o, s, r, sems: copies(x, s.at[pl.ds(0, 4)], sems.at[0]), "parts of one shape"),
    (lambda x, o, s, r, sems: copies(x, o, sems.at[0]), "convert the value"),
]


@pytest.mark.parametrize(("body", "advice"), COPIES, ids=[row[1] for row in COPIES])
def test_copies(body: Callable[..., None], advice: str) -> None:
    kernel = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.bfloat16),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[
            pltpu.VMEM((8, 128), jnp.float32),
            pltpu.SemaphoreType.REGULAR,
            pltpu.SemaphoreType.DMA((2,)),
        ],
    )
    with simulate(), pytest.raises(Exception, match=r".") as caught:
        kernel(jnp.ones((8, 128)))
    note = told(caught.value)
    assert advice in note and f"{Path(__file__).name}:" in note


def test_scratch_has_a_memory() -> None:
    x = jnp.ones((8, 128))
    kernel = pl.pallas_call(adds_rightly, out_shape=x, scratch_shapes=[x])
    with simulate(), pytest.raises(AttributeError) as caught:
        kernel(x)
    assert "pltpu.VMEM(shape, dtype)" in "\n".join(caught.value.__notes__)


def test_scoped_refs_do_not_leave_their_function() -> None:
    def leaks(x: Any, o: Any) -> None:
        ref = pl.run_scoped(lambda ref: ref, pltpu.VMEM((8, 128), jnp.float32))
        ref[...] = x[...]

    with simulate(), pytest.raises(ValueError, match="JaxprInputEffect") as caught:
        call(leaks)
    assert "gone when its function returns" in "\n".join(caught.value.__notes__)


@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_semantics_have_names(form: str) -> None:
    x = jnp.ones((8, 128))
    params = pltpu.CompilerParams(dimension_semantics=("sequential",))
    kernel = pl.pallas_call(adds_rightly, out_shape=x, grid=(1,), compiler_params=params)
    with simulate(form=form), pytest.raises(Exception, match="sequential") as caught:
        kernel(x)
    assert "bad-semantics" in "\n".join([str(caught.value), *caught.value.__notes__])


def call(body: Body) -> Any:
    x = jnp.ones((8, 128))
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(1,))(x)


@pytest.mark.parametrize(
    ("wrong", "rule", "advice", "right"), WRONG, ids=[row[0].__name__ for row in WRONG]
)
def test_the_line_the_rule_and_what_to_write(
    wrong: Body, rule: str, advice: str, right: Body
) -> None:
    with simulate(), pytest.raises(Exception) as caught:
        call(wrong)
    (note,) = [n for n in caught.value.__notes__ if "[traced-kernel]" in n]
    assert rule in note and advice in note
    file, line = note.split(":")[:2]
    assert file == wrong.__code__.co_filename
    assert int(line) in {number for *_, number in wrong.__code__.co_lines()}
    with simulate():
        jax.block_until_ready(call(right))


@pytest.mark.parametrize("body", [reverses_rightly, reverses_by_gather])
def test_what_is_to_be_written_rounds_nothing(body: Body) -> None:
    x = jnp.asarray(np.random.default_rng(0).standard_normal((8, 128)), jnp.float32)
    with simulate():
        reversed_rows = pl.pallas_call(body, out_shape=x)(x)
    np.testing.assert_array_equal(reversed_rows, x[::-1])


def test_parameters_are_counted() -> None:
    x = jnp.ones((8, 128))
    scratch = pltpu.VMEM((8, 128), jnp.float32)
    kernel = pl.pallas_call(adds_refs, out_shape=x, scratch_shapes=[scratch])
    with simulate(), pytest.raises(TypeError, match="positional argument") as caught:
        kernel(x)
    assert "1 input, 1 output, 1 scratch" in "\n".join(caught.value.__notes__)


@pytest.mark.parametrize(
    ("grid", "index_map", "advice"),
    [
        ((2,), lambda i, j: (i, 0), "give the call a grid with these axes"),
        ((), lambda i: (i, 0), "give the call a grid with these axes"),
        ((2, 1), lambda i: (i, 0), "take what is left as *_"),
        ((2,), functools.partial(lambda k, i, j: (i, k), 0), "give the call a grid"),
    ],
)
def test_parameters_of_index_maps_are_counted(
    grid: tuple[int, ...], index_map: Any, advice: str
) -> None:
    """The note is at the line of the map, wherever the kernel is called."""
    x = jnp.ones((16, 128))
    whole = pl.BlockSpec((16, 128), lambda *_: (0, 0))
    block = pl.BlockSpec((8, 128), index_map)
    kernel = pl.pallas_call(adds_rightly, out_shape=x, grid=grid, in_specs=[whole], out_specs=block)
    with simulate(), pytest.raises(TypeError, match="positional argument") as caught:
        kernel(x)
    note = "\n".join(caught.value.__notes__)
    assert f"per axis of the grid, which has {len(grid)}" in note and advice in note
    code = getattr(index_map, "func", index_map).__code__
    assert f"{Path(__file__).name}:{code.co_firstlineno}:" in note


@pytest.mark.parametrize("form", ["pallas", "tiles"])
def test_blocks_of_a_pipeline_are_counted(form: str) -> None:
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))

    def body(x: Any, y: Any, o: Any) -> None:
        pipeline = pltpu.emit_pipeline(
            lambda x, y, o: None, grid=(2,), in_specs=[block], out_specs=[block]
        )
        pipeline(x, y, o)

    x = jnp.ones((16, 128))
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    kernel = pl.pallas_call(body, out_shape=x, in_specs=[anywhere] * 2, out_specs=anywhere)
    with simulate(form=form), pytest.raises(ValueError, match=r"tree|arity") as caught:
        kernel(x, x)
    (note,) = [n for n in caught.value.__notes__ if "[traced-kernel]" in n]
    assert "one BlockSpec per ref" in note and f"{Path(__file__).name}:" in note


BLOCK: Any = pl.BlockSpec((8, 128), lambda i: (i, 0))
SPECS: list[tuple[dict[str, Any], str]] = [
    ({"in_specs": [pl.BlockSpec((8, 128), lambda i: (i / 1, 0))]}, "i // 2"),
    ({"in_specs": [pl.BlockSpec((8, 128), lambda i: i)]}, "lambda i: (i, 0)"),
    ({"in_specs": [pl.BlockSpec((8,), lambda i: (i,))]}, "(None, 8, 128)"),
    ({"in_specs": [BLOCK, BLOCK]}, "pl.BlockSpec() for an operand"),
    ({"out_specs": [BLOCK]}, "one for one result"),
]


@pytest.mark.parametrize(("wrong", "advice"), SPECS, ids=[row[1] for row in SPECS])
def test_specs(wrong: dict[str, Any], advice: str) -> None:
    x = jnp.ones((16, 128))
    specs = {"in_specs": [BLOCK], "out_specs": BLOCK} | wrong
    with simulate(), pytest.raises(ValueError, match=r".") as caught:
        pl.pallas_call(adds_rightly, out_shape=x, grid=(2,), **specs)(x)
    note = "\n".join(caught.value.__notes__)
    assert advice in note and f"{Path(__file__).name}:" in note


def test_kernels_of_other_kinds() -> None:
    x = jnp.ones((8, 128))
    mesh = pltpu.create_tensorcore_mesh("core", num_cores=1)
    kernel = pl.kernel(adds_refs, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype), mesh=mesh)
    with simulate(), pytest.raises(Exception, match=r"AbstractRef|unsupported") as caught:
        kernel(x)
    assert "a ref is memory" in "\n".join(caught.value.__notes__)


def calls_itself_wrongly(x: Any, o: Any) -> None:
    def add(a: Any, b: Any) -> Any:
        return a + b

    wrong: Any = add
    o[...] = jax.lax.fori_loop(0, 4, lambda _, c: wrong(c), x[...])


def calls_jax_wrongly(x: Any, o: Any) -> None:
    wrong: Any = jnp.maximum
    o[...] = jax.lax.fori_loop(0, 4, lambda _, c: wrong(c), x[...])


@pytest.mark.parametrize("body", [calls_itself_wrongly, calls_jax_wrongly])
def test_calls_of_its_own_are_left_to_python(body: Body) -> None:
    with simulate(), pytest.raises(TypeError, match="missing 1 required") as caught:
        call(body)
    assert not any("traced-kernel" in note for note in getattr(caught.value, "__notes__", ()))


@pytest.mark.parametrize("named", [False, True])
def test_bodies_of_a_mesh_take_all_refs(named: bool) -> None:
    def body(x: Any, o: Any) -> None:
        pltpu.sync_copy(x, o)

    scratch = pltpu.VMEM((8, 128), jnp.float32)
    kernel = pl.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        mesh=pltpu.create_tensorcore_mesh("core", num_cores=1),
        scratch_types={"buffer": scratch} if named else [scratch],
    )
    with simulate(), pytest.raises(TypeError) as caught:
        kernel(jnp.ones((8, 128)))
    note = "\n".join(caught.value.__notes__)
    told = "2 refs, and by name buffer" if named else "inputs, outputs, then scratch, here 3 refs"
    assert told in note and f"{Path(__file__).name}:{body.__code__.co_firstlineno}" in note


def test_axes_of_a_pipeline_have_kinds_of_pallas() -> None:
    def split(kind: Any) -> Any:
        def body(x: Any, o: Any) -> None:
            block = pl.BlockSpec((8, 128), lambda i: (i, 0))
            pipeline = pltpu.emit_pipeline(
                lambda x, o: o.__setitem__(..., 2 * x[...]),
                grid=(4,),
                in_specs=[block],
                out_specs=[block],
                core_axis_name="core",
                dimension_semantics=(kind,),
            )
            pipeline(x, o)

        return pl.kernel(body, out_type=x, mesh=pltpu.create_tensorcore_mesh("core", num_cores=2))

    x = jnp.ones((32, 128))
    with simulate("v4"):
        with pytest.raises(NotImplementedError, match="Cannot partition") as caught:
            split("parallel")(x)
        assert "pltpu.PARALLEL" in "\n".join(caught.value.__notes__)
        np.testing.assert_array_equal(split(pltpu.PARALLEL)(x), 2 * x)


def squares(x: Any, o: Any) -> None:
    o[...] = x[...] * x[...]


def squares_by_scratch(x: Any, o: Any, s: Any) -> None:
    s[...] = x[...]
    o[...] = s[...] * x[...]


def squares_a_copy(x: Any, o: Any) -> None:
    @functools.partial(pl.run_scoped, s=pltpu.VMEM((8, 128), jnp.float32))
    def _square(s: Any) -> None:
        pltpu.sync_copy(x, s)
        s[...] *= s[...]
        pltpu.sync_copy(s, o)


SQUARES = {
    "pallas_call": lambda x: pl.pallas_call(squares, out_shape=x)(x),
    "scratch": lambda x: pl.pallas_call(
        squares_by_scratch, out_shape=x, scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)]
    )(x),
    "kernel": lambda x: pl.kernel(
        squares_a_copy, out_type=x, mesh=pltpu.create_tensorcore_mesh("core", num_cores=1)
    )(x),
}


@pytest.mark.parametrize("kind", SQUARES)
def test_derivatives(kind: str) -> None:
    function, x = SQUARES[kind], jnp.full((8, 128), 3.0)
    with simulate(), pytest.raises((ValueError, AssertionError)) as caught:
        jax.grad(lambda x: function(x).sum())(x)
    (note,) = [n for n in caught.value.__notes__ if "[traced-kernel]" in n]
    assert "no backward pass" in note and "jax.custom_vjp" in note
    kinds = {"pallas_call": squares, "scratch": squares_by_scratch, "kernel": squares_a_copy}
    line = kinds[kind].__code__.co_firstlineno
    assert note.startswith(f"{__file__}:{line}:")

    derivable = jax.custom_vjp(function)
    derivable.defvjp(lambda x: (function(x), x), lambda x, grad: (2 * x * grad,))
    with simulate():
        np.testing.assert_array_equal(jax.grad(lambda x: derivable(x).sum())(x), 2 * x)


def test_a_kernel_of_a_mesh_is_not_mapped() -> None:
    function, x = SQUARES["kernel"], jnp.full((2, 8, 128), 3.0)
    with simulate(), pytest.raises(NotImplementedError) as caught:
        jax.vmap(function)(x)
    assert "call it in turn, jax.lax.map" in "".join(caught.value.__notes__)
    with simulate():
        np.testing.assert_array_equal(jax.lax.map(function, x), x**2)


def test_derivatives_that_jax_finds() -> None:
    x = jnp.full((8, 128), 3.0)
    with simulate():
        value, slope = jax.jvp(SQUARES["pallas_call"], (x,), (x,))
    np.testing.assert_array_equal(value, 9 * jnp.ones_like(x))
    np.testing.assert_array_equal(slope, 18 * jnp.ones_like(x))


def test_outside_of_simulations_nothing_is_added() -> None:
    with pytest.raises(AttributeError) as caught:
        call(adds_refs)
    assert not any("traced-kernel" in note for note in getattr(caught.value, "__notes__", ()))


def test_what_jax_counts_in_floats() -> None:
    def wrong(x: Any, o: Any) -> None:
        o[...] = x[...] + jnp.arange(128.0)

    def right(x: Any, o: Any) -> None:
        o[...] = x[...] + jnp.arange(128).astype(jnp.float32)

    with simulate(), pytest.raises(Exception, match="what its verifier refuses") as caught:
        call(wrong)
    note = str(caught.value)
    assert f":{wrong.__code__.co_firstlineno + 1}:" in note
    assert "jnp.arange(n).astype(jnp.float32)" in note
    with simulate():
        np.testing.assert_array_equal(call(right)[0], 1 + np.arange(128.0))


def test_grids_below_zero_have_a_line() -> None:
    x = jnp.ones((8, 128))
    kernel = pl.pallas_call(adds_rightly, out_shape=x, grid=(-1,))
    with simulate(), pytest.raises(VerifyError, match="got -1") as caught:
        kernel(x)
    location = caught.value.location
    assert location is not None and location.line == adds_rightly.__code__.co_firstlineno


@pytest.mark.parametrize("asked", [pl.program_id, pl.num_programs])
def test_a_step_that_is_asked_for_outside_of_kernels(asked: Callable[[int], Any]) -> None:
    """JAX's assertion has no words."""

    def wrong(x: Any) -> Any:
        step = asked(0)

        def body(x: Any, o: Any) -> None:
            o[...] = x[...] + step

        return pl.pallas_call(body, out_shape=x, grid=(1,))(x)

    def right(x: Any) -> Any:
        def body(x: Any, o: Any) -> None:
            o[...] = x[...] + asked(0)

        return pl.pallas_call(body, out_shape=x, grid=(1,))(x)

    x = jnp.ones((8, 128))
    with simulate(), pytest.raises(AssertionError) as caught:
        wrong(x)
    assert f":{wrong.__code__.co_firstlineno + 1}:" in told(caught.value)
    assert "call pl.program_id and pl.num_programs in the kernel" in told(caught.value)
    with simulate():
        np.testing.assert_array_equal(right(x), x + (asked is pl.num_programs))
