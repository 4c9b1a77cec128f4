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
from typing import Any, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pallasite.diagnostics import Unsupported, VerifyError
from pallasite.dialects import arith, func, memref, tpu
from pallasite.dialects.arith import known_integer
from pallasite.dialects.in_words import in_words
from pallasite.dialects.locations import refusal, source_location
from pallasite.dialects.numbering import Numbers
from pallasite.dialects.types import integers_in, is_vector, splat
from pallasite.lowering.creation import (
    Model,
    emptied,
    fill,
    grid_and_register,
    index_attribute,
    made,
    prepend,
)
from pallasite.lowering.tiles_to_vregs.computed import Computed, Operands
from pallasite.lowering.tiles_to_vregs.folding import fold_registers
from pallasite.lowering.tiles_to_vregs.grids import Grid, Registers, as_grid
from pallasite.lowering.tiles_to_vregs.joined_loads import join_loads
from pallasite.lowering.tiles_to_vregs.ordered_loads import load_rows_in_order
from pallasite.lowering.tiles_to_vregs.rows_apart import store_rows_apart
from pallasite.lowering.tiles_to_vregs.turned_rows import turn_spread_rows
from pallasite.passes.dead_code import remove_dead_code
from pallasite.passes.effects import is_pure
from pallasite.passes.rules import LastRules

# pyright: reportPrivateUsage=false
Rule = Callable[[Any, "Unroller"], None]
"""Unrolls an operation of the kind it is registered for, with the `Unroller`."""

_RULES = LastRules[Rule]()
rule = _RULES.rule
_READS = (tpu.LoadOp, tpu.ShuffledLoadOp, memref.LoadOp)
_ADDI = arith.default_properties(arith.AddiOp)


def _unknown(op: Operation) -> Unsupported:
    return refusal(op, "no-unroll-rule", f"{in_words(op)} has no meaning on single registers")


def _keep_scalars(op: Operation, u: Unroller) -> None:
    """What happens to operations without a rule: they are kept if they use scalars only."""
    if op.regions or any([is_vector(r) for r in op.results]):
        raise _unknown(op)
    u.keep(op)


class Unroller:
    """Unrolls one function; rules read grids with `registers` and record them with `define`."""

    def __init__(self) -> None:
        self._gone: list[Operation] = []
        # By identity of the old values, as hashing them is slow. `_gone` keeps those alive that no
        # block does, so that no other value gets their identity.
        self._grids: dict[int, Registers] = {}
        self._scalars: dict[int, SSAValue] = {}
        self._splits: dict[int, tuple[Grid | None, Attribute]] = {}
        self._places: dict[tuple[int, int, int], list[SSAValue]] = {}
        self._known: dict[int, int | None] = {}
        self._numbers = Numbers()
        self._indices: dict[int, SSAValue] = {}
        self._generated: dict[object, SSAValue] = {}
        self._entry_values: set[SSAValue] = set()
        self._entry: list[Operation] = []
        self._sums: list[dict[tuple[int, int], SSAValue]] = []
        self._computed: list[Computed] = []
        self._loaded = Computed()
        self._out: list[Operation] = []
        self.counts = False
        """Whether registers count positions, or pad, so that folding single ones may pay."""

    def run(self, function: func.FuncOp) -> None:
        """Replaces the body of `function` by its unrolled form."""
        old = function.body
        new = self.region(old)
        if new is not old:
            function.detach_region(old)
            old.drop_all_references()
            function.add_region(new)
        for number, block in enumerate(new.blocks):
            if not number:
                prepend(block, self._entry)
            remove_dead_code(block)
        if self.counts:
            fold_registers(function)
        load_rows_in_order(function)
        join_loads(function)
        store_rows_apart(function)
        turn_spread_rows(function)

    def region(self, old: Region) -> Region:
        """`old` with its blocks unrolled; if one had grids for arguments, a new region of all
        blocks.

        The operation of `old` must still be given the new region.
        """
        before = list(old.blocks)
        after = [self.block(block) for block in before]
        if after == before:
            return old
        for block in after:
            if block.parent is old:
                old.detach_block(block)
        return Region(after)

    def block(self, old: Block) -> Block:
        """`old` with its operations unrolled, or a new block with them if it has grids for
        arguments.

        What holds no grids stays where it is, and so does what uses it.
        """
        outer, self._out = self._out, []
        self._loaded = Computed()
        self._sums.append({})
        self._computed.append(Computed())
        new = old
        for argument in old.args:
            if self.is_grid(argument.type):
                new = self._with_registers(old)
                break
        out, gone = self._out, list[Operation]()
        op = old.first_op
        while op is not None:
            after = op.next_op
            chosen = _RULES.of.get(type(op), _keep_scalars)
            count = len(out)
            chosen(op, self)
            if type(op) not in _READS and not is_pure(type(op)):
                self._loaded = Computed()
            if len(out) == count or out[-1] is not op:
                gone.append(op)
            op = after
        emptied(old)
        self._forget(gone)
        fill(new, out)
        self._sums.pop()
        self._computed.pop()
        self._out = outer
        return new

    def _with_registers(self, old: Block) -> Block:
        """An empty block with the arguments of `old`, grids as registers."""
        new = Block(arg_types=self.expanded_types([a.type for a in old.args]))
        self.define_all(old.args, new.args)
        if len(new.args) == len(old.args):
            # Nothing was split: messages go on calling the arguments by their names.
            for before, after in zip(old.args, new.args, strict=True):
                after.name_hint = before.name_hint
        return new

    def _forget(self, gone: list[Operation]) -> None:
        """Makes the operations `gone` use nothing that stays."""
        for op in gone:
            if op.regions:
                op.drop_all_references()
                continue
            uses = op._operand_uses
            number = 0
            for value in op._operands:
                # Grids go as well.
                if id(value) not in self._grids:
                    value.remove_use(uses[number])
                number += 1
        self._gone += gone

    # What rules use.

    def keep(self, op: Operation) -> None:
        """Moves `op`, which has scalars and memrefs only, to the new block, with new operands.

        Its regions move with it, and must have been unrolled.
        """
        scalars, grids = self._scalars, self._grids
        number = 0
        for value in op._operands:
            if id(value) in scalars:
                op.operands[number] = scalars[id(value)]
            elif id(value) in grids:
                raise _unknown(op)
            number += 1
        self._out.append(op)

    def scalar(self, value: SSAValue) -> SSAValue:
        """What stands for the scalar or memref `value` in the new function."""
        return self._scalars.get(id(value), value)

    def registers(self, value: SSAValue) -> Registers:
        """The registers of grid `value`; a `VerifyError` for what has none."""
        found = self._grids.get(id(value))
        if found is None:
            owner = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
            raise VerifyError(
                "not-registers",
                f"expected a grid of registers, got {value.type}",
                source_location(owner) if owner is not None else None,
            )
        return found

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
        """The only result of the operation of `model` with `operands`, once per block."""
        key = tuple([*map(id, operands)])
        return self.results(model, {key: operands})[key]

    def results(
        self, model: Model, rows: Mapping[Operands, Sequence[SSAValue]]
    ) -> Mapping[Operands, SSAValue]:
        """The only results of the operations of `model`, which at most load, by operands.

        Those for `rows` that are not in this block yet are appended; there may be others.
        """
        computed = self._loaded if model.kind in _READS else self._computed[-1]
        return computed.of(model, rows, self._numbers, self._out)

    def integers(self, attribute: Attribute) -> tuple[int, ...]:
        """The integers that an attribute of an old operation lists."""
        return integers_in(cast(DenseArrayBase[IntegerType], attribute))

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

    def is_grid(self, kind: Attribute) -> bool:
        """Whether `kind` is the type of a grid of registers."""
        return self.split(kind)[0] is not None

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
        named = [(name, self._numbers.of(properties[name])) for name in sorted(properties)]
        key = (op, *map(id, operands), self._numbers.of(kind), *named)
        known = self._generated.get(key)
        if known is None:
            register = made(op, operands, (kind,), properties)
            self._entry.append(register)
            known = self._generated[key] = register.results[0]
        return known

    def zeros(self, kind: Attribute) -> SSAValue:
        """A register of zeros, defined once at the function's entry."""
        zero = splat(cast(VectorType[Attribute], kind), 0)
        register = self.generated(arith.ConstantOp, (), kind, {"value": zero})
        assert register is not None
        return register

    def present(self, register: SSAValue | None, kind: Attribute) -> SSAValue:
        """`register`, or zeros of register type `kind` where poison must become a value."""
        return self.zeros(kind) if register is None else register
