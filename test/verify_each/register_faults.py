"""Wrong rules of `legalize-shuffles` and `tiles-to-vregs`."""

from __future__ import annotations

from typing import Any

import numpy as np
from pytest import MonkeyPatch
from xdsl.dialects.builtin import IntegerAttr, VectorType

from pallasite.dialects import arith, grid, scf, tpu
from pallasite.lowering import creation
from pallasite.lowering.tiles_to_vregs import folding, memory, registerwise, unroll
from pallasite.passes import legalize_shuffles

from .faults import fault
from .kernels import argument, kernel
from .mosaic_faults import CONSTANTS
from .tile_faults import COLUMN_MAX, COPY, IOTA, NARROWED, ROLLED, TURNED, WIDENED

SHUFFLES, PASS = "legalize-shuffles", "tiles-to-vregs"
TRANSPOSED = kernel(
    [argument("x:2x2x8x128xf32"), argument("o:2x2x8x128xf32")],
    """
    LOAD %a, x
    %b = tpu.transpose %a, [1, 0, 2, 3] : vector<2x2x8x128xf32> -> vector<2x2x8x128xf32>
    STORE %b, o
    """,
)
SWAPPED = kernel(
    [argument("x:16x128xf32"), argument("y:16x128xf32"), argument("o:32x128xf32")],
    """
    LOAD %a, x
    LOAD %b, y
    %c = tpu.concatenate %a, %b in 0 : vector<16x128xf32>, vector<16x128xf32> -> vector<32x128xf32>
    STORE %c, o
    """,
)
MERGED = kernel(
    [argument("x:8x4x100xf32"), argument("o:32x100xf32")],
    """
    LOAD %a, x
    %b = arith.addf %a, %a : vector<8x4x100xf32>
    %c = vector.shape_cast %b : vector<8x4x100xf32> to vector<32x100xf32>
    %d = arith.addf %c, %c : vector<32x100xf32>
    STORE %d, o
    """,
)
COUNTED = kernel(
    [argument("x:2x8x128xf32"), argument("o:2x8x128xf32")],
    """
    LOAD %a, x
    %i = tpu.iota {dimensions = array<i32: 0>} : vector<2x8x128xi32>
    %f = arith.sitofp %i : vector<2x8x128xi32> to vector<2x8x128xf32>
    %b = arith.addf %a, %f : vector<2x8x128xf32>
    STORE %b, o
    """,
)
LOOP = kernel(
    [argument("x:16x128xf32"), argument("o:16x128xf32")],
    """
    LOAD %a, x
    %n = arith.constant 0 : i32
    %e = arith.constant 3 : i32
    %s = arith.constant 1 : i32
    %r = scf.for %k = %n to %e step %s iter_args(%v = %a) -> (vector<16x128xf32>) : i32 {
    %w = arith.addf %v, %a : vector<16x128xf32>
    scf.yield %w : vector<16x128xf32>
    }
    STORE %r, o
    """,
)


def split_all(patch: MonkeyPatch) -> None:
    """Splits every shuffle of two registers, which is right but slow."""
    patch.setattr(legalize_shuffles, "is_legal", lambda _: False)


@fault(SHUFFLES, MERGED)
def halves_of_a_split_shuffle_are_swapped(patch: MonkeyPatch) -> None:
    split_all(patch)
    right = legalize_shuffles._sublane_mask
    patch.setattr(
        legalize_shuffles,
        "_sublane_mask",
        lambda rows, anchor: right(tuple(not r for r in rows), anchor),
    )


@fault(SHUFFLES, MERGED)
def source_of_a_split_shuffle_stays_unshuffled(patch: MonkeyPatch) -> None:
    split_all(patch)
    patch.setattr(legalize_shuffles, "_one_source", lambda op, source, rows: source)


def patch_rule(patch: MonkeyPatch, kind: type[Any], wrong: Any) -> None:
    """`wrong(right, op, unroller)` in the place of the rule of `kind`."""
    right = unroll._RULES.of[kind]
    patch.setitem(unroll._RULES.of, kind, lambda op, u: wrong(right, op, u))


@fault(PASS, COPY)
def steps_of_a_grid_access_are_ignored(patch: MonkeyPatch) -> None:
    right = memory._steps
    patch.setattr(memory, "_steps", lambda *given: [*right(*given)[:-1], 0])


@fault(PASS, COUNTED)
def constants_of_registers_are_one(patch: MonkeyPatch) -> None:
    patch.setattr(folding, "_key", lambda kind, number: (kind, 0, 1))


@fault(PASS, COPY)
def last_register_is_not_stored(patch: MonkeyPatch) -> None:
    def wrong(right: Any, op: Any, u: Any) -> None:
        registers = u.registers(op.value).copy()
        registers[-1, -1] = None
        u.define(op.value, registers)
        right(op, u)

    patch_rule(patch, tpu.StoreOp, wrong)


@fault(PASS, TURNED)
def lanes_are_counted_as_sublanes(patch: MonkeyPatch) -> None:
    right = registerwise._shift_dimensions

    def shifted(op: Any, grid: Any) -> Any:
        properties = right(op, grid)
        if grid and "dimension" in properties:
            properties["dimension"] = IntegerAttr(0, properties["dimension"].type)
        return properties

    patch.setattr(registerwise, "_shift_dimensions", shifted)


@fault(PASS, COLUMN_MAX)
def last_register_is_left_out_of_a_fold(patch: MonkeyPatch) -> None:
    def wrong(right: Any, op: Any, u: Any) -> None:
        registers = u.registers(op.operands[0])
        kept = np.take(registers, range(registers.shape[op.dim.value.data] - 1), op.dim.value.data)
        u.define(op.operands[0], kept)
        right(op, u)

    patch_rule(patch, grid.ReduceOp, wrong)


@fault(PASS, SWAPPED)
def registers_are_joined_backwards(patch: MonkeyPatch) -> None:
    def wrong(right: Any, op: Any, u: Any) -> None:
        parts = [u.registers(v) for v in reversed(op.operands)]
        u.define(op.results[0], np.concatenate(parts, axis=op.dim.value.data))

    patch_rule(patch, grid.ConcatOp, wrong)


@fault(PASS, TRANSPOSED)
def registers_are_not_transposed(patch: MonkeyPatch) -> None:
    patch_rule(
        patch,
        grid.TransposeOp,
        lambda _, op, u: u.define(op.results[0], u.registers(op.operands[0])),
    )


@fault(PASS, IOTA)
def positions_are_counted_from_one(patch: MonkeyPatch) -> None:
    def wrong(right: Any, op: Any, u: Any) -> None:
        right(op, u)
        registers = u.registers(op.results[0])
        u.define(op.results[0], np.roll(registers, 1, axis=op.dim.value.data))

    patch_rule(patch, grid.PositionOp, wrong)


@fault(PASS, NARROWED)
def parts_of_a_pack_are_reversed(patch: MonkeyPatch) -> None:
    def wrong(right: Any, op: Any, u: Any) -> None:
        op.operands = list(reversed(op.operands))
        right(op, u)

    patch_rule(patch, tpu.PackSubelementsOp, wrong)


@fault(PASS, ROLLED)
def shuffle_patterns_are_reversed(patch: MonkeyPatch) -> None:
    right = registerwise._shuffle

    def shuffle(pair: Any, pattern: list[int], *rest: Any) -> Any:
        return right(pair, pattern[::-1], *rest)

    patch.setattr(registerwise, "_shuffle", shuffle)


@fault(PASS, LOOP)
def carried_registers_are_yielded_backwards(patch: MonkeyPatch) -> None:
    def wrong(right: Any, op: Any, u: Any) -> None:
        u.emit(scf.YieldOp(*reversed(u.expanded(op.operands))))

    patch_rule(patch, scf.YieldOp, wrong)


@fault(PASS, CONSTANTS)
def constants_become_zeros(patch: MonkeyPatch) -> None:
    def wrong(right: Any, op: Any, u: Any) -> None:
        right(op, u)
        if isinstance(op.results[0].type, VectorType):
            zero = u.zeros(u.register_type(op.results[0].type))
            shape = u.registers(op.results[0]).shape
            u.define(op.results[0], np.full(shape, zero, dtype=object))

    patch_rule(patch, arith.ConstantOp, wrong)


@fault(PASS, WIDENED)
def halves_of_a_register_are_taken_for_equal(patch: MonkeyPatch) -> None:
    patch.setattr(creation.Model, "key", lambda model, _: model.kind)
