"""How the TPU compiler tiles arrays that do not say it themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from pallasite.dialects import memref, tpu
from pallasite.dialects.func import FuncOp
from pallasite.dialects.kernel import describe_kernel
from pallasite.dialects.kernel_call import call_of
from pallasite.dialects.types import AnyMemRef, bit_width, memory_space, tiling_of
from pallasite.dialects.viewed import viewed
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.layouts.tiling import Tiling, infer_tiling, packed_tiling
from pallasite.targets import Target

VIEWS = (tpu.MemrefSliceOp, tpu.MemrefSqueezeOp, tpu.MemrefBitcastOp, tpu.MemrefReshapeOp)


def tile_rows(rows: int, bits: int, *, large_halves: bool = False) -> int:
    """Rows of a tile of an array with `rows` rows, as the compiler's proofs demand it.

    Asked of libtpu 0.0.51 for v4 to v7x: whole registers of 8-bit and narrower types where they
    divide the rows, else 8 rows, else the power of two that holds them all. `large_halves` is said
    of 16-bit types, too, in the buffers that have them (`has_large_halves`).
    """
    packed = packing(bits)
    normal = max(SUBLANES, packed)
    large = SUBLANES * packed
    if (bits <= 8 or (bits == 16 and large_halves)) and rows % large == 0:
        return large
    size = packed
    while size < min(rows, normal):
        size *= 2
    return min(size, normal)


_SMEM_BITS = 4096
"""Flat buffers in SMEM take whole multiples of 128 words (asked of libtpu 0.0.51)."""
_FEW_COLUMNS = 16
"""Arrays of fewer columns have tiles of 8 rows in scalar memory, as XLA lays them out."""


def smem_tiling(kind: MemRefType[Attribute], *, argument: bool = False) -> Tiling:
    """The tiling of an array in scalar memory, which has to be that of the compiler; `argument`
    says that XLA puts it there.

    Asked of libtpu 0.0.51 in registers: it does not change the tiling on the way to SMEM.
    """
    shape, bits = kind.get_shape(), bit_width(kind)
    if len(shape) < 2 or bits > 8 or (argument and shape[-1] < _FEW_COLUMNS):
        return infer_tiling(shape, bits)
    return packed_tiling(shape, (tile_rows(shape[-2], bits), LANES), bits)


def block_bytes(type: Attribute, target: Target) -> int:
    """The bytes that a buffer of memref type `type` occupies, padding included."""
    memref = cast(AnyMemRef, type)
    shape, bits = memref.get_shape(), bit_width(memref)
    if len(shape) == 1 and memory_space(memref) == "smem":
        return -(-shape[0] * bits // _SMEM_BITS) * _SMEM_BITS // 8
    tiling: Tiling = tiling_of(memref) or infer_tiling(
        shape, bits, large_halves=target.large_buffer_halves
    )
    return -(-tiling.elements(shape) * bits // 8)


def retiled_rows(array: Sequence[int], block: Sequence[int], bits: int) -> tuple[int, int] | None:
    """The rows of a tile of an array and of a block of it, if the way to SMEM would change them."""
    if len(array) < 2 or len(block) < 2 or array[-1] < _FEW_COLUMNS:
        return None
    rows = tile_rows(array[-2], bits), tile_rows(block[-2], bits)
    return None if rows[0] == rows[1] else rows


def rows_of_tiles(array: SSAValue, target: Target) -> int:
    """Rows of a tile of the array that `array` is, or is a view of, as it was before it was seen as
    another type.

    XLA lays out what a kernel gets and gives: in larger tiles only arrays of at least 16 columns
    whose rows these divide, whatever the blocks (asked of libtpu 0.0.51 for v5e).
    """
    array = viewed(array, *VIEWS)
    kind = cast("MemRefType[Attribute]", array.type)
    shape, bits = kind.get_shape(), bit_width(kind)
    rows = tile_rows(shape[-2], bits, large_halves=has_large_halves(array, target))
    if bits > 8 or rows <= SUBLANES or _buffer(array) is not None:
        return rows
    whole = _array_of_call(array)
    if whole is None or len(whole) < 2:
        return rows
    return SUBLANES if whole[-1] < _FEW_COLUMNS else min(rows, tile_rows(whole[-2], bits))


def _array_of_call(argument: SSAValue) -> Sequence[int] | None:
    """The shape of the array that a kernel's argument is, or has blocks of, if the call says it."""
    if not isinstance(argument, BlockArgument):
        return None
    function = argument.owner.parent_op()
    module = function.parent_op() if isinstance(function, FuncOp) else None
    call = call_of(module) if isinstance(module, ModuleOp) else None
    if call is None or not isinstance(function, FuncOp):
        return None
    operands, types = describe_kernel(function).operands, (*call.operands, *call.results)
    number = next((n for n, operand in enumerate(operands) if operand is argument), None)
    place = len(types) - len(operands) + (number or 0)
    return None if number is None or place < 0 else types[place].get_shape()


def has_large_halves(array: SSAValue, target: Target) -> bool:
    """Whether 16-bit rows of `array`, or of what it is a view of, lie in whole registers.

    Newer compilers tile so what the kernel has for itself, but no inputs and outputs.
    """
    return _buffer(array) in target.large_half_tiles


def _buffer(array: SSAValue) -> Literal["scratch", "scoped"] | None:
    """Which buffer of the kernel's own `array` is a view of; None for inputs and outputs."""
    array = viewed(array, *VIEWS)
    owner = array.owner
    if isinstance(owner, Operation):
        return "scoped" if isinstance(owner, memref.AllocaOp) else None
    function = owner.parent_op()
    count = function.attributes.get("scratch_operands") if isinstance(function, FuncOp) else None
    if not isinstance(count, IntegerAttr) or not isinstance(array.type, MemRefType):
        return None
    arguments = list(owner.args)
    own = arguments[len(arguments) - count.value.data :]
    return "scratch" if any(array is argument for argument in own) else None
