"""Copies as libtpu 0.0.51 takes and refuses them; it was asked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ..checking import ANY, SMEM, VMEM, beyond, check, kernel, memref, refused

REGULAR, BYTES = (
    f"memref<!tpu.{kind}, #tpu.memory_space<semaphore_mem>>"
    for kind in ("semaphore", "dma_semaphore")
)


def copy(
    source: Sequence[int],
    target: Sequence[int],
    shape: Sequence[int],
    element: str = "f32",
    semaphore: str = REGULAR,
) -> str:
    """Copies the first corner of `shape` from an array in HBM to one in VMEM."""

    def text(dims: Sequence[int], space: str) -> str:
        return memref("x".join(map(str, [*dims, element])), space)

    x, y, part, other = text(source, ANY), text(target, VMEM), text(shape, ANY), text(shape, VMEM)
    corner = ", ".join(["%zero"] * len(shape))
    body = f"""
      %zero = arith.constant 0 : i32
      %a = tpu.memref_slice %x[{corner}] : {x} -> {part}
      %b = tpu.memref_slice %y[{corner}] : {y} -> {other}
      tpu.enqueue_dma source(%a : {part}) target(%b : {other}) target_semaphore(%s : {semaphore})"""
    return kernel(f"%x: {x}, %y: {y}, %s: {semaphore}", body, scratch=2)


TWICE, THRICE = (2, 2, 2, 2), (3, 3, 3, 3)


@pytest.mark.parametrize("target", ["v6e", "v7x"])
@pytest.mark.parametrize(
    ("source", "shape"),
    [
        # The last of the leading dimensions continues whole rows.
        ((*THRICE, 8, 128), (*TWICE, 8, 128)),
        ((*THRICE, 8, 256), (*TWICE, 8, 256)),
        ((*THRICE, 16, 128), (*TWICE, 16, 128)),
        ((*THRICE, 2, 128), (*TWICE, 2, 128)),
        ((*THRICE, 8, 100), (*TWICE, 8, 100)),
        # So does one of a single element or one that is copied whole.
        ((3, 3, 3, 3, 3, 8, 128), (2, 2, 2, 1, 2, 8, 128)),
        ((3, 3, 3, 2, 3, 8, 128), (2, 2, 2, 2, 2, 8, 128)),
        ((3, 3, 3, 16, 384), (2, 2, 2, 16, 128)),
        # Three leading dimensions, and part of the rows or columns.
        ((3, 3, 3, 3, 128), (2, 2, 2, 2, 128)),
        ((3, 3, 3, 32, 128), (2, 2, 2, 16, 128)),
        ((3, 3, 3, 8, 256), (2, 2, 2, 4, 256)),
        ((3, 3, 3, 32, 256), (2, 2, 2, 8, 128)),
        ((3, 3, 32, 384), (2, 2, 16, 256)),
    ],
)
def test_regular_semaphores_count_single_transfers(
    source: Sequence[int], shape: Sequence[int], target: str
) -> None:
    check(copy(source, shape, shape), target)


@pytest.mark.parametrize("target", ["v6e", "v7x"])
@pytest.mark.parametrize(
    ("source", "shape"),
    [
        ((3, *THRICE, 8, 128), (2, *TWICE, 8, 128)),
        ((2, *THRICE, 3, 128), (2, *TWICE, 2, 128)),
        # Padding, rows or columns lie between.
        ((*THRICE, 3, 128), (*TWICE, 3, 128)),
        ((*THRICE, 12, 128), (*TWICE, 12, 128)),
        ((*THRICE, 8, 128), (*TWICE, 4, 128)),
        ((*THRICE, 32, 128), (*TWICE, 8, 128)),
        ((*THRICE, 8, 384), (*TWICE, 8, 256)),
        ((3, 3, 3, 32, 256), (2, 2, 2, 16, 128)),
        ((3, 3, 3, 32, 384), (2, 2, 2, 16, 256)),
    ],
)
def test_more_strided_dimensions_need_a_dma_semaphore(
    source: Sequence[int], shape: Sequence[int], target: str
) -> None:
    beyond(copy(source, shape, shape), "transfer-semaphore", target)
    check(copy(source, shape, shape, semaphore=BYTES), target)


def test_strides_of_the_target_count_as_well() -> None:
    whole = (*TWICE, 8, 128)
    beyond(copy(whole, (*THRICE, 32, 128), whole), "transfer-semaphore", "v6e")
    # Each array has two that the other continues.
    one, other = (3, 2, 3, 2, 32, 128), (2, 3, 2, 3, 8, 128)
    check(copy(one, whole, whole), "v6e")
    check(copy(whole, other, whole), "v6e")
    beyond(copy(one, other, whole), "transfer-semaphore", "v6e")


@pytest.mark.parametrize(("element", "rows"), [("bf16", 8), ("bf16", 16), ("i8", 32)])
def test_strides_of_packed_types(element: str, rows: int) -> None:
    shape = (*TWICE, rows, 128)
    check(copy((*THRICE, rows, 128), shape, shape, element), "v6e")
    beyond(copy((*THRICE, 4 * rows, 128), shape, shape, element), "transfer-semaphore", "v6e")


@pytest.mark.parametrize("target", ["v4", "v5e", "v5p"])
def test_older_engines_signal_no_regular_semaphore(target: str) -> None:
    refused(copy((8, 128), (8, 128), (8, 128)), "transfer-semaphore", target)


def row(
    shape: Sequence[int],
    number: int,
    kept: Sequence[int],
    element: str = "f32",
    part_of_row: int | None = None,
) -> str:
    """Copies a row of an array of VMEM, or elements of it, to one of HBM with the dimensions `kept`
    of the row."""

    def text(dims: Sequence[int], space: str = VMEM) -> str:
        return memref("x".join(map(str, [*dims, element])), space)

    part = (*[1] * (len(shape) - 1), shape[-1])
    outer = "%zero, " * (len(shape) - 2)
    body = f"""
      %zero = arith.constant 0 : i32
      %row = arith.constant {number} : i32
      %a = tpu.memref_slice %x[{outer}%row, %zero] : {text(shape)} -> {text(part)}
      %b = tpu.memref_squeeze %a : {text(part)} -> {text(kept)}
      """
    source, moved = "%b", kept
    if part_of_row is not None:
        source, moved = "%c", (part_of_row,)
        body += f"%c = tpu.memref_slice %b[%zero] : {text(kept)} -> {text(moved)}\n"
    ends = f"source({source} : {text(moved)}) target(%y : {text(moved, ANY)}) "
    body += f"tpu.enqueue_dma {ends}"
    arguments = f"%x: {text(shape)}, %y: {text(moved, ANY)}, %s: {BYTES}"
    return kernel(arguments, body + f"target_semaphore(%s : {BYTES})", scratch=1)


@pytest.mark.parametrize("element", ["f32", "i32"])
@pytest.mark.parametrize("shape", [(3, 256), (5, 200), (9, 256), (17, 384), (2, 3, 256)])
def test_the_last_of_an_odd_number_of_rows_keeps_its_dimension(
    shape: Sequence[int], element: str
) -> None:
    last, columns = shape[-2] - 1, shape[-1]
    beyond(row(shape, last, (columns,), element), "last-row")
    check(row(shape, last - 1, (columns,), element))
    check(row((*shape[:-2], last + 2, columns), last, (columns,), element))
    check(row((*shape[:-1], 128), last, (128,), element))
    beyond(row(shape, last, (columns,), element, part_of_row=128), "last-row")


def test_the_last_row_as_a_matrix() -> None:
    check(row((2, 3, 256), 2, (1, 256)))


@pytest.mark.parametrize(("rows", "others", "good"), [("%n8", "%m8", True), ("%n8", "%n16", False),
                                                      ("%n8", "%i", True)])  # fmt: skip
@pytest.mark.parametrize("squeezed", [False, True])
def test_constant_sizes_of_both_ends_are_equal(
    rows: str, others: str, squeezed: bool, good: bool
) -> None:
    """Types do not tell them; a run would fail."""
    x, y = memref("2x64x128xf32", ANY), memref("2x64x128xf32", VMEM)
    part, other = memref("1x?x128xf32", ANY), memref("1x?x128xf32", VMEM)
    body = f"""
      %zero = arith.constant 0 : i32
      %n8 = arith.constant 8 : i32
      %four = arith.constant 4 : i32
      %m8 = arith.addi %four, %four : i32
      %n16 = arith.addi %n8, %m8 : i32
      %j = tpu.device_id : i32
      %i = tpu.assume_multiple %j, 8 : i32
      %a = tpu.memref_slice %x[%zero, %zero, %zero] <{rows}> : {x} -> {part}
      %b = tpu.memref_slice %y[%zero, %zero, %zero] <{others}> : {y} -> {other}"""
    source, target = "%a", "%b"
    if squeezed:
        flat, near = memref("?x128xf32", ANY), memref("?x128xf32", VMEM)
        body += f"""
      %c = tpu.memref_squeeze %a : {part} -> {flat}
      %d = tpu.memref_squeeze %b : {other} -> {near}"""
        source, target, part, other = "%c", "%d", flat, near
    body += f"""
      tpu.enqueue_dma source({source} : {part}) target({target} : {other})
        target_semaphore(%s : {BYTES})"""
    text = kernel(f"%x: {x}, %y: {y}, %s: {BYTES}", body, scratch=2)
    if good:
        check(text)
    else:
        refused(text, "dma-shape")


@pytest.mark.parametrize("space", [ANY, SMEM])
@pytest.mark.parametrize("shape", ["", "1x", "1x1x"])
def test_numbers_are_copied_as_arrays_of_one(shape: str, space: str) -> None:
    array = memref(f"{shape}i32", space)
    body = f"""
      tpu.enqueue_dma source(%x : {array}) target(%y : {array}) target_semaphore(%s : {BYTES})"""
    text = kernel(f"%x: {array}, %y: {array}, %s: {BYTES}", body, scratch=1)
    if shape:
        check(text)
    else:
        beyond(text, "dma-number")
