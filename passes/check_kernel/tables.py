"""Advice about prefetched scalars that a kernel changes although they say where blocks lie.

Index maps are evaluated ahead, for blocks that the next step needs, and again when a step ends, to
see whether a block stays (spec/pallas_semantics.md, traps 20 and 21). Which of these find the
change depends on how blocks are buffered, and so does the result.
"""

from __future__ import annotations

from collections.abc import Iterator

from pallasite.diagnostics import Diagnostic, Note
from pallasite.dialects.kernel import Kernel, functions_of
from pallasite.dialects.locations import source_location
from pallasite.passes.check_kernel.first_reads import named
from pallasite.passes.check_kernel.outputs import writes_of


def table_advice(kernel: Kernel, results: int) -> Iterator[Diagnostic]:
    """A warning for each of the scalars of `kernel`, which has `results` outputs, that it changes
    and by which blocks are copied in more than one step."""
    if all(steps in (0, 1) for steps in kernel.grid or ()):
        return
    maps = functions_of(kernel.func.parent_op())
    inputs = len(kernel.operands) - results
    for place, table in enumerate(kernel.prefetch):
        change = next(writes_of(table), None)
        if change is None:
            continue
        for number, window in enumerate(kernel.windows):
            index_map = maps.get(window.transform or "")
            if index_map is None or not index_map.body.blocks:
                continue
            argument = index_map.body.block.args[len(kernel.indices) + place]
            if not any(argument.uses):
                continue
            kind, which = ("input", number) if number < inputs else ("output", number - inputs)
            what = named(f"{kind} {which}", kernel.operands[number])
            yield Diagnostic(
                "changed-table",
                f"the kernel changes {named(f'scalar prefetch operand {place}', table)}, by which "
                f"the index map of {what} chooses blocks",
                source_location(change),
                [
                    Note(
                        "index maps are evaluated ahead, for the next steps, and again when a step "
                        "ends: whether a block is that of before the change depends on the buffers"
                    ),
                    Note(
                        "leave it as it is: change a copy in scratch, pltpu.SMEM(shape, dtype), or "
                        "copy the blocks by pltpu.make_async_copy"
                    ),
                ],
                severity="warning",
            )
            break
