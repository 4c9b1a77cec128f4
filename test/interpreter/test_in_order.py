"""Arrays of a call are the memory of operands of which a kernel sees elements only."""

# ruff: noqa: E501 (MLIR)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pallasite.api import with_call
from pallasite.frontend import read
from pallasite.interpreter import binding
from pallasite.interpreter.in_order import Use, joined, uses_of
from pallasite.interpreter.machine import spare as spare_memory
from pallasite.interpreter.machine.spare import Spare
from pallasite.interpreter.options import Options
from pallasite.interpreter.run import Outcome, execute, find_kernel
from pallasite.targets import get_target

V5E = get_target("v5e")
ANY, VMEM, SEMAPHORE = (f"#tpu.memory_space<{s}>" for s in ("any", "vmem", "semaphore_mem"))
SHAPE = (16, 256)
WHOLE, PART = (f"memref<{rows}x256xf32, {ANY}>" for rows in (16, 8))
BUFFER, DONE = f"memref<8x256xf32, {VMEM}>", f"memref<!tpu.dma_semaphore, {SEMAPHORE}>"


def kernel(body: str, array: str = WHOLE) -> str:
    return f"""
    func.func @main(%x: {array}, %o: {array}) attributes {{tpu.core_type = #tpu.core_type<tc>}} {{
      %c0 = arith.constant 0 : i32
      %c4 = arith.constant 4 : i32
      %c8 = arith.constant 8 : i32
      "tpu.region"() ({{
        %buffer = memref.alloca() : {BUFFER}
        %done = tpu.sem_alloc : {DONE}
        {body}
        tpu.yield
      }}) : () -> ()
      return
    }}"""


def part(name: str, ref: str, row: str) -> str:
    return f"%{name} = tpu.memref_slice %{ref}[{row}, %c0] : {WHOLE} -> {PART}\n"


def copy(source: str, target: str, kinds: tuple[str, str]) -> str:
    first, second = kinds
    return (
        f"tpu.enqueue_dma source(%{source} : {first}) target(%{target} : {second}) target_semaphore(%done : {DONE})\n"
        f"tpu.wait_dma2 semaphore(%done : {DONE}) src(%{source} : {first}) dst(%{target} : {second})\n"
    )


SWAP = "".join(
    part(f"from{a}", "x", f"%c{a}") + copy(f"from{a}", "buffer", (PART, BUFFER))
    + part(f"to{a}", "o", f"%c{b}") + copy("buffer", f"to{a}", (BUFFER, PART))
    for a, b in ((0, 8), (8, 0))
)  # fmt: skip
"""Both halves of the rows to the place of the other one."""
HALF = part("from", "x", "%c0") + part("to", "o", "%c8") + copy("from", "to", (PART, PART))
BACK = part("from", "x", "%c0") + part("to", "x", "%c8") + copy("from", "to", (PART, PART))
SEEN = (
    f"%flat = tpu.memref_reshape %x : {WHOLE} -> memref<2x8x256xf32, {ANY}>\n"
    + part("from", "x", "%c8") + part("to", "o", "%c0") + copy("from", "to", (PART, PART))
)  # fmt: skip


def run(text: str, x: Any, *, aliases: Any = None, spare: Any = None, **options: Any) -> Outcome:
    module = with_call(read(text), [x], [(x.shape, x.dtype)], aliases)
    return execute(module, [[x]], Options.of(**options), target=V5E, spare=spare)


def laid_out_anew(_: Any) -> None:
    """In the place of `in_order`: no operand is the caller's array."""


def numbers(seed: int = 0) -> Any:
    # Among them are NaNs whose payload no arithmetic would keep.
    return np.random.default_rng(seed).integers(0, 1 << 32, SHAPE, np.uint32).view(np.float32)


@pytest.mark.parametrize(
    ("body", "uses"),
    [
        (SWAP, (Use.READS, Use.FILLS)),
        (BACK, (Use.BOTH, Use.READS)),
        (SEEN, (Use.LAYOUT, Use.FILLS)),
    ],
)
def test_what_a_kernel_sees(body: str, uses: tuple[Use, ...]) -> None:
    assert uses_of(find_kernel(read(kernel(body)))) == uses


def test_an_array_that_is_both_is_seen_as_either_is() -> None:
    layout, both, reads, fills = Use
    uses = (reads, layout, reads, fills, both)
    assert joined(uses, []) == [*uses]
    assert joined(uses, [(0, 3)]) == [both, layout, reads, both, both]
    assert joined(uses, [(1, 3), (2, 4)]) == [reads, layout, both, layout, both]


def test_blocks_are_copies() -> None:
    array = f"memref<8x256xf32, {VMEM}>"
    assert uses_of(find_kernel(read(kernel("", array)))) == (Use.READS, Use.READS)


OVERLAPPING = "".join(
    part(f"from{k}", "x", "%c0") + part(f"to{k}", "o", f"%c{k}")
    + copy(f"from{k}", f"to{k}", (PART, PART))
    for k in (0, 4)
)  # fmt: skip
"""As many rows as there are, some of them twice."""
FLAT = f"memref<256xf32, {ANY}>"
SQUEEZED = (
    f"%row = tpu.memref_slice %x[%c8, %c0] : {WHOLE} -> memref<1x256xf32, {ANY}>\n"
    f"%flat = tpu.memref_squeeze %row : memref<1x256xf32, {ANY}> -> {FLAT}\n"
    f"%place = tpu.memref_slice %o[%c4, %c0] : {WHOLE} -> memref<1x256xf32, {ANY}>\n"
    f"%other = tpu.memref_squeeze %place : memref<1x256xf32, {ANY}> -> {FLAT}\n"
) + copy("flat", "other", (FLAT, FLAT))

ROW = f"memref<1x256xf32, {ANY}>"


def rows(place: str) -> str:
    """A loop over rows, each of which is copied to a `place`."""
    return f"""
      %c1 = arith.constant 1 : i32
      %c15 = arith.constant 15 : i32
      %c16 = arith.constant 16 : i32
      scf.for %i = %c0 to %c16 step %c1 : i32 {{
        %place = arith.{place} : i32
        %row = tpu.memref_slice %x[%i, %c0] : {WHOLE} -> {ROW}
        %to = tpu.memref_slice %o[%place, %c0] : {WHOLE} -> {ROW}
        {copy("row", "to", (ROW, ROW))}
      }}"""


ALL, SOME = rows("subi %c15, %i"), rows("andi %i, %c4")


@pytest.mark.parametrize("body", [SWAP, HALF, BACK, SEEN, OVERLAPPING, SQUEEZED, ALL, SOME, ""])
@pytest.mark.parametrize("poison", [0, 1])
def test_results_and_figures_are_those_of_the_layout_of_the_chip(
    body: str, poison: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run(kernel(body), numbers(), poison=poison)
    monkeypatch.setattr(binding, "in_order", laid_out_anew)
    expected = run(kernel(body), numbers(), poison=poison)
    assert found.outputs[0][0].tobytes() == expected.outputs[0][0].tobytes()
    assert (found.memory, found.transfers) == (expected.memory, expected.transfers)


SQUARE, SINGLE = f"memref<2x2x128xf32, {ANY}>", f"memref<2x1x128xf32, {ANY}>"


def line(name: str, ref: str, sizes: str) -> str:
    """`name` is the first row, or column, of `ref`."""
    box, kept = (f"memref<{n}x128xf32, {ANY}>" for n in (sizes, "2"))
    return (
        f"%box_{name} = tpu.memref_slice %{ref}[%c0, %c0, %c0] : {SQUARE} -> {box}\n"
        f"%{name} = tpu.memref_squeeze %box_{name} : {box} -> {kept}\n"
    )


def test_rows_and_columns_that_begin_at_one_place_are_written_both() -> None:
    x = np.arange(512, dtype=np.float32).reshape(2, 2, 128)
    kind = f"memref<2x128xf32, {ANY}>"
    body = "".join(
        line(f"from{n}", "x", sizes) + line(f"to{n}", "o", sizes)
        + copy(f"from{n}", f"to{n}", (kind, kind))
        for n, sizes in enumerate(("1x2", "2x1"))
    )  # fmt: skip
    (out,) = run(kernel(body, SQUARE), x).outputs[0]
    np.testing.assert_array_equal(out[0], x[0])
    np.testing.assert_array_equal(out[1, 0], x[1, 0])
    assert np.isnan(out[1, 1]).all()


def test_a_row_that_is_written_through_two_views_is_one() -> None:
    x = np.arange(256, dtype=np.float32).reshape(2, 1, 128)
    rows, row = (f"memref<{n}x128xf32, {ANY}>" for n in (2, 1))
    box = f"memref<1x1x128xf32, {ANY}>"
    body = f"""
        %c1 = arith.constant 1 : i32
        %from = tpu.memref_squeeze %x : {SINGLE} -> {rows}
        %second = tpu.memref_slice %from[%c1, %c0] : {rows} -> {row}
        %box = tpu.memref_slice %o[%c1, %c0, %c0] : {SINGLE} -> {box}
        %one = tpu.memref_squeeze %box : {box} -> {row}
        %to = tpu.memref_squeeze %o : {SINGLE} -> {rows}
        %other = tpu.memref_slice %to[%c1, %c0] : {rows} -> {row}
        """ + "".join(copy("second", name, (row, row)) for name in ("one", "other"))
    (out,) = run(kernel(body, SINGLE), x).outputs[0]
    np.testing.assert_array_equal(out[1], x[1])
    assert np.isnan(out[0]).all()


@pytest.mark.parametrize("laid_out", ["C", "F", "read-only", "unaligned"])
def test_arrays_of_the_caller_stay_as_they_are(laid_out: str) -> None:
    before = numbers()
    x = np.asfortranarray(before) if laid_out == "F" else before.copy()
    if laid_out == "unaligned":
        x = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(SHAPE)
        x[...] = before
    x.flags.writeable = laid_out != "read-only"
    for body in (SWAP, BACK):
        (out,) = run(kernel(body), x).outputs[0]
        assert x.tobytes() == before.tobytes()
        assert not np.shares_memory(out, x) and out.flags.writeable
    (out,) = run(kernel(SWAP), x).outputs[0]
    assert out.tobytes() == np.concatenate([before[8:], before[:8]]).tobytes()


def test_an_aliased_operand_is_a_copy() -> None:
    x = numbers()
    before = x.tobytes()
    (out,) = run(kernel(HALF), x, aliases={0: 0}).outputs[0]
    assert x.tobytes() == before
    assert out.tobytes() == np.concatenate([x[:8], x[:8]]).tobytes()


def test_no_later_run_writes_to_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spare_memory, "LEAST", 1)
    spare, text = Spare(), kernel(SWAP)
    results = [run(text, numbers(seed), spare=spare).outputs[0][0] for seed in range(3)]
    for seed, out in enumerate(results):
        x = numbers(seed)
        assert out.tobytes() == np.concatenate([x[8:], x[:8]]).tobytes()


def test_checks_see_the_layout_of_the_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    # The bytes that a finding names are those of tiles.
    monkeypatch.delattr(binding, "in_order")
    (out,) = run(kernel(SWAP), numbers(), checks=("race",)).outputs[0]
    assert out.tobytes() == np.concatenate([numbers()[8:], numbers()[:8]]).tobytes()
