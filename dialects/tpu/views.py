"""Views of memory: slices, reshapes and casts of memrefs, none of which moves data."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX, NoneAttr, i32
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.tpu.attrs import TiledLayoutAttr
from pallasite.dialects.tpu.base import (
    ANY,
    MEMREF,
    HasCanonicalForms,
    TpuOp,
    UnaryOp,
    check_element_types,
    check_widths,
    operand,
    operands,
    optional_operand,
)
from pallasite.dialects.tpu.cores import in_space
from pallasite.dialects.tpu.types import DMASemaphoreType, SemaphoreType
from pallasite.dialects.types import AnyMemRef, bit_width
from pallasite.layouts.tiling import Tiling, refolded

NO_ATTR = NoneAttr()
SEMAPHORES = (SemaphoreType, DMASemaphoreType)


@irdl_op_definition
class MemrefSliceOp(TpuOp):
    """The box of a memref that starts at the given element offsets.

    `tpu.memref_slice %m[%i, %j] <%n> : memref<64x128xf32> -> memref<?x128xf32>`; one dynamic size
    per unknown dimension of the result.
    """

    name = "tpu.memref_slice"

    mem_ref = operand(MEMREF)
    base_idx = operands(i32)
    dynamic_sizes = operands(i32)
    result = result_def(MEMREF)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure(), HasCanonicalForms())
    assembly_format = (
        "$mem_ref `[` $base_idx `]` (`<` $dynamic_sizes^ `>`)? attr-dict"
        " `:` type($mem_ref) `->` type($result)"
    )

    def verify_(self) -> None:
        source, result = self.mem_ref.type, self.result.type
        if DYNAMIC_INDEX in source.get_shape():
            raise VerifyException(f"expected a memref of static shape, got {source}")
        check_dynamic_sizes(self.dynamic_sizes, result)
        if in_space(source, "semaphore_mem") and not isinstance(source.element_type, SEMAPHORES):
            raise VerifyException(f"expected semaphores in semaphore memory, got {source}")
        ranks = (len(self.base_idx), result.get_num_dims(), source.get_num_dims())
        if len(set(ranks)) != 1:
            raise VerifyException(
                "expected as many indices as result and source dimensions, "
                f"got {ranks[0]}, {ranks[1]} and {ranks[2]}"
            )
        check_memory_space(source, result)
        check_both_tiled(source, result)
        if isinstance(layout := source.layout, TiledLayoutAttr):
            tile = layout.tiling.first
            if len(tile) > source.get_num_dims():
                raise VerifyException(f"expected tiles of at most the rank of {source}, got {tile}")


class View(UnaryOp, ABC):
    """The memory of `input`, all of it, under another type."""

    input = operand(MEMREF)
    result = result_def(MEMREF)

    traits = traits_def(Pure())


@irdl_op_definition
class MemrefSqueezeOp(View):
    """The same memory without some dimensions of size 1."""

    name = "tpu.memref_squeeze"

    traits = traits_def(HasCanonicalForms())

    def verify_(self) -> None:
        source, result = self.input.type, self.result.type
        check_memory_space(source, result)
        check_element_types(source, result)
        squeezed = squeezed_dimensions(source.get_shape(), result.get_shape())
        if squeezed is None or (not squeezed and source.get_shape() != result.get_shape()):
            raise VerifyException(f"expected {source} without dimensions of size 1, got {result}")
        check_both_tiled(source, result)
        if not squeezed or not isinstance(source.layout, TiledLayoutAttr):
            return
        tiling = source.layout.tiling
        first_tiled = source.get_num_dims() - len(tiling.first)
        for dim in squeezed:
            if dim >= first_tiled and (len(tiling.tiles) > 1 or tiling.tile_of(dim) != 1):
                raise VerifyException(
                    f"expected dropped dimensions that are not tiled, got {dim} of {source}"
                )


@irdl_op_definition
class MemrefReshapeOp(View):
    """The same memory under another shape of as many elements."""

    name = "tpu.memref_reshape"

    def verify_(self) -> None:
        source, result = self.input.type, self.result.type
        check_memory_space(source, result)
        shapes = source.get_shape(), result.get_shape()
        if min(map(len, shapes)) < 2:
            raise VerifyException(f"expected ranks of at least 2, got {source} and {result}")
        check_element_types(source, result)
        if prod(shapes[0]) != prod(shapes[1]):
            raise VerifyException(f"expected as many elements, got {source} and {result}")
        if isinstance(source.layout, NoneAttr) and isinstance(result.layout, NoneAttr):
            return
        if not (
            isinstance(source.layout, TiledLayoutAttr)
            and isinstance(result.layout, TiledLayoutAttr)
        ):
            raise VerifyException(f"expected tiled layouts, got {source} and {result}")
        check_tiled_reshape(source.layout.tiling, result.layout.tiling, *shapes)


@irdl_op_definition
class MemrefBitcastOp(View):
    """The same memory read as another element type, which scales the second minor dimension."""

    name = "tpu.memref_bitcast"

    traits = traits_def(HasCanonicalForms())

    def verify_(self) -> None:
        source, result = self.input.type, self.result.type
        check_memory_space(source, result)
        check_widths(source, result)
        shapes = source.get_shape(), result.get_shape()
        if len(shapes[0]) != len(shapes[1]) or len(shapes[0]) < 2:
            raise VerifyException(f"expected equal ranks of at least 2, got {source} and {result}")
        widths = bit_width(source), bit_width(result)
        for dim, (n, m) in enumerate(zip(*shapes, strict=True)):
            if dim == len(shapes[0]) - 2 and DYNAMIC_INDEX not in (n, m):
                n, m = n * widths[0], m * widths[1]
            if n != m:
                raise VerifyException(
                    f"expected equal sizes in bits of dimension {dim}, got {source} and {result}"
                )
        if not isinstance(result.layout, TiledLayoutAttr):
            return
        if not isinstance(source.layout, TiledLayoutAttr):
            raise VerifyException(f"expected a tiled source for a tiled result, got {source}")
        tiles = source.layout.tiling.first, result.layout.tiling.first
        if all(tiles) and tiles[0][0] * widths[0] != tiles[1][0] * widths[1]:
            raise VerifyException(
                f"expected tiles of as many bits in the first dimension, got {tiles[0]} of "
                f"{widths[0]}-bit and {tiles[1]} of {widths[1]}-bit elements"
            )


@irdl_op_definition
class ReinterpretCastOp(TpuOp):
    """The same memory, from an offset in elements of the result, under any other type."""

    name = "tpu.reinterpret_cast"

    input = operand(MEMREF)
    dynamic_offset = optional_operand(i32)
    dynamic_sizes = operands(i32)
    result = result_def(MEMREF)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())
    assembly_format = (
        "$input ($dynamic_offset^)? (`<` $dynamic_sizes^ `>`)? attr-dict"
        " `:` type($input) `->` type($result)"
    )

    def verify_(self) -> None:
        source, result = self.input.type, self.result.type
        if source.memory_space != result.memory_space:
            raise VerifyException(f"expected one memory space, got {source} and {result}")
        check_dynamic_sizes(self.dynamic_sizes, result)


@irdl_op_definition
class EraseMemrefLayoutOp(TpuOp):
    """The same memref with the layout left out of its type; readers look through it."""

    name = "tpu.erase_memref_layout"

    operand = operand(MEMREF)
    result = result_def(MEMREF)

    traits = traits_def(Pure(), HasCanonicalForms())
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    def verify_(self) -> None:
        check_element_types(self.operand.type, self.result.type)
        check_memory_space(self.operand.type, self.result.type)


@irdl_op_definition
class AssumeLayoutOp(UnaryOp):
    """Its operand; a marker of layout passes."""

    name = "tpu.assume_layout"

    input = operand(ANY)
    result = result_def(ANY)

    traits = traits_def(Pure())


@irdl_op_definition
class InternalScratchOp(TpuOp):
    """A piece of memory that the compiler reserves for itself."""

    name = "tpu.internal_scratch"

    result = result_def(MEMREF)

    assembly_format = "attr-dict `:` type($result)"


def check_dynamic_sizes(sizes: Sequence[SSAValue], result: AnyMemRef) -> None:
    """One run-time size per unknown dimension of the result."""
    if len(sizes) != result.get_shape().count(DYNAMIC_INDEX):
        raise VerifyException(
            f"expected one size per dynamic dimension of {result}, got {len(sizes)}"
        )


def check_memory_space(source: AnyMemRef, result: AnyMemRef) -> None:
    """The result says nothing of its memory, or that it is the source's."""
    if result.memory_space not in (source.memory_space, NO_ATTR):
        raise VerifyException(f"expected one memory space, got {source} and {result}")


def check_both_tiled(source: AnyMemRef, result: AnyMemRef) -> None:
    """Both layouts are tiled or neither is."""
    if isinstance(source.layout, TiledLayoutAttr) != isinstance(result.layout, TiledLayoutAttr):
        raise VerifyException(f"expected both layouts tiled or neither, got {source} and {result}")


def squeezed_dimensions(source: Sequence[int], result: Sequence[int]) -> list[int] | None:
    """The dimensions of `source` that `result` lacks, minor first; None if it is no squeeze.

    Equal dimensions are paired first, from minor to major.
    """
    squeezed: list[int] = []
    dimension = len(result) - 1
    for dim in reversed(range(len(source))):
        if dimension >= 0 and source[dim] == result[dimension]:
            dimension -= 1
        elif source[dim] == 1:
            squeezed.append(dim)
        else:
            return None
    return squeezed if dimension < 0 else None


def check_tiled_reshape(
    source: Tiling, result: Tiling, source_shape: Sequence[int], result_shape: Sequence[int]
) -> None:
    """A reshape leaves whole tiles where they are (spec/tpu_dialect.md 3.1), or whole boxes of
    them."""
    if source.tiles != result.tiles and is_contiguous(source, source_shape):
        if refolded(source, source_shape, result_shape) == result:
            return
    if source.tiles != result.tiles:
        raise VerifyException(f"expected equal tiles, got {source} and {result}")
    tile = source.first
    if not tile:
        return
    if len(tile) != 2:
        raise VerifyException(f"expected a tile of rank 2, got {source}")
    if not (is_contiguous(source, source_shape) and is_contiguous(result, result_shape)):
        raise VerifyException(f"expected contiguous tiles, got {source} and {result}")
    minors = source_shape[-1], result_shape[-1]
    if tile[0] == 1 and not minors[0] % tile[1] and not minors[1] % tile[1]:
        return
    rows = source_shape[-2], result_shape[-2]
    if minors[0] != minors[1]:
        raise VerifyException(f"expected the minor dimension to stay, got {minors[0]}, {minors[1]}")
    if rows[0] != rows[1] and (rows[0] % tile[0] or rows[1] % tile[0]):
        raise VerifyException(
            f"expected second minor sizes that tile {tile} divides, got {rows[0]}, {rows[1]}"
        )


def is_contiguous(tiling: Tiling, shape: Sequence[int]) -> bool:
    """Whether the tiles of an array of `shape` are known to follow each other without gaps."""
    expected: int | None = 1
    for dim in reversed(range(len(shape))):
        size, tile = shape[dim], tiling.tile_of(dim)
        count = None if size == DYNAMIC_INDEX else -(-size // tile)
        if count != 1 and tiling.strides[dim] != expected:
            return False
        expected = None if count is None or expected is None else expected * count
    return True


OPERATIONS = (
    MemrefSliceOp,
    MemrefSqueezeOp,
    MemrefReshapeOp,
    MemrefBitcastOp,
    ReinterpretCastOp,
    EraseMemrefLayoutOp,
    AssumeLayoutOp,
    InternalScratchOp,
)
