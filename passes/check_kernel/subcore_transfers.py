"""Refuses transfers (copies, gathers and scatters) that subcores cannot make, for `check-kernel`.

The rules were found by asking libtpu 0.0.51 for v7x and v6e about every pair of memory spaces,
element types, sizes and offsets of slices, with `use_tc_tiling_on_sc` on and off. In this file
`compact` is that option: arrays are tiled as on a TensorCore. Each check raises `Unsupported` with
the code `subcore-transfer` and quotes what libtpu says.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from pallasite.dialects import tpu
from pallasite.dialects.locations import refusal
from pallasite.dialects.tpu.cores import SCALAR_SUBCORE, own_core
from pallasite.dialects.tpu.dma import is_gather
from pallasite.dialects.types import AnyMemRef, bit_width, memory_space, shape_of
from pallasite.dialects.viewed import PARTS, viewed
from pallasite.layouts.registers import LANES, packing
from pallasite.passes.divisibility import remainder

_HBM = ("hbm", "any", "host", None)
"""Memory spaces that lie in HBM or the host; None is an operand's space that nobody named."""
_FROM_SMEM = {SCALAR_SUBCORE: ("hbm", "smem")}
"""Memory spaces to which the transfers of a kind of subcore may copy from SMEM.

A vector subcore, which is not listed, cannot copy from SMEM at all.
"""
_TO_SMEM = {SCALAR_SUBCORE: ("hbm", "smem", "vmem_shared")}
"""Memory spaces from which the transfers of a kind of subcore may copy to SMEM.

A vector subcore, which is not listed, copies to SMEM from shared memory only.
"""

_LINEAR = "compile with pltpu.CompilerParams(use_tc_tiling_on_sc=False)"


def check_copy(op: tpu.EnqueueDmaOp) -> None:
    """Refuses a DMA between memories that the engine of the subcore does not connect, or of rows
    that are not whole words of 32 bits."""
    core = own_core(op)
    source, target = memory_space(op.source.type), memory_space(op.target.type)
    from_smem = source != "smem" or target in _FROM_SMEM.get(core, ())
    to_smem = target != "smem" or source in _TO_SMEM.get(core, ("vmem_shared",))
    if not (from_smem and to_smem):
        kind = "scalar" if core == SCALAR_SUBCORE else "vector"
        raise refusal(
            op, "subcore-transfer",
            f"a {kind} subcore cannot copy from {source} to {target}",
            "the TPU compiler says: SparseCore does not support transfers ... issued from "
            + ("SCS" if core == SCALAR_SUBCORE else "TEC"),
            "copy to VMEM, and take scalars out of registers: ref[pl.ds(0, lanes)][0]"
            if core != SCALAR_SUBCORE
            else "copy to HBM, and from there to what the subcores share",
        )  # fmt: skip
    _check_words(op, op.source.type)


def _check_words(op: Operation, type: AnyMemRef) -> None:
    """Refuses a copy of narrow elements whose last dimension does not fill whole words.

    For example 6 elements of bfloat16 make 3 words, 7 do not. A dynamic size is not refused.
    """
    bits, row = bit_width(type.element_type), shape_of(type)[-1:]
    if bits >= 32 or not row or row[0] < 0 or row[0] * bits % 32 == 0:
        return
    raise refusal(
        op, "subcore-transfer",
        f"a copy of rows of {row[0]} x {type.element_type} on a subcore",
        "the TPU compiler says: The contiguous inner slice in the DMA transfer must be divisible "
        "by 4 bytes",
        f"copy a multiple of {packing(bits)} elements",
    )  # fmt: skip


def check_slice(op: tpu.MemrefSliceOp, compact: bool) -> None:
    """Refuses a slice of narrow elements in tiled HBM that may cut a tile.

    libtpu: "Offsets along tiled dimensions must be aligned to tiles". In an array of one dimension,
    offset and size must be multiples of 128 words. In an array of several dimensions, `packing`
    rows share each word, so that offset and size in the last but one dimension must be multiples of
    `packing`. An offset counts if it is known to be such a multiple (`divisibility.remainder`).
    """
    array, part = op.mem_ref.type, shape_of(op.result.type)
    bits = bit_width(array.element_type)
    if not compact or bits >= 32 or memory_space(array) not in _HBM:
        return
    whole = shape_of(array)
    dim, unit = (0, LANES * packing(bits)) if len(whole) == 1 else (len(whole) - 2, packing(bits))
    if part[dim] == whole[dim]:
        return
    if remainder(op.base_idx[dim], unit) == 0 and part[dim] % unit == 0:
        return
    raise refusal(
        op, "subcore-transfer",
        f"a part of {array} on a subcore that is not known to begin and end at a multiple of "
        f"{unit} in dimension {dim}",
        "the TPU compiler says: Offsets along tiled dimensions must be aligned to tiles",
        f"take parts at multiples of {unit} (pl.multiple_of), or {_LINEAR}",
    )  # fmt: skip


def check_bitcast(op: tpu.MemrefBitcastOp, compact: bool) -> None:
    """Refuses a bitcast of a ref to wider elements when arrays are not tiled as on a TensorCore.

    Elements of one word then lie in one row, side by side, while a bitcast joins elements of rows
    one below another. A bitcast back of words that were seen as narrower elements is accepted.
    libtpu: "Input 2nd minor interleaving tile bits not a multiple of result bitwidth".
    """
    old, new = bit_width(op.input.type.element_type), bit_width(op.result.type.element_type)
    if compact or new <= old or _interleaved(op.input):
        return
    raise refusal(
        op, "subcore-transfer",
        f"a bitcast of {op.input.type} to {op.result.type.element_type} on a subcore",
        "the TPU compiler says: Input 2nd minor interleaving tile bits not a multiple of result "
        "bitwidth",
        "compile with pltpu.CompilerParams(use_tc_tiling_on_sc=True), or bitcast values "
        "(plsc.bitcast)",
    )  # fmt: skip


def _interleaved(ref: SSAValue) -> bool:
    """Whether `ref` is a bitcast of wider elements to narrower ones, or a slice of such a ref."""
    owner = viewed(ref, *PARTS).owner
    if not isinstance(owner, tpu.MemrefBitcastOp):
        return False
    return bit_width(owner.result.type.element_type) < bit_width(owner.input.type.element_type)


def check_interleaved(op: tpu.EnqueueDmaOp, compact: bool) -> None:
    """Refuses a DMA of which only one end is words seen as narrower elements, without a
    TensorCore's tiling.

    libtpu: "Source and target trailing tiles differ".
    """
    if compact or _interleaved(op.source) == _interleaved(op.target):
        return
    raise refusal(
        op, "subcore-transfer",
        "a copy between words seen as narrower elements and another array on a subcore",
        "the TPU compiler says: Not implemented: Source and target trailing tiles differ",
        "copy the words, or compile with pltpu.CompilerParams(use_tc_tiling_on_sc=True)",
    )  # fmt: skip


def check_indirect(op: tpu.EnqueueIndirectDmaOp, compact: bool) -> None:
    """Refuses a gather or scatter that the engine does not have.

    A scatter adds to shared memory only, not to HBM. With a TensorCore's tiling, elements have 32
    bits and the rows that are moved in HBM are multiples of 128 elements.
    """
    gathers = is_gather(op.source.type, op.target.type)
    array = op.source.type if gathers else op.target.type
    space, bits = memory_space(array), bit_width(array.element_type)
    if op.add.value.data and not gathers and space in _HBM:
        raise refusal(
            op, "subcore-transfer", "an indirect copy cannot add to HBM",
            "the TPU compiler says: Scatter with add is only supported into spmem or tile_spmem",
            "add to pltpu.VMEM_SHARED, and copy that to HBM after plsc.subcore_barrier()",
        )  # fmt: skip
    if not compact:
        return
    if bits != 32:
        raise refusal(
            op, "subcore-transfer",
            f"an indirect copy of elements of type {array.element_type}",
            "the TPU compiler says: only 32-bit elements are supported",
            f"bitcast to int32, or {_LINEAR}",
        )  # fmt: skip
    rank = len(shape_of(op.offsets.type))
    row = shape_of(array)[rank:]
    if space in _HBM and row and row[-1] % LANES:
        raise refusal(
            op, "subcore-transfer",
            f"an indirect copy of rows of {row[-1]} elements of HBM",
            f"rows of arrays in HBM are tiled by {LANES} words there",
            f"take rows of a multiple of {LANES}, or {_LINEAR}",
        )  # fmt: skip
