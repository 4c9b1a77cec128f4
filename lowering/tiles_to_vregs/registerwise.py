"""Unrolls operations that treat every register alike: one copy per distinct set of operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from pallasite.dialects import arith, math, tpu, vector
from pallasite.dialects.registers import check_same_grid, check_within_registers
from pallasite.dialects.types import bit_width, is_vector, splat, splat_value
from pallasite.lowering.creation import Model, made
from pallasite.lowering.tiles_to_vregs.computed import Operands
from pallasite.lowering.tiles_to_vregs.grids import as_grid, everywhere
from pallasite.lowering.tiles_to_vregs.unroll import Unroller, rule

_GENERATORS = (arith.ConstantOp, vector.BroadcastOp, tpu.IotaOp, tpu.CreateMaskOp,
               tpu.CreateSubelementMaskOp)  # fmt: skip


_DIMENSIONS = {"dimension", "stride_dimension", "dim", "dimensions"}
"""Properties that count dimensions."""


def _elementwise(module: Any) -> list[type[Operation]]:
    """The operations of a dialect's `module`, except those that generate registers."""
    kinds = [v for v in vars(module).values() if isinstance(v, type) and issubclass(v, Operation)]
    return [k for k in kinds if getattr(k, "name", None) and k not in _GENERATORS]


def _shift_dimensions(op: Operation, grid: Sequence[int]) -> dict[str, Attribute]:
    """The properties of `op` with dimension numbers of one register instead of the grid.

    Raises if a number names a dimension of the grid.
    """
    properties, rank = dict(op.properties), len(grid)
    if not rank or properties.keys().isdisjoint(_DIMENSIONS):
        return properties
    type = cast("VectorType[Attribute]", op.results[0].type)
    for name in ("dimension", "stride_dimension", "dim"):
        value = properties.get(name)
        if isinstance(value, IntegerAttr):
            check_within_registers(op, type, value.value.data, grid)
            properties[name] = IntegerAttr(value.value.data - rank, value.type)
    value = properties.get("dimensions")
    if isinstance(value, DenseArrayBase):
        dims = [int(d) for d in cast(DenseArrayBase[Any], value).get_values()]
        for dim in dims:
            check_within_registers(op, type, dim, grid)
        within = [dim - rank for dim in dims]
        properties["dimensions"] = DenseArrayBase.from_list(value.elt_type, within)
    return properties


@rule(
    *_elementwise(arith), *_elementwise(math),
    tpu.DynamicRotateOp, tpu.RotateOp, tpu.GatherOp, tpu.DynamicGatherOp, tpu.AllReduceOp,
    tpu.BroadcastInSublanesOp, tpu.MaskCastOp, tpu.PackVmskOp,
    tpu.UnpackSubelementsOp, tpu.PackElementwiseOp, tpu.UnpackElementwiseOp, tpu.ReciprocalOp,
    tpu.WeirdOp, tpu.StochasticConvertElementwiseOp, tpu.FptosiOp, tpu.SitofpOp, tpu.FptouiOp,
    tpu.UitofpOp, tpu.ExtfOp, tpu.TruncfOp, tpu.LogisticOp, tpu.PrngRandomBitsOp,
)  # fmt: skip
def unroll_registerwise(op: Operation, u: Unroller) -> None:
    """Emits one copy of `op` per register; positions with equal operands share one copy.

    A result is poison if an operand is, except for selects and packed masks. Registers of random
    bits are all distinct.
    """
    grid, kind = u.split(op.results[0].type) if op.results else (None, None)
    if grid is None or kind is None:
        u.keep(op)
        return
    properties = _shift_dimensions(op, grid)
    count = prod(grid)
    model = Model(type(op), (kind,), properties, op.attributes, op.location)
    if type(op) is tpu.PrngRandomBitsOp:
        # Equal operands give different bits.
        scalars = tuple([u.scalar(v) for v in op.operands])
        u.define(op.results[0], as_grid(model.results([scalars] * count, u.out), grid))
        return
    columns: list[list[SSAValue | None]] = [
        u.registers(v).ravel().tolist() if is_vector(v) else [u.scalar(v)] * count
        for v in op.operands
    ]
    if any([len(column) != count for column in columns]):
        vectors = [v.type for v in (*op.operands, *op.results) if is_vector(v)]
        check_same_grid(op, *cast("list[VectorType[Attribute]]", vectors))
    # By identity: a hash of a value is a call of Python.
    names = [[*map(id, column)] for column in columns]
    keys = [*zip(*names, strict=True)]
    rows = dict(zip(keys, zip(*columns, strict=True), strict=True))
    passed: dict[Operands, SSAValue | None] = {}
    if type(op) is tpu.PackVmskOp:
        rows = {key: _filled(row) for key, row in rows.items() if {*key} != {_NONE}}
    elif type(op) is arith.SelectOp:
        passed = {k: _passed_on(row) for k, row in rows.items() if _NONE in k or k[1] == k[2]}
        rows = {k: row for k, row in rows.items() if k not in passed}
    elif any([_NONE in column for column in names]):
        # Undefined if any operand is.
        rows = {key: row for key, row in rows.items() if _NONE not in key}
    results = u.results(model, cast("dict[Operands, tuple[SSAValue, ...]]", rows))
    registers = [passed[k] if k in passed else results.get(k) for k in keys]
    u.define(op.results[0], as_grid(registers, grid))


_Row = tuple[SSAValue | None, ...]
_NONE = id(None)


def _passed_on(operands: _Row) -> SSAValue | None:
    """The register that a select gives whose operands are poison, or the same register twice."""
    _, chosen, other = operands
    return other if chosen is None else chosen


def _filled(operands: _Row) -> _Row:
    """The operands of a packed mask, a poison half replaced by the other half."""
    known = next((v for v in operands if v is not None), None)
    return tuple([known if v is None else v for v in operands])


@rule(tpu.BitcastVregOp)
def unroll_bitcast(op: tpu.BitcastVregOp, u: Unroller) -> None:
    """Emits bitcasts of registers, but none of a bitcast back to the type that it had.

    A bitcast of a bitcast to words is one bitcast.
    """
    registers = u.registers(op.operands[0])
    kind = u.register_type(op.results[0].type)
    model = Model(type(op), (kind,), op.properties, op.attributes, op.location)
    found: list[SSAValue | None] = []
    for register in registers.flat:
        while register is not None and type(register.owner) is tpu.BitcastVregOp:
            before = register.owner.operands[0]
            if before.type != kind and bit_width(kind) < 32:
                break
            register = before
        if register is not None and register.type != kind:
            register = u.result(model, (register,))
        found.append(register)
    u.define(op.results[0], as_grid(found, registers.shape))


@rule(tpu.SublaneShuffleOp)
def unroll_shuffle(op: tpu.SublaneShuffleOp, u: Unroller) -> None:
    """Emits shuffles of two registers, but none where all sublanes of one source stay in place.

    A source that is poison, or not read, is replaced by the other one.
    """
    grid, kind = u.grid(op.results[0].type), u.register_type(op.results[0].type)
    pattern = [int(p) for p in op.pattern.get_values()]
    rows = len(pattern)
    sources = [u.registers(v).flat for v in op.operands]
    models: dict[tuple[int, ...], Model] = {}

    def model(pattern: tuple[int, ...]) -> Model:
        if pattern not in models:
            attribute = DenseArrayBase.from_list(op.pattern.elt_type, pattern)
            properties = {**op.properties, "pattern": attribute}
            models[pattern] = Model(type(op), (kind,), properties, location=op.location)
        return models[pattern]

    seen: dict[tuple[int, ...], SSAValue | None] = {}
    results: list[SSAValue | None] = []
    for pair in zip(*sources, strict=True):
        key = tuple(map(id, pair))
        if key not in seen:
            seen[key] = _shuffle(pair, pattern, rows, kind, model, u)
        results.append(seen[key])
    u.define(op.results[0], as_grid(results, grid))


def _shuffle(
    pair: tuple[SSAValue | None, SSAValue | None],
    pattern: list[int],
    rows: int,
    kind: Attribute,
    model: Callable[[tuple[int, ...]], Model],
    u: Unroller,
) -> SSAValue | None:
    """The register that a shuffle of `pair` by `pattern` gives, None for poison; `rows` sublanes
    each."""
    left, right = pair
    if left is right:
        pattern = [p % rows for p in pattern]
    used = {p // rows for p in pattern if pair[p // rows] is not None}
    if not used:
        return None
    if used == {0}:
        right = left
        pattern = [p % rows for p in pattern]
    elif used == {1}:
        left = right
        pattern = [p % rows for p in pattern]
    if pattern == list(range(rows)):
        return left
    operands = (u.present(left, kind), u.present(right, kind))
    return u.result(model(tuple(pattern)), operands)


@rule(tpu.PackSubelementsOp)
def unroll_pack(op: tpu.PackSubelementsOp, u: Unroller) -> None:
    """Emits packs without poison sources, whose positions in the words stay undefined."""
    check_same_grid(op, op.sources[0].type, op.result.type)
    grid, kind = u.grid(op.results[0].type), u.register_type(op.results[0].type)
    positions = [int(p) for p in op.positions.get_values()]
    columns = [u.registers(v).flat for v in op.operands]
    models: dict[tuple[int, ...], Model] = {}
    seen: dict[Operands, SSAValue | None] = {}
    results: list[SSAValue | None] = []
    for operands in zip(*columns, strict=True):
        key = tuple(map(id, operands))
        if key not in seen:
            kept = [(v, p) for v, p in zip(operands, positions, strict=True) if v is not None]
            seen[key] = None
            if kept:
                places = tuple(p for _, p in kept)
                if places not in models:
                    where = DenseArrayBase.from_list(op.positions.elt_type, places)
                    properties = {**op.properties, "positions": where}
                    models[places] = Model(type(op), (kind,), properties, location=op.location)
                seen[key] = u.result(models[places], [v for v, _ in kept])
        results.append(seen[key])
    u.define(op.results[0], as_grid(results, grid))


def _splat(constant: Attribute, kind: Attribute) -> Attribute:
    """The constant of register type `kind` whose elements all are that of the splat `constant`."""
    register = cast(VectorType[Attribute], kind)
    number = splat_value(constant)
    return constant if number is None else splat(register, number)


@rule(*_GENERATORS)
def unroll_generator(op: Operation, u: Unroller) -> None:
    """Emits one register, which all positions share, for an operation without vector operands.

    It is emitted at the function's entry if it depends on constants only.
    """
    grid, kind = u.split(op.results[0].type)
    if grid is None:
        u.keep(op)
        return
    properties = _shift_dimensions(op, grid)
    constant = properties.get("value")
    if constant is not None:
        properties["value"] = _splat(constant, kind)
    operands = [u.hoisted(v) for v in op.operands]
    register = u.generated(type(op), operands, kind, properties)
    if register is None:
        model = Model(type(op), (kind,), properties, location=op.location)
        register = u.result(model, operands)
    u.define(op.results[0], everywhere(register, grid))


@rule(vector.ExtractOp)
def unroll_extract(op: vector.ExtractOp, u: Unroller) -> None:
    """Emits the extraction of a scalar from the one register of its source."""
    source = u.registers(op.operands[0])
    kind = u.register_type(op.operands[0].type)
    operands = [u.present(source.reshape(-1)[0], kind), *map(u.scalar, op.operands[1:])]
    new = made(
        vector.ExtractOp, operands, (op.results[0].type,), op.properties, location=op.location
    )
    u.define_all(op.results, u.emit(new).results)
