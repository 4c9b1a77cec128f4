"""Which registers of a value that a branch yields existed before it, and which are computed.

`renamed_registers.py` needs this to find branches that only rearrange registers. Slices, most
reshapes, transposes of leading dimensions and broadcasts of a row compute nothing: the result
consists of registers of the operand, in another order or from another offset on ("renamed").
Bitcasts compute new registers, but leave the offset. Asked of libtpu 0.0.51, for v5e with every
kind of operation, and for v4, v6e and v7x with some.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith, scf, tpu, vector
from pallasite.dialects.types import bit_width, shape_of
from pallasite.dialects.vector_shapes import values_of
from pallasite.layouts.registers import LANES, SUBLANES, packing
from pallasite.passes.check_kernel.constants import is_constant
from pallasite.passes.check_kernel.late_constants import late_constant
from pallasite.passes.check_kernel.replication import Replications
from pallasite.targets import Target

COMPUTED = -1
"""The number of registers that are computed inside of the branch."""
Registers = NDArray[np.int_]
_Offset = tuple[int, int, bool]
"""The row and the lane at which a value begins in its first register, and whether its rows are
copies of one."""
_LOADS = (vector.LoadOp, tpu.VectorLoadOp)
_BITCASTS = (arith.BitcastOp, tpu.BitcastOp)


def _number(value: SSAValue) -> float | None:
    """The number that all elements of a constant, or of a broadcast of one, are; else None."""
    while isinstance(made := value.owner, vector.BroadcastOp):
        value = made.source
    return arith.known_number(value)


class BranchRegisters:
    """The registers of the values that the branch `op` yields, numbered as they are asked for.

    `replications` says which vectors of its function are replicated.
    """

    def __init__(self, op: scf.IfOp, target: Target, replications: Replications) -> None:
        self._op, self._target, self._replications = op, target, replications
        self._numbers: dict[SSAValue | str, int] = {}
        """The number of the first register of each value; of each constant, by its text, the number
        of all."""
        self._next = 0

    def lie_alike(self, one: SSAValue, other: SSAValue) -> bool:
        """Whether both values have the same offset in a register, so that neither is moved where
        they meet in a result.

        A constant fits any offset. Two constants do not count: they become a selection of vectors.
        """
        if is_constant(one) and is_constant(other):
            return False
        apart = [self._is_put_together(value) for value in (one, other)]
        if any(apart) and not all(apart) and not (is_constant(one) or is_constant(other)):
            return False
        constant = any(is_constant(v) or late_constant(v) is not None for v in (one, other))
        return constant or self._offset(one) == self._offset(other)

    def registers(self, value: SSAValue) -> Registers:
        """A number for each register of `value`, in its grid; equal numbers are one register.

        Registers that are computed inside of the branch are `COMPUTED`.
        """
        value = _uncast(value)
        made, grid = value.owner, grid_of(value)
        constant = late_constant(value)
        if constant is None and is_constant(value):
            constant = _number(value)
        if constant is not None:
            return np.full(grid, self._numbers.setdefault(str(constant), self._numbered()))
        exact = self._rearranged(made, value) if isinstance(made, Operation) else None
        if exact is not None:
            return exact
        if isinstance(made, Operation) and self._op.is_ancestor(made) and not is_constant(value):
            source = None if isinstance(made, _BITCASTS) else self._renamed(made)
            if source is None or np.any(self.registers(source) == COMPUTED):
                return np.full(grid, COMPUTED)
        first = self._numbers.setdefault(value, self._numbered(prod(grid)))
        numbers = first + np.arange(prod(grid)).reshape(grid)
        one = tuple(slice(0, 1) if same else slice(None) for same in _repeated(value, len(grid)))
        return np.broadcast_to(numbers[one], grid)

    def _numbered(self, count: int = 1) -> int:
        """Reserves `count` unused numbers; returns the first."""
        first, self._next = self._next, self._next + count
        return first

    def _rearranged(self, made: Operation, value: SSAValue) -> Registers | None:
        """The registers of `value` if its operation `made` rearranges whole ones; else None."""
        grid = grid_of(value)
        unit = (*[1] * (len(grid) - 2), _tile(value), LANES)
        if isinstance(made, tpu.ConcatenateOp):
            return self._joined(made, value)
        if len(shape_of(value.type)) < 2:
            return None
        if isinstance(made, vector.ExtractStridedSliceOp):
            offsets = values_of(made.offsets)
            source = made.operands[0]
            if len(offsets) == len(grid) and not any(
                o % u for o, u in zip(offsets, unit, strict=True)
            ):
                box = tuple(
                    slice(o // u, o // u + n) for o, u, n in zip(offsets, unit, grid, strict=True)
                )
                return self.registers(source)[box]
        elif isinstance(made, tpu.DynamicRotateOp):
            return self._rotated(made, unit)
        elif isinstance(made, vector.ShapeCastOp):
            source = made.operands[0]
            old, new = shape_of(source.type), shape_of(value.type)
            whole = (
                len(old) > 1
                and old[-1] == new[-1]
                and not (old[-2] % unit[-2] or new[-2] % unit[-2])
            )
            if whole or (len(old) > 1 and old[-2:] == new[-2:]):
                return self.registers(source).reshape(grid)
        return None

    def _rotated(self, made: tpu.DynamicRotateOp, unit: tuple[int, ...]) -> Registers | None:
        """The registers of a rotation by whole registers, None for another one.

        16-bit elements count only along leading dimensions, and in vectors of at most 8 rows.
        """
        amount, shape = arith.known_integer(made.amount), shape_of(made.value.type)
        axis = made.dimension.value.data
        if amount is None or made.stride is not None or shape[axis] % unit[axis]:
            return None
        if bit_width(made.value.type) == 16 and (axis >= len(shape) - 2 or shape[-2] > SUBLANES):
            return None
        if amount % unit[axis] or self._offset(made.value) != (0, 0, False):
            return None
        return np.roll(self.registers(made.value), amount // unit[axis], axis)

    def _joined(self, made: tpu.ConcatenateOp, value: SSAValue) -> Registers | None:
        """The registers of a concatenation, None where the compiler computes them all.

        A register that one part fills is a register of that part, if it begins one there as well
        or is constant; the others are computed.
        """
        shape, grid = shape_of(value.type), grid_of(value)
        back, axis = len(shape) - made.dimension.value.data, len(grid) - len(shape)
        units = (_tile(value) * LANES,) if len(shape) < 2 else (LANES, _tile(value))
        unit = units[back - 1] if back <= len(units) else 1
        sizes = [shape_of(part.type)[-back] for part in made.operands]
        bits = bit_width(value.type)
        halves = bits == 16
        if len(shape) < 2 and halves and any(size % unit for size in sizes[:-1]):
            return None
        if bits < 16 and (shape[-1:] == (1,) or (back == 1 and shape[-2:-1] != (_tile(value),))):
            return None
        apart = self._is_put_together(value)
        whole, axis = np.full(grid, COMPUTED), len(shape) - back + axis
        # In a vector of rank 1, each row of a register is counted.
        rows = SUBLANES * packing(bits) if len(shape) < 2 else 1
        start = 0
        for part, size in zip(made.operands, sizes, strict=True):
            end = start + size
            first = -(-start // unit) * rows
            last = end // unit * rows if end < sum(sizes) else grid[axis]
            filled = tuple(
                slice(first, last) if d == axis else slice(None) for d in range(len(grid))
            )
            if first < last and (is_constant(part) or late_constant(part) is not None):
                whole[filled] = self.registers(part).flat[0]
            elif first < last and not apart:
                lying = self._lying(part, start, axis, grid)
                if lying is not None:
                    whole[filled] = np.take(lying, range(last - first), axis)
            start = end
        return (
            np.full(grid, COMPUTED) if halves and not apart and np.any(whole == COMPUTED) else whole
        )

    def _lying(
        self, part: SSAValue, start: int, axis: int, grid: tuple[int, ...]
    ) -> Registers | None:
        """The registers of `part`, which is joined at `start` along `axis`, from the first one that
        is whole in the result; None if the registers of both do not begin at the same elements."""
        offsets = np.zeros(len(grid), int)
        while isinstance(made := part.owner, vector.ExtractStridedSliceOp):
            taken = values_of(made.offsets)
            offsets[len(grid) - len(taken) :] += taken
            part = made.operands[0]
        if self._offset(part) != (0, 0, False):
            return None
        units = (*[1] * (len(grid) - 2), _tile(part), LANES)
        whole = units
        if len(shape_of(part.type)) < 2:
            units, whole = (1, LANES), (1, LANES * _tile(part))
        offsets[axis] += -start % whole[axis]
        if any(o % u for o, u in zip(offsets, whole, strict=True)):
            return None
        box = [
            slice(o // u, None if d == axis else o // u + n)
            for d, (o, u, n) in enumerate(zip(offsets, units, grid, strict=True))
        ]
        return self.registers(part)[tuple(box)]

    def _is_put_together(self, value: SSAValue) -> bool:
        """Whether `value` is a concatenation of 16-bit elements along rows or lanes whose registers
        are computed: not if it has at most 8 rows, is joined along lanes, and all parts are
        loaded."""
        made, shape = value.owner, shape_of(value.type)
        if not isinstance(made, tpu.ConcatenateOp) or bit_width(value.type) != 16 or len(shape) < 2:
            return False
        back = len(shape) - made.dimension.value.data
        if back == 1 and shape[-2] <= SUBLANES:
            return not all(self._is_loaded(part) for part in made.operands)
        return back <= 2

    def _is_loaded(self, value: SSAValue) -> bool:
        """Whether the registers of `value` were loaded, and only renamed since."""
        while (
            isinstance(op := value.owner, Operation) and (source := self._renamed(op)) is not None
        ):
            value = source
        return isinstance(op, _LOADS)

    def _renamed(self, op: Operation) -> SSAValue | None:
        """The operand whose registers the result of `op` consists of, in another order or from
        another offset on; None if `op` computes something."""
        if not op.operands or not isinstance(op.operands[0].type, VectorType):
            return None
        source, result = op.operands[0], op.results[0]
        old, new, bits = shape_of(source.type), shape_of(result.type), bit_width(result.type)
        match op:
            case vector.ExtractStridedSliceOp():
                renames = True
            case vector.ShapeCastOp():
                renames = _recasts(old, new, bits, self._target)
                if renames and len(old) > len(new) and old[-1:] == (1,) != new[-1:]:
                    # A column of packed elements from within a register is moved to its first lane.
                    renames = bits == 32 or self._offset(source)[1] == 0
            case vector.BroadcastOp():
                row = _one_row(old, new, bits) and bool(self._replications.of(source).sublanes)
                renames = row or old[-2:] == new[-2:]
            case vector.TransposeOp() | tpu.TransposeOp():
                order = tuple(int(d) for d in op.permutation.get_values())
                renames = order[-2:] == (len(new) - 2, len(new) - 1)
            case _:
                renames = isinstance(op, _BITCASTS) and bits == bit_width(source.type)
        return source if renames else None

    def _offset(self, value: SSAValue) -> _Offset:
        """Where `value` begins in its first register."""
        row, lane, replicated = 0, 0, False
        while (
            isinstance(op := value.owner, Operation) and (source := self._renamed(op)) is not None
        ):
            old, new = shape_of(source.type), shape_of(value.type)
            match op:
                case vector.ExtractStridedSliceOp():
                    offsets = (0, 0, *values_of(op.offsets), *[0] * len(old))[: len(old) + 2]
                    row, lane = row + offsets[-2], lane + offsets[-1]
                case vector.ShapeCastOp() if min(len(old), len(new)) > 1 and old[-2:] != new[-2:]:
                    break
                case vector.BroadcastOp():
                    replicated = replicated or old[-2:] != new[-2:]
                case _:
                    pass
            value = source
        flat = len(shape_of(value.type)) < 2
        return row % _tile(value), lane % (LANES * SUBLANES if flat else LANES), replicated


def _uncast(value: SSAValue) -> SSAValue:
    """`value` without bitcasts to another type and back, which the compiler drops."""
    source = value
    while isinstance(op := source.owner, _BITCASTS):
        source = op.operands[0]
        if source.type == value.type:
            value = source
    return value


def grid_of(value: SSAValue) -> tuple[int, ...]:
    """The grid of registers of `value`; a vector of rank 1 counts as a row."""
    *leading, rows, columns = (1, *shape_of(value.type))[-max(2, len(shape_of(value.type))) :]
    return (*leading, -(-rows // _tile(value)), -(-columns // LANES))


def _tile(value: SSAValue) -> int:
    return SUBLANES * packing(bit_width(value.type))


def _recasts(old: tuple[int, ...], new: tuple[int, ...], bits: int, target: Target) -> bool:
    """Whether a reshape from `old` to `new` moves nothing within registers."""
    if old[-1:] == (1,) and tuple(old[:-1]) == tuple(new) and bits >= 16:
        # A column stays along sublanes.
        return True
    if min(len(old), len(new)) < 2:
        return bits >= 16 and old[-1:] == new[-1:] and prod(old) == new[-1]
    if old[-1] != new[-1]:
        return False
    # Rows that a reshape joins: the load already brings them in this order.
    if old[-2] <= new[-2]:
        return bits == 32 or old[-2] in (1, 2, 4) or old[-2] % SUBLANES == 0
    if bits == 16:
        return new[-2] % SUBLANES == 0
    sublanes, rest = divmod(new[-2] * bits, 32)
    native = bits == 8 and new[-2] == SUBLANES
    return not rest and not native and new[-1] <= LANES and sublanes in target.cut_sublanes


def _one_row(old: tuple[int, ...], new: tuple[int, ...], bits: int) -> bool:
    """Whether a broadcast repeats one row of words over the rows of one register."""
    row = bits == 32 and len(old) > 1 and old[-2] == 1 and old[-1] == new[-1]
    return row and new[-1] <= LANES and new[-2] <= SUBLANES


def _repeated(value: SSAValue, rank: int) -> list[bool]:
    """For each dimension of the grid of `value`, whether its registers along it are all one."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp):
        return [True] * rank
    if not isinstance(owner, vector.BroadcastOp):
        return [False] * rank
    source = owner.operands[0].type
    sizes = shape_of(source) if isinstance(source, VectorType) else ()
    return [size == 1 for size in (*[1] * (rank - len(sizes)), *sizes)]
