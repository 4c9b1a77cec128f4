"""Kernels as they are mistaken, each with what a note says of it, and as they are meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

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


def leaves_a_branch(x: Any, o: Any) -> None:
    value = x[...]

    @pl.when(pl.program_id(0) == 1)
    def _() -> None:
        nonlocal value
        value = -value

    o[...] = value


def chooses_rightly(x: Any, o: Any) -> None:
    o[...] = jnp.where(pl.program_id(0) == 1, -x[...], x[...])


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
    @pl.loop(0, 8)
    def _copy() -> None:
        o[...] = x[...]


def lists_rows(x: Any, o: Any) -> None:
    o[...] = x[[1, 0, 2, 3, 4, 5, 6, 7]]


def lists_rows_rightly(x: Any, o: Any) -> None:
    o[...] = jnp.concatenate([x[i : i + 1] for i in (1, 0, 2, 3, 4, 5, 6, 7)])


def leaves(x: Any, o: Any) -> None:
    o[...] = x[pl.ds(4, 8)]


def leaves_rightly(x: Any, o: Any) -> None:
    o[0:4] = x[pl.ds(4, 4)]


def halves(x: Any, o: Any) -> None:
    o[0:4] = x[0 : 8 / 2]


def halves_rightly(x: Any, o: Any) -> None:
    o[0:4] = x[0 : 8 // 2]


def loads_some(x: Any, o: Any) -> None:
    o[...] = x[pl.ds(0, pl.program_id(0))]


def loads_some_rightly(x: Any, o: Any) -> None:
    row = jax.lax.broadcasted_iota(jnp.int32, x.shape, 0)
    o[...] = jnp.where(row < pl.program_id(0), x[...], 0)


def counts_axes(x: Any, o: Any) -> None:
    o[...] = x[...] + pl.program_id(1)


def names_axes(x: Any, o: Any) -> None:
    name: Any = "rows"
    o[...] = x[...] + pl.program_id(name)


def counts_axes_rightly(x: Any, o: Any) -> None:
    o[...] = x[...] + pl.program_id(0)


def reverses(x: Any, o: Any) -> None:
    o[...] = x[::-1]


def reverses_rightly(x: Any, o: Any) -> None:
    row, column = (jax.lax.broadcasted_iota(jnp.int32, (8, 8), d) for d in (0, 1))
    reversal = (row + column == 7).astype(x.dtype)
    o[...] = jnp.dot(reversal, x[...], precision=jax.lax.Precision.HIGHEST)


def reverses_by_gather(x: Any, o: Any) -> None:
    rows = 7 - jax.lax.broadcasted_iota(jnp.int32, x.shape, 0)
    o[...] = jnp.take_along_axis(x[...], rows, 0, mode="promise_in_bounds")


def selects(x: Any, o: Any) -> None:
    o[...] = x[...][x[...] > 0]


def selects_rightly(x: Any, o: Any) -> None:
    o[...] = jnp.where(x[...] > 0, x[...], 0)


WRONG: list[tuple[Body, str, str, Body]] = [
    (selects, "shape of a vector", "jnp.where(mask, x, 0)", selects_rightly),
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
    (leaves_a_branch, "as operands", "choose it with jnp.where", chooses_rightly),
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
    (lists_rows, "in each of its dimensions", "[ref[i : i + 1] for", lists_rows_rightly),
    (leaves, "lies within it", "ends at start + size", leaves_rightly),
    (halves, "are integers", "n // 2", halves_rightly),
    (loads_some, "size of what is loaded", "jnp.where(index < n", loads_some_rightly),
    (counts_axes, "counted from 0", "grid=(n,)", counts_axes_rightly),
    (names_axes, "counted, from 0", "pl.program_id(0)", counts_axes_rightly),
    (reverses, "read forwards", "Precision.HIGHEST", reverses_rightly),
    (sizes, "shape of a vector", "mask the rest", adds_rightly),
]
