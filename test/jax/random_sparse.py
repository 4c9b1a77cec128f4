"""Random programs of a vector subcore: what each statement means to JAX, and to NumPy.

A program has registers of words (int32) and of floats, a table in VMEM and one in HBM. Every
statement changes some of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc

i32, f32 = jnp.int32, jnp.float32
REGISTERS = 3
"""Of each type."""
TABLE = 4
"""Registers that the table in VMEM holds."""
ROWS = 24
"""Words of the table in HBM."""

State = dict[str, Any]
Body = Callable[[State, Any], None]


@dataclass(frozen=True)
class Statement:
    """`kernel` changes refs and registers of the kernel, `numpy` the same arrays."""

    name: str
    kernel: Body
    numpy: Body


def program(seed: int, lanes: int, length: int = 10) -> list[Statement]:
    """A program of `length` statements."""
    rng = np.random.default_rng(seed)
    makers = [m for name, m in sorted(globals().items()) if name.startswith("_make_")]
    return [makers[rng.integers(len(makers))](rng, lanes) for _ in range(length)]


def start(seed: int, lanes: int) -> State:
    """The arrays that a program begins with."""
    rng = np.random.default_rng([seed, 1])
    words = rng.integers(-40, 40, (REGISTERS, lanes)).astype(np.int32)
    floats = rng.integers(-40, 40, (REGISTERS, lanes)).astype(np.float32)
    table = rng.integers(-40, 40, TABLE * lanes).astype(np.int32)
    rows = rng.integers(-40, 40, ROWS).astype(np.int32)
    return {"words": words, "floats": floats, "table": table, "rows": rows}


def _pick(rng: np.random.Generator, count: int = 1) -> list[int]:
    return [int(n) for n in rng.integers(REGISTERS, size=count)]


def _make_arithmetic(rng: np.random.Generator, lanes: int) -> Statement:
    names = ("add", "subtract", "multiply", "maximum", "minimum")
    name, kind = str(rng.choice(names)), str(rng.choice(("words", "floats")))
    a, b, c = _pick(rng, 3)

    def run(module: Any) -> Body:
        def body(state: State, _: Any) -> None:
            state[kind][a] = getattr(module, name)(state[kind][b], state[kind][c])

        return body

    return Statement(f"{name} {kind}", run(jnp), run(np))


def _make_bits(rng: np.random.Generator, lanes: int) -> Statement:
    name, count = str(rng.choice(("&", "|", "^", "<<", ">>"))), int(rng.integers(1, 31))
    a, b, c = _pick(rng, 3)

    def body(state: State, _: Any) -> None:
        x, y = state["words"][b], state["words"][c]
        found = {"&": x & y, "|": x | y, "^": x ^ y, "<<": x << count, ">>": x >> count}
        state["words"][a] = found[name]

    return Statement(name, body, body)


def _make_select(rng: np.random.Generator, lanes: int) -> Statement:
    kind, (a, b, c) = str(rng.choice(("words", "floats"))), _pick(rng, 3)

    def run(module: Any) -> Body:
        def body(state: State, _: Any) -> None:
            x, y = state[kind][b], state[kind][c]
            state[kind][a] = module.where((x > y) & (x != -y), x - y, y)

        return body

    return Statement(f"select {kind}", run(jnp), run(np))


def _make_convert(rng: np.random.Generator, lanes: int) -> Statement:
    a, b = _pick(rng, 2)

    def body(state: State, _: Any) -> None:
        state["floats"][a] = (state["words"][b] & 1023).astype(f32)
        state["words"][b] = state["floats"][a].astype(i32) + 1

    return Statement("convert", body, body)


def _make_gather(rng: np.random.Generator, lanes: int) -> Statement:
    (a, b, c), masked = _pick(rng, 3), bool(rng.integers(2))
    last = TABLE * lanes - 1

    def kernel(state: State, refs: Any) -> None:
        index, mask = state["words"][b] & last, state["words"][c] > 0
        found = plsc.load_gather(refs["table"], [index], mask=mask if masked else None)
        state["words"][a] = jnp.where(mask, found, -1) if masked else found

    def numpy(state: State, _: Any) -> None:
        found = state["table"][state["words"][b] & last]
        state["words"][a] = np.where(state["words"][c] > 0, found, -1) if masked else found

    return Statement("load_gather", kernel, numpy)


def _make_scatter(rng: np.random.Generator, lanes: int) -> Statement:
    """To places that differ, for the order of equal ones is nowhere defined."""
    (b, c), add = _pick(rng, 2), bool(rng.integers(2))
    places = rng.permutation(TABLE * lanes)[:lanes].astype(np.int32)
    stride, first = int(rng.choice((1, 3, 5, 7))), int(rng.integers(TABLE * lanes))
    places = ((np.arange(lanes) * stride + first) % (TABLE * lanes)).astype(np.int32)

    def kernel(state: State, refs: Any) -> None:
        index = (jax.lax.iota(i32, lanes) * stride + first) % (TABLE * lanes)
        store = plsc.addupdate_scatter if add else plsc.store_scatter
        store(refs["table"], [index], state["words"][b], mask=state["words"][c] < 5)

    def numpy(state: State, _: Any) -> None:
        mask = state["words"][c] < 5
        new = state["words"][b] + (state["table"][places] if add else 0)
        state["table"][places] = np.where(mask, new, state["table"][places])

    return Statement(f"scatter add={add}", kernel, numpy)


def _make_compress(rng: np.random.Generator, lanes: int) -> Statement:
    (a, b), first = _pick(rng, 2), int(rng.integers((TABLE - 1) * lanes))
    expand = bool(rng.integers(2))

    def kernel(state: State, refs: Any) -> None:
        part, mask = refs["table"].at[pl.ds(first, lanes)], state["words"][b] > 3
        if expand:
            state["words"][a] = jnp.where(mask, plsc.load_expanded(part, mask=mask), 9)
        else:
            plsc.store_compressed(part, state["words"][a], mask=mask)

    def numpy(state: State, _: Any) -> None:
        mask = state["words"][b] > 3
        part = state["table"][first : first + int(mask.sum())]
        if expand:
            state["words"][a] = np.full(lanes, 9, np.int32)
            state["words"][a][mask] = part
        else:
            part[:] = state["words"][a][mask]

    return Statement(f"compress expand={expand}", kernel, numpy)


def _make_scan(rng: np.random.Generator, lanes: int) -> Statement:
    kind, name = str(rng.choice(("words", "floats"))), str(rng.choice(("cumsum", "cummax")))
    a, b, c = _pick(rng, 3)

    def kernel(state: State, _: Any) -> None:
        state[kind][a] = getattr(plsc, name)(state[kind][b], mask=state["words"][c] > 0)

    def numpy(state: State, _: Any) -> None:
        x, mask = state[kind][b].copy(), state["words"][c] > 0
        running = None
        for lane in range(lanes):
            if mask[lane]:
                value = x[lane]
                if running is not None:
                    value = running + value if name == "cumsum" else max(running, value)
                running = value
            if running is not None:
                x[lane] = running
        state[kind][a] = x

    return Statement(f"{name} {kind}", kernel, numpy)


def _make_sort(rng: np.random.Generator, lanes: int) -> Statement:
    kind, descending = str(rng.choice(("words", "floats"))), bool(rng.integers(2))
    (a, b, c), masked = _pick(rng, 3), bool(rng.integers(2))

    def kernel(state: State, _: Any) -> None:
        mask = state["words"][c] > 0 if masked else None
        found = plsc.sort_key_val(
            state[kind][a], state["words"][b], mask=mask, descending=descending
        )
        state[kind][a], state["words"][b] = found[:2]

    def numpy(state: State, _: Any) -> None:
        keys, values = state[kind][a].astype(np.float64), state["words"][b]
        keys = np.where(state["words"][c] > 0, -keys if descending else keys, np.inf)
        if not masked:
            keys = state[kind][a].astype(np.float64) * (-1 if descending else 1)
        order = np.argsort(keys, kind="stable")
        state[kind][a], state["words"][b] = state[kind][a][order], values[order]

    return Statement(f"sort {kind}", kernel, numpy)


def _make_count(rng: np.random.Generator, lanes: int) -> Statement:
    a, b, c = _pick(rng, 3)

    def kernel(state: State, _: Any) -> None:
        values, mask = state["words"][b] & 7, state["words"][c] > -20
        counts, last = plsc.scan_count(values, mask)
        state["words"][a] = jnp.where(mask, counts * 2 + last.astype(i32), 0)

    def numpy(state: State, _: Any) -> None:
        values, mask = state["words"][b] & 7, state["words"][c] > -20
        found = np.zeros(lanes, np.int32)
        for lane in np.flatnonzero(mask):
            same = mask & (values == values[lane])
            last = not same[lane + 1 :].any()
            found[lane] = 2 * same[: lane + 1].sum() + last
        state["words"][a] = found

    return Statement("scan_count", kernel, numpy)


def _make_lanes(rng: np.random.Generator, lanes: int) -> Statement:
    name, lane = (
        str(rng.choice(("flip", "lane", "take", "count", "first"))),
        int(rng.integers(lanes)),
    )
    a, b, c = _pick(rng, 3)

    def kernel(state: State, _: Any) -> None:
        x, y = state["words"][b], state["words"][c]
        state["words"][a] = {
            "flip": lambda: jnp.flip(x, 0),
            "lane": lambda: y + x[lane],
            "take": lambda: x[y & (lanes - 1)],
            "count": lambda: plsc.all_reduce_population_count(x > 0),
            "first": lambda: plsc.all_reduce_ffs(x > 0),
        }[name]()

    def numpy(state: State, _: Any) -> None:
        x, y = state["words"][b], state["words"][c]
        positive = np.append(np.flatnonzero(x > 0), lanes)
        state["words"][a] = {
            "flip": x[::-1],
            "lane": y + x[lane],
            "take": x[y & (lanes - 1)],
            "count": np.full(lanes, (x > 0).sum(), np.int32),
            "first": np.full(lanes, positive[0], np.int32),
        }[name].copy()

    return Statement(name, kernel, numpy)


def _make_loop(rng: np.random.Generator, lanes: int) -> Statement:
    (a, b), parallel, unroll = _pick(rng, 2), bool(rng.integers(2)), int(rng.choice((1, 2)))

    def kernel(state: State, refs: Any) -> None:
        def step(n: Any, carry: Any) -> Any:
            at = pl.multiple_of(n * lanes, lanes)
            return carry + refs["table"][pl.ds(at, lanes)] * n

        if parallel:
            found = plsc.parallel_loop(0, TABLE, unroll=unroll, carry=state["words"][b])(step)
        else:
            found = jax.lax.fori_loop(0, TABLE, step, state["words"][b], unroll=unroll)
        state["words"][a] = found

    def numpy(state: State, _: Any) -> None:
        parts = state["table"].reshape(TABLE, lanes)
        scale = np.arange(TABLE, dtype=np.int32)[:, None]
        state["words"][a] = (state["words"][b] + (parts * scale).sum(0)).astype(np.int32)

    return Statement(f"loop parallel={parallel}", kernel, numpy)


def _make_branch(rng: np.random.Generator, lanes: int) -> Statement:
    (a, b), lane = _pick(rng, 2), int(rng.integers(lanes))

    def kernel(state: State, _: Any) -> None:
        x = state["words"][b]
        state["words"][a] = jax.lax.cond(x[lane] > 0, lambda v: v * 3, lambda v: v - 7, x)

    def numpy(state: State, _: Any) -> None:
        x = state["words"][b]
        state["words"][a] = x * np.int32(3) if x[lane] > 0 else x - np.int32(7)

    return Statement("branch", kernel, numpy)


def _make_indirect(rng: np.random.Generator, lanes: int) -> Statement:
    """A gather of words of HBM, by numbers that may be equal, in a register or in memory."""
    (a, b), held = _pick(rng, 2), bool(rng.integers(2))

    def kernel(state: State, refs: Any) -> None:
        numbers = jax.lax.rem(state["words"][b] & 1023, ROWS)
        if held:
            refs["numbers"][...] = numbers
        pltpu.sync_copy(refs["rows"].at[refs["numbers"] if held else numbers], refs["row"])
        state["words"][a] = refs["row"][...]

    def numpy(state: State, _: Any) -> None:
        state["words"][a] = state["rows"][(state["words"][b] & 1023) % ROWS]

    return Statement(f"indirect held={held}", kernel, numpy)


def meaning(statements: list[Statement], state: State) -> State:
    """What the statements make of arrays, by NumPy."""
    state = {name: np.array(value) for name, value in state.items()}
    with np.errstate(over="ignore", invalid="ignore"):
        for statement in statements:
            statement.numpy(state, None)
    return state
