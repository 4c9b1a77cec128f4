"""What operations on vectors and registers ask of them before they are executed or lowered.

The C++ dialect takes any vector in them, so these are no rules of verifiers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple, cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerType, MemRefType, VectorType, i1, i64
from xdsl.ir import Attribute, Operation

from pallasite.diagnostics import Note, VerifyError
from pallasite.dialects.locations import source_location
from pallasite.dialects.types import integers_in, register_type, split_grid

STEPS = "grid.steps"
"""Of a load or store of a grid of registers, the elements between them in each dimension.

Registers that share bounds of memory are stored in row-major order of their positions.
"""
BOX = "tpu.box"
"""Of a load or store that is part of a larger one of the kernel: where that is (`Box`)."""


class Box(NamedTuple):
    """What the kernel accesses, where what is left of its access may not show it any more.

    Registers are whole tiles, so one that begins inside of an array may hold what lies behind it.
    """

    offsets: tuple[int, ...]
    """Where the box begins, counted from the indices of the access that carries it."""
    sizes: tuple[int, ...]
    """The elements from the first to the last of each dimension."""
    extents: tuple[int, ...]
    """The sizes of the ref that the kernel accesses."""

    @property
    def attribute(self) -> DenseArrayBase[IntegerType]:
        """The box as the attribute `BOX`."""
        return DenseArrayBase.from_list(i64, [*self.offsets, *self.sizes, *self.extents])

    def moved(self, amounts: Sequence[int]) -> Box:
        """The same box, seen from an access whose indices are larger by `amounts`."""
        offsets = tuple(o - a for o, a in zip(self.offsets, amounts, strict=True))
        return self._replace(offsets=offsets)

    def leaves(self, index: Sequence[int]) -> bool:
        """Whether the box of an access at `index` reaches out of the ref."""
        bounds = zip(index, self.offsets, self.sizes, self.extents, strict=True)
        return any(i + low < 0 or i + low + size > extent for i, low, size, extent in bounds)


def box_of(op: Operation) -> Box | None:
    """The box that `op` carries, if it does."""
    attribute = op.attributes.get(BOX)
    if not isinstance(attribute, DenseArrayBase):
        return None
    numbers = integers_in(cast("DenseArrayBase[IntegerType]", attribute))
    rank = len(numbers) // 3
    return Box(numbers[:rank], numbers[rank : 2 * rank], numbers[2 * rank :])


def hull(one: Box, other: Box) -> Box | None:
    """A box of the same indices that leaves the ref wherever one of the two does."""
    if one.extents != other.extents:
        return None
    ends = [
        (min(a, b), max(a + m, b + n))
        for a, m, b, n in zip(one.offsets, one.sizes, other.offsets, other.sizes, strict=True)
    ]
    return Box(tuple(a for a, _ in ends), tuple(b - a for a, b in ends), one.extents)


def grid_and_register(
    op: Operation, type: VectorType[Attribute]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The grid and the shape of the registers of a vector; a `VerifyError` if it has none."""
    split = split_grid(type)
    if split is None:
        register = " x ".join(map(str, register_type(type.element_type).get_shape()))
        raise VerifyError(
            "not-registers",
            f"expected registers of {register} elements, got {type}",
            source_location(op),
        )
    return split


def check_same_grid(op: Operation, *types: VectorType[Attribute]) -> None:
    """Registers of one element type become as many of another one, whatever their widths."""
    grids = {grid_and_register(op, type)[0] for type in types}
    if len(grids) > 1:
        listed = ", ".join(dict.fromkeys(map(str, types)))
        raise VerifyError(
            "register-count",
            f"'{op.name}': expected grids of one shape, got {listed}",
            source_location(op),
        )


def check_within_registers(
    op: Operation, type: VectorType[Attribute], dimension: int, grid: Sequence[int]
) -> None:
    """An operation on registers works along their dimensions, not along those of their grid."""
    if not len(grid) <= dimension < type.get_num_dims():
        raise VerifyError(
            "grid-dimension",
            f"'{op.name}': expected a dimension of the registers of {type}, "
            f"{len(grid)} or {len(grid) + 1}, got {dimension}",
            source_location(op),
        )


def grid_steps(op: Operation, base: Attribute, type: VectorType[Attribute]) -> tuple[int, ...]:
    """The `grid.steps` of a load or store of type `type` at `base`; () for a single register."""
    grid, _ = grid_and_register(op, type)
    held = cast("MemRefType[Attribute]", base).element_type
    if held != type.element_type:
        raise VerifyError(
            "register-elements",
            f"'{op.name}': expected registers of {held}, which {base} holds, got {type}",
            source_location(op),
            [Note("tpu.memref_bitcast is a view of memory as another type")],
        )
    attribute = op.attributes.get(STEPS)
    known = isinstance(attribute, DenseArrayBase)
    steps = integers_in(cast("DenseArrayBase[IntegerType]", attribute)) if known else ()
    if grid and len(steps) != len(grid):
        raise VerifyError(
            "grid-steps",
            f"a load or store of {type} needs {STEPS} of {len(grid)} entries, got {len(steps)}",
            source_location(op),
        )
    return steps[: len(grid)]


def check_registers_of(
    op: Operation, registers: Sequence[Attribute], matrix: VectorType[Attribute]
) -> None:
    """A matrix is taken apart into, or made of, all of its native tiles, row by row."""
    kind = register_type(matrix.element_type)
    sublanes, lanes, *packed = kind.get_shape()
    *lead, height, width = (1, *matrix.get_shape())[-max(matrix.get_num_dims(), 2) :]
    rows = sublanes * prod(packed)
    expected = prod(lead) * (height // rows) * (width // lanes)
    whole = height % rows == 0 and width % lanes == 0
    if not whole or len(registers) != expected or any(r != kind for r in registers):
        given = ", ".join(dict.fromkeys(map(str, registers))) or "nothing"
        raise VerifyError(
            "register-count",
            f"'{op.name}': expected {matrix} to be whole registers {kind}, "
            f"{expected} of them, got {len(registers)} of {given}",
            source_location(op),
        )


def check_mask(op: Operation, type: Attribute, bounds: int) -> VectorType[Attribute]:
    """The type of a mask of which so many pairs of bounds describe dimensions."""
    if isinstance(type, VectorType):
        mask = cast("VectorType[Attribute]", type)
        if mask.element_type == i1 and bounds <= mask.get_num_dims():
            return mask
    raise VerifyError(
        "not-registers",
        f"'{op.name}': expected a vector of i1 of rank {bounds} or more, got {type}",
        source_location(op),
    )
