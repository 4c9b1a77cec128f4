"""At which lane flat vectors begin that loops and branches carry.

The TPU compiler brings ways that begin elsewhere to the first lane, for which a vector of one
dimension has no layout there: it fails (`Invalid input layout`, or an abort), as it does for one
that begins behind the first tile, a row of 128 words. A slice begins where it was cut, a load where
the array's tile has it, what is computed where its first operand does that is no constant; that,
and what enters a loop, is moved to the first lane from behind the first tile (asked of libtpu
0.0.51 for v4 to v7x, element by element).
"""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from pallasite.dialects import scf, tpu, vector
from pallasite.dialects.arith import known_integer
from pallasite.dialects.locations import refusal
from pallasite.dialects.types import bit_width, shape_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.check_kernel.branch_registers import is_constant
from pallasite.passes.check_kernel.in_words import in_words
from pallasite.passes.check_kernel.ways import arriving, carried_from
from pallasite.passes.check_kernel.words import through_words
from pallasite.targets import Target

_LOADS = (vector.LoadOp, tpu.VectorLoadOp)
_WIDTHS = (8, 16, 32)


def begun_at_one_lane(op: scf.ForOp | scf.IfOp, target: Target) -> None:
    """Refuses flat vectors that begin at different lanes, or behind the first tile, on their ways
    out of a branch or to the next turn of a loop."""
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
    """The element of its first register at which a flat vector begins; None for constants, which
    lie anywhere, and what is not known."""
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
        # A slice stays in its register; what else begins behind the first tile is moved.
        lane = _in_first(lane, tile) if cut is None else (lane + cut) % (SUBLANES * tile)
    return lane


def _first_lane(value: SSAValue, target: Target) -> int | None:
    """`_lane` once it was moved to the first tile."""
    lane = _lane(value, target)
    return None if lane is None else _in_first(lane, _tile(value.type))


def _in_first(lane: int, tile: int) -> int:
    return lane if lane < tile else 0


def _tile(kind: Attribute) -> int:
    """Elements of a row of words, of which a register has 8."""
    return LANES * packing(bit_width(kind))


def _computed_from(op: Operation, target: Target) -> SSAValue | None:
    """The operand where the result of an elementwise operation lies; a selection lies as its mask,
    and a mask as what was compared."""
    if op.dialect_name() not in ("arith", "math") or through_words(op, target):
        return None
    vectors = [v for v in op.operands if isinstance(v.type, VectorType)]
    widths = {bit_width(v.type) for v in (*vectors, *op.results)} - {1}
    if len(widths) != 1:
        return None
    return next((v for v in vectors if not is_constant(v)), None)
