"""Refs, logs and traces as the TPU compiler (libtpu 0.0.51) takes and refuses them."""

from __future__ import annotations

import pytest

from pallasite.diagnostics import Unsupported
from pallasite.frontend import read
from pallasite.passes.check_kernel import check_kernel
from pallasite.targets import get_target

from ..checking import ANY, SMEM, VMEM, beyond, check, kernel, memref, refused

HBM = "#tpu.memory_space<hbm>"
SEMAPHORES = "#tpu.memory_space<semaphore_mem>"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (memref("8x128xf32"), None),
        (memref("4xi32", SMEM), None),
        (memref("4xi1", SMEM), None),
        (memref("8x128xf32", HBM), None),
        (memref("8x128xf32", ANY), "memory-space"),
        (memref("!tpu.dma_semaphore", SEMAPHORES), "memory-space"),
        (memref("32x128xi1"), "element-width"),
        (memref("4xi64", SMEM), "element-width"),
        (memref("4xindex", SMEM), "element-width"),
    ],
)
def test_buffers(kind: str, code: str | None) -> None:
    text = kernel("", f"%b = memref.alloca() : {kind}")
    if code is None:
        check(text)
    else:
        beyond(text, code)


def test_operations_that_mosaic_lacks() -> None:
    kind = memref("8x128xf32")
    beyond(kernel("", f"%b = memref.alloc() : {kind}"), "memref-operation")
    beyond(kernel(f"%b: {kind}", f"memref.dealloc %b : {kind}"), "memref-operation")
    copy = kernel(f"%a: {kind}, %b: {kind}", f"memref.copy %a, %b : {kind} to {kind}")
    beyond(copy, "memref-operation")
    three = memref("2x8x128xf32")
    collapse = f"%c = memref.collapse_shape %a [[0, 1], [2]] : {three} into {memref('16x128xf32')}"
    refused(kernel(f"%a: {three}", collapse), "memref-operation")


@pytest.mark.parametrize("space", [VMEM, ANY, HBM])
def test_scalars_are_in_smem(space: str) -> None:
    kind = memref("4xi32", space)
    load = "%s = memref.load %a[%c0] : "
    check(kernel(f"%a: {memref('4xi32', SMEM)}", load + memref("4xi32", SMEM)))
    beyond(kernel(f"%a: {kind}", load + kind), "memory-space")
    store = f"%k = arith.constant 1 : i32\nmemref.store %k, %a[%c0] : {kind}"
    beyond(kernel(f"%a: {kind}", store), "memory-space")


def test_refs_seen_elsewhere() -> None:
    def cast(source: str, result: str) -> str:
        old, new = memref("8x128xf32", source), memref("8x128xf32", result)
        return kernel(f"%a: {old}", f"%b = memref.memory_space_cast %a : {old} to {new}")

    check(cast(ANY, HBM))
    check(cast(VMEM, VMEM))
    for source, result in ((VMEM, SMEM), (VMEM, ANY), (HBM, ANY), (ANY, VMEM)):
        refused(cast(source, result), "memory-space")


def test_sizes_of_refs() -> None:
    def size(space: str, dim: int) -> str:
        kind = memref("8x128xf32", space)
        body = f"%d = arith.constant {dim} : index\n%n = memref.dim %a, %d : {kind}"
        return kernel(f"%a: {kind}", body)

    check(size(HBM, 1))
    check(size(VMEM, 0))
    beyond(size(ANY, 1), "memory-space")
    refused(size(VMEM, 2), "out-of-bounds")


@pytest.mark.parametrize("space", [ANY, VMEM, SMEM])
@pytest.mark.parametrize(
    ("old", "new", "good"),
    [
        ("4x1x128xf32", "4x128xf32", True),
        ("1x256xf32", "256xf32", True),
        ("2x1x1xf32", "2x1xf32", True),
        ("1x1x16x128xbf16", "16x128xbf16", True),
        ("16x1xf32", "16xf32", False),
        ("16x1x1xf32", "16xf32", False),
        ("1xf32", "f32", False),
        ("4x1x128xbf16", "4x128xbf16", False),
        ("1x256xbf16", "256xbf16", False),
    ],
)
def test_dropped_dimensions(old: str, new: str, good: bool, space: str) -> None:
    kinds = memref(old, space), memref(new, space)
    text = kernel(f"%a: {kinds[0]}", f"%b = tpu.memref_squeeze %a : {kinds[0]} -> {kinds[1]}")
    if good:
        check(text)
    else:
        beyond(text, "view-layout")


def test_layouts_are_not_chosen_yet() -> None:
    kind = memref("8x128xf32", ANY)
    beyond(kernel(f"%a: {kind}", f"%b = tpu.assume_layout %a : {kind} -> {kind}"), "view-layout")
    cast = f"%b = tpu.reinterpret_cast %a : {kind} -> {kind}"
    beyond(kernel(f"%a: {kind}", cast), "view-layout")


def test_buffers_of_our_own_are_reshaped_where_they_lie() -> None:
    def reshape(old: str, new: str) -> str:
        view = f"%v = tpu.memref_reshape %x : {memref(old)} -> {memref(new)}"
        return kernel("", f"%x = memref.alloca() : {memref(old)}\n{view}")

    for old, new in (("4x5x128xf32", "20x128xf32"), ("2x5x128xf32", "2x640xf32")):
        check(reshape(old, new))
    for old, new in (("8x256xf32", "16x128xf32"), ("24x256xbf16", "2x12x256xbf16")):
        beyond(reshape(old, new), "view-layout")


@pytest.mark.parametrize("between", ["8x1x64xf32", "8x64xf32"])
@pytest.mark.parametrize("last, good", [("2x2x2x64xf32", True), ("4x128xf32", False)])
def test_rows_that_are_reshaped_twice(between: str, last: str, good: bool) -> None:
    """Rows of fewer than 128 columns are padded in every shape that they are seen in."""
    shapes = ["2x4x64xf32", between, last]
    first, other, seen = map(memref, shapes)
    text = kernel(
        "",
        f"""%x = memref.alloca() : {first}
        %v = tpu.memref_reshape %x : {first} -> {other}
        %w = tpu.memref_reshape %v : {other} -> {seen}""",
    )
    if good:
        check(text)
    else:
        beyond(text, "view-layout")


def test_what_is_printed() -> None:
    def printed(space: str) -> str:
        kind = memref("8x128xf32", space)
        return kernel(
            f"%a: {kind}", f'tpu.log_buffer "a" {{shape = array<i64: 8, 128>}} : %a : {kind}'
        )

    check(printed(VMEM))
    beyond(printed(SMEM), "memory-space")
    beyond(printed(ANY), "memory-space")


def test_what_is_logged() -> None:
    def logged(element: str, value: str, formatted: str = "") -> str:
        kind = "" if element == "i1" else f" : {element}"
        log = f'%v = arith.constant {value}{kind}\ntpu.log "x"{formatted} : [%v] : {element}'
        return kernel("", log)

    in_format = " {formatted = true}"
    for element, value in (("i32", "1"), ("i8", "1"), ("f32", "1.0"), ("index", "1")):
        check(logged(element, value))
        check(logged(element, value, in_format))
    check(logged("i1", "true"))
    beyond(logged("i1", "true", in_format), "logged-type")
    beyond(logged("bf16", "1.0"), "logged-type")
    beyond(logged("i64", "1"), "logged-type")
    refused(logged("vector<8x128xf32>", "dense<1.0>"), "logged-type")


def test_traces_grids_and_barriers() -> None:
    traced = """%r = "tpu.trace"() <{level = 10 : i32, message = "m"}> ({
      tpu.yield %c0 : index
    }) : () -> index"""
    beyond(kernel("", traced), "trace-results")
    refused(kernel("", "%n = tpu.iteration_bound 0 : i32"), "iteration-bound")
    refused(kernel("", "tpu.barrier barrier_id(%c0)"), "subcore")
    beyond(kernel("", '"tpu.prng_set_seed_32"() : () -> ()'), "seed-words")


@pytest.mark.parametrize(("target", "most"), [("v4", 433), ("v5e", 441), ("v7x", 3681)])
def test_semaphores_run_out(target: str, most: int) -> None:
    def allocate(first: int, second: int) -> str:
        first_, second_ = (
            memref(f"{count}x!tpu.semaphore", SEMAPHORES) for count in (first, second)
        )
        inner = f"%t = tpu.sem_alloc : {second_}\ntpu.yield"
        nested = f'"tpu.region"() ({{\n{inner}\n}}) : () -> ()\n'
        return kernel(f"%s: {first_}", nested * 2, scratch=1)

    check(allocate(100, most - 100), target)
    refused(allocate(100, most - 99), "semaphore-mem-exhausted", target)


@pytest.mark.parametrize("space", [ANY, VMEM])
@pytest.mark.parametrize(("old", "new"), [("4x32x256", "128x256"), ("64x128", "2x32x128")])
@pytest.mark.parametrize(("element", "rows", "fits"), [
    ("bf16", (16, 16), True), ("bf16", (8, 8), True), ("bf16", (12, 4), True),
    ("bf16", (1, 2), False), ("bf16", (16, 1), False), ("i8", (12, 4), True),
    ("i8", (2, 12), False), ("i8", (16, 6), False), ("f32", (3, 1), True),
])  # fmt: skip
def test_parts_of_reshaped_refs(
    space: str, old: str, new: str, element: str, rows: tuple[int, int], fits: bool
) -> None:
    """Their tiles are those of the array; words of packed rows are not cut."""
    *leading, _, columns = new.split("x")
    result = "x".join([*leading, str(rows[1]), columns, element])
    places = ", ".join([*["%z"] * len(leading), "%o", "%z"])
    source, view = memref(f"{old}x{element}", space), memref(f"{new}x{element}", space)
    text = kernel(
        f"%x: {source}",
        f"""%z = arith.constant 0 : i32
        %o = arith.constant {rows[0]} : i32
        %v = tpu.memref_reshape %x : {source} -> {view}
        %w = tpu.memref_slice %v[{places}] : {view} -> {memref(result, space)}""",
    )
    if fits:
        check(text)
    else:
        beyond(text, "unaligned-slice")


@pytest.mark.parametrize(("element", "shape", "fits"), [
    ("bf16", "4x8x256", True), ("bf16", "8x4x256", False), ("i8", "1x32x256", True),
    ("i8", "2x16x256", False), ("f32", "4x8x256", True),
])  # fmt: skip
def test_reshaped_parts_keep_their_tiles(element: str, shape: str, fits: bool) -> None:
    """Tiles of packed rows are cut no more in a part of an array than in all of it."""
    whole, part = memref(f"4x32x256x{element}"), memref(f"1x32x256x{element}")
    plane, view = memref(f"32x256x{element}"), memref(f"{shape}x{element}")
    text = kernel(
        f"%x: {whole}",
        f"""%z = arith.constant 0 : i32
        %n = arith.constant 3 : i32
        %p = tpu.memref_slice %x[%n, %z, %z] : {whole} -> {part}
        %q = tpu.memref_squeeze %p : {part} -> {plane}
        %v = tpu.memref_reshape %q : {plane} -> {view}""",
    )
    if fits:
        check(text)
    else:
        beyond(text, "view-layout")


@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_reshaped_parts_lie_in_one_piece(element: str) -> None:
    whole, part = memref(f"4x32x256x{element}"), memref(f"4x16x256x{element}")
    text = kernel(
        f"%x: {whole}",
        f"""%z = arith.constant 0 : i32
        %p = tpu.memref_slice %x[%z, %z, %z] : {whole} -> {part}
        %v = tpu.memref_reshape %p : {part} -> {memref(f"64x256x{element}")}""",
    )
    beyond(text, "view-layout")


@pytest.mark.parametrize(
    "choice",
    [
        "%v = arith.select %p, %a, %b : {kind}",
        "%v = scf.if %p -> ({kind}) {{ scf.yield %a : {kind} }} else {{ scf.yield %b : {kind} }}",
        """%v, %w = scf.for %i = %n to %n step %n iter_args(%x = %a, %y = %b) -> ({kind}, {kind})
            : i32 {{ scf.yield %y, %x : {kind}, {kind} }}""",
    ],
)
def test_refs_that_the_running_kernel_chooses(choice: str) -> None:
    """libtpu: "Failed to propagate the layout to all operations"."""
    kind, scalars = memref("16x256xf32"), memref("4xi32", SMEM)
    body = f"""%n = memref.load %s[%c0] : {scalars}
        %p = arith.cmpi eq, %n, %n : i32
        {choice.format(kind=kind)}"""
    text = kernel(f"%a: {kind}, %b: {kind}, %s: {scalars}", body)
    refused(text, "chosen-ref")
    with pytest.raises(Unsupported):
        check_kernel(read(text), get_target("v5e"), allow_beyond_reference=True)
