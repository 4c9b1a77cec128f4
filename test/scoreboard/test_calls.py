"""The call contract: grids, blocks, results, aliases (spec/pallas_semantics.md section 8.1)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from .support import S, call, equal, jax, jnp, noise, pl, pltpu, ramp, refusal, run

pytestmark = pytest.mark.jax
feature = pytest.mark.feature
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)


def copy(x: Any, o: Any) -> None:
    o[...] = x[...]


@feature("C01")
def test_no_grid_runs_once_on_whole_arrays() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + 1

    x = noise(24, 200)
    equal(run(call(body, S(24, 200)), x), x + 1)


@feature("C02", "C03", "C04")
@pytest.mark.parametrize("grid", [(5,), (2, 3), (2, 1, 3)])
def test_order_of_the_grid(grid: tuple[int, ...]) -> None:
    steps = int(np.prod(grid))

    def body(o: Any, count: Any) -> None:
        first = jnp.bool_(True)
        for axis in range(len(grid)):
            first = first & (pl.program_id(axis) == 0)

        @pl.when(first)
        def _() -> None:
            count[0] = 0

        step = count[0]
        for axis in range(len(grid)):
            o[step, axis] = pl.program_id(axis)
        count[0] = step + 1

    out = S(steps, len(grid), dtype=jnp.int32)
    program = call(
        body, out, grid=grid, out_specs=SMEM, scratch_shapes=[pltpu.SMEM((1,), jnp.int32)]
    )
    equal(run(program), list(itertools.product(*map(range, grid))))


@feature("C11")
@pytest.mark.parametrize("kind", [tuple, list, lambda pair: {"a": pair[0], "b": {"c": pair[1]}}])
def test_structure_of_results(kind: Any) -> None:
    def body(x: Any, *refs: Any) -> None:
        for o in jax.tree.leaves(refs):
            o[...] = x[...]

    out = kind((S(8, 128), S(8, 128)))
    result = run(call(body, out), ramp(8, 128))
    wanted = tuple(out) if isinstance(out, list) else out
    assert jax.tree.structure(result) in (jax.tree.structure(wanted), jax.tree.structure(out))
    for leaf in jax.tree.leaves(result):
        equal(leaf, ramp(8, 128))


@feature("C14")
def test_kernel_that_returns_a_value() -> None:
    assert "return" in refusal(call(lambda x, o: x[...], S(8, 128)), ramp(8, 128))


@feature("C15")
def test_captured_array() -> None:
    constant = ramp(8, 128)

    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + constant

    assert "8,128" in refusal(call(body, S(8, 128)), ramp(8, 128)).replace(" ", "")


@feature("C16")
def test_specs_of_another_structure() -> None:
    spec = pl.BlockSpec((8, 128), lambda: (0, 0))
    text = refusal(call(copy, S(8, 128), in_specs=[spec, spec]), ramp(8, 128))
    assert "in_specs" in text


@feature("C22")
@pytest.mark.parametrize(
    "spec", [pl.BlockSpec(), pl.BlockSpec((16, 128)), pl.BlockSpec(None, lambda i: (0, 0))]
)
def test_defaults_of_a_block(spec: Any) -> None:
    x = ramp(16, 128)
    equal(run(call(copy, S(16, 128), grid=(2,), in_specs=[spec], out_specs=spec), x), x)


@feature("C23")
@pytest.mark.parametrize("dim", [None, pl.Squeezed()])
def test_squeezed_dimensions(dim: Any) -> None:
    def body(x: Any, o: Any) -> None:
        assert x.shape == (8, 128)
        o[...] = x[...] + pl.program_id(0)

    spec = pl.BlockSpec((dim, 8, 128), lambda i: (i, 0, 0))
    x = ramp(3, 8, 128)
    result = run(call(body, S(3, 8, 128), grid=(3,), in_specs=[spec], out_specs=spec), x)
    equal(result, x + jnp.arange(3.0)[:, None, None])


@feature("C24")
def test_blocks_are_scaled_by_their_size() -> None:
    spec = pl.BlockSpec((8, 128), lambda i, j: (j, i))
    out = pl.BlockSpec((8, 128), lambda i, j: (i, j))
    x = ramp(24, 256)
    result = run(call(copy, S(16, 384), grid=(2, 3), in_specs=[spec], out_specs=out), x)
    blocks = x.reshape(3, 8, 2, 128).transpose(2, 0, 1, 3)  # [i, j] is block (j, i)
    equal(result, blocks.transpose(0, 2, 1, 3).reshape(16, 384))


@feature("C25")
def test_blocks_by_element() -> None:
    spec = pl.BlockSpec((pl.Element(16), pl.Element(128)), lambda i: (8 * i, 0))
    out = pl.BlockSpec((16, 128), lambda i: (i, 0))
    x = ramp(40, 128)
    result = run(call(copy, S(64, 128), grid=(4,), in_specs=[spec], out_specs=out), x)
    equal(result, np.concatenate([x[8 * i : 8 * i + 16] for i in range(4)]))


@feature("C26")
def test_blocks_by_element_with_padding() -> None:
    out = pl.BlockSpec((8, 128), lambda i: (i, 0))
    x = ramp(16, 128)

    def program(*padding: int) -> Any:
        rows = pl.Element(8, padding)
        spec = pl.BlockSpec((rows, pl.Element(128)), lambda i: (8 * i, 0))
        return call(copy, S(24, 128), grid=(3,), in_specs=[spec], out_specs=out)

    equal(run(program(0, 8), x, checks=())[:16], x)
    assert "padding in front" in refusal(program(8, 0), x)


@feature("C29")
@pytest.mark.parametrize(
    ("block", "legal"),
    [
        ((8, 128), True), ((16, 256), True), ((20, 128), True), ((8, 300), True), ((20, 300), True),
        ((24, 128), True), ((4, 128), False), ((8, 64), False), ((12, 128), False),
        ((8, 200), False), ((1, 128), False), ((20, 1), False),
    ],
)  # fmt: skip
def test_rule_of_8_and_128(block: tuple[int, int], legal: bool) -> None:
    x = ramp(20, 300)
    grid = tuple(-(-a // b) for a, b in zip(x.shape, block, strict=True))
    spec = pl.BlockSpec(block, lambda i, j: (i, j))
    program = call(copy, S(20, 300), grid=grid, in_specs=[spec], out_specs=spec)
    if legal:
        equal(run(program, x, checks=()), x)
    else:
        assert "divisible by 8 and 128" in refusal(program, x)


@feature("C30")
@pytest.mark.parametrize(
    ("dtype", "size", "legal"),
    [
        ("float32", 128, True), ("float32", 1024, True), ("float32", 4096, True),
        ("float32", 64, False), ("float32", 384, False), ("bfloat16", 256, True),
        ("bfloat16", 128, False), ("int8", 512, True), ("int8", 256, False),
    ],
)  # fmt: skip
def test_rule_of_rank_1(dtype: str, size: int, legal: bool) -> None:
    x = (ramp(4096) % 64).astype(dtype)
    spec = pl.BlockSpec((size,), lambda i: (i,))
    out = S(4096, dtype=x.dtype)
    program = call(copy, out, grid=(-(-4096 // size),), in_specs=[spec], out_specs=spec)
    if legal:
        equal(run(program, x), x)
    else:
        assert "rank 1" in refusal(program, x)


@feature("C32")
@pytest.mark.parametrize("space", [pl.ANY, pltpu.HBM])
def test_windows_outside_of_vmem_are_trivial(space: Any) -> None:
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0), memory_space=space)
    text = refusal(call(lambda x, o: None, S(8, 128), grid=(2,), in_specs=[spec]), ramp(16, 128))
    assert "trivial" in text


@feature("C34", "C35")
def test_blocks_over_the_edge() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] + 1

    spec = pl.BlockSpec((8, 128), lambda i, j: (i, j))
    x = ramp(10, 200)
    program = call(body, S(10, 200), grid=(2, 2), in_specs=[spec], out_specs=spec)
    equal(run(program, x), x + 1)


@feature("C38")
def test_scratch_persists() -> None:
    def body(o: Any, count: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            count[...] = jnp.zeros_like(count)

        count[...] += 1
        o[...] = count[...]

    out = pl.BlockSpec((8, 128), lambda i: (i, 0))
    scratch = [pltpu.VMEM((8, 128), jnp.float32)]
    result = run(call(body, S(32, 128), grid=(4,), out_specs=out, scratch_shapes=scratch))
    equal(result[::8, 0], [1, 2, 3, 4])


@feature("C40", "R21")
@pytest.mark.filterwarnings("ignore::pallasite.diagnostics.KernelWarning")
def test_scratch_is_not_initialised() -> None:
    def body(o: Any, scratch: Any) -> None:
        o[...] = scratch[...]

    program = call(body, S(8, 128), scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)])
    assert "never" in refusal(program, checks=("init",))
    assert np.isnan(run(program, checks=())).all()


@feature("C42")
def test_aliases_share_memory() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    spec = pl.BlockSpec((8, 128), lambda i: (2 * i, 0))
    x = ramp(32, 128)
    aliases = {0: 0}
    program = call(
        body, S(32, 128), grid=(2,), in_specs=[spec], out_specs=spec, input_output_aliases=aliases
    )
    expected = np.array(x).reshape(4, 8, 128)
    expected[::2] *= 2
    equal(run(program, x), expected.reshape(32, 128))


@feature("C43")
def test_aliases_count_prefetch_operands() -> None:
    def body(a: Any, b: Any, x: Any, o: Any) -> None:
        o[...] = x[...] + 1

    spec = pl.BlockSpec((8, 128), lambda i, a, b: (a[i] + b[i], 0))
    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=2, grid=(2,), in_specs=[spec], out_specs=spec
    )
    program = call(body, S(32, 128), grid_spec=grid, input_output_aliases={2: 0})
    a, b, x = jnp.array([0, 1]), jnp.array([0, 2]), ramp(32, 128)
    expected = np.array(x)
    expected[:8] += 1
    expected[24:] += 1
    equal(run(program, a, b, x), expected)


@feature("C45")
def test_outputs_must_be_consecutive() -> None:
    spec = pl.BlockSpec((8, 128), lambda i: (i % 2, 0))

    def body(o: Any) -> None:
        o[...] = jnp.zeros_like(o)

    text = refusal(call(body, S(16, 128), grid=(4,), out_specs=spec))
    assert "again" in text or "consecutive" in text


@feature("C47")
def test_accumulation_into_the_output() -> None:
    def body(x: Any, o: Any) -> None:
        @pl.when(pl.program_id(1) == 0)
        def _() -> None:
            o[...] = jnp.zeros_like(o)

        o[...] += x[...]

    spec = pl.BlockSpec((8, 128), lambda i, k: (i, k))
    out = pl.BlockSpec((8, 128), lambda i, k: (i, 0))
    x = ramp(16, 384)
    result = run(call(body, S(16, 128), grid=(2, 3), in_specs=[spec], out_specs=out), x)
    equal(result, x.reshape(16, 3, 128).sum(axis=1))


@feature("C48")
def test_the_last_writer_wins() -> None:
    def body(o: Any) -> None:
        o[...] = jnp.full(o.shape, pl.program_id(0))

    out = pl.BlockSpec((8, 128), lambda i: (0, 0))
    equal(
        run(call(body, S(8, 128, dtype=jnp.int32), grid=(4,), out_specs=out)), np.full((8, 128), 3)
    )


@feature("C51")
def test_cost_estimate_travels() -> None:
    from pallasite.jax import trace

    cost = pl.CostEstimate(flops=11, transcendentals=5, bytes_accessed=7)
    program = call(copy, S(8, 128), cost_estimate=cost)
    text = str(trace(program, ramp(8, 128)))
    assert "11" in text and "transcendentals" in text
    scaled = str(trace(jax.vmap(program), ramp(3, 8, 128)))
    assert "33" in scaled


@feature("C52")
def test_estimate_of_cost() -> None:
    cost = pl.estimate_cost(lambda x, y: jnp.exp(x @ y), ramp(16, 32), ramp(32, 8))
    assert cost.flops >= 2 * 16 * 32 * 8 and cost.transcendentals == 16 * 8


@feature("C54")
def test_interpret_mode_gives_the_same() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = jnp.tanh(x[...]) * 3 + jnp.max(x[...], axis=1, keepdims=True)

    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    x = noise(32, 128)
    options: dict[str, Any] = {"grid": (4,), "in_specs": [spec], "out_specs": spec}
    expected = call(body, S(32, 128), interpret=True, **options)(x)
    result = run(call(body, S(32, 128), **options), x)
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


@feature("C55")
@pytest.mark.parametrize("function", [jnp.cumsum, jnp.sort, jnp.fft.fft, jnp.linalg.inv])
def test_what_is_refused_is_not_wrong(function: Any) -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = function(x[...]).astype(o.dtype)

    assert refusal(call(body, S(8, 8)), noise(8, 8))
