"""Loops, printing, checks and random numbers of the second tier (spec/pallas_semantics.md 8.6,
8.7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .support import S, call, equal, jax, jnp, noise, pl, pltpu, ramp, refusal, run

pytestmark = pytest.mark.jax
feature = pytest.mark.feature
SMEM = pl.BlockSpec(memory_space=pltpu.SMEM)
INT = jnp.int32


@feature("F05")
@pytest.mark.parametrize("form", ["pallas", "tiles"])
@pytest.mark.parametrize("case", ["reverse", "over an array"])
def test_scans_that_are_refused(form: str, case: str) -> None:
    def body(x: Any, o: Any) -> None:
        if case == "reverse":
            o[...], _ = jax.lax.scan(
                lambda c, _: (c + 1, None), x[...], None, reverse=True, length=3
            )
        else:
            o[...], _ = jax.lax.scan(lambda c, row: (c + row, None), x[...], x[0:3])

    said = refusal(call(body, S(8, 128)), ramp(8, 128), form=form)
    if form == "pallas":
        assert "count up" in said if case == "reverse" else "scan" in said


@feature("F07")
def test_printing(capfd: pytest.CaptureFixture[str]) -> None:
    def body(n: Any, x: Any, o: Any) -> None:
        pl.debug_print("n is {} and {}", n[0], n[1])
        pl.debug_print("rows {}", x[...])
        o[...] = x[...]

    program = call(body, S(8, 128), in_specs=[SMEM, pl.BlockSpec()])
    run(program, jnp.array([3, 4]), ramp(8, 128))
    said = capfd.readouterr().err
    assert "n is 3 and 4" in said and "rows" in said


@feature("F08")
@pytest.mark.parametrize("enabled", [False, True])
def test_checks_of_the_kernel(enabled: bool) -> None:
    def body(n: Any, o: Any) -> None:
        pl.debug_check(n[0] > 3, "n must be large")
        o[0] = n[0]

    program = call(body, S(1, dtype=INT), in_specs=[SMEM], out_specs=SMEM)
    if not enabled:
        equal(run(program, jnp.array([3])), [3])
        return
    with pl.enable_debug_checks(True):
        equal(run(program, jnp.array([4])), [4])
        assert "n must be large" in refusal(program, jnp.array([3]))


@feature("F09")
def test_scopes_and_traced_values() -> None:
    from pallasite.jax import trace

    def body(n: Any, o: Any) -> None:
        with jax.named_scope("first_part"):
            pltpu.trace_value("the_number", n[0])
            o[0] = n[0] + 1

    program = call(body, S(1, dtype=INT), in_specs=[SMEM], out_specs=SMEM)
    text = str(trace(program, jnp.array([3]), form="mosaic"))
    assert "first_part" in text and "the_number" in text
    equal(run(program, jnp.array([3]), form="dma"), [4])


@feature("F10")
def test_hints_of_alignment() -> None:
    from pallasite.jax import trace

    def body(at: Any, x: Any, o: Any) -> None:
        o[...] = x[:, pl.ds(pl.multiple_of(at[0] * 2, 128), 128)]

    program = call(body, S(8, 128), in_specs=[SMEM, pl.BlockSpec()])
    inputs = jnp.array([64]), ramp(8, 384)
    for form in ("pallas", "mosaic"):
        assert "assume_multiple" in str(trace(program, *inputs, form=form))
    equal(run(program, *inputs), ramp(8, 384)[:, 128:256])


@feature("G02")
@pytest.mark.parametrize("name", ["uniform", "normal", "bits", "bernoulli"])
def test_samplers_with_state(name: str) -> None:
    def body(seed: Any, o: Any) -> None:
        pltpu.prng_seed(seed[0])
        match name:
            case "uniform":
                o[...] = pltpu.stateful_uniform((8, 128), jnp.float32, minval=2.0, maxval=5.0)
            case "normal":
                o[...] = pltpu.stateful_normal((8, 128), jnp.float32)
            case "bits":
                o[...] = (pltpu.stateful_bits((8, 128)) & 7).astype(jnp.float32)
            case _:
                o[...] = pltpu.stateful_bernoulli(0.25, (8, 128)).astype(jnp.float32)

    program = call(body, S(8, 128), in_specs=[SMEM])
    first, again = (run(program, jnp.array([7]), form="mosaic") for _ in range(2))
    equal(first, again)
    lowest, highest, mean = {
        "uniform": (2, 5, 3.5),
        "normal": (-6, 6, 0),
        "bits": (0, 7, 3.5),
        "bernoulli": (0, 1, 0.25),
    }[name]
    assert lowest <= first.min() and first.max() <= highest
    assert abs(first.mean() - mean) < 0.3


@feature("G04")
def test_keys_for_kernels() -> None:
    def body(key: Any, o: Any) -> None:
        o[...] = jax.random.uniform(jax.random.fold_in(key[...], pl.program_id(0)), (8, 128))

    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    program = call(body, S(16, 128), grid=(2,), in_specs=[SMEM], out_specs=spec)
    key = pltpu.to_pallas_key(jax.random.key(3))
    result = run(program, key, form="mosaic")
    assert 0 <= result.min() and result.max() < 1
    assert not np.array_equal(result[:8], result[8:])

    def split(key: Any, o: Any) -> None:
        first, _ = jax.random.split(key[...], 2)
        o[...] = jax.random.uniform(first, (8, 128))

    assert "split" in refusal(call(split, S(8, 128), in_specs=[SMEM]), key).lower()


@feature("G06")
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2"])
def test_stochastic_rounding(dtype: Any) -> None:
    def body(x: Any, random: Any, o: Any) -> None:
        o[...] = pltpu.stochastic_round(x[...], random[...], target_dtype=jnp.dtype(dtype))

    program = call(body, S(32, 200, dtype=jnp.dtype(dtype)))
    x, random = noise(32, 200), jax.random.bits(jax.random.key(0), (32, 200), jnp.uint32)
    rounded = run(program, x, random, form="vreg")
    equal(rounded, run(program, x, random, form="mosaic"))
    mantissa = 8 if dtype == "bfloat16" else 3
    distance = np.abs(rounded.astype(np.float32) - np.asarray(x))
    assert (distance <= np.abs(np.asarray(x)) / 2 ** (mantissa - 1) + 1e-5).all()
    nearest = np.asarray(x.astype(rounded.dtype))
    assert (rounded != nearest).any() and (rounded == nearest).any()
    assert "no stochastic rounding" in refusal(program, x, random, target="v4")


@feature("G06")
def test_packing() -> None:
    def body(x: Any, o: Any) -> None:
        words = pltpu.pack_elementwise([x[...], -x[...]], packed_dtype=jnp.bfloat16)
        o[...] = pltpu.unpack_elementwise(
            words, index=1, packed_dtype=jnp.bfloat16, unpacked_dtype=jnp.float32
        )

    x = noise(16, 128)
    equal(run(call(body, S(16, 128)), x), -x.astype(jnp.bfloat16).astype(jnp.float32))


@feature("G06")
@pytest.mark.parametrize(("word", "part"), [(32, 8), (16, 8), (16, 2), (8, 4), (4, 2)])
@pytest.mark.parametrize("shape", [(16, 128), (2, 15, 300)])
def test_packing_into_words_of_any_size(word: int, part: int, shape: tuple[int, ...]) -> None:
    count = word // part
    wide, narrow = jnp.dtype(f"int{word}"), jnp.dtype(f"int{part}")

    def pack(x: Any, o: Any) -> None:
        o[...] = pltpu.pack_elementwise([x[i] for i in range(count)], packed_dtype=narrow)

    def unpack(x: Any, o: Any) -> None:
        for i in range(count):
            o[i] = pltpu.unpack_elementwise(
                x[...], index=i, packed_dtype=narrow, unpacked_dtype=wide
            )

    values = np.random.default_rng(word).integers(-(1 << word - 1), 1 << word - 1, (count, *shape))
    mask, sign = (1 << part) - 1, 1 << (part - 1)
    words = sum((values[i] & mask) << (i * part) for i in range(count))
    words = jnp.asarray(np.asarray(words, f"uint{max(word, 8)}")).astype(f"uint{word}")
    source = jnp.asarray(values.astype("int32")).astype(wide)
    equal(run(call(pack, jax.ShapeDtypeStruct(shape, words.dtype)), source), words)
    signed = (((values & mask) ^ sign) - sign).astype("int32")
    unpacked = run(call(unpack, jax.ShapeDtypeStruct((count, *shape), wide)), words)
    equal(unpacked, jnp.asarray(signed).astype(wide))


@feature("V05")
def test_vmap_of_aliases() -> None:
    x, y = ramp(3, 16, 128), ramp(16, 128)

    def second(x: Any, y: Any) -> Any:
        half = pl.BlockSpec((8, 128), lambda i: (i + 1, 0))
        return call(
            lambda x, y, o: o.__setitem__(..., x[...] + y[...]), S(16, 128), grid=(1,),
            in_specs=[half, half], out_specs=half, input_output_aliases={0: 0},
        )(x, y)  # fmt: skip

    result = run(jax.vmap(second, in_axes=(0, None)), x, y)
    equal(result, x.at[:, 8:].add(y[8:]))


@feature("V13")
def test_static_arguments_make_kernels() -> None:
    traced: list[int] = []

    def f(x: Any, factor: int) -> Any:
        traced.append(factor)
        return call(lambda x, o: o.__setitem__(..., x[...] * factor), S(8, 128))(x)

    program = jax.jit(f, static_argnames="factor")

    def twice(x: Any) -> Any:
        return [program(x, factor=factor) for factor in (2, 3, 2, 3)]

    results = run(twice, ramp(8, 128), form="dma")
    for result, factor in zip(results, (2, 3, 2, 3), strict=True):
        equal(result, ramp(8, 128) * factor)
    assert sorted(traced) == [2, 3]


@feature("M09")
def test_memories_of_other_chips_have_names() -> None:
    assert pltpu.CMEM is not pltpu.VMEM_SHARED
    for space in (pltpu.CMEM, pltpu.VMEM_SHARED):
        spec = pl.BlockSpec((8, 128), lambda: (0, 0), memory_space=space)
        program = call(lambda x, o: o.__setitem__(..., x[...]), S(8, 128), in_specs=[spec])
        assert refusal(program, ramp(8, 128))
