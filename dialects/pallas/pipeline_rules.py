"""What the verifier of `pallas.emit_pipeline` enforces (spec/pallas_semantics.md 1.4 and 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects.kernel import DYNAMIC
from pallasite.dialects.pallas.attrs import WindowAttr
from pallasite.dialects.pallas.base import integers_of, memref_in, ref_type
from pallasite.dialects.pallas.refs import AtOp, StoreOp, SwapOp
from pallasite.dialects.pallas.scope import check_yield
from pallasite.dialects.pallas.window_rules import block_text, check_axes, check_maps, check_window
from pallasite.dialects.types import AnyMemRef, memory_space

if TYPE_CHECKING:
    from pallasite.dialects.pallas.pipeline import EmitPipelineOp


def verify_pipeline(op: EmitPipelineOp) -> None:
    """Raises for the first rule that `op` breaks."""
    sizes = op.grid_shape
    check_axes(sizes, op.axis_semantics, integers_of(op.mapped))
    for size in sizes:
        if size != DYNAMIC and size < 1:
            raise VerifyException(f"a pipeline runs at least one step per axis, got size {size}")
    if len(op.bounds) != sizes.count(DYNAMIC):
        raise VerifyException(
            f"expected {sizes.count(DYNAMIC)} sizes of dynamic axes, got {len(op.bounds)}"
        )
    if len(op.offsets) not in (0, len(sizes)):
        raise VerifyException(
            f"expected an offset for each of {len(sizes)} axes or none, got {len(op.offsets)}"
        )
    refs = [*op.inputs, *op.outputs]
    if not len(refs) == len(op.windows) == len(op.blocks):
        raise VerifyException(
            f"expected one window and one block for each of {len(refs)} refs, got "
            f"{len(op.windows)} and {len(op.blocks)}"
        )
    named: list[tuple[WindowAttr, str]] = []
    for number, (ref, window, block) in enumerate(zip(refs, op.windows, op.blocks, strict=True)):
        output = number >= len(op.inputs)
        what = f"output {number - len(op.inputs)}" if output else f"input {number}"
        named.append((window, what))
        _check_block(ref, window, block.type, what, output=output)
        if not output:
            _check_unwritten(block, what)
    check_maps(named, op.maps, len(sizes), ())
    check_yield(op.body, (), "the body")


def _check_block(
    ref: SSAValue, window: WindowAttr, block: Attribute, what: str, *, output: bool
) -> None:
    source = ref_type(ref)
    check_window(window, source.get_num_dims(), what)
    space = memory_space(block)
    if not isinstance(block, MemRefType) or space is None:
        raise VerifyException(f"{what}: expected a block in a memory, got {block}")
    expected = memref_in(space, window.block_shape, source.element_type)
    if cast(AnyMemRef, block) != expected:
        raise VerifyException(f"{what}: expected the block {expected}, got {block}")
    for dim in window.dims:
        if dim.low or dim.high:
            raise VerifyException(
                f"{what}: element dimensions of a pipeline have no padding, got "
                f"{block_text(window)}"
            )
    if output and window.buffers not in (None, 1, 2):
        raise VerifyException(f"{what}: outputs have 1 or 2 buffers, got {window.buffers}")
    if window.lookahead and (output or window.buffers == 1):
        raise VerifyException(f"{what}: lookahead is for inputs of at least 2 buffers")


def _check_unwritten(block: SSAValue, what: str) -> None:
    """Nothing stores to the block of an input, which would not be written back."""
    for use in block.uses:
        user: Operation = use.operation
        if isinstance(user, StoreOp | SwapOp) and user.ref is block:
            raise VerifyException(f"{what}: the block of an input is only read, got {user.name}")
        if isinstance(user, AtOp):
            _check_unwritten(user.result, what)
