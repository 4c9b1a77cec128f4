"""What refs can be made and seen as, the same in every form (asked of libtpu 0.0.51)."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pallasite import api
from pallasite.frontend import read

from .checking import ANY, SMEM, kernel, memref

FORMS = ("mosaic", "dma", "tiles", "vreg")
SEMAPHORE = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"
DTYPES: dict[str, Any] = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "i8": np.int8}
NUMBERS = np.arange(1 << 15, dtype=np.float32)


def transfer(source: str, kind: str, target: str, other: str) -> str:
    return (
        f"tpu.enqueue_dma source({source} : {kind}) target({target} : {other}) "
        f"target_semaphore(%sem : {SEMAPHORE})\n"
        f"tpu.wait_dma2 semaphore(%sem : {SEMAPHORE}) src({source} : {kind}) "
        f"dst({target} : {other})\n"
    )


def region(body: str) -> str:
    return (
        f'"tpu.region"() ({{\n%sem = tpu.sem_alloc : {SEMAPHORE}\n{body}tpu.yield\n}}) : () -> ()'
    )


def constants(**numbers: int) -> str:
    return "".join(f"%{name} = arith.constant {n} : i32\n" for name, n in numbers.items())


def equal_in_all_forms(text: str, values: Any, expected: Any) -> None:
    """Every form gives `expected`, with transfers as late as may be and at random times."""
    results = [(expected.shape, expected.dtype)]
    for form in FORMS:
        for seed in (0, 1):
            (found,) = api.run(read(text), [values], form=form, results=results, seed=seed)
            np.testing.assert_array_equal(found, expected, err_msg=form)


@pytest.mark.parametrize("space", ["any", "smem", "vmem"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((2, 6, 8, 128), (3, 4, 8, 128)),
        ((16, 128), (2, 1024)),
        ((10, 100), (2, 5, 100)),
        ((5, 128), (1, 640)),
    ],
)
def test_reshaped_refs(old: tuple[int, ...], new: tuple[int, ...], space: str) -> None:
    shapes = ("x".join(map(str, (*shape, "f32"))) for shape in (old, new))
    source, result = shapes
    array, block = memref(source, ANY), memref(source, f"#tpu.memory_space<{space}>")
    seen = memref(result, f"#tpu.memory_space<{space}>")
    body, whole = "", "%a"
    if space != "any":
        whole = "%b"
        body = f"%b = memref.alloca() : {block}\n" + transfer("%a", array, "%b", block)
    body += f"%v = tpu.memref_reshape {whole} : {block} -> {seen}\n"
    body += transfer("%v", seen, "%o", memref(result, ANY))
    text = kernel(f"%a: {array}, %o: {memref(result, ANY)}", region(body))
    values = NUMBERS[: np.prod(old)].reshape(old)
    equal_in_all_forms(text, values, values.reshape(new))


@pytest.mark.parametrize(("start", "size", "promise"), [(8, 16, 1), (0, 5, 1), (8, 0, 8)])
def test_sizes_that_are_constants(start: int, size: int, promise: int) -> None:
    whole, part = (memref(f"{rows}x128xf32", ANY) for rows in (32, "?"))
    cut = f"[%i, %z] <%n> : {whole} -> {part}\n"
    body = constants(i=start, m=size, z=0) + f"%n = tpu.assume_multiple %m, {promise} : i32\n"
    body += transfer("%a", whole, "%o", whole)
    body += f"%p = tpu.memref_slice %b{cut}%q = tpu.memref_slice %o{cut}"
    body += transfer("%p", part, "%q", part)
    text = kernel(f"%a: {whole}, %b: {whole}, %o: {whole}", region(body))
    values = NUMBERS[:4096].reshape(32, 128)
    expected = values.copy()
    expected[start : start + size] += 0.5
    for form in FORMS:
        results = [(expected.shape, expected.dtype)]
        (found,) = api.run(read(text), [values, values + 0.5], form=form, results=results)
        np.testing.assert_array_equal(found, expected, err_msg=form)


@pytest.mark.parametrize(
    ("shape", "start", "size", "index"),
    [
        ((4, 8), (1, 2), (2, 4), (1, 3)),
        ((4, 300), (2, 130), (1, 100), (0, 7)),
        ((300,), (130,), (20,), (3,)),
        ((16, 256), (8, 128), (8, 128), (5, 100)),
    ],
)
def test_scalars_of_parts_of_smem(
    shape: tuple[int, ...], start: tuple[int, ...], size: tuple[int, ...], index: tuple[int, ...]
) -> None:
    whole, part = (memref("x".join(map(str, (*extents, "i32"))), SMEM) for extents in (shape, size))
    result = memref("1xi32", SMEM)
    names = [f"d{dim}" for dim in range(len(shape))]
    body = constants(**dict(zip(names, start, strict=True)))
    body += "".join(
        f"%i{dim} = arith.constant {place} : index\n" for dim, place in enumerate(index)
    )
    places = ", ".join(f"%{name}" for name in names)
    body += f"%p = tpu.memref_slice %a[{places}] : {whole} -> {part}\n"
    indices = ", ".join(f"%i{dim}" for dim in range(len(index)))
    body += f"%v = memref.load %p[{indices}] : {part}\nmemref.store %v, %o[%c0] : {result}\n"
    values = NUMBERS[: np.prod(shape)].astype(np.int32).reshape(shape)
    place = tuple(map(sum, zip(start, index, strict=True)))
    equal_in_all_forms(kernel(f"%a: {whole}, %o: {result}", body), values, values[place].reshape(1))


@pytest.mark.parametrize(
    ("shape", "start", "size", "element"),
    [
        ((12, 256), (4, 0), (8, 256), "f32"),
        ((16, 256), (7, 128), (2, 128), "f32"),
        ((2, 24, 384), (1, 14, 0), (1, 4, 384), "f32"),
        ((3, 32, 256), (0, 6, 0), (3, 4, 256), "bf16"),
        ((64, 256), (28, 0), (8, 256), "i8"),
    ],
)
def test_rows_half_in_one_tile_and_half_in_the_next(
    shape: tuple[int, ...], start: tuple[int, ...], size: tuple[int, ...], element: str
) -> None:
    whole, part = (
        memref("x".join(map(str, (*extents, element))), ANY) for extents in (shape, size)
    )
    names = [f"d{dim}" for dim in range(len(shape))]
    body = constants(**dict(zip(names, start, strict=True)))
    places = ", ".join(f"%{name}" for name in names)
    body += f"%p = tpu.memref_slice %a[{places}] : {whole} -> {part}\n"
    body += transfer("%p", part, "%o", part)
    values = np.arange(np.prod(shape)).astype(DTYPES[element]).reshape(shape)
    expected = values[tuple(slice(i, i + n) for i, n in zip(start, size, strict=True))]
    equal_in_all_forms(kernel(f"%a: {whole}, %o: {part}", region(body)), values, expected)
