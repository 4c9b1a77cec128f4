"""Elements narrower than values are read, and written, as what they are, wherever they lie."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16, float8_e4m3fn

from pallasite import api
from pallasite.interpreter.replay.repeats import BEFORE
from pallasite.interpreter.run import Prepared, execute, prepare
from pallasite.targets import get_target

V5E = get_target("v5e")
KINDS = {"bf16": bfloat16, "f8E4M3FN": float8_e4m3fn}


def kernel(element: str, body: str, tiles: int = 1) -> Prepared:
    """A windowed kernel over four blocks of so many times 16 rows (32, of a byte)."""
    rows = tiles * (32 if element[:2] == "f8" else 16)
    block = f"memref<{rows}x256x{element}, #tpu.memory_space<vmem>>"
    kinds = f"[tensor<{4 * rows}x256x{element}>]"
    window = f"{{transform_indices = @rows, window_bounds = array<i64: {rows}, 256>}}"
    text = f"""
    module attributes {{tpu.call = {{operands = {kinds}, results = {kinds}, aliases = array<i64>, settings = "{{}}"}}}} {{
    func.func @main(%i: i32, %x: {block}, %o: {block}) attributes {{
        dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 4>,
        scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>,
        window_params = [{window}, {window}]}} {{
      %c0 = arith.constant 0 : index
      {body.replace("MEM", block).replace("VEC", f"vector<{rows}x256x{element}>")}
      return
    }}
    func.func @rows(%i: i32) -> (i32, i32) {{
      %c0 = arith.constant 0 : i32
      return %i, %c0 : i32, i32
    }} }}"""  # noqa: E501
    return prepare(api.lower(api.parse(text), "tiles", "v5e"), target=V5E)


def run(prepared: Prepared, x: Any, driver: Any = "compiled") -> Any:
    module = prepared.described.module
    again = prepared if driver == "compiled" else None
    return execute(module, [[x]], target=V5E, prepared=again, driver=driver).outputs[0][0]


def drawn(element: str, seed: int) -> Any:
    """All numbers, NaNs among them."""
    dtype = np.dtype(KINDS[element])
    rows = 128 if dtype.itemsize == 1 else 64
    words = np.random.default_rng(seed).integers(0, 256, (rows, 256 * dtype.itemsize), np.uint8)
    return words.view(dtype)


MOVES = "%a = vector.load %x[%c0, %c0] : MEM, VEC\n vector.store %a, %o[%c0, %c0] : MEM, VEC"


@pytest.mark.parametrize("element", KINDS)
def test_a_block_is_read_and_written_in_arrays(element: str) -> None:
    prepared = kernel(element, MOVES)
    for _ in range(BEFORE + 1):
        run(prepared, drawn(element, 0))
    (replay,) = prepared.repeats.replays.values()
    assert not replay.script.rooms, "nothing is fetched"
    # All blocks together: what makes values of elements, and what makes elements of values.
    assert len(re.findall(r"\bf\d+\(x0, ", replay.script.text)) == 1
    for seed in (1, 2):
        x = drawn(element, seed)
        found, expected = run(prepared, x), run(prepared, x, "reference")
        assert found.tobytes() == expected.tobytes()


def test_what_stays_in_memory_is_read_by_words() -> None:
    body = """
    %v = vector.load %x[%c0, %c0] : MEM, VEC
    vector.store %v, %o[%c0, %c0] : MEM, VEC
    %a = vector.load %o[%c0, %c0] : MEM, VEC
    %b = arith.addf %a, %a : VEC
    vector.store %b, %o[%c0, %c0] : MEM, VEC
    """
    prepared = kernel("bf16", body)
    for _ in range(BEFORE + 1):
        run(prepared, drawn("bf16", 0))
    assert prepared.repeats.replays
    for seed in (1, 2):
        x = drawn("bf16", seed)
        assert run(prepared, x).tobytes() == run(prepared, x, "reference").tobytes()


def test_what_is_computed_is_seen_in_arrays_and_rounded_there() -> None:
    wide = "vector<16x256xf32>"
    body = f"""
    %a = vector.load %x[%c0, %c0] : MEM, VEC
    %b = arith.extf %a : VEC to {wide}
    %c = arith.mulf %b, %b : {wide}
    %d = arith.truncf %c : {wide} to VEC
    vector.store %d, %o[%c0, %c0] : MEM, VEC
    """
    prepared = kernel("bf16", body)
    for _ in range(BEFORE + 1):
        run(prepared, drawn("bf16", 0))
    (replay,) = prepared.repeats.replays.values()
    assert not replay.script.rooms
    # Of all blocks: their values, the squares, two halves of these, which are rounded to memory.
    assert replay.script.length == 5
    for seed in (1, 2):
        x = drawn("bf16", seed)
        assert run(prepared, x).tobytes() == run(prepared, x, "reference").tobytes()


def test_what_stays_in_memory_is_stored_with_other_axes() -> None:
    def typed(kind: str, shape: str, space: str = "") -> str:
        return f"{kind}<{shape}xbf16{space}>"

    flat, rows = "1408", "11x128"
    (x, o) = (typed("memref", s, ", #tpu.memory_space<vmem>") for s in (flat, rows))
    text = f"""
    module attributes {{tpu.call = {{operands = [{typed("tensor", flat)}], results = [{typed("tensor", rows)}], aliases = array<i64>, settings = "{{}}"}}}} {{
    func.func @main(%x: {x}, %o: {o}) attributes {{
        dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
        tpu.core_type = #tpu.core_type<tc>}} {{
      %c0 = arith.constant 0 : index
      %a = vector.load %x[%c0] : {x}, {typed("vector", flat)}
      %b = vector.shape_cast %a : {typed("vector", flat)} to {typed("vector", rows)}
      vector.store %b, %o[%c0, %c0] : {o}, {typed("vector", rows)}
      return
    }} }}"""  # noqa: E501
    prepared = prepare(api.lower(api.parse(text), "tiles", "v5e"), target=V5E)
    for seed in range(BEFORE + 2):
        drawn = np.random.default_rng(seed).integers(0, 1 << 16, 1408, np.uint16)
        assert run(prepared, drawn.view(bfloat16)).tobytes() == drawn.tobytes()
    assert prepared.repeats.replays


def test_what_is_stored_is_joined_in_another_shape() -> None:
    """It is stored as it was joined, in more dimensions than the block has, where it is loaded."""
    wide, part, rest = (f"vector<{n}x16x256xbf16>" for n in (4, 1, 3))
    body = f"""
    %a = vector.load %x[%c0, %c0] : MEM, VEC
    %b = vector.shape_cast %a : VEC to {wide}
    %c = vector.extract_strided_slice %b {{offsets = [0], sizes = [1], strides = [1]}} : {wide} to {part}
    %d = vector.extract_strided_slice %b {{offsets = [1], sizes = [3], strides = [1]}} : {wide} to {rest}
    %e = tpu.concatenate %d, %c in 0 : {rest}, {part} -> {wide}
    %f = vector.shape_cast %e : {wide} to VEC
    vector.store %f, %o[%c0, %c0] : MEM, VEC
    %g = vector.load %o[%c0, %c0] : MEM, VEC
    %h = arith.addf %g, %g : VEC
    vector.store %h, %o[%c0, %c0] : MEM, VEC
    """  # noqa: E501
    prepared = kernel("bf16", body, tiles=4)
    for seed in range(BEFORE + 2):
        x = np.concatenate([drawn("bf16", 4 * seed + part) for part in range(4)])
        assert run(prepared, x).tobytes() == run(prepared, x, "reference").tobytes()
    assert prepared.repeats.replays


def test_what_was_an_array_is_no_view_of_memory_that_is_written_later() -> None:
    """Registers in another order, of which NumPy makes an array where they lie by rows, as in
    values, and a view where they lie as in memory."""
    half, more, most = (f"vector<{n}x256xbf16>" for n in (16, 32, 48))
    body = f"""
    %c15 = arith.constant 15 : index
    %c48 = arith.constant 48 : index
    %s = memref.alloca() : MEM
    %x0 = vector.load %x[%c0, %c0] : MEM, VEC
    vector.store %x0, %s[%c0, %c0] : MEM, VEC
    vector.store %x0, %o[%c0, %c0] : MEM, VEC
    %a = vector.load %s[%c15, %c0] : MEM, {half}
    %b = vector.load %s[%c48, %c0] : MEM, {half}
    vector.store %a, %o[%c48, %c0] : MEM, {half}
    %other = vector.load %x[%c0, %c0] : MEM, {more}
    %twice = arith.addf %other, %other : {more}
    vector.store %twice, %s[%c0, %c0] : MEM, {more}
    %ab = tpu.concatenate %a, %b in 0 : {half}, {half} -> {more}
    %bab = tpu.concatenate %b, %ab in 0 : {half}, {more} -> {most}
    vector.store %bab, %o[%c0, %c0] : MEM, {most}
    %now = vector.load %s[%c0, %c0] : MEM, {half}
    vector.store %now, %o[%c0, %c0] : MEM, {half}
    """
    prepared = kernel("bf16", body, tiles=4)
    for seed in range(BEFORE + 2):
        x = np.concatenate([drawn("bf16", 4 * seed + part) for part in range(4)])
        assert run(prepared, x).tobytes() == run(prepared, x, "reference").tobytes()
    assert prepared.repeats.replays
