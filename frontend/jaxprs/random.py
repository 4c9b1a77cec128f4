"""Random bits: the hardware's generator, and JAX's generators computed from their words."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax
from xdsl.dialects.builtin import IntegerType

from pallasite.dialects.tpu import PrngRandomBitsOp, PrngSetSeed32Op
from pallasite.frontend.jaxprs import types
from pallasite.frontend.jaxprs.internals import (
    prng,
    threefry2x32,
    tpu_primitives,
    tpu_random,
)
from pallasite.frontend.jaxprs.rules import Result, rule
from pallasite.frontend.jaxprs.tracer import Equation, Key


@rule(tpu_primitives.prng_seed_p)
def _seed(e: Equation) -> Result:
    first = e.arguments[0] if e.arguments else None
    seeds = list(first.words) if isinstance(first, Key) else e.operands()
    if not all(isinstance(seed.type, IntegerType) for seed in seeds):
        raise e.unsupported(
            "a seed that is no scalar integer", "give pltpu.prng_seed one or more int32 scalars"
        )
    e.add(PrngSetSeed32Op(operands=[seeds]))
    return []


@rule(tpu_primitives.prng_random_bits_p)
def _hardware_bits(e: Equation) -> Result:
    if len(e.output.shape) < 2:
        raise e.unsupported(
            f"random bits of shape {e.output.shape}", "ask for two dimensions, and reshape"
        )
    return e.emit(PrngRandomBitsOp(result_types=[e.result_type]))


@rule(prng.random_seed_p)
def _key_of_seed(e: Equation) -> Result:
    return e.expand(e.params["impl"].seed)


@rule(prng.random_bits_p)
def _bits(e: Equation) -> Result:
    width, shape = e.params["bit_width"], e.params["shape"]
    if width != 32:
        raise e.unsupported(f"random bits {width} wide", "ask for 32 bits, and cast")
    implementation = e.inputs[0].dtype._impl
    avals = e.inputs
    if not tpu_random.is_pallas_impl(implementation):
        avals = [types.physical(aval) for aval in avals]

    def bits(key: Any) -> Any:
        return implementation.random_bits(key, width, shape)

    return e.tracer.expand(bits, e.arguments, avals)


@rule(prng.random_fold_in_p)
def _fold_in(e: Equation) -> Result:
    implementation = e.inputs[0].dtype._impl
    avals = e.inputs
    if not tpu_random.is_pallas_impl(implementation):
        avals = [types.physical(aval) for aval in avals]
    return e.tracer.expand(implementation.fold_in, e.arguments, avals)


@rule(prng.random_unwrap_p)
def _words(e: Equation) -> Result:
    if tpu_random.is_pallas_impl(e.inputs[0].dtype._impl):
        raise e.unsupported(
            "the words of a random key of Pallas as an array",
            "draw from the key with jax.random, or give it to pltpu.prng_seed",
        )
    return e.arguments


@rule(prng.random_wrap_p)
def _key_of_words(e: Equation) -> Result:
    if tpu_random.is_pallas_impl(e.params["impl"]):
        raise e.unsupported(
            "a random key of Pallas from an array of words",
            "make it outside of the kernel with pltpu.to_pallas_key, and pass it in SMEM",
        )
    return e.arguments


@rule(tpu_primitives.split_key_p)
def _split_key(e: Equation) -> Result:
    key = e.arguments[0]
    if not isinstance(key, Key):
        raise e.unsupported(
            "the words of a key that is no scalar key of Pallas", "load it from SMEM"
        )
    return list(key.words)


@rule(tpu_primitives.join_key_p)
def _join_key(e: Equation) -> Result:
    return Key(tuple(e.operands()), tuple(e.params["impl"].key_shape))


@rule(threefry2x32.threefry2x32_p)
def _threefry(e: Equation) -> Result:
    def rounds(*words: Any) -> Any:
        lowering = threefry2x32._threefry2x32_lowering  # pyright: ignore[reportPrivateUsage]
        return lowering(*words, use_rolled_loops=False)

    return e.expand(rounds)


@rule(prng.iota_2x32_shape_p)
def _counters(e: Equation) -> Result:
    """The positions of all elements, as high and low words."""
    shape = tuple(e.params["shape"])
    if math.prod(shape) >= 1 << 31:
        raise e.unsupported("random bits for 2**31 elements or more", "draw them in blocks")

    def positions() -> Any:
        low = jnp.zeros(shape, jnp.int32)
        for dim, size in enumerate(shape):
            low = low * size + lax.broadcasted_iota(jnp.int32, shape, dim)
        return jnp.zeros(shape, jnp.int32), low

    return e.tracer.expand(positions, [], [])
