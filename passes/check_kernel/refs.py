"""Refuses illegal allocations, scalar accesses and views of refs.

A kernel's memory is its arguments, scratch and what `run_scoped` allocates. The scalar unit only
reaches SMEM. A view moves nothing, so it must not cut tiles. Each rule was asked of libtpu 0.0.51
for v5e and v6e.
"""

from __future__ import annotations

from math import prod
from typing import cast

from xdsl.dialects.builtin import IndexType, MemRefType, VectorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from pallasite.diagnostics import Unsupported
from pallasite.dialects import arith, memref, scf, tpu
from pallasite.dialects.in_words import in_words
from pallasite.dialects.kernel import Kernel
from pallasite.dialects.locations import refusal
from pallasite.dialects.pallas.scope import SCRATCH_ADVICE
from pallasite.dialects.tpu.views import is_contiguous, squeezed_dimensions
from pallasite.dialects.types import AnyMemRef, bit_width, memory_space, tiling_of
from pallasite.dialects.viewed import views_behind
from pallasite.layouts.registers import LANES, packing
from pallasite.layouts.tiling import Tiling, contiguous_strides, refolded
from pallasite.passes.check_kernel.elements import HELD
from pallasite.passes.check_kernel.reference_parts import tiles_of_part
from pallasite.passes.check_kernel.rules import RuleTable
from pallasite.passes.check_kernel.viewed_array import array_of
from pallasite.passes.divisibility import constant_of
from pallasite.passes.reference_tiles import VIEWS, rows_of_tiles
from pallasite.targets import Target

_NO_MEANING = (
    memref.AssumeAlignmentOp, memref.AtomicRMWOp, memref.CollapseShapeOp, memref.DmaStartOp,
    memref.DmaWaitOp, memref.ExpandShapeOp, memref.ExtractAlignedPointerAsIndexOp,
    memref.ExtractStridedMetaDataOp, memref.ReinterpretCastOp, memref.SubviewOp,
    memref.TransposeOp, memref.ViewOp,
)  # fmt: skip
_INSTEAD: dict[type[Operation], str] = {
    memref.AllocOp: "use pl.run_scoped or scratch_shapes, which are a memref.alloca",
    memref.DeallocOp: "memory is free again at the end of its pl.run_scoped",
    memref.CopyOp: "use pltpu.sync_copy, which is a DMA and a wait, or load and store the value",
    memref.SubviewOp: "use ref.at[...], which is a tpu.memref_slice",
    memref.CollapseShapeOp: "use ref.reshape(...), which is a tpu.memref_reshape",
    memref.ExpandShapeOp: "use ref.reshape(...), which is a tpu.memref_reshape",
}


def _absent(op: Operation, target: Target) -> None:
    """Refuses operations of MLIR on memrefs that Mosaic does not have."""
    raise refusal(
        op, "memref-operation", f"{in_words(op)} is not supported",
        "the TPU has buffers of fixed places and sizes, and DMAs between them",
        _INSTEAD.get(type(op), "use the operations that JAX emits: slices, reshapes, bitcasts"),
        f"the TPU compiler says: failed to legalize operation '{op.name}'",
    )  # fmt: skip


def _made(op: memref.AllocaOp, target: Target) -> None:
    """Refuses buffers outside of VMEM, SMEM and HBM, of semaphores, or of over 32 bits; booleans
    are only in SMEM."""
    kind = op.memref.type
    space, element = memory_space(kind), kind.element_type
    if isinstance(element, tpu.SemaphoreType | tpu.DMASemaphoreType) or space == "semaphore_mem":
        raise refusal(
            op, "memory-space", f"memref.alloca cannot make {kind}",
            "semaphores are registers of their own kind",
            "use pltpu.SemaphoreType in scratch_shapes or pl.run_scoped, a tpu.sem_alloc",
        )  # fmt: skip
    # libtpu 0.0.51 has none in HBM either, but JAX lowers pipelines over blocks there to them.
    if space not in (None, "vmem", "smem", "hbm"):
        raise refusal(
            op, "memory-space", f"a kernel cannot allocate memory in {space}",
            "the memory of a kernel is VMEM, SMEM and HBM; where `any` is, only the compiler knows",
            "pass an array as input or output, or use VMEM",
            "the TPU compiler says: Cannot allocate ref in non-VMEM/SMEM memory space",
        )  # fmt: skip
    bits = 64 if isinstance(element, IndexType) else bit_width(kind)
    if bits > 32 or (bits == 1 and space != "smem"):
        raise refusal(
            op, "element-width", f"a buffer of {element} is not supported",
            HELD,
            "use int32, and compare with 0" if bits == 1 else "use int32 or float32",
            f"the TPU compiler says: Unsupported bitwidth: {bits}",
        )  # fmt: skip


_ALLOCATED = ("vmem", "smem", "semaphore_mem", None)
"""Memory spaces of scratch; None, no memory space given, means VMEM."""


def check_scratch(kernel: Kernel) -> None:
    """Refuses scratch in HBM or `any`: a kernel only allocates in the memories of its core."""
    for number, argument in enumerate(kernel.scratch):
        if (space := memory_space(argument.type)) in _ALLOCATED:
            continue
        name = f"scratch {number}" + (f" (%{argument.name_hint})" if argument.name_hint else "")
        raise refusal(
            kernel.func,
            "scratch-space",
            f"{name} must be in VMEM, SMEM or semaphore memory, got {str(space).upper()}",
            "a kernel allocates in the memories of its core, the program in HBM",
            *SCRATCH_ADVICE,
            "the TPU compiler says: Scratch memref allocation only supported for vmem, "
            "smem and semaphore_mem.",
        )


def _scalar(op: memref.LoadOp | memref.StoreOp, target: Target) -> None:
    """Refuses scalar loads and stores outside of SMEM."""
    space = memory_space(op.memref.type)
    if space in ("smem", None):
        return
    verb = "stored to" if isinstance(op, memref.StoreOp) else "loaded from"
    there = "VMEM" if space == "vmem" else space
    raise refusal(
        op, "memory-space", f"a scalar cannot be {verb} {there}, only SMEM",
        "the scalar unit reaches no other memory",
        "load a vector and take its element, or store a vector" if space == "vmem"
        else "copy it to SMEM with a DMA",
        f"the TPU compiler says: Unsupported memory space: '{op.memref.type}'",
    )  # fmt: skip


def _other_space(op: memref.MemorySpaceCastOp, target: Target) -> None:
    """Refuses casts to another memory space, except from `any` to HBM."""
    source, result = (memory_space(value.type) for value in (op.operands[0], op.results[0]))
    if source != result and (source, result) != ("any", "hbm"):
        raise refusal(
            op, "memory-space", f"a ref in {source} cannot be seen as one in {result}",
            "a cast moves nothing", "copy it with a DMA",
            "the TPU compiler says: Only no-op casts are supported",
        )  # fmt: skip


def _size(op: memref.DimOp, target: Target) -> None:
    """Refuses `memref.dim` of a dimension that the ref does not have."""
    kind, dim = cast(AnyMemRef, op.source.type), constant_of(op.index)
    if dim is not None and not 0 <= dim < kind.get_num_dims():
        raise refusal(
            op, "out-of-bounds", f"{kind} has no dimension {dim}",
            f"its dimensions are numbered from 0 to {kind.get_num_dims() - 1}",
            "the TPU compiler says: Dimension index out of range",
        )  # fmt: skip


def _unplaced(op: memref.DimOp | memref.CastOp, target: Target) -> None:
    """Refuses operations on refs in `any` through which the compiler cannot track its choice."""
    if memory_space(op.operands[0].type) == "any":
        raise refusal(
            op, "memory-space", f"{in_words(op)} of a ref in any is not supported",
            "the TPU compiler decides where it is, and cannot follow it through this",
            "say hbm (pltpu.HBM), or use ref.shape, which is known",
            "the TPU compiler says: Failed to propagate a memory space change",
        )  # fmt: skip


def _unlaid(op: tpu.ReinterpretCastOp | tpu.AssumeLayoutOp, target: Target) -> None:
    """Refuses operations about layouts, which are not chosen yet in this form."""
    raise refusal(
        op, "view-layout", f"{op.name} is not supported before layouts are chosen",
        "it speaks of the layout of its operand in memory or registers",
        "use ref.reshape or ref.bitcast",
    )  # fmt: skip


def _squeezed(op: tpu.MemrefSqueezeOp, target: Target) -> None:
    """Refuses to squeeze a dimension of size 1 that is padded in memory: lanes, and packed rows."""
    source, result = op.input.type, op.result.type
    array = array_of(op.input, target)
    if array is None:
        return
    whole = array.type.get_shape()
    for dim in squeezed_dimensions(source.get_shape(), result.get_shape()) or ():
        back = len(whole) - array.dims[dim]
        if back == 1 or (back == 2 and packing(bit_width(array.type)) > 1):
            what = "lanes" if back == 1 else f"rows of {array.type.element_type}, which share words"
            raise refusal(
                op, "view-layout", f"dimension {dim} of {source} cannot be dropped",
                f"it is padded: an array lies in tiles of {LANES} lanes and of whole words",
                f"keep the dimension of {what}, on both sides of a transfer",
                f"the TPU compiler says: Dimension {dim} is padded but is squeezed",
            )  # fmt: skip


def _printed(op: tpu.LogBufferOp, target: Target) -> None:
    """Refuses to print buffers outside of VMEM."""
    space = memory_space(op.input.type)
    if space not in ("vmem", None):
        raise refusal(
            op, "memory-space", f"a buffer in {space} cannot be printed", "only VMEM is",
            "copy it to VMEM first", "the TPU compiler says: LogBufferOp must have a VMEM memory "
            "space",
        )  # fmt: skip


def _reshaped(op: tpu.MemrefReshapeOp, target: Target) -> None:
    """Refuses reshapes of refs that would move elements in memory.

    Legal are reshapes of arrays of one column of tiles whose rows are adjacent, and those that keep
    tiles whole. A block of 32-bit words in one column of tiles may be tiled by single rows; if the
    kernel allocates it, there is no padding between them. A bitcast ref keeps the tiles of its
    array, and so does a slice of packed rows. A ref that is only transferred may have tiles of
    words with rows in several dimensions.
    """
    kinds, views = (op.input.type, op.result.type), list(views_behind(op.input, *VIEWS))
    block = cast(SSAValue[AnyMemRef], views[-1].operands[0]) if views else op.input
    part = any(not isinstance(view, tpu.MemrefBitcastOp) for view in views)
    own_buffer = isinstance(block.owner, memref.AllocaOp)
    if not (own_buffer or isinstance(block, BlockArgument)) or tiling_of(kinds[0]) is not None:
        return
    old, new = (kind.get_shape() for kind in kinds)
    if min(len(old), len(new)) < 2 or -1 in (*old, *new):
        return
    bits, rows = bit_width(kinds[0]), block.type.get_shape()[-2]
    own = rows_of_tiles(block, target)
    by_rows = bit_width(block.type) == 32 and old[-1] <= LANES
    tile = packing(bits) if by_rows else own * bit_width(block.type) // bits
    if part:
        rows_of_part = _reshaped_part(op, target)
        if rows_of_part is None:
            return
        tile = rows_of_part
    elif by_rows and rows % own and prod(old[:-2]) > 1 and not own_buffer:
        raise _not_reshaped(op, f"rows of 32-bit words are padded to tiles of {own} rows")
    if bits == 32 and tile == 1:
        if old[-1] != new[-1] and (old[-1] % LANES or new[-1] % LANES):
            raise _not_reshaped(op, "rows of 32-bit words are padded to 128 columns")
        return
    _check_tiles_stay(op, tile)


def _reshaped_part(op: tpu.MemrefReshapeOp, target: Target) -> int | None:
    """The rows of a tile of the part of an array that `op` reshapes; None if nothing else needs to
    be checked. Refuses parts whose tiles would be taken apart."""
    old, new = op.input.type.get_shape(), op.result.type.get_shape()
    tiles = tiles_of_part(op.input, target)
    if tiles is None:
        return None
    if len(tiles.first) > 2:
        if is_contiguous(tiles, old) and refolded(tiles, old, new) is None:
            raise _not_reshaped(op, f"its tiles of {tiles.first} would not stay whole")
        return None
    if not is_contiguous(tiles, old):
        raise _not_reshaped(op, "the tiles of the part do not follow each other")
    return tiles.tile_of(len(old) - 2)


def _check_tiles_stay(op: tpu.MemrefReshapeOp, tile: int) -> None:
    """Refuses a reshape that cuts tiles of `tile` rows."""
    old, new = op.input.type.get_shape(), op.result.type.get_shape()
    same_rows = old[-2] == new[-2] or (old[-2] % tile == 0 and new[-2] % tile == 0)
    tiles = Tiling(((tile, LANES),), contiguous_strides(old, (tile, LANES)))
    evenly = bit_width(op.input.type) == 32 and refolded(tiles, old, new) is not None
    stays = old[-1] == new[-1] and same_rows
    if not stays and (not evenly or _is_accessed(op.result)):
        raise _not_reshaped(
            op, f"its tiles have {tile} rows and {LANES} columns, and none may be cut"
        )


def _is_accessed(view: SSAValue) -> bool:
    """Whether vectors of `view`, or of what is seen of it, are loaded or stored."""
    for use in view.uses:
        op = use.operation
        if not isinstance(op, tpu.EnqueueDmaOp | tpu.WaitDma2Op | tpu.WaitDmaOp):
            if not op.results or isinstance(op.results[0].type, VectorType):
                return True
            if any(_is_accessed(result) for result in op.results):
                return True
    return False


def _not_reshaped(op: tpu.MemrefReshapeOp, reason: str) -> Unsupported:
    old, new = (list(kind.get_shape()) for kind in (op.input.type, op.result.type))
    return refusal(
        op, "view-layout",
        f"a ref of {op.input.type.element_type} of shape {old} cannot be reshaped to {new}",
        f"memory is not moved: {reason}", "load the whole ref and reshape its value",
    )  # fmt: skip


def _chosen(op: Operation, target: Target) -> None:
    """Where a ref lies, and in which tiles, is known before the kernel runs."""
    kind = next((r.type for r in op.results if isinstance(r.type, MemRefType)), None)
    if kind is not None:
        raise refusal(
            op, "chosen-ref", f"{in_words(op)} gives a ref, {kind}, that only the running "
            "kernel knows",
            "accesses are compiled for the memory and the tiles of one ref",
            "branch around the loads and stores, or choose a part of one ref by a computed index",
            "the TPU compiler says: Failed to propagate the layout to all operations",
        )  # fmt: skip


_CHOICES = (arith.SelectOp, scf.IfOp, scf.ForOp, scf.WhileOp, scf.IndexSwitchOp)
REF_RULES: RuleTable = {
    **dict.fromkeys(_CHOICES, (_chosen,)),
    **dict.fromkeys(_NO_MEANING, (_absent,)),
    memref.MemorySpaceCastOp: (_other_space,),
    memref.DimOp: (_size,),
}
REF_REFERENCE_RULES: RuleTable = {
    **dict.fromkeys((memref.AllocOp, memref.DeallocOp, memref.CopyOp), (_absent,)),
    **dict.fromkeys((memref.LoadOp, memref.StoreOp), (_scalar,)),
    **dict.fromkeys((memref.DimOp, memref.CastOp), (_unplaced,)),
    **dict.fromkeys((tpu.ReinterpretCastOp, tpu.AssumeLayoutOp), (_unlaid,)),
    memref.AllocaOp: (_made,),
    tpu.MemrefSqueezeOp: (_squeezed,),
    tpu.MemrefReshapeOp: (_reshaped,),
    tpu.LogBufferOp: (_printed,),
}
"""What the TPU compiler refuses and we could do: `--allow-beyond-reference` lifts these."""
