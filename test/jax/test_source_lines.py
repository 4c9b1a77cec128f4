"""Every operation of a kernel is at the line of its author, however JAX came to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from xdsl.dialects.builtin import ModuleOp  # noqa: E402

import pallasite.jax  # noqa: E402
from pallasite.diagnostics import Diagnostic  # noqa: E402
from pallasite.dialects.locations import source_location  # noqa: E402
from pallasite.frontend import read  # noqa: E402

pytestmark = pytest.mark.jax

FIRST = Path(__file__).read_text().splitlines().index("def body(x: Any, o: Any) -> None:") + 1


def helper(v: Any) -> Any:
    return jnp.where(v > 0, v, 0.0)


@jax.jit
def jitted(v: Any) -> Any:
    return helper(v * 3) + 1


def body(x: Any, o: Any) -> None:
    v = helper(x[...])
    v = jnp.where(v > 0, v, 0.0)
    v = jitted(v)
    v = jax.nn.relu(jitted(v))
    v = jax.nn.silu(v)
    o[...] = lax.fori_loop(0, 4, lambda i, c: jitted(c) - i, v)
    o[...] = lax.cond(v[0, 0] > 0, lambda: v * 7, lambda: jnp.where(v > 0, v, 0.0))
    o[...] = x[...] - 1

    @pl.loop(0, 2)
    def _(i: Any) -> None:
        scale = jnp.where(i > 0, 2.0, 3.0)
        o[...] = jax.nn.relu(o[...] * scale)


def lines(module: ModuleOp, name: str) -> list[int]:
    """Lines of the operations called `name`, counted from the first of the kernel."""
    found: list[int] = []
    for op in module.walk():
        if op.name == name:
            where = source_location(op)
            assert where is not None and Path(where.file) == Path(__file__)
            found.append(where.line - FIRST)
    return found


@pytest.mark.parametrize("name", ["arith.mulf", "arith.select", "arith.maximumf", "arith.divf"])
def test_both_traces_name_the_same_lines(name: str) -> None:
    out = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    call = pl.pallas_call(body, out_shape=out)
    ours, jaxs = (pallasite.jax.trace(call, out, form=form) for form in ("pallas", "mosaic"))
    assert lines(ours, name) == lines(jaxs, name) != []


def test_what_is_written_twice_has_two_lines() -> None:
    out = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    module = pallasite.jax.trace(pl.pallas_call(body, out_shape=out), out, form="mosaic")
    assert lines(module, "tpu.vector_store") == [6, 7, 8, 13]


def test_what_jax_functions_do_is_at_their_call() -> None:
    def bytes_body(x: Any, o: Any) -> None:
        v = x[...]
        o[...] = jax.nn.relu(v)  # the call

    x = jnp.zeros((32, 128), jnp.int8)
    with pytest.raises(Diagnostic, match="narrow-integer") as caught, pallasite.jax.simulate():
        pl.pallas_call(bytes_body, out_shape=x)(x)
    marked = [n for n, t in enumerate(Path(__file__).read_text().splitlines(), 1) if "# the c" in t]
    assert caught.value.location is not None and caught.value.location.line == marked[0]


def test_locations_of_what_jax_lowers_once() -> None:
    """The second swap of a kernel calls what the first was lowered to: its line is the caller's."""
    text = """module {
      %0 = arith.constant 0 : i32 loc("swap:"("swap/swap"(callsite("k"("k.py":7:4) at "k"("k.py":10:4)))))
      %1 = arith.constant 1 : i32 loc("mul:"("mul"(callsite("helper"("k.py":7:4) at "k"("k.py":10:4)))))
      %2 = arith.constant 2 : i32 loc("gt:"("part/gt/part/gt"(callsite(callsite("h"("k.py":1:4) at "k"("k.py":2:4)) at callsite("h"("k.py":3:4) at "g"("k.py":4:4))))))
    }"""  # noqa: E501 (MLIR)
    ops = list(read(text).body.block.ops)
    assert [w.line for op in ops if (w := source_location(op)) is not None] == [10, 7, 3]


@pytest.mark.parametrize("form", ["pallas", "mosaic", "dma", "tiles", "vreg"])
@pytest.mark.parametrize("fault", ["visited again", "outside"])
def test_faults_of_blocks_have_a_line(fault: str, form: str) -> None:
    """JAX gives none to the kernel's function."""

    def copies(x: Any, o: Any) -> None:
        o[...] = x[...]

    def place(i: Any, j: Any) -> tuple[Any, int]:
        return (j if fault == "visited again" else 9), 0

    inputs = pl.BlockSpec((8, 128), lambda i, j: (2 * i + j, 0))
    out = jax.ShapeDtypeStruct((16, 128), jnp.float32)
    outputs = pl.BlockSpec((8, 128), place)
    call = pl.pallas_call(copies, out, grid=(2, 2), in_specs=[inputs], out_specs=outputs)
    with pytest.raises(Diagnostic, match=fault) as caught, pallasite.jax.simulate(form=form):
        call(jnp.zeros((32, 128)))
    assert caught.value.location is not None and caught.value.location.file == __file__


@pytest.mark.parametrize("form", ["pallas", "mosaic"])
def test_what_an_index_map_without_operations_says_is_at_the_kernel(form: Any) -> None:
    """JAX gives a map that returns its arguments no line."""
    rows = pl.BlockSpec((pl.Element(8), pl.Element(1)), lambda i: (i, 0))
    out = pl.BlockSpec((8, 1), lambda i: (i, 0))
    array = jax.ShapeDtypeStruct((64, 1), jnp.uint16)

    def copied(x: Any, o: Any) -> None:
        o[...] = x[...]

    call = pl.pallas_call(copied, out_shape=array, grid=(8,), in_specs=[rows], out_specs=out)
    with pytest.raises(Diagnostic) as caught:
        pallasite.lower(pallasite.jax.trace(call, array, form=form), "dma", "v4")
    assert caught.value.code == "element-window"
    assert caught.value.location is not None and Path(caught.value.location.file) == Path(__file__)
