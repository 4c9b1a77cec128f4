"""The entries of `window_params`: what the TPU compiler is told about the blocks of an operand.

Rules and attribute names are those of spec/pallas_semantics.md section 1.11.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    SymbolRefAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineConstantExpr, AffineMap

from pallasite.dialects import pallas, tpu
from pallasite.dialects.pallas import DimKind

EMPTY = DictionaryAttr({})


def default_window(array: TensorType[Attribute], axes: int) -> pallas.WindowAttr:
    """The window of an operand that the kernel sees whole, on a grid of `axes` axes: the block is
    the array, its index always 0."""
    shape = array.get_shape()
    zeros = AffineMap(axes, 0, tuple(AffineConstantExpr(0) for _ in shape))
    return pallas.WindowAttr([pallas.DimAttr("blocked", n) for n in shape], zeros)


def window_params(window: pallas.WindowAttr, symbol: str, *, trivial_vmem: bool) -> DictionaryAttr:
    """The entry of one window with the index map `@symbol`.

    `trivial_vmem` says that it is trivial and in VMEM; it then has a single buffer.
    """
    entries: dict[str, Attribute] = {
        "transform_indices": SymbolRefAttr(symbol),
        "window_bounds": DenseArrayBase.from_list(i64, window.bounds),
    }
    if any(dim.kind is DimKind.ELEMENT for dim in window.dims):
        entries["window_kind"] = tpu.ElementWindowAttr.of(
            [dim.low for dim in window.dims], [dim.high for dim in window.dims]
        )
    entries |= _buffering(window, trivial_vmem=trivial_vmem)
    return DictionaryAttr(entries)


def _buffering(window: pallas.WindowAttr, *, trivial_vmem: bool) -> dict[str, Attribute]:
    if trivial_vmem:
        return {"pipeline_mode": tpu.PipelineModeAttr(tpu.PipelineMode.SYNCHRONOUS)}
    buffers = 1 if window.revisits else window.buffers
    result: dict[str, Attribute] = {}
    if buffers is not None:
        mode = tpu.PipelineMode.SYNCHRONOUS if buffers == 1 else tpu.PipelineMode.DOUBLE_BUFFERED
        result["pipeline_mode"] = tpu.PipelineModeAttr(mode)
    if window.revisits:
        result["revisit_mode"] = tpu.RevisitModeAttr(tpu.RevisitMode.ANY)
    return result
