"""Our passes by name; a pass is imported when its factory is called.

The tools also offer xDSL's own passes (`canonicalize`, `cse`, `dce` and so on).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from xdsl.passes import ModulePass

_PASSES = {
    "absorb-moves": "pallasite.lowering.absorb_moves:AbsorbMovesPass",
    "canonicalize-mosaic": "pallasite.passes.canonicalize_mosaic:CanonicalizeMosaicPass",
    "check-kernel": "pallasite.passes.check_kernel:CheckKernelPass",
    "fill-registers": "pallasite.passes.fill_registers:FillRegistersPass",
    "fold-kernel": "pallasite.passes.fold_kernel:FoldKernelPass",
    "fold-ranges": "pallasite.passes.fold_ranges:FoldRangesPass",
    "infer-memref-layout": "pallasite.passes.infer_memref_layout:InferMemrefLayoutPass",
    "legalize-shuffles": "pallasite.passes.legalize_shuffles:LegalizeShufflesPass",
    "lower-to-dma": "pallasite.lowering.pipelines:LowerToDmaPass",
    "lower-to-mosaic": "pallasite.lowering.pallas_to_mosaic:LowerToMosaicPass",
    "lower-to-tiles": "pallasite.lowering.pipelines:LowerToTilesPass",
    "lower-to-vregs": "pallasite.lowering.pipelines:LowerToVregsPass",
    "tiles-to-vregs": "pallasite.lowering.tiles_to_vregs:TilesToVregsPass",
    "vectors-to-tiles": "pallasite.lowering.vectors_to_tiles:VectorsToTilesPass",
    "windows-to-dma": "pallasite.lowering.windows_to_dma:WindowsToDmaPass",
}

PassFactory = Callable[[], type[ModulePass]]


def _factory(place: str) -> PassFactory:
    module, name = place.split(":")

    def load() -> type[ModulePass]:
        return cast(type[ModulePass], getattr(import_module(module), name))

    return load


_FACTORIES = {name: _factory(place) for name, place in _PASSES.items()}


def get_all_passes() -> dict[str, PassFactory]:
    """The factory of each of our passes."""
    return dict(_FACTORIES)
