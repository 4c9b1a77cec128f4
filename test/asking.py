"""The TPU compiler's verdict on a module, for tests that ask about many."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from pallasite.frontend.aot import Compiler, Verdict, compile_ahead_of_time
from pallasite.targets import get_target


def asked(
    module: ModuleOp, target: str, compiler: Compiler, *, layout_passes: bool = False
) -> Verdict:
    """What the running `compiler` says; `layout_passes` are for forms above `vreg`."""
    topology = get_target(target).topology
    return compile_ahead_of_time(
        module, topology=topology, layout_passes=layout_passes, compiler=compiler
    )
