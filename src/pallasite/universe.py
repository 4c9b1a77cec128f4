"""The dialects and passes that Pallasite adds to `xdsl-opt` (entry point `xdsl.universe`)."""

from __future__ import annotations

from xdsl.universe import Universe

from pallasite.dialects import get_own_dialects
from pallasite.passes.registry import get_all_passes

PALLASITE_UNIVERSE = Universe(all_dialects=get_own_dialects(), all_passes=get_all_passes())
