"""Types and attributes as text (spec/tpu_dialect.md sections 1 and 2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import MemRefType
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from pallasite.dialects import make_context
from pallasite.dialects.tpu import (
    DotDimensionNumbersAttr,
    ElementWindowAttr,
    Float8EXMYType,
    MemorySpaceAttr,
    TiledLayoutAttr,
)
from pallasite.layouts.tiling import Tiling

from ...jaxlib_context import mosaic_context

PRINTED = [
    "!tpu.semaphore",
    "!tpu.dma_semaphore",
    "!tpu.float8_exmy<f6E3M2FN>",
    "!tpu.float8_exmy<f32>",
    "vector<8x128x!tpu.float8_exmy<f4E2M1FN>>",
    "memref<2x!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>",
    "memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem, sc_scalar_subcore>>",
    "memref<16x256xbf16, #tpu.tiled<(16,128)(2,1),[2,1]>, #tpu.memory_space<vmem>>",
    "memref<16x256xf32, #tpu.tiled<,[256,1]>>",
    "#tpu.core_type<sc_vector_subcore>",
    "#tpu.pipeline_mode<synchronous>",
    "#tpu.revisit_mode<any>",
    "#tpu.dimension_semantics<core_parallel>",
    "#tpu.contract_precision<fp32>",
    "#tpu.pack_format<compressed>",
    "#tpu.reduction_kind<find_first_set>",
    "#tpu.rounding_mode<to_nearest_even>",
    "#tpu.memory_space<any>",
    "#tpu.memory_space<vmem, tc>",
    "#tpu.tiled<(8,128)(3,1),[2,1]>",
    "#tpu.dot_dimension_numbers<[2], [1], [1], [2], [0, 0, 0, 1, 1, 2], [0], [0]>",
    "#tpu.dot_dimension_numbers<[0], [0], [], [1], [1, 1], [], []>",
    "#tpu.element_window<[0, 0], [4, 0]>",
    "#tpu.element_window<[0], [1, 2]>",
    '#tpu.vpad<"32,{*,0},(8,128),-1">',
    '#tpu.vpad<"none">',
]

LOOSE = {
    "#tpu.tiled< (8, 128) ( 2,1 ) , [ 2, 1 ] >": "#tpu.tiled<(8,128)(2,1),[2,1]>",
    "#tpu.element_window<[0,0],[0,8]>": "#tpu.element_window<[0, 0], [0, 8]>",
    "#tpu<memory_space<vmem>>": "#tpu.memory_space<vmem>",
    "!tpu<semaphore>": "!tpu.semaphore",
}

MALFORMED = [
    "#tpu.memory_space<vram>",
    "#tpu.memory_space<vmem, cpu>",
    "#tpu.memory_space",
    "#tpu.tiled<(8,128)>",
    "#tpu.tiled<[2,1]>",
    "#tpu.dot_dimension_numbers<[], [0], [0], [1], [0, 0, 1, 1], [], []>",
    "#tpu.dot_dimension_numbers<[1], [0], [0], [1], [], [], []>",
    "#tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], []>",
    "#tpu.element_window<[], []>",
    "#tpu.reduction_kind<product>",
    "#tpu.vector_layout_dim<tiled>",
    "!tpu.float8_exmy<i8>",
    "!tpu.float8_exmy",
]

OURS_ONLY = ["#tpu.contract_precision<bf16x3>"] + [
    f"#tpu.reduction_kind<{kind}>" for kind in ("maxf", "minf", "maxsi", "minsi", "maxui", "minui")
]


def reparsed(text: str) -> str:
    return str(Parser(make_context(), text).parse_attribute())


@pytest.mark.parametrize("text", PRINTED + OURS_ONLY)
def test_round_trip(text: str) -> None:
    assert reparsed(text) == text


@pytest.mark.parametrize("text", LOOSE)
def test_loose_text(text: str) -> None:
    assert reparsed(text) == LOOSE[text]


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed(text: str) -> None:
    with pytest.raises((ParseError, VerifyException)):
        reparsed(text)


@pytest.mark.jax
@pytest.mark.parametrize("text", [*PRINTED, *LOOSE, *MALFORMED])
def test_jaxlib_agrees(text: str) -> None:
    ir = pytest.importorskip("jaxlib.mlir.ir")
    parse = ir.Type.parse if text[0] != "#" else ir.Attribute.parse
    with mosaic_context(), ir.Location.unknown():
        if text in MALFORMED:
            with pytest.raises(ir.MLIRError):
                parse(text)
        else:
            assert str(parse(text)) == LOOSE.get(text, text)


def test_parts_have_names() -> None:
    space = MemorySpaceAttr("vmem", "tc")
    assert (space.data, space.core_type) == ("vmem", "tc")
    assert MemorySpaceAttr("vmem").core_type is None
    window = ElementWindowAttr.of([0, 0], [4, 0])
    assert [n.value.data for n in window.high] == [4, 0]
    lists = ((1,), (0,), (0,), (1,), (0, 0, 1, 1), (), ())
    assert DotDimensionNumbersAttr.of(*lists).lists() == lists


def test_tiled_layout_is_its_affine_map() -> None:
    text = "memref<16x256xbf16, #tpu.tiled<(16,128)(2,1),[2,1]>>"
    memref = Parser(make_context(), text).parse_type()
    assert isinstance(memref, MemRefType) and isinstance(memref.layout, TiledLayoutAttr)
    tiling = memref.layout.tiling
    assert tiling == Tiling(((16, 128), (2, 1)), (2, 1))
    assert TiledLayoutAttr.of(tiling) == memref.layout
    affine = memref.layout.get_affine_map()
    for index in ((0, 0), (3, 5), (15, 255), (8, 128)):
        assert affine.eval(index, ()) == (tiling.offset(index),)
    assert memref.layout.get_strides() is None
    assert TiledLayoutAttr.of(Tiling((), (16, 1))).get_strides() == (16, 1)


@given(st.lists(st.integers(0, 63), max_size=16))
def test_small_floats_live_in_bytes(codes: list[int]) -> None:
    small = Parser(make_context(), "!tpu.float8_exmy<f6E3M2FN>").parse_type()
    assert isinstance(small, Float8EXMYType)
    assert (small.bitwidth, small.size, small.compile_time_size) == (8, 1, 1)
    values = small.unpack(bytes(codes), len(codes))
    assert small.pack(values) == bytes(codes)
