"""Tiles packed buffers as arrays in HBM are tiled, where their rows then take fewer registers.

36x256 of bf16 are 3x2 tiles of 16 rows, each a register, or 5x2 tiles of 8 rows, two of which fill
one register. Rows 8 to 24 of an array are whole registers only in the latter, and so are the rows
of 4x8x256 that are reshaped to 32x256. Transfers then find the same tiles on both sides. Only
buffers that are transferred, loaded and stored by whole rows of these tiles are tiled so, and only
if all of these accesses become work on rows of 128.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from typing import cast

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from pallasite.dialects import func, memref, tpu, vector
from pallasite.dialects.types import AnyMemRef, bit_width, memory_space, tiling_of
from pallasite.dialects.walking import of_kind
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.layouts.tiling import Tiling, infer_tiling
from pallasite.passes.divisibility import constant_of
from pallasite.passes.fill_registers.islands import STORES
from pallasite.passes.laid_out import laid_out

_ACCESSES = (vector.LoadOp, *STORES)
_TRANSFERS = (tpu.EnqueueDmaOp, tpu.WaitDma2Op)


def tile_as_in_hbm(
    function: func.FuncOp,
    gained: Callable[[func.FuncOp, Set[Operation]], tuple[set[Operation], int]],
) -> set[Operation]:
    """Tiles buffers of `function` anew, and returns the accesses to them.

    `gained(function, accesses)` returns the operations that become work on rows with the current
    tiling, and how many registers that saves. A buffer whose accesses are not all among them gets
    its old tiling back.
    """
    buffers = [op.results[0] for op in of_kind(function, memref.AllocaOp)]
    small = [(buffer, tiling) for buffer in buffers if (tiling := _in_hbm(buffer)) is not None]
    if not any(_takes_fewer(*pair) or _cuts_registers(pair[0]) for pair in small):
        return set()
    before = [tiling_of(buffer.type) for buffer, _ in small]
    tiled = list(zip([_with_tiling(*pair) for pair in small], before, strict=True))
    while tiled:
        anew = {op for buffer, _ in tiled for op in _accesses(buffer)}
        works, gain = gained(function, anew)
        kept = [pair for pair in tiled if gain > 0 and works.issuperset(_accesses(pair[0]))]
        if len(kept) == len(tiled):
            return anew
        for buffer, tiling in tiled:
            if tiling is not None and (buffer, tiling) not in kept:
                _with_tiling(buffer, tiling)
        tiled = kept
    return set()


def _in_hbm(buffer: SSAValue) -> Tiling | None:
    """The tiling that HBM would have for `buffer`, if it has smaller tiles than the buffer's.

    None if others than loads, stores and transfers use the buffer.
    """
    kind = cast(AnyMemRef, buffer.type)
    shape, bits, tiling = kind.get_shape(), bit_width(kind), tiling_of(kind)
    if memory_space(kind) != "vmem" or len(shape) < 2 or bits >= 32 or tiling is None:
        return None
    wanted = infer_tiling(shape, bits)
    if tiling.tiles[1:] != wanted.tiles[1:] or tiling.first <= wanted.first:
        return None
    users = [use.operation for use in buffer.uses]
    return wanted if all(isinstance(op, (*_ACCESSES, *_TRANSFERS)) for op in users) else None


def _takes_fewer(buffer: SSAValue, tiling: Tiling) -> bool:
    """Whether `buffer` takes fewer registers by rows of `tiling` than in native tiles."""
    kind = cast(AnyMemRef, buffer.type)
    shape, native = kind.get_shape(), SUBLANES * packing(bit_width(kind))
    rows, columns = shape[-2:]
    registers = -(-tiling.padded(shape)[-2] * -(-columns // LANES) // native)
    return registers < -(-rows // native) * -(-columns // LANES)


def _cuts_registers(buffer: SSAValue) -> bool:
    """Whether an access to `buffer` begins within a native tile, or its value is reshaped."""
    native = SUBLANES * packing(bit_width(buffer.type))
    for op in _accesses(buffer):
        value = op.operands[0] if isinstance(op, STORES) else op.results[0]
        ends = [value.owner, *(use.operation for use in value.uses)]
        if any(isinstance(end, vector.ShapeCastOp) for end in ends):
            return True
        row = constant_of(cast(vector.LoadOp, op).indices[-2])
        if row is not None and row % native:
            return True
    return False


def _accesses(buffer: SSAValue) -> Iterator[Operation]:
    """The loads and stores of `buffer`."""
    for use in buffer.uses:
        if isinstance(use.operation, _ACCESSES):
            yield use.operation


def _with_tiling(buffer: SSAValue, tiling: Tiling) -> SSAValue:
    """`buffer` with the given tiling."""
    kind = cast(AnyMemRef, buffer.type)
    return Rewriter.replace_value_with_new_type(buffer, laid_out(kind, kind.get_shape(), tiling))
