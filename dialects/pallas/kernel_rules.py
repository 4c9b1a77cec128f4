"""What the verifier of `pallas.kernel` enforces (spec/pallas_semantics.md 1.2 to 1.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import MemRefType, TensorType
from xdsl.ir import Attribute, BlockArgument
from xdsl.ir.affine import AffineMap
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.kernel import DYNAMIC, IN_PLACE
from pallasite.dialects.pallas.attrs import DimKind, OperandAttr, Role, WindowAttr
from pallasite.dialects.pallas.base import integers_of, memref_in
from pallasite.dialects.pallas.body_rules import check_transfers
from pallasite.dialects.pallas.scope import check_scratch, check_yield
from pallasite.dialects.pallas.subcore_rules import check_cores
from pallasite.dialects.pallas.window_rules import (
    block_text,
    check_axes,
    check_block_shape,
    check_maps,
    check_window,
    returning_block,
)
from pallasite.dialects.tpu import DMASemaphoreType, SemaphoreType
from pallasite.dialects.types import AnyMemRef, memory_space
from pallasite.dialects.verification import BrokenRule
from pallasite.layouts.registers import LANES, SUBLANES

if TYPE_CHECKING:
    from pallasite.dialects.pallas.kernel import KernelOp

SPACES = ("vmem", "smem", *IN_PLACE)
MAPPED = (
    "jax.vmap takes one block per example: call the kernel in turn, with jax.lax.map, or give it "
    "a grid axis for the examples"
)
"""What to write instead where a kernel is mapped whose blocks cannot be those of examples."""
_THROUGH_A_PIPELINE = "pass the operand in pl.ANY, and go through its blocks by pltpu.emit_pipeline"
"""What to write instead of blocks that only pipelines have."""


def verify_kernel(op: KernelOp) -> None:
    """Raises for the first rule that `op` breaks."""
    names = None if op.grid_names is None else op.axis_names
    check_axes(op.grid_shape or (), op.axis_semantics, integers_of(op.mapped), names)
    check_cores(op)
    rows = _rows(op)
    for spec, argument, what in rows:
        try:
            _check_operand(op, spec, argument, what)
        except BrokenRule as broken:
            if op.mapped is None or not _cuts_examples(spec.window):
                raise
            axis = _misplaced_examples(spec)
            advice = (MAPPED, *broken.advice) if axis is None else (_moved(spec.role, axis),)
            raise BrokenRule(str(broken), broken.culprit, advice, broken.code) from None
    windows = [(spec.window, what) for spec, _, what in rows if spec.window is not None]
    prefetch = [argument.type for argument in op.arguments(Role.PREFETCH)]
    check_maps(windows, op.maps, len(op.grid_shape or ()), prefetch)
    for number, argument in enumerate(op.scratch):
        check_scratch(op.core, argument, f"scratch {number}")
    _check_aliases(op)
    _check_returns(op, rows)
    check_yield(op.body, (), "the body")
    check_transfers(op)


def _cuts_examples(window: WindowAttr | None) -> bool:
    """Whether the axis of the examples may be one of the two last dimensions, of which blocks are
    not free; else the kernel's own blocks are at fault."""
    if window is None:
        return True
    return any(dim.kind is DimKind.SQUEEZED for dim in window.dims.data[-2:])


def _misplaced_examples(spec: OperandAttr) -> int | None:
    """The axis of the examples if the blocks would be whole tiles with that axis in front."""
    block = () if spec.window is None else spec.window.dims.data
    rank = len(block)
    axes = [i for i in range(rank - 2, rank) if block[i].kind is DimKind.SQUEEZED]
    if rank < 3 or len(axes) != 1:
        return None
    rest = [(d.size, n) for d, n in zip(block, spec.array.get_shape(), strict=True)]
    del rest[axes[0]]
    fits = zip(rest[-2:], (SUBLANES, LANES), strict=True)
    return axes[0] if all(n == extent or n % tile == 0 for (n, extent), tile in fits) else None


def _moved(role: Role, axis: int) -> str:
    if role is Role.OUTPUT:
        return (
            "jax.vmap cuts tiles with an axis of examples among the last two: give it out_axes=0, "
            f"and move the axis behind it, jnp.moveaxis(y, 0, {axis})"
        )
    return (
        "jax.vmap cuts tiles with an axis of examples among the last two: move it to the front, "
        f"jnp.moveaxis(x, {axis}, 0), and map it with in_axes=0"
    )


Row = tuple[OperandAttr, BlockArgument, str]


def _rows(op: KernelOp) -> list[Row]:
    """Every operand with its block argument and what messages call it."""
    specs, arguments = op.operand_specs.data, op.body.block.args
    if len(arguments) < len(specs):
        raise VerifyException(
            f"expected a body with one argument for each of the {len(specs)} operands, "
            f"got {len(arguments)}"
        )
    order = [list(Role).index(spec.role) for spec in specs]
    if order != sorted(order):
        raise VerifyException("expected scalar-prefetch operands, then inputs, then outputs")
    counts = dict.fromkeys(Role, 0)
    rows: list[Row] = []
    for spec, argument in zip(specs, arguments, strict=False):
        number = counts[spec.role]
        counts[spec.role] += 1
        hint = f" (%{argument.name_hint})" if argument.name_hint else ""
        rows.append((spec, argument, f"{spec.role.value} {number}{hint}"))
    return rows


def _check_operand(op: KernelOp, spec: OperandAttr, argument: BlockArgument, what: str) -> None:
    if not isinstance(argument.type, MemRefType):
        raise VerifyException(f"{what}: expected a ref, got {argument.type}")
    type = cast(AnyMemRef, argument.type)
    space = memory_space(type)
    spaces = ("smem",) if spec.role is Role.PREFETCH else SPACES
    if space is None or space not in spaces:
        raise VerifyException(f"{what}: expected a ref in {' or '.join(spaces)}, got {type}")
    semaphores = isinstance(type.element_type, SemaphoreType | DMASemaphoreType)
    if semaphores != (space == "semaphore_mem"):
        raise VerifyException(
            f"{what}: semaphores, and nothing else, are in semaphore_mem, got {type}"
        )
    window = spec.window
    if window is not None:
        if spec.role is Role.PREFETCH:
            raise VerifyException(f"{what}: scalar-prefetch operands are whole, without a block")
        _check_window(op, window, spec.array, space, what)
    elif space == "vmem" and not spec.array.get_shape():
        raise VerifyException(f"{what}: blocks have at least one dimension; pass scalars in smem")
    expected = memref_in(space, spec.ref_shape, spec.array.element_type)
    if type != expected:
        raise VerifyException(f"{what}: expected the ref {expected}, got {type}")
    if op.mesh is not None and not op.on_subcores and space == "vmem":
        cores = (op.grid_shape or (1,))[0]
        if cores > 1:
            raise VerifyException(
                f"{what}: a mesh of {cores} cores takes operands in any, hbm or smem and copies "
                "them itself, got vmem"
            )


def _check_window(
    op: KernelOp, window: WindowAttr, array: TensorType[Attribute], space: str, what: str
) -> None:
    shape = array.get_shape()
    check_window(window, len(shape), what)
    trivial = window.is_trivial(array)
    if op.mesh is not None:
        raise VerifyException(f"{what}: operands of a mesh kernel are whole, without a block")
    if op.grid_shape is None and not trivial:
        raise VerifyException(
            f"{what}: without a grid a block is the whole array at index 0, got "
            f"{block_text(window)}"
        )
    if space in IN_PLACE and not trivial:
        raise VerifyException(
            f"{what}: an operand in {space} is whole; copy blocks in the body, or put it in vmem"
        )
    kinds = {dim.kind for dim in window.dims}
    if DimKind.BOUNDED in kinds:
        raise BrokenRule(
            f"{what}: blocks of a kernel are blocked, squeezed or element, got "
            f"{block_text(window)}; bounded slices are for pallas.emit_pipeline",
            advice=[f"{_THROUGH_A_PIPELINE}, whose specs take pl.BoundedSlice"],
        )
    if {DimKind.BLOCKED, DimKind.ELEMENT} <= kinds:
        sizes = [dim.size for dim in window.dims if dim.kind is DimKind.BLOCKED]
        raise BrokenRule(
            f"{what}: with one element dimension, all dimensions that are not squeezed are "
            f"element ones, got {block_text(window)}",
            advice=[
                f"write {', '.join(f'pl.Element({size})' for size in sizes)}, where the index map "
                "says which element comes first, not which block"
            ],
        )
    _check_buffers(window, what)
    if space == "vmem" or (space == "smem" and not trivial):
        check_block_shape(window, shape, array.element_type, what)


def _check_buffers(window: WindowAttr, what: str) -> None:
    if window.buffers not in (None, 1, 2):
        raise BrokenRule(
            f"{what}: blocks of a kernel have 1 or 2 buffers, got {window.buffers}; "
            "pallas.emit_pipeline takes more",
            advice=[
                f"take pl.Buffered(2); or {_THROUGH_A_PIPELINE}, of which inputs have "
                f"pl.Buffered({window.buffers})"
            ],
        )
    if window.lookahead:
        raise BrokenRule(
            f"{what}: lookahead is for blocks of pallas.emit_pipeline",
            advice=[f"leave it out; or {_THROUGH_A_PIPELINE}"],
        )
    if window.revisits and window.buffers == 2:
        raise VerifyException(f"{what}: an output whose blocks are revisited has 1 buffer, got 2")


def _check_aliases(op: KernelOp) -> None:
    operands = [s for s in op.operand_specs if s.role is not Role.OUTPUT]
    results = op.specs(Role.OUTPUT)
    flat = integers_of(op.aliases)
    if len(flat) % 2:
        raise VerifyException(f"expected pairs of an operand and a result, got {list(flat)}")
    for values, what in ((flat[::2], "operand"), (flat[1::2], "result")):
        if len(set(values)) != len(values):
            raise VerifyException(f"expected each {what} aliased once, got {list(values)}")
    for operand, result in op.alias_pairs:
        if not 0 <= operand < len(operands) or not 0 <= result < len(results):
            raise VerifyException(
                f"expected an alias of one of {len(operands)} operands and {len(results)} "
                f"results, got {operand} and {result}"
            )
        types = operands[operand].array, results[result].array
        if types[0] != types[1]:
            raise VerifyException(
                f"operand {operand} and result {result} share memory, so have one type, got "
                f"{types[0]} and {types[1]}"
            )


def _check_returns(op: KernelOp, rows: list[Row]) -> None:
    """The steps of an output block follow each other, as far as its index map tells."""
    sizes = op.grid_shape or ()
    aliased = {result for _, result in op.alias_pairs}
    outputs = [row for row in rows if row[0].role is Role.OUTPUT]
    for number, (spec, _, what) in enumerate(outputs):
        window = spec.window
        if window is None or window.revisits or number in aliased:
            continue
        if not isinstance(window.map, AffineMap) or DYNAMIC in sizes:
            continue
        found = returning_block(window.map, sizes)
        if found is not None:
            block, point = found
            raise BrokenRule(
                f"{what}: block {list(block)} is visited again at grid point {list(point)}, after "
                "other blocks; the steps of one output block follow each other: make the axes that "
                "it does not depend on the last ones, or say revisits (in JAX, "
                "pipeline_mode=pl.Buffered(1, revisit=pl.RevisitMode.ANY))",
                code="block-revisited",
            )
