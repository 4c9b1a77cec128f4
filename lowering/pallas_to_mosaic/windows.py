"""Window parameters: what the compiler is told about an operand's blocks.

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

from pallasite.diagnostics import Note, SourceLocation, Unsupported
from pallasite.dialects import pallas, tpu
from pallasite.dialects.pallas import DimKind

WHOLE_SPACES = ("any", "hbm", "semaphore_mem", "host")
"""Operands there have no window."""
EMPTY = DictionaryAttr({})


def default_window(array: TensorType[Attribute], axes: int) -> pallas.WindowAttr:
    """The window of an operand that is seen whole."""
    shape = array.get_shape()
    zeros = AffineMap(axes, 0, tuple(AffineConstantExpr(0) for _ in shape))
    return pallas.WindowAttr([pallas.DimAttr("blocked", n) for n in shape], zeros)


def window_params(
    window: pallas.WindowAttr, symbol: str, trivial_vmem: bool, at: SourceLocation | None
) -> DictionaryAttr:
    """The dictionary of one window; one that is trivial and in VMEM gets a single buffer."""
    entries: dict[str, Attribute] = {
        "transform_indices": SymbolRefAttr(symbol),
        "window_bounds": DenseArrayBase.from_list(i64, window.bounds),
    }
    kinds = {dim.kind for dim in window.dims}
    if DimKind.BOUNDED in kinds:
        raise Unsupported(
            "window-dimension",
            "blocks of a kernel are blocked, squeezed or element-wise, got a bounded slice",
            at,
            [Note("bounded slices are for blocks of emit_pipeline")],
        )
    if DimKind.ELEMENT in kinds:
        if DimKind.BLOCKED in kinds:
            raise Unsupported(
                "window-dimension",
                "either all dimensions of a block that are not squeezed are element-wise, or "
                f"none, got {[dim.inline() for dim in window.dims]}",
                at,
                [Note("write pl.Element for the blocked dimensions too, with their starts")],
            )
        entries["window_kind"] = tpu.ElementWindowAttr.of(
            [dim.low for dim in window.dims], [dim.high for dim in window.dims]
        )
    entries |= _buffering(window, trivial_vmem, at)
    return DictionaryAttr(entries)


def _buffering(
    window: pallas.WindowAttr, trivial_vmem: bool, at: SourceLocation | None
) -> dict[str, Attribute]:
    if trivial_vmem:
        return {"pipeline_mode": tpu.PipelineModeAttr(tpu.PipelineMode.SYNCHRONOUS)}
    if window.lookahead:
        raise Unsupported(
            "window-lookahead", "blocks of a kernel are fetched one step ahead, not earlier", at,
            [Note("lookahead is for emit_pipeline")],
        )  # fmt: skip
    buffers = window.buffers
    if buffers not in (None, 1, 2):
        raise Unsupported(
            "window-buffers", f"blocks of a kernel have one or two buffers, got {buffers}", at,
            [Note("use emit_pipeline for more")],
        )  # fmt: skip
    if window.revisits:
        if buffers == 2:
            raise Unsupported(
                "window-buffers", "an output whose blocks are revisited has one buffer, got 2", at,
                [Note("write pl.Buffered(1, revisit=...)")],
            )  # fmt: skip
        buffers = 1
    result: dict[str, Attribute] = {}
    if buffers is not None:
        mode = tpu.PipelineMode.SYNCHRONOUS if buffers == 1 else tpu.PipelineMode.DOUBLE_BUFFERED
        result["pipeline_mode"] = tpu.PipelineModeAttr(mode)
    if window.revisits:
        result["revisit_mode"] = tpu.RevisitModeAttr(tpu.RevisitMode.ANY)
    return result
