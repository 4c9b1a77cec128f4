"""Flat vectors that loops and branches carry."""

from __future__ import annotations

import pytest

from .checking import beyond, check, kernel, load, memref


def carried(element: str, body: str, first: str = "%l", branch: bool = False) -> str:
    """A loop or branch over a flat vector; `%l` is loaded, `%n` narrowed, `%k` a constant."""
    kind = f"vector<1024x{element}>"
    wide = kind.replace(element, "f32" if "f" in element else "i32")
    widen, narrow = ("extf", "truncf") if "f" in element else ("extsi", "trunci")
    one = "1.0" if "f" in element else "1"
    inner = f"""%v1 = arith.{widen} %v : {kind} to {wide}
      %w = arith.{narrow} %v1 : {wide} to {kind}""" if body == "narrowed" else (
        f"%w = {body} : {kind}"
    )  # fmt: skip
    loop = f"""%r = scf.for %i = %c0 to %c9 step %c1 iter_args(%v = {first}) -> ({kind}) {{
      {inner}
      scf.yield %w : {kind}
    }}"""
    choice = f"""%r = scf.if %true -> ({kind}) {{
      {inner.replace("%v ", first + " ")}
      scf.yield %w : {kind}
    }} else {{
      scf.yield {first} : {kind}
    }}"""
    return kernel(
        f"%x: {memref(f'1024x{element}')}, %true: i1",
        load("l", "x", f"1024x{element}", "%c0")
        + f"""%k = arith.constant dense<{one}> : {kind}
    %c1 = arith.constant 1 : index
    %c9 = arith.constant 9 : index
    %wide = arith.{widen} %l : {kind} to {wide}
    %n = arith.{narrow} %wide : {wide} to {kind}
    {choice if branch else loop}""",
    )


@pytest.mark.parametrize("branch", [False, True])
@pytest.mark.parametrize("element", ["bf16", "i16", "i8"])
def test_flat_vectors_carried_as_loaded_and_as_narrowed(element: str, branch: bool) -> None:
    beyond(carried(element, "narrowed", branch=branch), "carried-flat")
    check(carried(element, "narrowed", "%n", branch=branch))
    check(carried(element, "narrowed", "%k", branch=branch))


def test_flat_vectors_lie_where_the_target_computes_them() -> None:
    beyond(carried("bf16", "arith.mulf %v, %v"), "carried-flat", "v5e")
    check(carried("bf16", "arith.mulf %v, %v"), "v6e")
    check(carried("bf16", "arith.negf %v"), "v5e")
    beyond(carried("bf16", "math.exp %v"), "carried-flat", "v5e")
    check(carried("bf16", "math.exp %v"), "v6e")
    check(carried("bf16", "math.sin %v"), "v5e")
    beyond(carried("i16", "arith.addi %v, %k"), "carried-flat", "v5e")
    check(carried("i16", "arith.addi %v, %k"), "v6e")
    check(carried("i16", "arith.xori %k, %v"))
    check(carried("i16", "arith.xori %v, %l", "%n"))
    beyond(carried("i16", "arith.xori %l, %v", "%n"), "carried-flat")


def test_flat_vectors_are_widened_where_the_target_lacks_bf16() -> None:
    for operation in ("arith.maximumf %v, %v", "math.tanh %v", "math.powf %v, %v"):
        beyond(carried("bf16", operation), "carried-flat", "v5e")
        check(carried("bf16", operation), "v6e")
