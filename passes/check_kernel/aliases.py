"""Warns about inputs that alias an output and are read again before its block is written back.

A kernel works on copies of blocks. If several steps use the same block of the output, it is written
back once, after the last of them. Until then the aliased input still has its old value: a kernel
that adds to "the output" by loading the input loses all sums but the last.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from pallasite.diagnostics import Diagnostic, Note
from pallasite.dialects import scf
from pallasite.dialects.index_maps import axes_used
from pallasite.dialects.kernel import Kernel, Window, functions_of
from pallasite.dialects.kernel_call import Call
from pallasite.dialects.locations import source_location
from pallasite.passes.accesses import Access, stores
from pallasite.passes.reference_tiles import VIEWS


def alias_advice(kernel: Kernel, call: Call) -> Iterator[Diagnostic]:
    """A warning for each aliased input that every step loads while steps that share a block of the
    output only store it: all stores but the last are lost."""
    outputs = len(kernel.operands) - len(call.results)
    before = len(call.operands) - outputs
    for number, result in call.aliases:
        if number < before or outputs < 0:
            continue
        source, target = number - before, outputs + result
        axes = _axes_that_stay(kernel, kernel.windows[source], kernel.windows[target])
        loads = [op for op in _accesses(kernel.operands[source]) if _is_load(op)]
        of_target = list(_accesses(kernel.operands[target]))
        always = next((op for op in loads if not _is_guarded(op)), None)
        only_stored = of_target and not any(
            _is_load(op) or not isinstance(op, Access) or _is_guarded(op) for op in of_target
        )
        if not axes or always is None or not only_stored:
            continue
        line = source_location(of_target[0])
        yield Diagnostic(
            "aliased-block-read-again",
            f"input {number} shares the memory of output {result}, whose block is stored in every "
            f"step along grid axis {axes[0]}, and is loaded again as it was before the first",
            source_location(always),
            [
                Note("this is the store: of one block, the last step's is written back", line),
                Note(
                    f"to add up what the steps store, load the ref of output {result}, which the "
                    f"first step along axis {axes[0]} copies from the input: pl.when(... == 0)"
                ),
            ],
            severity="warning",
        )


def _axes_that_stay(kernel: Kernel, source: Window, target: Window) -> list[int]:
    """The grid axes of more than one step on which neither index map depends."""
    grid, maps = kernel.grid or (), functions_of(kernel.func.parent_op())
    used: set[int] = set()
    for window in (source, target):
        index_map = maps.get(window.transform or "")
        if index_map is None or not index_map.body.blocks:
            return []
        used |= axes_used(index_map, len(grid))
    return [axis for axis, steps in enumerate(grid) if steps not in (0, 1) and axis not in used]


def _accesses(ref: SSAValue) -> Iterator[Operation]:
    """The operations that use `ref` or a view of it, except loads whose results are unused."""
    for use in ref.uses:
        op = use.operation
        if isinstance(op, VIEWS):
            yield from _accesses(op.results[0])
        elif not (isinstance(op, Access) and not stores(op) and not any(op.results[0].uses)):
            yield op


def _is_load(op: Operation) -> bool:
    return isinstance(op, Access) and not stores(op)


def _is_guarded(op: Operation) -> bool:
    """Whether `op` is in an `scf.if`."""
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.IfOp):
            return True
        parent = parent.parent_op()
    return False
