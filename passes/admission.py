"""Passes that can leave out any of their rewrites: `tpu-run --verify-each` finds a wrong one so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

Admits = Callable[[str, Operation], bool]
"""Whether the rewrite of that name may be applied to that operation."""


@runtime_checkable
class Stoppable(Protocol):
    """A pass that leaves a module that runs, whichever of its rewrites are applied."""

    def apply_admitted(self, ctx: Context, op: ModuleOp, admits: Admits) -> None:
        """`apply` with only the rewrites that `admits` lets through."""
        ...
