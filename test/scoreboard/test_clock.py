"""Modelled time: what operations cost, and what overlaps (spec/pallas_semantics.md section 8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from pallasite.api import lower, simulate
from pallasite.interpreter.costs import cost_of, matmul_flops
from pallasite.interpreter.cycles import FREE, UNITS
from pallasite.jax import simulate as simulated
from pallasite.jax import trace
from pallasite.targets import TARGETS

from .counting import outcome
from .support import DMA, S, call, jnp, noise, pl, pltpu, ramp, whole

pytestmark = pytest.mark.jax
feature = pytest.mark.feature
ANY = pl.BlockSpec(memory_space=pl.ANY)
V5E = TARGETS["v5e"]


def profile(function: Callable[..., Any], *inputs: Any, form: str = "tiles", **options: Any) -> Any:
    """The modelled time of the only kernel of `function`."""
    return outcome(function, *inputs, form=form, profile=True, **options).profile


def cycles(function: Callable[..., Any], *inputs: Any) -> float:
    """Cycles of the busiest unit, loads and stores left out."""
    module = lower(trace(whole(function, *inputs), *inputs), form="tiles")
    total = sum((cost_of(op, V5E) for op in module.walk()), FREE)
    busy = dict(zip(UNITS, total.cycles, strict=True))
    return max(busy[unit] for unit in ("vpu", "eup", "xlu", "mxu"))


@feature("O24")
def test_classes_of_operations() -> None:
    x = noise(64, 256)
    cheap, medium, expensive = (cycles(f, x) for f in (lambda x: x + x, jnp.exp, jnp.sin))
    assert 0 < cheap < medium < expensive


@feature("O25")
def test_cost_follows_the_padded_size() -> None:
    def doubled(x: Any) -> Any:
        return x + x

    one, tile, columns = (cycles(doubled, ramp(*s)) for s in [(1, 1), (8, 128), (8, 128, 1, 1)])
    assert one == tile
    assert columns == 1024 * one


@feature("N07")
def test_reductions_by_axis() -> None:
    x = noise(16, 128, 128)
    leading, rows, lanes = (cycles(lambda x, a=a: jnp.sum(x, axis=a), x) for a in range(3))
    assert leading < rows < lanes


@feature("W13")
@pytest.mark.parametrize(("target", "size"), [("v5e", 128), ("v6e", 256)])
def test_tiles_of_the_systolic_array(target: str, size: int) -> None:
    model = TARGETS[target]
    whole = matmul_flops(64, 2 * size, 3 * size, model)
    assert whole == 2 * 64 * 2 * size * 3 * size
    assert matmul_flops(60, 2 * size - 1, 2 * size + 1, model) == whole  # padded to six tiles


@feature("W13")
def test_time_of_a_product() -> None:
    x = noise(512, 512, dtype=jnp.bfloat16)

    def product(x: Any) -> Any:
        return jnp.dot(x, x, preferred_element_type=jnp.float32)

    expected = 2 * 512**3 / V5E.bf16_ops_per_second * V5E.clock_hz
    for form in ("tiles", "vreg"):
        told = profile(whole(product, x), x, form=form)
        assert told["flops"] == 2 * 512**3
        assert told["cores"][0]["busy_cycles"]["mxu"] == pytest.approx(expected)


@feature("X22")
@pytest.mark.parametrize("copies", [1, 3])
def test_time_of_transfers(copies: int) -> None:
    """One engine moves one transfer after the other; the latency is waited out once."""

    def body(x: Any, o: Any, buffers: Any, arrived: Any) -> None:
        started = [pltpu.make_async_copy(x, buffers.at[i], arrived) for i in range(copies)]
        for copy in started:
            copy.start()
        for copy in started:
            copy.wait()
        o[...] = buffers[0, :8]

    scratch = [pltpu.VMEM((copies, 1024, 128), jnp.float32), DMA]
    program = call(body, S(8, 128), in_specs=[ANY], scratch_shapes=scratch)
    size = 1024 * 128 * 4
    one = size / V5E.hbm_bytes_per_second + V5E.dma_latency_seconds
    more = (copies - 1) * size / V5E.hbm_bytes_per_second
    result = 8 * 128 * 4 / V5E.hbm_bytes_per_second + V5E.dma_latency_seconds
    told = profile(program, ramp(1024, 128))
    stalled = told["cores"][0]["stalled_seconds"]
    assert stalled == pytest.approx(one + more + result, rel=0.02)
    assert told["hbm_bytes"] == copies * size + 8 * 128 * 4


def blocks(function: Callable[[Any], Any], steps: int, buffers: int = 2) -> Any:
    """`function` of blocks of 512x512, one after the other."""

    def body(x: Any, o: Any) -> None:
        o[...] = function(x[...])

    mode = pl.Buffered(buffers)
    spec = pl.BlockSpec((512, 512), lambda i: (i, 0), pipeline_mode=mode)
    shape = S(512 * steps, 512)
    x = jnp.zeros(shape.shape)
    return profile(call(body, shape, grid=(steps,), in_specs=[spec], out_specs=spec), x)


@feature("L34")
def test_transfers_overlap_with_work() -> None:
    alone, together = blocks(jnp.sin, 6, buffers=1), blocks(jnp.sin, 6)
    assert together["seconds"] < 0.8 * alone["seconds"]
    worked = [told["cores"][0]["busy_cycles"]["vpu"] for told in (alone, together)]
    assert worked[0] == worked[1]


@feature("L35")
def test_work_hides_transfers() -> None:
    def heavy(x: Any) -> Any:
        return jnp.sin(jnp.cos(jnp.sin(jnp.cos(x))))

    few, many = (blocks(heavy, steps)["cores"][0]["stalled_seconds"] for steps in (3, 6))
    # The first block is waited for, and the last result; nothing in between.
    assert few == pytest.approx(many, rel=0.05)


@feature("D12")
def test_the_slowest_core_decides() -> None:
    def add_one(x: Any, o: Any) -> None:
        o[...] = x[...] + 1

    spec = pl.BlockSpec((64, 128), lambda i: (i, 0))
    params = pltpu.CompilerParams(dimension_semantics=("parallel",))
    program = call(
        add_one, S(320, 128), grid=(5,), in_specs=[spec], out_specs=spec, compiler_params=params
    )
    told = profile(program, ramp(320, 128), target="v5p")
    first, second = (core["seconds"] for core in told["cores"])
    assert first > second
    assert told["seconds"] == first


@feature("Z13")
@pytest.mark.parametrize(("size", "bound"), [(512, "memory"), (1024, "compute")])
def test_roofline(size: int, bound: str) -> None:
    """A product of bfloat16 matrices of N is bound by the MXU of v5e above N = 720."""
    x = jnp.zeros((size, size), jnp.bfloat16)

    def product(x: Any, y: Any) -> Any:
        return jnp.dot(x, y, preferred_element_type=jnp.float32).astype(jnp.bfloat16)

    told = profile(whole(product, x, x), x, x)
    assert told["balance"] == pytest.approx(240, rel=0.01)
    assert told["intensity"] == pytest.approx(size / 3, rel=0.01)
    assert told["bound"] == bound


@feature("Z14")
def test_an_all_gather_takes_as_long_as_its_links() -> None:
    """On a ring of D devices each sends D - 1 shards over its link, one after the other."""
    devices, shard = 4, 1 << 20

    def body(x: Any, o: Any, copied: Any, sent: Any, received: Any) -> None:
        me = jax.lax.axis_index("x")
        right = jax.lax.rem(me + 1, devices)
        pltpu.sync_copy(x, o.at[me])
        for step in range(devices - 1):
            part = o.at[jax.lax.rem(me + devices - step, devices)]
            pltpu.async_remote_copy(part, part, sent, received.at[step], (right,)).wait()

    program = call(
        body, S(devices, 2048, 128), in_specs=[ANY], out_specs=ANY,
        scratch_shapes=[DMA, DMA, pltpu.SemaphoreType.DMA((devices - 1,))],
    )  # fmt: skip
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("x",))
    ring = jax.shard_map(program, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    x = noise(devices * 2048, 128)
    shards = [[part] for part in np.split(np.asarray(x), devices)]
    ran = simulate(trace(ring, x), shards, form="tiles", devices=devices, profile=True)
    for (gathered,) in ran.outputs:
        np.testing.assert_array_equal(gathered.reshape(x.shape), x)
    told = ran.profile
    assert told is not None and told["bound"] == "interconnect"
    assert told["ici_bytes"] == devices * (devices - 1) * shard
    assert told["ici_seconds"] == pytest.approx((devices - 1) * shard / V5E.ici_bytes_per_second)
    latency = (devices - 1) * V5E.dma_latency_seconds
    copy = 2 * shard / V5E.hbm_bytes_per_second + V5E.dma_latency_seconds
    assert told["ici_seconds"] <= told["seconds"]
    assert told["seconds"] == pytest.approx(told["ici_seconds"] + latency + copy, rel=0.05)


@feature("Z16")
def test_operations_of_attention() -> None:
    """4 T**2 K in the two products, 3 T**2 in the softmax: differences, exponentials, quotients."""
    rows, depth = 256, 128

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.dot(q, k.T, preferred_element_type=jnp.float32)
        weights = jnp.exp(scores - jnp.max(scores, axis=1, keepdims=True))
        weights = weights / jnp.sum(weights, axis=1, keepdims=True)
        return jnp.dot(weights, v, preferred_element_type=jnp.float32)

    def body(q: Any, k: Any, v: Any, o: Any) -> None:
        o[...] = attention(q[...], k[...], v[...])

    inputs = [noise(rows, depth)] * 3
    cost = pl.estimate_cost(attention, *inputs)
    products, softmax = 4 * rows**2 * depth, 3 * rows**2
    assert cost.flops + cost.transcendentals == products + softmax
    program = call(body, S(rows, depth), cost_estimate=cost)
    with simulated():
        counted = jax.jit(program).lower(*inputs).compile().cost_analysis()
    assert counted["flops"] + counted["transcendentals"] == products + softmax
    assert profile(program, *inputs)["flops"] == products


@feature("Z15")
def test_utilisation_and_stalls() -> None:
    told = blocks(lambda x: x + 1, 4)
    assert 0.5 < told["hbm_utilisation"] <= 1.0
    assert told["mxu_utilisation"] == 0.0
    core = told["cores"][0]
    assert 0 < core["stalled_seconds"] < core["seconds"] == told["seconds"]
    assert set(core["busy_cycles"]) == set(UNITS)


def test_time_changes_no_result() -> None:
    x = noise(64, 256)
    program = whole(jnp.tanh, x)
    kept, plain = (outcome(program, x, form="tiles", profile=p) for p in (True, False))
    np.testing.assert_array_equal(kept.outputs[0][0], plain.outputs[0][0])
    assert plain.profile is None and kept.profile is not None
