"""From logical vectors to grids of registers: layouts chosen, moves planned, one rule per op."""

from pallasite.lowering.vectors_to_tiles.converter import VectorsToTilesPass

__all__ = ["VectorsToTilesPass"]
