"""Passes of independent rewrites, any of which can be left out: how a wrong one is found."""

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
    """A pass of which any number of rewrites leave a module that runs."""

    def apply_admitted(self, ctx: Context, op: ModuleOp, admits: Admits) -> None:
        """`apply` with only the rewrites that `admits` lets through."""
        ...
