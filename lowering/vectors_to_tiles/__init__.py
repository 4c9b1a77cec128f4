"""From whole vectors to grids of registers: layouts, planned moves, and one rule per operation."""

from pallasite.lowering.vectors_to_tiles.converter import VectorsToTilesPass

__all__ = ["VectorsToTilesPass"]
