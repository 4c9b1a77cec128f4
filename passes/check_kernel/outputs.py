"""Warns about outputs of which a part is never written, whatever the kernel's inputs are.

An output is undefined at first, in its blocks as in HBM, unless it aliases an input
(spec/pallas_semantics.md 1.7). The kernel's text shows which outputs no operation writes, and which
blocks no step reaches. Rows of a block that are never written give no warning here, since kernels
that return one number often write only that part of a tile. They, and all that only a run shows,
are reported by the check `init` (`interpreter/odd_results.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import prod
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, NoneAttr
from xdsl.ir import BlockArgument, Operation, Region, SSAValue

from pallasite.diagnostics import UNWRITTEN, Diagnostic, Note
from pallasite.dialects import arith, scf, tpu
from pallasite.dialects.index_maps import axes_used
from pallasite.dialects.kernel import DYNAMIC, Kernel, Window, functions_of
from pallasite.dialects.kernel_call import Call
from pallasite.dialects.locations import source_location
from pallasite.dialects.types import AnyMemRef, memory_space, shape_of
from pallasite.dialects.walking import operations
from pallasite.passes.accesses import ACCESSES, base_of, stores

_READS = (
    "memref.dim", "memref.load", "tpu.vector_load_idx", "tpu.wait_dma", "tpu.wait_dma2",
    "tpu.wait_indirect_dma", "vector.transfer_read",
)  # fmt: skip
_TRANSFERS = (tpu.EnqueueDmaOp, tpu.EnqueueIndirectDmaOp)
_EQUAL, _NOT_EQUAL = 0, 1
"""Predicates of `arith.cmpi`."""
_UNDEFINED = Note("on a TPU that is whatever the memory held before the call")


def output_advice(kernels: Sequence[Kernel], call: Call) -> Iterator[Diagnostic]:
    """A warning for each output of which no kernel writes some part.

    `kernels`, in form `mosaic`, run together. There is no warning for an output that aliases an
    input, which keeps its contents, nor if a kernel prints: it may have outputs only because it
    must.
    """
    if not all(is_called(kernel, call) for kernel in kernels):
        return  # A call of another kernel, which is refused when it is made.
    aliased = {result for _, result in call.aliases}
    for number, result in enumerate(call.results):
        place = number - len(call.results)
        arguments = [kernel.operands[place] for kernel in kernels]
        space = memory_space(arguments[0].type)
        if number in aliased or space == "semaphore_mem" or 0 in result.get_shape():
            continue
        name = arguments[0].name_hint
        what = f"output {number} (%{name})" if name else f"output {number}"
        found = _left_out(kernels, arguments, place, result.get_shape(), what)
        if found is not None and not any(_prints(kernel) for kernel in kernels):
            yield Diagnostic(
                UNWRITTEN,
                found[0],
                source_location(kernels[0].func),
                [_UNDEFINED, Note(found[1])],
                severity="warning",
            )


def is_called(kernel: Kernel, call: Call) -> bool:
    """Whether `call` may be a call of `kernel`: as many operands and results, and arrays of the
    shapes that the kernel sees whole."""
    bounds = sum(bound == DYNAMIC for bound in kernel.grid or ())
    first = bounds + len(kernel.prefetch)
    types = (*call.operands, *call.results)
    if len(types) != first + len(kernel.operands):
        return False
    seen = zip(kernel.operands, kernel.windows, types[first:], strict=True)
    return not any(
        _is_other(shape_of(operand.type), type.get_shape())
        for operand, window, type in seen
        if not window.windowed and isinstance(cast(AnyMemRef, operand.type).layout, NoneAttr)
    )


def _is_other(ref: Sequence[int], array: Sequence[int]) -> bool:
    """Whether an array has another shape than the whole ref; different ranks are not judged."""
    known = len(ref) == len(array) and DYNAMIC_INDEX not in ref
    return known and tuple(ref) != tuple(array)


def _left_out(
    kernels: Sequence[Kernel],
    arguments: Sequence[SSAValue],
    place: int,
    array: Sequence[int],
    what: str,
) -> tuple[str, str] | None:
    """The message about what is never written of the output `what`, and advice; None if nothing."""
    writes = [op for argument in arguments for op in writes_of(argument)]
    if not writes:
        return (
            f"{what} is written nowhere in the kernel",
            "store to its ref, out[...] = value (out = value gives a value a name), or leave it "
            "out of out_shape",
        )
    if len(kernels) > 1 or kernels[0].windows[place].low is not None:
        return None  # Blocks of elements overlap: another step may write the rest.
    kernel = kernels[0]
    window = kernel.windows[place]
    axes, blocks = _axes(kernel, window), _blocks(window, array)
    if axes is None:
        return None
    grid, points = kernel.grid or (), {points_of(op.parent_region(), kernel) for op in writes}
    steps = prod(grid[axis] for axis in axes)
    reached = sum(prod(grid[n] for n in axes if n not in dict(point)) for point in points)
    if reached < min(steps, blocks):
        return (
            f"{what} is stored under a condition of pl.program_id only, which comes to {reached} "
            f"of {blocks} blocks, {list(window.bounds or ())} each",
            "store to it in every step, or give it an index map that stays at the blocks that are "
            "stored, and a shape of these",
        )
    if steps < blocks:
        return (
            f"the steps of the grid come to {steps} of {blocks} blocks of {what} at most, which "
            f"are {list(window.bounds or ())} each",
            "give the grid a step for each block, pl.cdiv(n, size), the output a smaller shape, or "
            "start from an input by input_output_aliases",
        )
    return None


def _prints(kernel: Kernel) -> bool:
    """Whether a kernel prints, which may be all that it is for."""
    return any(isinstance(op, tpu.LogOp | tpu.LogBufferOp) for op in operations(kernel.func))


def writes_of(ref: SSAValue) -> Iterator[Operation]:
    """The operations that may write `ref` or a view of it."""
    for use in ref.uses:
        op = use.operation
        if isinstance(op, ACCESSES):
            if stores(op) and base_of(op) is ref:
                yield op
        elif isinstance(op, _TRANSFERS):
            if op.target is ref:
                yield op
        elif op.results and not op.regions and isinstance(op.results[0].type, MemRefType):
            yield from writes_of(op.results[0])
        elif op.name not in _READS:
            yield op


def _axes(kernel: Kernel, window: Window) -> Collection[int] | None:
    """The grid axes on which the block may depend; None if sizes are known only at run time."""
    grid = kernel.grid or ()
    index_map = functions_of(kernel.func.parent_op()).get(window.transform or "")
    if index_map is None or not index_map.body.blocks or DYNAMIC in grid:
        return None
    # Prefetched numbers may change from step to step, if the kernel writes them.
    return range(len(grid)) if kernel.prefetch else axes_used(index_map, len(grid))


def points_of(region: Region | None, kernel: Kernel) -> frozenset[tuple[int, int]]:
    """Pairs of a grid axis and the one index along it at which `region` runs."""
    points: set[tuple[int, int]] = set()
    while region is not None and (parent := region.parent) is not None:
        if isinstance(parent, scf.IfOp) and region is parent.true_region:
            points |= _where(parent.cond, kernel)
        region = parent.parent_region()
    return frozenset(points)


def _where(condition: SSAValue, kernel: Kernel) -> set[tuple[int, int]]:
    """Pairs of a grid axis and the one index along it at which `condition` may hold."""
    op = condition.owner
    if isinstance(op, arith.AndIOp):
        return _where(op.lhs, kernel) | _where(op.rhs, kernel)
    if not isinstance(op, arith.CmpiOp):
        return set()
    number, predicate = arith.known_integer(op.rhs), op.predicate.value.data
    if predicate == _NOT_EQUAL and number == 0 and isinstance(op.lhs.owner, arith.ExtUIOp):
        return _where(op.lhs.owner.input, kernel)
    if predicate != _EQUAL or number is None or op.lhs not in kernel.indices:
        return set()
    return {(kernel.indices.index(cast(BlockArgument, op.lhs)), number)}


def _blocks(window: Window, array: Sequence[int]) -> int:
    """How many blocks an array has."""
    bounds = window.bounds or array
    if len(bounds) != len(array):
        return 1
    return prod(-(-size // bound) for size, bound in zip(array, bounds, strict=True))
