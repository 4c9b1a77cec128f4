"""Matrix units fed by hand: what the TPU compiler takes (it was asked about each of these)."""

from __future__ import annotations

import pytest

from ..checking import check, kernel, load, memref, refused


def fed(
    left: str = "128x256xbf16",
    right: str = "256x256xbf16",
    result: str = "128x256xf32",
    *,
    unit: int = 0,
    register: int = 0,
    first: int = 0,
    popped: int | None = None,
    queue: bool = False,
) -> str:
    """A product by hand, through accumulators or a queue."""
    at = f"mxu_index = {unit} : i32"
    loaded = f"load_staged_rhs = {register} : i32, {at}"
    if queue:
        multiply = f"tpu.matmul_lhs_fifo %x {{{loaded}}}"
        pop = f"tpu.matmul_pop_fifo {unit}"
    else:
        multiply = f"tpu.matmul_acc_lhs {first}, %x {{{loaded}}}"
        pop = f"tpu.matmul_pop {first if popped is None else popped} {{{at}}}"
    body = (
        f"{load('x', 'a', left)}{load('y', 'b', right)}"
        f"tpu.matmul_push_rhs %y {{{at}, staging_register = {register} : i32}} : vector<{right}>\n"
        f"{multiply} : vector<{left}>\n%z = {pop} : vector<{result}>\n"
        f"vector.store %z, %o[%c0, %c0] : {memref(result)}, vector<{result}>"
    )
    return kernel(f"%a: {memref(left)}, %b: {memref(right)}, %o: {memref(result)}", body)


def small(rows: int, element: str = "bf16") -> tuple[str, str, str]:
    """Shapes for arrays of 128 x 128 cells."""
    return f"{rows}x128x{element}", f"128x128x{element}", f"{rows}x128xf32"


def test_accumulators_and_queues() -> None:
    check(fed(), "v7x")
    check(fed(queue=True), "v6e")
    for target in ("v4", "v5e", "v5p"):
        check(fed(*small(128), queue=True), target)
        refused(fed(*small(128)), "mxu-results", target)
    refused(fed(), "mxu-results", "v6e")
    refused(fed(queue=True), "mxu-results", "v7x")


@pytest.mark.parametrize("element", ["f32", "bf16", "f8E4M3FN", "f8E5M2"])
def test_elements_of_v7x(element: str) -> None:
    check(fed(f"128x256x{element}", f"256x256x{element}"), "v7x")
    check(fed(f"128x256x{element}"), "v7x")


def test_elements() -> None:
    for left, right in (("i8", "bf16"), ("bf16", "i8"), ("f8E4M3B11FNUZ", "bf16")):
        refused(fed(f"128x256x{left}", f"256x256x{right}"), "mxu-element", "v7x")
    refused(fed(result="128x256xi32"), "mxu-element", "v7x")
    check(fed("128x256xi8", "256x256xi8", "128x256xi32", queue=True), "v6e")
    check(fed("128x512xi4", "512x256xi4", "128x256xi32", queue=True), "v6e")
    refused(fed("128x256xi4", "256x256xi4", "128x256xi32", queue=True), "mxu-shape", "v6e")
    refused(fed("128x256xf8E4M3FN", "256x256xf8E4M3FN", queue=True), "mxu-element", "v6e")
    refused(fed("128x128xi8", "128x128xi8", "128x128xi32", queue=True), "mxu-element", "v4")


@pytest.mark.parametrize(
    ("rows", "element"), [(8, "f32"), (24, "f32"), (16, "bf16"), (32, "f8E5M2")]
)
def test_rows(rows: int, element: str) -> None:
    check(fed(f"{rows}x256x{element}", result=f"{rows}x256xf32"), "v7x")
    refused(fed(f"{rows // 2}x256x{element}", result="8x256xf32"), "mxu-shape", "v7x")


@pytest.mark.parametrize("right", ["128x256xbf16", "256x128xbf16", "512x256xbf16"])
def test_what_is_pushed_fills_the_array(right: str) -> None:
    refused(fed(right=right), "mxu-shape", "v7x")


@pytest.mark.parametrize(
    ("rows", "first", "fits"),
    [(1024, 0, True), (1024, 2, False), (1040, 0, False), (128, 224, True), (128, 226, False),
     (16, 252, True), (16, 254, False), (16, 2, True), (16, 3, False), (16, -2, False)],
)  # fmt: skip
def test_sums_fit_into_the_accumulators(rows: int, first: int, fits: bool) -> None:
    text = fed(f"{rows}x256xbf16", result=f"{rows}x256xf32", first=first)
    if fits:
        check(text, "v7x")
    else:
        refused(text, "mxu-accumulator", "v7x")


def test_what_is_popped() -> None:
    check(fed(result="64x256xf32", popped=32), "v7x")
    check(fed(result="1024x256xf32"), "v7x")
    refused(fed(result="1032x256xf32"), "mxu-accumulator", "v7x")
    for shape in ("60x256", "64x128", "8x512"):
        refused(fed(result=f"{shape}xf32"), "mxu-shape", "v7x")


def test_units_and_registers() -> None:
    check(fed(unit=1, register=1), "v7x")
    refused(fed(unit=2), "mxu-index", "v7x")
    refused(fed(register=2), "mxu-register", "v7x")
    check(fed(*small(128), unit=3, register=1, queue=True), "v5e")
    refused(fed(*small(128), unit=4, queue=True), "mxu-index", "v5e")
    refused(fed(*small(128), register=1, queue=True), "mxu-register", "v4")
