"""Packed buffers are tiled as arrays in HBM are, where their rows then take fewer registers.

36x256 of bf16 are 3x2 tiles of 16 rows, each a register, or 5x2 tiles of 8 rows, two of which fill
one. Transfers then find the same tiles on both sides. Only buffers that are transferred, loaded and
stored whole are tiled so, and only if all of that becomes work on rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from pallasite.dialects import func, memref, tpu, vector
from pallasite.dialects.types import AnyMemRef, bit_width, memory_space, tiling_of
from pallasite.dialects.walking import of_kind
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.layouts.tiling import Tiling, infer_tiling, native_tiling
from pallasite.passes.fill_registers.islands import STORES
from pallasite.passes.laid_out import laid_out

_ACCESSES = (vector.LoadOp, *STORES)
_TRANSFERS = (tpu.EnqueueDmaOp, tpu.WaitDma2Op)


def tile_as_in_hbm(
    function: func.FuncOp, rewritten: Callable[[func.FuncOp], set[Operation]]
) -> None:
    """Tiles buffers of `function` anew. `rewritten` gives the operations that become work on rows,
    as memory is tiled at the moment."""
    tiled: list[SSAValue] = []
    for op in list(of_kind(function, memref.AllocaOp)):
        if (tiling := _fewer(op.results[0])) is not None:
            tiled.append(_with_tiling(op.results[0], tiling))
    while tiled:
        works = rewritten(function)
        kept = [buffer for buffer in tiled if works.issuperset(_accesses(buffer))]
        if len(kept) == len(tiled):
            return
        for buffer in tiled:
            if buffer not in kept:
                kind = cast(AnyMemRef, buffer.type)
                _with_tiling(buffer, native_tiling(kind.get_shape(), bit_width(kind)))
        tiled = kept


def _fewer(buffer: SSAValue) -> Tiling | None:
    """The tiling of HBM for `buffer`, if its rows then take fewer registers than in native tiles,
    which it has, and nothing else than whole accesses would notice."""
    kind = cast(AnyMemRef, buffer.type)
    shape, bits = kind.get_shape(), bit_width(kind)
    if memory_space(kind) != "vmem" or len(shape) < 2 or bits >= 32:
        return None
    native, wanted = native_tiling(shape, bits), infer_tiling(shape, bits)
    if tiling_of(kind) != native or wanted.first[-2] >= native.first[-2]:
        return None
    rows, columns = shape[-2:]
    registers = -(-wanted.padded(shape)[-2] * -(-columns // LANES) // (SUBLANES * packing(bits)))
    if registers >= -(-rows // native.first[-2]) * -(-columns // LANES):
        return None
    users = [use.operation for use in buffer.uses]
    return wanted if all(isinstance(op, (*_ACCESSES, *_TRANSFERS)) for op in users) else None


def _accesses(buffer: SSAValue) -> Iterator[Operation]:
    """The loads and stores of `buffer`."""
    for use in buffer.uses:
        if isinstance(use.operation, _ACCESSES):
            yield use.operation


def _with_tiling(buffer: SSAValue, tiling: Tiling) -> SSAValue:
    """`buffer` tiled anew."""
    kind = cast(AnyMemRef, buffer.type)
    return Rewriter.replace_value_with_new_type(buffer, laid_out(kind, kind.get_shape(), tiling))
