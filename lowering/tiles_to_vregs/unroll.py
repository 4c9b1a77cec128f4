"""`tiles-to-vregs`: unrolls grids mechanically, with one rule per kind of operation.

    %s = arith.addf %a, %b : vector<2x1x8x128xf32>
becomes
    %s0 = arith.addf %a0, %b0 : vector<8x128xf32>
    %s1 = arith.addf %a1, %b1 : vector<8x128xf32>

Needs the `tiles` form; leaves the `vreg` form, which the TPU compiler takes with its own layout
passes switched off. A grid is a NumPy array of SSA values, so slicing, concatenating and
transposing registers is plain indexing and costs no operation; a register that several positions
share is computed once. Poison registers are None and vanish with what depends on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, ModuleOp, VectorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from pallasite.diagnostics import Unsupported
from pallasite.dialects import arith, func
from pallasite.dialects.kernel import set_form
from pallasite.dialects.locations import source_location
from pallasite.dialects.types import splat
from pallasite.lowering.creation import (
    Model,
    emptied,
    fill,
    grid_and_register,
    index_attribute,
    made,
)
from pallasite.passes import collection
from pallasite.passes.dead_code import remove_dead_code

Registers = NDArray[Any]
"""A grid: SSA values of registers (None where poison), of the grid's shape."""

Grid = tuple[int, ...]

Rule = Callable[[Any, "Unroller"], None]
"""Takes an operation of the kind it is registered for."""

_RULES: dict[type[Operation], Rule] = {}
_ADDI = arith.default_properties(arith.AddiOp)


def rule(*kinds: type[Operation]) -> Callable[[Rule], Rule]:
    """Registers the unrolling rule of the operations `kinds`."""

    def register(function: Rule) -> Rule:
        for kind in kinds:
            _RULES[kind] = function
        return function

    return register


def as_grid(values: Sequence[SSAValue | None], shape: Sequence[int]) -> Registers:
    """An object array of `shape` that holds `values` in row-major order."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(tuple(shape))


def everywhere(register: SSAValue | None, shape: Grid) -> Registers:
    """A grid of `shape` that holds one register at every position."""
    array = np.empty(shape, dtype=object)
    array.fill(register)
    return array


def known_integer(value: SSAValue) -> int | None:
    """The integer that `value` is, if it is a scalar constant."""
    owner = value.owner
    if type(owner) is not arith.ConstantOp:
        return None
    constant = owner.properties["value"]
    return constant.value.data if isinstance(constant, IntegerAttr) else None


def _unknown(op: Operation) -> Unsupported:
    return Unsupported(
        "no-unroll-rule", f"{op.name} has no meaning on single registers", source_location(op)
    )


def is_vector(kind: Attribute) -> bool:
    """Whether `kind` is a vector type; `isinstance` is many times slower where it is not."""
    return type(kind) is VectorType


def _has_vectors(op: Operation, plain: set[Operation]) -> bool:
    """Whether `op`, which has regions, or anything in it has to do with vectors.

    Operations with regions of which that is not so are added to `plain`.
    """
    found = _names_vectors(op)
    for region in op.regions:
        for block in region.blocks:
            for argument in block.args:
                found = found or type(argument.type) is VectorType
            inner = block.first_op
            while inner is not None:
                # What is within must be looked at in any case.
                if inner.regions:
                    found = _has_vectors(inner, plain) or found
                elif not found:
                    found = _names_vectors(inner)
                inner = inner.next_op
    if not found:
        plain.add(op)
    return found


def _names_vectors(op: Operation) -> bool:
    """Whether a result or an operand of `op` is a vector."""
    for value in op.results:
        if type(value.type) is VectorType:
            return True
    for value in op.operands:
        if type(value.type) is VectorType:
            return True
    return False


class Unroller:
    """Unrolls one function; rules read grids with `registers` and record them with `define`."""

    def __init__(self) -> None:
        self._gone: list[Operation] = []
        # By identity of the old values, as hashing them is a call each. They live as long as this:
        # `_gone` holds those that no block does, so that no other value gets their identity.
        self._grids: dict[int, Registers] = {}
        self._scalars: dict[int, SSAValue] = {}
        self._plain: set[Operation] = set()
        self._splits: dict[int, tuple[Grid | None, Attribute]] = {}
        self._places: dict[tuple[int, int, int], list[SSAValue]] = {}
        self._known: dict[int, int | None] = {}
        self._integers: dict[int, tuple[int, ...]] = {}
        self._numbers: dict[Attribute, int] = {}
        self._attributes: dict[int, tuple[Attribute, int]] = {}
        self._indices: dict[int, SSAValue] = {}
        self._generated: dict[object, SSAValue] = {}
        self._entry_values: set[SSAValue] = set()
        self._entry: list[Operation] = []
        self._sums: list[dict[tuple[int, int], SSAValue]] = []
        self._out: list[Operation] = []

    def run(self, function: func.FuncOp) -> None:
        """Replaces the body of `function` by its unrolled form."""
        _has_vectors(function, self._plain)
        bodies = [self.block(old) for old in list(function.body.blocks)]
        if not bodies:
            return
        fill(bodies[0], [*self._entry, *bodies[0].ops])
        old = function.body
        function.detach_region(old)
        old.drop_all_references()
        function.add_region(Region(bodies))
        for body in bodies:
            remove_dead_code(body)

    def block(self, old: Block) -> Block:
        """A new block with the unrolled operations of `old`, which loses its operations."""
        outer, self._out = self._out, []
        self._sums.append({})
        new = Block(arg_types=self.expanded_types([a.type for a in old.args]))
        self.define_all(old.args, new.args)
        if len(new.args) == len(old.args):
            # Nothing was split: messages go on calling the arguments by their names.
            for before, after in zip(old.args, new.args, strict=True):
                after.name_hint = before.name_hint
        gone: list[Operation] = []
        op = old.first_op
        while op is not None:
            after = op.next_op
            if not self._operation(op):
                gone.append(op)
            op = after
        emptied(old)
        for op in gone:
            op.drop_all_references()
        self._gone += gone
        fill(new, self._out)
        self._sums.pop()
        self._out = outer
        return new

    def _operation(self, op: Operation) -> bool:
        """Unrolls `op`; whether it was kept as it is."""
        chosen = _RULES.get(type(op))
        if chosen is not None:
            before = len(self._out)
            chosen(op, self)
            return len(self._out) > before and self._out[-1] is op
        if op.regions or any(is_vector(r.type) for r in op.results):
            raise _unknown(op)
        self.keep(op)
        return True

    def is_plain(self, op: Operation) -> bool:
        """Whether neither `op` nor anything in its regions has to do with vectors."""
        return op in self._plain if op.regions else not _names_vectors(op)

    # What rules use.

    def keep(self, op: Operation) -> None:
        """Moves `op` here, which has scalars and memrefs only, on what stands for its operands.

        So with what is in it.
        """
        scalars, grids = self._scalars, self._grids
        for inner in op.walk() if op.regions else (op,):
            number = 0
            for value in inner.operands:
                known = scalars.get(id(value))
                if known is not None:
                    inner.operands[number] = known
                elif id(value) in grids:
                    raise _unknown(inner)
                number += 1
        self._out.append(op)

    def scalar(self, value: SSAValue) -> SSAValue:
        """What stands for the scalar or memref `value` in the new function."""
        return self._scalars.get(id(value), value)

    def registers(self, value: SSAValue) -> Registers:
        """The registers of grid `value`."""
        return self._grids[id(value)]

    def define(self, value: SSAValue, registers: Registers) -> None:
        """Records the registers of grid `value`."""
        self._grids[id(value)] = registers

    @property
    def out(self) -> list[Operation]:
        """The block under construction."""
        return self._out

    def emit(self, op: Operation) -> Operation:
        """Appends `op` to the block under construction."""
        self._out.append(op)
        return op

    def result(self, model: Model, operands: Sequence[SSAValue]) -> SSAValue:
        """The only result of the operation of `model` with `operands`, appended."""
        return model.result(operands, self._out)

    def integers(self, attribute: Attribute) -> tuple[int, ...]:
        """The integers that an attribute of an old operation lists."""
        known = self._integers.get(id(attribute))
        if known is None:
            values = cast(DenseArrayBase[Any], attribute).get_values()
            known = self._integers[id(attribute)] = tuple([int(v) for v in values])
        return known

    def expanded_types(self, types: Sequence[Attribute]) -> list[Attribute]:
        """`types` with every grid type repeated once per register."""
        expanded: list[Attribute] = []
        for kind in types:
            grid, register = self.split(kind)
            expanded += [register] * (1 if grid is None else math.prod(grid))
        return expanded

    def expanded(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """The new values for `values`, grids register by register; poison becomes zeros."""
        expanded: list[SSAValue] = []
        for value in values:
            if id(value) in self._grids:
                kind = self.register_type(value.type)
                expanded += [self.present(r, kind) for r in self._grids[id(value)].flat]
            else:
                expanded.append(self.scalar(value))
        return expanded

    def define_all(self, old: Sequence[SSAValue], new: Sequence[SSAValue]) -> None:
        """Records `new`, expanded as `expanded_types` does, as what stands for `old`."""
        position = 0
        for value in old:
            grid, _ = self.split(value.type)
            if grid is None:
                self._scalars[id(value)] = new[position]
                position += 1
                continue
            count = math.prod(grid)
            self.define(value, as_grid(new[position : position + count], grid))
            position += count

    def split(self, kind: Attribute) -> tuple[Grid | None, Attribute]:
        """The grid of grid type `kind` and the type of one register; other types have no grid."""
        known = self._splits.get(id(kind))
        if known is None:
            known = (None, kind)
            if type(kind) is VectorType:
                # Hashing a whole type is slow.
                shape = tuple([extent.data for extent in kind.shape.data])
                known = grid_and_register(kind.element_type, shape) or known
            # By identity, which is safe: the old values, and so their types, live on.
            self._splits[id(kind)] = known
        return known

    def grid(self, kind: Attribute) -> Grid:
        """The grid of a type; () for what has none."""
        return self.split(kind)[0] or ()

    def register_type(self, kind: Attribute) -> Attribute:
        """The type of one register of grid type `kind`; other types as they are."""
        return self.split(kind)[1]

    def index(self, value: int) -> SSAValue:
        """The index constant `value`, defined once at the function's entry."""
        known = self._indices.get(value)
        if known is None:
            attribute = index_attribute(value)
            op = made(arith.ConstantOp, (), (attribute.type,), {"value": attribute})
            self._entry.append(op)
            known = self._indices[value] = op.results[0]
            self._entry_values.add(known)
        return known

    def offsets(self, base: SSAValue, step: int, count: int) -> list[SSAValue]:
        """The indices `base + i * step` for i below `count`, computed once per block.

        Those of constants are constants, defined once at the function's entry.
        """
        base = self.scalar(base)
        constant = self._constant(base)
        if constant is None:
            return [self._sum(base, i * step) for i in range(count)]
        key = (constant, step, count)
        known = self._places.get(key)
        if known is None:
            known = self._places[key] = [self.index(constant + i * step) for i in range(count)]
        return known

    def _constant(self, base: SSAValue) -> int | None:
        """`known_integer` of a value in the new function."""
        if id(base) not in self._known:
            self._known[id(base)] = known_integer(base)
        return self._known[id(base)]

    def _sum(self, base: SSAValue, amount: int) -> SSAValue:
        """The index `base + amount`, computed once per block."""
        if not amount:
            return base
        for known in self._sums:
            if (id(base), amount) in known:
                return known[id(base), amount]
        sum_ = made(arith.AddiOp, (base, self.index(amount)), (base.type,), _ADDI)
        total = self.emit(sum_).results[0]
        self._sums[-1][id(base), amount] = total
        return total

    def hoisted(self, value: SSAValue) -> SSAValue:
        """What stands for scalar `value`, at the function's entry if it is an index constant."""
        value = self.scalar(value)
        constant = known_integer(value) if isinstance(value.type, IndexType) else None
        return value if constant is None else self.index(constant)

    def generated(
        self,
        op: type[Operation],
        operands: Sequence[SSAValue],
        kind: Attribute,
        properties: Mapping[str, Attribute],
    ) -> SSAValue | None:
        """A register that depends on constants only, defined once at the function's entry.

        None if an operand is not a constant, so that the register belongs where it is used.
        """
        for value in operands:
            if value not in self._entry_values:
                return None
        named = [(name, self._number(properties[name])) for name in sorted(properties)]
        key = (op, *map(id, operands), self._number(kind), *named)
        known = self._generated.get(key)
        if known is None:
            register = made(op, operands, (kind,), properties)
            self._entry.append(register)
            known = self._generated[key] = register.results[0]
        return known

    def _number(self, attribute: Attribute) -> int:
        """Equal for equal attributes, of which each is hashed once."""
        seen = self._attributes.get(id(attribute))
        if seen is None:
            number = self._numbers.setdefault(attribute, len(self._numbers))
            # Kept alive, so that no other one takes its place.
            seen = self._attributes[id(attribute)] = (attribute, number)
        return seen[1]

    def zeros(self, kind: Attribute) -> SSAValue:
        """A register of zeros, defined once at the function's entry."""
        zero = splat(cast(VectorType[Attribute], kind), 0)
        register = self.generated(arith.ConstantOp, (), kind, {"value": zero})
        assert register is not None
        return register

    def present(self, register: SSAValue | None, kind: Attribute) -> SSAValue:
        """`register`, or zeros of register type `kind` where poison must become a value."""
        return self.zeros(kind) if register is None else register


@dataclass(frozen=True)
class TilesToVregsPass(ModulePass):
    """Unrolls grids of registers: one SSA value per register."""

    name = "tiles-to-vregs"

    target: str = "v5e"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        from pallasite.lowering.tiles_to_vregs import rules

        rules.load()
        with collection.paused():
            for function in list(op.body.block.ops):
                if isinstance(function, func.FuncOp):
                    Unroller().run(function)
        set_form(op, "vreg")
