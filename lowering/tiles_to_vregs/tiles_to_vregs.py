"""The pass `tiles-to-vregs`. Importing the modules in `families` registers their rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from pallasite import collection
from pallasite.dialects.kernel import set_form
from pallasite.dialects.subcores import lowered_functions
from pallasite.lowering.tiles_to_vregs import (
    control,
    extremum,
    groups,
    memory,
    registerwise,
    renaming,
)
from pallasite.lowering.tiles_to_vregs.unroll import Unroller
from pallasite.targets import DEFAULT_TARGET


@dataclass(frozen=True)
class TilesToVregsPass(ModulePass):
    """Unrolls grids of registers: one SSA value per register."""

    name = "tiles-to-vregs"

    families: ClassVar = (control, extremum, groups, memory, registerwise, renaming)

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        with collection.paused():
            for function in lowered_functions(op):
                Unroller().run(function)
        set_form(op, "vreg")
