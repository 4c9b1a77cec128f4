"""Registers hold several small tiles of memory where that takes fewer operations, and are stored as
they lie."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from pallasite import api
from pallasite.dialects.kernel import kernel_function
from pallasite.frontend.aot import compile_ahead_of_time
from pallasite.interpreter.arrays import dtype_of
from pallasite.targets import get_target

from .memory_kernels import kernel

ADD = {"f32": "arith.addf", "bf16": "arith.addf", "i32": "arith.addi"}


def zeros(rank: int) -> str:
    return ", ".join(["%z"] * rank)


def vector(shape: tuple[int, ...], element: str) -> str:
    return f"vector<{'x'.join(map(str, shape))}x{element}>"


def ref(shape: tuple[int, ...], element: str) -> str:
    return "x".join(map(str, shape)) + f"x{element}"


def cut(name: str, shape: tuple[int, ...], first: int, columns: int, element: str) -> str:
    """`%name`, `columns` columns of `%x` from `first` on."""
    offsets, sizes = [*[0] * (len(shape) - 1), first], [*shape[:-1], columns]
    return (
        f"%{name} = vector.extract_strided_slice %x {{offsets = {offsets}, sizes = {sizes}, "
        f"strides = {[1] * len(shape)}}} : {vector(shape, element)} to "
        f"{vector(tuple(sizes), element)}"
    )


def shifted(shape: tuple[int, ...], by: int, element: str) -> ModuleOp:
    """The columns of an array and those `by` further to the right, added."""
    part = (*shape[:-1], shape[-1] - by)
    body = f"""%x = vector.load %a[{zeros(len(shape))}] : A, {vector(shape, element)}
    {cut("l", shape, 0, part[-1], element)}
    {cut("r", shape, by, part[-1], element)}
    %s = {ADD[element]} %l, %r : {vector(part, element)}
    vector.store %s, %b[{zeros(len(shape))}] : B, {vector(part, element)}"""
    return kernel([ref(shape, element), ref(part, element)], body)


def centred(shape: tuple[int, ...], element: str) -> ModuleOp:
    """Every row of an array less its largest element, computed in f32."""
    rows, wide, narrow = shape[:-1], vector(shape, "f32"), vector(shape, element)
    one, plain = vector((*rows, 1), "f32"), vector(rows, "f32")
    grow = f"arith.extf %x : {narrow} to {wide}"
    shrink = f"arith.truncf %d : {wide} to {narrow}"
    add = "%{} = arith.addf %{}, %o : {}"
    none = "arith.constant dense<0.0>"
    body = f"""%x = vector.load %a[{zeros(len(shape))}] : A, {narrow}
    %o = {none} : {wide}
    %w = {grow if element != "f32" else f"arith.addf %x, %o : {wide}"}
    %i = arith.constant dense<0xFF800000> : {plain}
    %m = vector.multi_reduction <maximumf>, %w, %i [{len(rows)}] : {wide} to {plain}
    %c = vector.shape_cast %m : {plain} to {one}
    %p = vector.broadcast %c : {one} to {wide}
    %d = arith.subf %w, %p : {wide}
    %r = {shrink if element != "f32" else add.format("q", "d", wide)[5:]}
    vector.store %r, %b[{zeros(len(shape))}] : B, {narrow}"""
    return kernel([ref(shape, element)] * 2, body)


def counted(module: ModuleOp, target: str) -> Counter[str]:
    lowered = api.lower(module, "vreg", target)
    return Counter(op.name for op in lowered.walk())


def agree(module: ModuleOp, target: str) -> None:
    """Both forms give the same numbers."""
    function = kernel_function(module)
    assert function is not None
    kind = function.body.block.args[0].type
    rng = np.random.default_rng(3)
    element = dtype_of(kind.element_type)
    x = rng.integers(-9, 9, kind.get_shape()).astype(element)
    answers = [api.run(module, [x], form=form, target=target)[0] for form in ("mosaic", "vreg")]
    np.testing.assert_array_equal(*(a.astype(np.float32) for a in answers))


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize(
    ("shape", "element"),
    [((4, 259), "f32"), ((2, 1000), "i32"), ((1, 300), "f32"), ((3, 3, 400), "f32"),
     ((2, 5, 259), "bf16"), ((8, 700), "bf16"), ((1, 259), "bf16"), ((3, 7, 515), "bf16")],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("by", [1, 3, 130])
def test_columns_move(shape: tuple[int, ...], element: str, by: int, target: str) -> None:
    if element == "bf16" and target == "v5e":
        element = "f32"
    agree(shifted(shape, by, element), target)


@pytest.mark.parametrize(
    ("shape", "element"),
    [((4, 512), "f32"), ((2, 300), "f32"), ((3, 1, 640), "f32"), ((2, 6, 259), "bf16"),
     ((1, 384), "bf16"), ((4, 2, 1000), "bf16")],
    ids=str,
)  # fmt: skip
def test_rows_are_reduced_and_elements_converted(shape: tuple[int, ...], element: str) -> None:
    agree(centred(shape, element), "v5e")


def test_registers_are_full() -> None:
    """Two registers instead of four; a rotation of both tiles of one at once."""
    counts = counted(shifted((4, 513), 1, "f32"), "v6e")
    assert (counts["tpu.store"], counts["arith.addf"]) == (2, 2)
    assert counts["tpu.load"] == 3


def test_packed_registers_move_as_they_are() -> None:
    counts = counted(shifted((4, 259), 1, "bf16"), "v6e")
    assert counts["tpu.bitcast_vreg"] == 0
    assert counts["tpu.load"] + counts["tpu.store"] == 2


def test_a_reshape_fills_registers_that_are_stored() -> None:
    """Rows become columns of tiles of two rows, eight of which fill a register."""
    body = """%x = vector.load %a[%z, %z] : A, vector<32x128xi16>
    %y = vector.shape_cast %x : vector<32x128xi16> to vector<2x2048xi16>
    vector.store %y, %b[%z, %z] : B, vector<2x2048xi16>"""
    module = kernel(["32x128xi16", "2x2048xi16"], body)
    counts = counted(module, "v6e")
    assert counts["tpu.store"] == 2
    assert sum(n for name, n in counts.items() if name in _MOVING) <= 8
    agree(module, "v6e")


_MOVING = {
    "tpu.sublane_shuffle", "tpu.pack_subelements", "tpu.unpack_subelements", "arith.shrui",
    "arith.select", "tpu.dynamic_rotate",
}  # fmt: skip


@pytest.mark.parametrize(("first", "rows"), [(13, 4), (5, 2), (3, 12)])
def test_rows_are_stored_from_where_they_lie(first: int, rows: int) -> None:
    """Rows of two registers go into memory with two stores, and move nowhere."""
    body = f"""%x = vector.load %a[%z, %z, %z] : A, vector<6x32x128xf32>
    %n = arith.addf %x, %x : vector<6x32x128xf32>
    %y = vector.extract_strided_slice %n {{offsets = [2, {first}, 0], sizes = [3, {rows}, 48],
        strides = [1, 1, 1]}} : vector<6x32x128xf32> to vector<3x{rows}x48xf32>
    vector.store %y, %b[%z, %z, %z] : B, vector<3x{rows}x48xf32>
    vector.store %n, %c[%z, %z, %z] : C, vector<6x32x128xf32>"""
    module = kernel(["6x32x128xf32", f"3x{rows}x48xf32", "6x32x128xf32"], body)
    lowered = api.lower(module, "vreg", "v6e")
    assert not {op.name for op in lowered.walk()} & _MOVING


def test_memory_is_tiled_by_the_rows_that_are_accessed() -> None:
    """Rows that a loop takes fill registers together with those of the next columns."""
    part = "vector<8x512xbf16>"
    body = f"""%one = arith.constant 1 : i32
    %none = arith.constant 0 : i32
    %n = arith.constant 4 : i32
    %size = arith.constant 8 : i32
    scf.for %i = %none to %n step %one : i32 {{
      %p = arith.muli %i, %size : i32
      %r = arith.index_cast %p : i32 to index
      %x = vector.load %a[%r, %z] : A, {part}
      %y = arith.addf %x, %x : {part}
      vector.store %y, %b[%r, %z] : B, {part}
    }}"""
    module = kernel(["32x512xbf16"] * 2, body)
    assert counted(module, "v6e")["arith.addf"] == 2
    agree(module, "v6e")


@pytest.mark.aot
@pytest.mark.parametrize("target", ["v5e", "v6e"])
def test_the_compiler_takes_small_tiles(compiler: object, target: str) -> None:
    modules = [
        shifted((4, 259), 1, "f32" if target == "v5e" else "bf16"), shifted((2, 900), 130, "f32"),
        centred((2, 6, 259), "bf16"), centred((1, 384), "bf16"),
    ]  # fmt: skip
    for module in modules:
        verdict = compile_ahead_of_time(
            api.lower(module, "vreg", target), topology=get_target(target).topology,
            layout_passes=False, compiler=compiler,
        )  # fmt: skip
        assert verdict.accepted, verdict.message
