"""Kinds of errors about loops: what they count, and what they carry from turn to turn."""

from __future__ import annotations

from pallasite.jax.fault import Fault

FAULTS_OF_LOOPS = (
    Fault(
        TypeError,
        r"body function carry input and carry output must have equal types[\s\S]*dtypes do not",
        "what a loop carries keeps its type",
        (
            "begin with the type that the body gives: jnp.zeros(shape, dtype)",
            "or convert what the body gives: value.astype(dtype)",
        ),
    ),
    Fault(
        TypeError,
        "body function carry input and carry output must have equal types",
        "what a loop carries keeps its shape",
        (
            "begin with the shape that the body gives: jnp.zeros(shape, dtype)",
            "what grows is kept in scratch, and a part of it written in each turn",
        ),
    ),
    Fault(
        TypeError,
        r"carry output must have the same pytree structure",
        "what pl.loop repeats returns nothing without init_carry",
        ("store in it, or carry values: @pl.loop(0, n, init_carry=init)",),
        "pallas/helpers.py",
    ),
    Fault(
        TypeError,
        r"carry output must have the same pytree structure",
        "what a loop carries keeps its structure, and its body returns it",
        (
            "return as many values as the loop begins with, a tuple for a tuple",
            "where nothing is carried, repeat with @pl.loop(0, n), or begin with None",
        ),
    ),
    Fault(
        TypeError,
        "'function' object does not support the context manager protocol",
        "@pl.when and @pl.loop are written above the function that they run",
        ("write @pl.when(condition) above def _(): ..., with @ instead of with",),
    ),
    Fault(
        TypeError,
        "cond_fun must return a boolean scalar",
        "a loop goes on or ends for the whole kernel",
        ("reduce the values that decide: jnp.max(x) < limit",),
    ),
    Fault(
        ValueError,
        "Can only use `unroll`",
        "turns are unrolled if their number is known when the kernel is traced",
        ("leave out unroll, or loop to a Python number and guard with pl.when(i < n)",),
    ),
    Fault(
        TypeError,
        "arguments to fori_loop must have equal types",
        "a loop counts integers of one type",
        ("write n // 2 instead of n / 2, or n.astype(jnp.int32)",),
    ),
    Fault(
        TypeError,
        "requires arguments to have the same dtypes",
        "a loop counts integers of one type",
        ("write n // 2 instead of n / 2, or n.astype(jnp.int32)",),
        "pallas/helpers.py",
    ),
)
