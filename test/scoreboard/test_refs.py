"""Refs, scoped allocation and semaphores (spec/pallas_semantics.md section 8.5)."""

from __future__ import annotations

from typing import Any

import jax.sharding
import numpy as np
import pytest

from .support import S, call, equal, jax, jnp, pl, pltpu, ramp, refusal, run

pytestmark = pytest.mark.jax
feature = pytest.mark.feature
REGULAR = pltpu.SemaphoreType.REGULAR
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)


def loaded(read: Any, x: Any, *more: Any, out: Any = None) -> Any:
    """What `read(x_ref, *scalars)` gives in a kernel; the scalars are in SMEM."""

    def body(*refs: Any) -> None:
        *inputs, o = refs
        o[...] = read(*inputs)

    specs = [pl.BlockSpec(memory_space=pltpu.VMEM), *[SMEM] * len(more)]
    shape = out or jax.eval_shape(lambda x: read(x, *[np.zeros(m.shape, int) for m in more]), x)
    return run(call(body, shape, in_specs=specs), x, *more)


@feature("R01")
def test_whole_refs() -> None:
    equal(loaded(lambda x: x[...], ramp(13, 200)), ramp(13, 200))


@feature("R02", "R03")
@pytest.mark.parametrize("row", [0, 1, 3, 8, 13])
@pytest.mark.parametrize("lane", [0, 1, 128, 130])
def test_static_slices(row: int, lane: int) -> None:
    x = ramp(32, 384)
    out = S(16, 200)
    box = (slice(row, row + 16), slice(lane, lane + 200))
    equal(loaded(lambda x: x[box], x, out=out), x[box])


@feature("R04")
def test_dynamic_starts() -> None:
    x = ramp(24, 128)
    for start in range(0, 17, 3):
        at = jnp.array([start], jnp.int32)
        equal(loaded(lambda x, s: x[pl.ds(s[0], 8), :], x, at, out=S(8, 128)), x[start : start + 8])


@feature("R05")
@pytest.mark.parametrize("stride", [2, 3])
def test_strides(stride: int) -> None:
    x = ramp(32, 128)
    rows = 32 // stride

    def body(x: Any, o: Any) -> None:
        o[...] = jnp.zeros_like(o)
        o[pl.ds(0, rows, stride), :] = x[pl.ds(0, rows, stride), :]

    expected = np.zeros((32, 128))
    expected[: rows * stride : stride] = x[: rows * stride : stride]
    equal(run(call(body, S(32, 128)), x), expected)


@feature("R08")
@pytest.mark.parametrize(("dtype", "rows"), [(jnp.bfloat16, 16), (jnp.int8, 32)])
def test_slices_of_narrow_types(dtype: Any, rows: int) -> None:
    x = (ramp(96, 256) % 100).astype(dtype)
    out = S(rows, 128, dtype=dtype)
    equal(loaded(lambda x: x[rows : 2 * rows, 128:], x, out=out), x[rows : 2 * rows, 128:])


@feature("R10")
def test_masked_store() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = jnp.zeros_like(o)
        pltpu.store(o, x[...], mask=x[...] > 500)

    x = ramp(8, 128)
    equal(run(call(body, S(8, 128)), x), np.where(x > 500, x, 0))


@feature("R12")
def test_masked_load_is_refused() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = pltpu.load(x, mask=x[...] > 500)

    refusal(call(body, S(8, 128)), ramp(8, 128))  # by JAX, without a word


@feature("R13")
def test_adding_to_a_ref() -> None:
    def body(x: Any, o: Any) -> None:
        o[...] = x[...]
        o[2:6, :] += 10

    x = ramp(8, 128)
    equal(run(call(body, S(8, 128)), x), x.at[2:6].add(10))


@feature("R14")
def test_bitcast_of_refs() -> None:
    x = ramp(16, 128)
    same = loaded(lambda x: x.bitcast(jnp.int32)[...], x, out=S(16, 128, dtype=jnp.int32))
    equal(same, np.asarray(x).view(np.int32))
    packed = ramp(16, 128, dtype=jnp.uint16)
    words = loaded(lambda x: x.bitcast(jnp.uint32)[...], packed, out=S(8, 128, dtype=jnp.uint32))
    low, high = (np.asarray(packed)[row::2].astype(np.uint32) for row in (0, 1))
    equal(words, low | high << 16)


@feature("R15")
def test_reshape_of_refs() -> None:
    x = ramp(4, 8, 256)
    equal(loaded(lambda x: x.reshape(32, 256)[...], x, out=S(32, 256)), x.reshape(32, 256))


@feature("R18", "Z05")
def test_dynamic_access_out_of_bounds() -> None:
    at = jnp.array([20], jnp.int32)
    with pytest.raises(Exception, match=r"bounds|outside"):
        loaded(lambda x, s: x[pl.ds(s[0], 8), :], ramp(24, 128), at, out=S(8, 128))


@feature("R19")
def test_scoped_allocations() -> None:
    def body(x: Any, o: Any) -> None:
        def outer(buffer: Any, number: Any) -> Any:
            buffer[...] = x[...] * 2
            number[0] = 5

            def inner(other: Any, semaphore: Any) -> Any:
                other[...] = buffer[...] + 1
                pl.semaphore_signal(semaphore, 1)
                pl.semaphore_wait(semaphore, 1)
                return other[...]

            return pl.run_scoped(inner, pltpu.VMEM((8, 128), jnp.float32), REGULAR) + number[0]

        o[...] = pl.run_scoped(
            outer, pltpu.VMEM((8, 128), jnp.float32), pltpu.SMEM((1,), jnp.int32)
        )

    x = ramp(8, 128)
    equal(run(call(body, S(8, 128)), x), x * 2 + 6)


def semaphores(act: Any, count: int = 1, **options: Any) -> Any:
    """`act(semaphore, o)` with a regular semaphore and an output of `count` numbers in SMEM."""

    def body(o: Any, semaphore: Any) -> None:
        act(semaphore, o)

    out = S(count, dtype=jnp.int32)
    return call(body, out, out_specs=SMEM, scratch_shapes=[REGULAR], **options)


@feature("S01", "S02", "S04")
def test_semaphores_count() -> None:
    def act(semaphore: Any, o: Any) -> None:
        for step, amount in enumerate((3, 2, -1, -4)):
            (pl.semaphore_signal if amount > 0 else pl.semaphore_wait)(semaphore, abs(amount))
            o[step] = pl.semaphore_read(semaphore)

    equal(run(semaphores(act, 4)), [3, 5, 4, 0])


@feature("S10")
def test_a_semaphore_left_above_zero() -> None:
    def act(semaphore: Any, o: Any) -> None:
        pl.semaphore_signal(semaphore, 2)
        o[0] = 0

    assert "2" in refusal(semaphores(act), checks=("sync",))


@feature("S11", "Z11")
def test_a_wait_for_too_much() -> None:
    def act(semaphore: Any, o: Any) -> None:
        pl.semaphore_signal(semaphore, 1)
        pl.semaphore_wait(semaphore, 3)
        o[0] = 0

    assert "deadlock" in refusal(semaphores(act))


@feature("S08")
def test_a_barrier_needs_a_collective_id() -> None:
    def act(semaphore: Any, o: Any) -> None:
        del semaphore
        pl.semaphore_signal(pltpu.get_barrier_semaphore(), 1)
        o[0] = 0

    assert "collective_id" in refusal(semaphores(act))


def ring() -> jax.sharding.Mesh:
    return jax.sharding.Mesh(np.array(jax.devices()[:4]), ("x",))


@feature("S05")
@pytest.mark.parametrize("name", ["tuple", "dict", "logical"])
def test_remote_signals(name: str) -> None:
    def act(semaphore: Any, o: Any) -> None:
        me = jax.lax.axis_index("x")
        right = jax.lax.rem(me + 1, 4)
        ids: dict[str, Any] = {"tuple": (right,), "dict": {"x": right}, "logical": right}
        kinds = pl.DeviceIdType
        kind = kinds.LOGICAL if name == "logical" else kinds.MESH
        pl.semaphore_signal(semaphore, me + 1, device_id=ids[name], device_id_type=kind)
        left = jax.lax.rem(me + 3, 4)
        pl.semaphore_wait(semaphore, left + 1)
        o[0] = left

    from jax.sharding import PartitionSpec as P

    program = jax.shard_map(
        lambda: semaphores(act)(), mesh=ring(), in_specs=(), out_specs=P("x"), check_vma=False
    )
    equal(run(program), [3, 0, 1, 2])


@feature("V11")
def test_communication_without_a_mesh() -> None:
    def act(semaphore: Any, o: Any) -> None:
        pl.semaphore_signal(semaphore, 1, device_id=(0,))
        o[0] = 0

    assert "shard_map" in refusal(semaphores(act))
