"""Memory spaces and scalar prefetch (spec/pallas_semantics.md section 8.2)."""

from __future__ import annotations

from typing import Any

import pytest

from .support import S, call, equal, jnp, pl, pltpu, ramp, refusal, run

pytestmark = pytest.mark.jax
feature = pytest.mark.feature
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
ANY = pl.BlockSpec(memory_space=pl.ANY)


def copy(x: Any, o: Any) -> None:
    o[...] = x[...]


@feature("M01")
def test_blocks_are_in_vmem() -> None:
    from pallasite.jax import trace

    text = str(trace(call(copy, S(8, 128)), ramp(8, 128)))
    assert text.count("memory_space<vmem>") >= 2 or text.count("vmem") >= 2


@feature("M02")
def test_any_is_only_for_transfers() -> None:
    text = refusal(call(copy, S(8, 128), in_specs=[ANY]), ramp(8, 128))
    assert "ANY" in text or "any" in text


@feature("M04")
def test_scalars_in_smem() -> None:
    def body(table: Any, o: Any) -> None:
        o[0] = table[table[3]]
        o[1] = o[0] * 2

    table = jnp.array([5, 6, 7, 1], jnp.int32)
    program = call(body, S(2, dtype=jnp.int32), in_specs=[SMEM], out_specs=SMEM)
    equal(run(program, table), [6, 12])


@feature("M05")
@pytest.mark.parametrize("store", [False, True])
def test_vectors_in_smem(store: bool) -> None:
    options: dict[str, Any] = {"out_specs": SMEM} if store else {"in_specs": [SMEM]}
    text = refusal(call(copy, S(8, 128, dtype=jnp.int32), **options), ramp(8, 128, dtype=jnp.int32))
    assert "scalar" in text.lower()


@feature("M06")
def test_scalars_in_vmem() -> None:
    def body(o: Any) -> None:
        o[0, 0] = jnp.int32(3)

    assert "VMEM" in refusal(call(body, S(8, 128, dtype=jnp.int32)))


@feature("M07")
def test_blocks_of_smem() -> None:
    def body(x: Any, o: Any) -> None:
        for i in range(8):
            o[0, i] = x[0, i] + pl.program_id(0)

    spec = pl.BlockSpec((8, 128), lambda i: (i, 0), memory_space=pltpu.SMEM)
    x = ramp(16, 128, dtype=jnp.int32)
    options: dict[str, Any] = {"in_specs": [spec], "out_specs": spec, "grid": (2,)}
    result = run(call(body, S(16, 128, dtype=jnp.int32), **options), x, checks=())
    equal(result[::8, :8], x[::8, :8] + jnp.arange(2)[:, None])


@feature("M10")
def test_vmem_is_exhausted() -> None:
    x = ramp(8192, 8192)
    text = refusal(call(copy, S(8192, 8192)), x)
    assert "VMEM" in text.upper() and any(c.isdigit() for c in text)


@feature("M12")
def test_limit_of_vmem() -> None:
    limited = pltpu.CompilerParams(vmem_limit_bytes=1 << 20)
    x = ramp(1024, 512)
    equal(run(call(copy, S(1024, 512)), x), x)
    text = refusal(call(copy, S(1024, 512), compiler_params=limited), x)
    assert "4194304 bytes of VMEM" in text and "vmem_limit_bytes" in text


@feature("M12")
def test_default_limit_of_vmem() -> None:
    """Without being asked for more, a kernel gets 16 MiB; scoped buffers count."""
    x = ramp(2048, 1024)  # 8 MiB

    def scoped(x_ref: Any, o_ref: Any) -> None:
        def copied(buffer: Any) -> None:
            pltpu.sync_copy(x_ref, buffer)
            pltpu.sync_copy(buffer, o_ref)

        pl.run_scoped(copied, pltpu.VMEM(x_ref.shape, x_ref.dtype))

    equal(run(call(copy, S(2048, 1024)), x), x)
    more = pltpu.CompilerParams(vmem_limit_bytes=32 << 20)
    wide = ramp(4096, 1024)
    assert "16777216" in refusal(call(copy, S(4096, 1024)), wide)
    equal(run(call(copy, S(4096, 1024), compiler_params=more), wide), wide)
    equal(run(call(copy, S(4096, 1024)), wide, target="v6e"), wide)
    program = call(scoped, S(2048, 1024), in_specs=[ANY], out_specs=ANY)
    equal(run(program, x), x)
    tall = ramp(5120, 1024)
    assert "20971520" in refusal(call(scoped, S(5120, 1024), in_specs=[ANY], out_specs=ANY), tall)


@feature("M12")
def test_what_takes_the_memory() -> None:
    """Each block is named with its whole array, in the compiler's words."""
    rows = pl.BlockSpec((4096, 1024), lambda i: (i, 0))
    text = refusal(call(copy, S(8192, 1024), grid=(2,), in_specs=[rows], out_specs=rows),
                   ramp(8192, 1024))  # fmt: skip
    for side in ("input", "output"):
        assert (
            f"{side} window allocation for operator {side} 0. The window shape is f32[4096,1024], "
            "while the full shape is f32[8192,1024]. This allocation has 2 buffering levels."
        ) in text
    assert "Ran out of memory in memory space vmem" in text and "use smaller blocks" in text
    text = refusal(call(copy, S(8192, 1024)), ramp(8192, 1024))
    assert "call it with a grid and blocks of its arrays" in text


@feature("M12")
def test_blocks_that_stay_have_one_buffer() -> None:
    """A block whose index map reads no axis of several steps is fetched once."""

    def program(at: Any) -> Any:
        block, stays = (
            pl.BlockSpec((2048, 1024), at),
            pl.BlockSpec((2048, 1024), lambda i, j: (i, 0)),
        )
        return call(copy, S(2048, 1024), grid=(1, 2), in_specs=[block], out_specs=stays)

    x = ramp(4096, 1024)
    equal(run(program(lambda i, j: (1 - i, 0)), x), x[2048:])
    assert "25165824 bytes" in refusal(program(lambda i, j: (j, 0)), x)


@feature("M12")
def test_memory_for_the_moves_of_the_compiler() -> None:
    def program(size: int) -> Any:
        params = pltpu.CompilerParams(internal_scratch_in_bytes=size)
        return call(copy, S(8, 128), compiler_params=params)

    x = ramp(8, 128)
    assert "size 512 needs to be at least 36864" in refusal(program(512), x)
    assert "gives 134217729" in refusal(program((128 << 20) + 1), x)
    equal(run(program(36864), x), x)


def gather(table: Any, x: Any) -> Any:
    def body(table_ref: Any, x_ref: Any, o: Any) -> None:
        o[...] = x_ref[...]

    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(table.size,),
        in_specs=[pl.BlockSpec((8, 128), lambda i, t: (t[i], 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, t: (i, 0)),
    )
    return call(body, S(8 * table.size, 128), grid_spec=grid)(table, x)


@feature("P01")
def test_prefetch_in_an_index_map() -> None:
    table, x = jnp.array([3, 0, 2], jnp.int32), ramp(32, 128)
    equal(run(gather, table, x), x.reshape(4, 8, 128)[table].reshape(24, 128))


@feature("P02", "P05")
def test_two_prefetched_operands_and_an_output_map() -> None:
    def body(a: Any, b: Any, x: Any, o: Any) -> None:
        step = pl.program_id(0)
        o[...] = x[...] + a[step] * 100 + b[step]

    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=2,
        grid=(3,),
        in_specs=[pl.BlockSpec((8, 128), lambda i, a, b: (a[i], 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, a, b: (b[i], 0)),
    )
    a, b = jnp.array([1, 0, 2], jnp.int32), jnp.array([2, 0, 1], jnp.int32)
    x = ramp(24, 128, dtype=jnp.int32)
    result = run(call(body, S(24, 128, dtype=jnp.int32), grid_spec=grid), a, b, x)
    blocks = x.reshape(3, 8, 128)
    for i in range(3):
        equal(result.reshape(3, 8, 128)[b[i]], blocks[a[i]] + a[i] * 100 + b[i])


@feature("P06", "L07")
def test_repeated_blocks_are_fetched_once() -> None:
    from .counting import transfers

    x = ramp(32, 128)
    few = transfers(gather, jnp.array([1, 1, 1, 1], jnp.int32), x)
    many = transfers(gather, jnp.array([0, 1, 2, 3], jnp.int32), x)
    assert many - few == 3
