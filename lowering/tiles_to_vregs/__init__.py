"""From form `tiles` to form `vreg`: every grid of registers becomes one SSA value per register."""

from pallasite.lowering.tiles_to_vregs.tiles_to_vregs import TilesToVregsPass

__all__ = ["TilesToVregsPass"]
