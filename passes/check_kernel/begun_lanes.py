"""Refuses loops and branches that carry vectors of rank 1 with different lane offsets.

The first element of a vector of rank 1 may lie at any lane of its first register: its offset, here
in elements. Where values with different offsets meet in a result of `scf.for` or `scf.if`, the TPU
compiler moves them to offset 0, but then finds no layout for a vector of rank 1 and fails (`Invalid
input layout`, or an abort). The same happens if all have one offset beyond the first tile, which is
a row of 128 words. What decides the offset (asked of libtpu 0.0.51 for v4 to v7x, element by
element):

* a load has the offset of its first element in a tile of the array;
* a slice adds the index at which it cuts, within the register;
* an elementwise operation has the offset of its first operand that is no constant; an offset beyond
  the first tile becomes 0, as it does where a value enters a loop.
"""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from pallasite.dialects import scf, tpu, vector
from pallasite.dialects.arith import known_integer
from pallasite.dialects.in_words import in_words
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import bit_width, shape_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.check_kernel.branch_registers import is_constant
from pallasite.passes.check_kernel.ways import arriving, carried_from
from pallasite.passes.check_kernel.words import through_words
from pallasite.targets import Target

_LOADS = (vector.LoadOp, tpu.VectorLoadOp)
_WIDTHS = (8, 16, 32)


def begun_at_one_lane(op: scf.ForOp | scf.IfOp, target: Target) -> None:
    """Refuses a loop or branch of which a result of rank 1 gets values with different offsets, or
    with one beyond the first tile."""
    for result in op.results:
        kind = result.type
        if not isinstance(kind, VectorType) or len(shape_of(kind)) != 1:
            continue
        if bit_width(kind) not in _WIDTHS:
            continue
        entering, *ways = arriving(op, result.index)
        if isinstance(op, scf.ForOp):
            first = _first_lane(entering, target)
        else:
            first = _lane(entering, target)
        found = [first, *(_lane(way, target) for way in ways)]
        lanes = {lane for lane in found if lane is not None}
        if len(lanes) > 1 or max(lanes, default=0) >= _tile(kind):
            met = " and at ".join(f"element {lane}" for lane in sorted(lanes))
            raise refusal(
                op, "begun-lanes",
                f"{in_words(op)} carries a one-dimensional {kind} that begins at {met} of a "
                "register",
                "a slice stays where it was cut, and no loop or branch moves vectors of one "
                f"dimension, or has one that begins behind {_tile(kind)} elements",
                "carry it in two dimensions, x.reshape(1, n), or slice behind the loop or branch",
                "the TPU compiler says: Invalid input layout",
            )  # fmt: skip


def _lane(value: SSAValue, target: Target) -> int | None:
    """The offset, in elements, of the vector `value` of rank 1 in its first register.

    None for constants, which fit any offset, and where it is not known.
    """
    moves: list[tuple[int | None, int]] = []
    while True:
        if is_constant(value) or len(shape_of(value.type)) != 1:
            return None
        op, cut, tile = value.owner, None, _tile(value.type)
        if isinstance(op, _LOADS):
            lane = known_integer(op.indices[-1])
            break
        if isinstance(op, vector.ExtractStridedSliceOp):
            following, cut = op.operands[0], int(op.offsets.data[0].value.data)
        elif isinstance(value, BlockArgument) or isinstance(op, scf.ForOp | scf.IfOp):
            following = carried_from(value)
        else:
            assert isinstance(op, Operation)
            following = _computed_from(op, target)
        if following is None:
            return None
        if not isinstance(op, scf.IfOp):
            moves.append((cut, tile))
        value = following
    if lane is None:
        return None
    lane %= tile
    for cut, tile in reversed(moves):
        # A slice stays where it is; any other operation moves an offset beyond the first tile.
        lane = _in_first(lane, tile) if cut is None else (lane + cut) % (SUBLANES * tile)
    return lane


def _first_lane(value: SSAValue, target: Target) -> int | None:
    """`_lane`, or 0 if that is beyond the first tile."""
    lane = _lane(value, target)
    return None if lane is None else _in_first(lane, _tile(value.type))


def _in_first(lane: int, tile: int) -> int:
    return lane if lane < tile else 0


def _tile(kind: Attribute) -> int:
    """Elements in a tile of rank 1: 128 words, of which a register has 8."""
    return LANES * packing(bit_width(kind))


def _computed_from(op: Operation, target: Target) -> SSAValue | None:
    """The operand whose offset the result of an elementwise operation has, None if unknown: a
    selection has that of its mask, and a mask that of the vectors compared."""
    if op.dialect_name() not in ("arith", "math") or through_words(op, target):
        return None
    vectors = [v for v in op.operands if isinstance(v.type, VectorType)]
    widths = {bit_width(v.type) for v in (*vectors, *op.results)} - {1}
    if len(widths) != 1:
        return None
    return next((v for v in vectors if not is_constant(v)), None)
