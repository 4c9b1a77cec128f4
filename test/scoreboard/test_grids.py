"""Grids, their axes, and arguments of any structure (spec/pallas_semantics.md section 8.1)."""

from __future__ import annotations

from typing import Any

import pytest

from .support import S, call, equal, jax, jnp, pl, pltpu, ramp, refusal, run

pytestmark = pytest.mark.jax
feature = pytest.mark.feature
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
INT = jnp.int32


def write(*values: Any) -> Any:
    """A kernel that writes numbers into SMEM."""

    def body(o: Any) -> None:
        for position, value in enumerate(values):
            o[position] = value()

    return body


@feature("C05", "C06", "C10")
def test_size_of_an_axis() -> None:
    def size() -> Any:
        assert type(pl.num_programs(0)) is int
        return pl.num_programs(0)

    program = call(write(size), S(1, dtype=INT), grid=5, out_specs=SMEM)
    equal(run(program, form="dma"), [5])
    equal(run(call(write(lambda: 7), S(1, dtype=INT), grid=(), out_specs=SMEM), form="dma"), [7])
    for ask in (pl.num_programs, pl.program_id):
        program = call(write(lambda ask=ask: ask(1)), S(1, dtype=INT), grid=5, out_specs=SMEM)
        assert "Axis 1 is out of bounds" in refusal(program)


@feature("C07")
def test_a_grid_of_no_steps() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + 1

    program = call(
        body, S(16, 128), grid=(0,), in_specs=[ROWS], out_specs=ROWS, input_output_aliases={0: 0}
    )
    equal(run(program, ramp(16, 128)), ramp(16, 128))


@feature("C08", "V07")
@pytest.mark.parametrize("mapped", [False, True])
def test_a_grid_known_at_run_time(mapped: bool) -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + pl.num_programs(0)

    def program(steps: Any, x: Any) -> Any:
        return call(
            body, S(24, 128), grid=(steps,), in_specs=[ROWS], out_specs=ROWS,
            input_output_aliases={0: 0},
        )(x)  # fmt: skip

    x = ramp(24, 128)
    if mapped:
        result = run(jax.vmap(program), jnp.array([1, 3]), jnp.stack([x, x]), form="dma")
        equal(result, [x.at[:8].add(1), x + 3])
    else:
        equal(run(program, jnp.int32(2), x, form="dma"), x.at[:16].add(2))
        equal(run(program, jnp.array([2]), x, form="dma"), x.at[:16].add(2))


@feature("C09")
def test_named_axes() -> None:
    place = write(lambda: jax.lax.axis_index("rows") * 10 + jax.lax.axis_size("columns"))
    program = call(place, S(1, dtype=INT), grid=(("rows", 2), ("columns", 3)), out_specs=SMEM)
    equal(run(program, form="dma"), [13])


@feature("C12", "C13", "C21")
def test_arguments_of_any_structure() -> None:
    def body(tree: Any, o: Any) -> None:
        o[...] = tree["a"][...] + tree["b"][0][...] * tree["b"][1][...]

    x = ramp(8, 128)
    equal(run(call(body, S(8, 128)), {"a": x, "b": (x, x)}, form="dma"), x + x * x)
    equal(run(call(write(lambda: 3), S(1, dtype=INT), out_specs=SMEM), form="dma"), [3])

    def check(x: Any) -> None:
        pl.debug_print("seen {}", x[0])

    out = call(check, (), in_specs=[SMEM])
    assert run(out, ramp(4, dtype=INT), form="dma") == ()


@feature("C39")
def test_scratch_by_name() -> None:
    def body(x: Any, o: Any, *, total: Any, count: Any) -> None:
        total[...] = x[...] * 2
        count[0] = 3
        o[...] = total[...] + count[0]

    scratch = {"total": pltpu.VMEM((8, 128), jnp.float32), "count": pltpu.SMEM((1,), INT)}
    equal(run(call(body, S(8, 128), scratch_shapes=scratch), ramp(8, 128)), ramp(8, 128) * 2 + 3)


@feature("C36")
def test_a_block_larger_than_its_array() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + 1

    spec = pl.BlockSpec((16, 256), lambda i: (i, 0))
    program = call(body, S(10, 200), grid=(1,), in_specs=[spec], out_specs=spec)
    equal(run(program, ramp(10, 200)), ramp(10, 200) + 1)
