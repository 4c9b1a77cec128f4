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

pytestmark = pytest.mark.jax

Body = Callable[[Any, Any], Any]
TABLE = np.arange(128.0, dtype=np.float32)


def decides(x: Any, o: Any) -> None:
    o[...] = x[...] if pl.program_id(0) == 0 else -x[...]


def decides_rightly(x: Any, o: Any) -> None:
    o[...] = jnp.where(pl.program_id(0) == 0, x[...], -x[...])


def combines(x: Any, o: Any) -> None:
    o[...] = jnp.where(x[...] > 0 and x[...] < 1, x[...], 0.0)


def combines_rightly(x: Any, o: Any) -> None:
    o[...] = jnp.where((x[...] > 0) & (x[...] < 1), x[...], 0.0)


def repeats(x: Any, o: Any) -> None:
    o[...] = x[...]
    for _ in range(pl.program_id(0)):
        o[...] += x[...]


def repeats_rightly(x: Any, o: Any) -> None:
    o[...] = x[...]

    @pl.loop(0, pl.program_id(0))
    def _add(_: Any) -> None:
        o[...] += x[...]


def slices(x: Any, o: Any) -> None:
    i = pl.program_id(0)
    o[...] = x[i : i + 8]


def slices_rightly(x: Any, o: Any) -> None:
    o[...] = x[pl.ds(pl.program_id(0), 8)]


def numpys(x: Any, o: Any) -> None:
    o[...] = np.exp(x[...])


def numpys_rightly(x: Any, o: Any) -> None:
    o[...] = jnp.exp(x[...])


def adds_refs(x: Any, o: Any) -> None:
    o[...] = x + 1


def sums_refs(x: Any, o: Any) -> None:
    o[...] = x.sum()


def takes_refs(x: Any, o: Any) -> None:
    o[...] = jnp.exp(x)


def multiplies_refs(x: Any, o: Any) -> None:
    o[...] = x * o


def adds_rightly(x: Any, o: Any) -> None:
    o[...] = x[...] + 1


def captures(x: Any, o: Any) -> None:
    o[...] = x[...] + TABLE


def captures_rightly(x: Any, o: Any) -> None:
    o[...] = x[...] + jax.lax.broadcasted_iota(jnp.int32, x.shape, 1)


def returns(x: Any, o: Any) -> Any:
    return x[...]


def converts(x: Any, o: Any) -> None:
    o[...] = x[...].astype(jnp.int32)


def converts_rightly(x: Any, o: Any) -> None:
    o[...] = x[...].astype(jnp.int32).astype(o.dtype)


def broadcasts(x: Any, o: Any) -> None:
    o[...] = x[0]


def broadcasts_rightly(x: Any, o: Any) -> None:
    o[...] = jnp.broadcast_to(x[0], o.shape)


def widens(x: Any, o: Any) -> None:
    o[...] = x[:, None, :][:, 0]


def widens_rightly(x: Any, o: Any) -> None:
    o[...] = x[...][:, None][:, 0]


def rolls(x: Any, o: Any) -> None:
    o[...] = pltpu.roll(x[...], -3, 1)


def rolls_rightly(x: Any, o: Any) -> None:
    o[...] = pltpu.roll(x[...], -3 % x.shape[1], 1)


def guards(x: Any, o: Any) -> None:
    pl.when(pl.program_id(0) == 0)(lambda: x[...])


def guards_rightly(x: Any, o: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _store() -> None:
        o[...] = x[...]


def branches(x: Any, o: Any) -> None:
    o[...] = jax.lax.cond(x[...] > 0, lambda: x[...], lambda: -x[...])


def branches_rightly(x: Any, o: Any) -> None:
    o[...] = jnp.where(x[...] > 0, x[...], -x[...])


def pipes(x: Any, o: Any) -> None:
    block = pl.BlockSpec((8, 128), lambda i: (0, 0))
    pltpu.emit_pipeline(adds_rightly, grid=(1,), in_specs=[block], out_specs=[block])(x[...], o)


def pipes_rightly(x: Any, o: Any) -> None:
    block = pl.BlockSpec((8, 128), lambda i: (0, 0))
    pltpu.emit_pipeline(adds_rightly, grid=(1,), in_specs=[block], out_specs=[block])(x, o)


def sums(x: Any, o: Any) -> None:
    total = jnp.zeros_like(x)

    @pl.loop(0, 4)
    def _add(_: Any) -> None:
        nonlocal total
        total += x[...]

    o[...] = total


def sums_rightly(x: Any, o: Any) -> None:
    o[...] = jax.lax.fori_loop(0, 4, lambda _, total: total + x[...], jnp.zeros_like(x))


def sizes(x: Any, o: Any) -> None:
    o[...] = jnp.zeros((pl.program_id(0), 128))


def carries_types(x: Any, o: Any) -> None:
    o[...] = jax.lax.fori_loop(0, 4, lambda _, c: (c + x[...]).astype(jnp.bfloat16), x[...])


def carries_types_rightly(x: Any, o: Any) -> None:
    start = jnp.zeros(x.shape, jnp.bfloat16)
    end = jax.lax.fori_loop(0, 4, lambda _, c: (c + x[...]).astype(jnp.bfloat16), start)
    o[...] = end.astype(o.dtype)


def carries_shapes(x: Any, o: Any) -> None:
    o[...] = jax.lax.fori_loop(0, 4, lambda _, c: c + x[...], 0.0)


def loops_return(x: Any, o: Any) -> None:
    @pl.loop(0, 4)
    def _step(i: Any) -> Any:
        return i


def loops_return_rightly(x: Any, o: Any) -> None:
    @pl.loop(0, 4, init_carry=x[...])
    def total(_: Any, carry: Any) -> Any:
        return carry + x[...]

    o[...] = total


def stores_in_turns(x: Any, o: Any) -> None:
    def body(i: Any, carry: Any) -> None:
        o[i] = x[i]

    jax.lax.fori_loop(0, 8, body, 0)


def stores_in_turns_rightly(x: Any, o: Any) -> None:
    def body(i: Any, carry: Any) -> None:
        o[i] = x[i]

    jax.lax.fori_loop(0, 8, body, None)


def branches_types(x: Any, o: Any) -> None:
    o[...] = jax.lax.cond(pl.program_id(0) == 0, lambda: x[...], lambda: 0.0)


def branches_types_rightly(x: Any, o: Any) -> None:
    first = pl.program_id(0) == 0
    o[...] = jax.lax.cond(first, lambda: x[...], lambda: jnp.full(x.shape, 0.0))


def goes_on(x: Any, o: Any) -> None:
    o[...] = jax.lax.while_loop(lambda c: c < 4, lambda c: c + x[...], x[...])


def goes_on_rightly(x: Any, o: Any) -> None:
    o[...] = jax.lax.while_loop(lambda c: jnp.max(c) < 4, lambda c: c + x[...], x[...])


def branches_to_values(x: Any, o: Any) -> None:
    cond: Any = jax.lax.cond
    o[...] = cond(pl.program_id(0) == 0, x[...], -x[...])


def calls_back(x: Any, o: Any) -> None:
    @pl.loop(0, 8)  # pyright: ignore[reportArgumentType]
    def _copy() -> None:
        o[...] = x[...]


WRONG: list[tuple[Body, str, str, Body]] = [
    (decides, "Python decides", "jnp.where", decides_rightly),
    (combines, "for whole vectors", "&, | and ~", combines_rightly),
    (repeats, "Python counts", "@pl.loop", repeats_rightly),
    (slices, "size of a slice", "pl.ds(start, size)", slices_rightly),
    (numpys, "NumPy computes", "jax.numpy", numpys_rightly),
    (adds_refs, "a ref is memory", "ref[...]", adds_rightly),
    (sums_refs, "a ref is memory", "ref[...]", adds_rightly),
    (takes_refs, "a ref is memory", "ref[...]", adds_rightly),
    (multiplies_refs, "a ref is memory", "ref[...]", adds_rightly),
    (captures, "as operands", "lax.broadcasted_iota", captures_rightly),
    (returns, "returns nothing", "out[...] = value", adds_rightly),
    (converts, "stored as they are", "astype(ref.dtype)", converts_rightly),
    (broadcasts, "not broadcast", "jnp.broadcast_to", broadcasts_rightly),
    (widens, "in each of its dimensions", "ref[...][:, None]", widens_rightly),
    (rolls, "higher indices", "shift % x.shape[axis]", rolls_rightly),
    (guards, "returns nothing", "store in it", guards_rightly),
    (branches, "for the whole kernel", "jnp.where(condition", branches_rightly),
    (pipes, "blocks of refs", "pass the ref", pipes_rightly),
    (sums, "as operands", "lax.fori_loop", sums_rightly),
    (carries_types, "keeps its type", "jnp.zeros(shape, dtype)", carries_types_rightly),
    (carries_shapes, "keeps its shape", "jnp.zeros(shape, dtype)", sums_rightly),
    (loops_return, "without init_carry", "init_carry=init", loops_return_rightly),
    (stores_in_turns, "keeps its structure", "begin with None", stores_in_turns_rightly),
    (branches_types, "one type and shape", "jnp.full(shape, value)", branches_types_rightly),
    (goes_on, "for the whole kernel", "jnp.max(x) < limit", goes_on_rightly),
    (branches_to_values, "is a function", "jnp.where(", branches_rightly),
    (calls_back, "other arguments", "@pl.loop give it the index", adds_rightly),
    (sizes, "shape of a vector", "mask the rest", adds_rightly),
]


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
    note = "\n".join(caught.value.__notes__)
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
    params = pltpu.CompilerParams(dimension_semantics=("sequential",))  # pyright: ignore
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
    assert Path(file) == Path(__file__)
    assert int(line) in {number for *_, number in wrong.__code__.co_lines()}
    with simulate():
        jax.block_until_ready(call(right))


def test_parameters_are_counted() -> None:
    x = jnp.ones((8, 128))
    scratch = pltpu.VMEM((8, 128), jnp.float32)
    kernel = pl.pallas_call(adds_refs, out_shape=x, scratch_shapes=[scratch])
    with simulate(), pytest.raises(TypeError, match="positional argument") as caught:
        kernel(x)
    assert "1 inputs, 1 outputs, 1 scratch" in "\n".join(caught.value.__notes__)


def test_parameters_of_index_maps_are_counted() -> None:
    x = jnp.ones((16, 128))
    block = pl.BlockSpec((8, 128), lambda i, j: (i, 0))
    kernel = pl.pallas_call(adds_rightly, out_shape=x, grid=(2,), in_specs=[block])
    with simulate(), pytest.raises(TypeError, match="positional argument") as caught:
        kernel(x)
    note = "\n".join(caught.value.__notes__)
    assert "per axis of the grid, which has 1" in note and f"{Path(__file__).name}:" in note


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

    with simulate(), pytest.raises(Exception, match="internal verification error") as caught:
        call(wrong)
    note = "\n".join(caught.value.__notes__)
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
    assert location is not None and location.line == adds_rightly.__code__.co_firstlineno + 1
