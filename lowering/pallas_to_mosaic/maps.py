"""Index maps: `transform_i`, a function from grid indices and prefetched refs to block indices.

In form `pallas` an index map is an affine map of the grid indices, or a region if it computes
anything else. Affine expressions become `arith` operations; divisions and remainders round towards
minus infinity, unlike `arith.divsi` and `arith.remsi`, which need a correction where the dividend
may be negative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import IntegerAttr, LocationAttr, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from pallasite.dialects import arith, func
from pallasite.dialects.pallas.scope import end_of
from pallasite.lowering.pallas_to_mosaic.driver import Converter

Emit = Callable[[Operation], SSAValue]


def index_map(
    name: str,
    map: AffineMap | Region,
    arguments: Sequence[Attribute],
    converter: Callable[[Block], Converter],
    location: LocationAttr,
) -> func.FuncOp:
    """The function `name` of the index map `map`, with arguments of the types `arguments`.

    The arguments are grid indices and prefetched refs as memory holds them. A region is copied and
    converted by what `converter` makes for the block of the function.
    """
    block = Block(arg_types=arguments)
    if isinstance(map, AffineMap):
        results = affine_values(map, block.args, lambda op: _append(op, block, location))
    else:
        copy = map.clone()
        old = copy.block
        inner = converter(block)
        for argument, new in zip(old.args, block.args, strict=True):
            new.name_hint = argument.name_hint
            argument.replace_all_uses_with(new)
        terminator = end_of(copy)
        results = list(terminator.values)
        for op in list(old.ops):
            op.detach()
            block.add_op(op)
        marker = func.ReturnOp(*results)
        terminator.detach()
        terminator.erase()
        block.add_op(marker)
        inner.block(block)
        results = list(marker.operands)
        marker.detach()
        marker.erase()
    end = func.ReturnOp(*results)
    end.location = location
    block.add_op(end)
    function = func.FuncOp(name, (arguments, [i32] * len(results)), Region(block))
    function.location = location
    return function


def _append(op: Operation, block: Block, location: LocationAttr) -> SSAValue:
    op.location = location
    block.add_op(op)
    return op.results[0]


def affine_values(map: AffineMap, dims: Sequence[SSAValue], emit: Emit) -> list[SSAValue]:
    """The results of `map` at `dims`, all i32; `emit` inserts the operations that compute them."""
    return [_affine(expr, dims, emit) for expr in map.results]


def _affine(expr: AffineExpr, dims: Sequence[SSAValue], emit: Emit) -> SSAValue:
    match expr:
        case AffineConstantExpr():
            return _constant(expr.value, emit)
        case AffineDimExpr():
            return dims[expr.position]
        case AffineBinaryOpExpr():
            pass
        case _:
            raise ValueError(f"index maps have no symbols, got {expr}")
    left = _affine(expr.lhs, dims, emit)
    right = _affine(expr.rhs, dims, emit)
    match expr.kind:
        case AffineBinaryOpKind.Add:
            return emit(arith.AddiOp(left, right))
        case AffineBinaryOpKind.Mul:
            return emit(arith.MuliOp(left, right))
        case AffineBinaryOpKind.Mod:
            return _floor_remainder(left, right, emit, natural=_is_natural(expr.lhs))
        case AffineBinaryOpKind.FloorDiv:
            return _floor_quotient(left, right, emit, natural=_is_natural(expr.lhs))
        case AffineBinaryOpKind.CeilDiv:
            less = emit(arith.SubiOp(right, _constant(1, emit)))
            left = emit(arith.AddiOp(left, less))
            return _floor_quotient(left, right, emit, natural=_is_natural(expr.lhs))


def _constant(value: int, emit: Emit) -> SSAValue:
    return emit(arith.ConstantOp(IntegerAttr(value, i32)))


def _floor_remainder(left: SSAValue, right: SSAValue, emit: Emit, *, natural: bool) -> SSAValue:
    """`left mod right` for a positive `right`, never negative; `natural`: `left` is not either."""
    rest = emit(arith.RemSIOp(left, right))
    if natural:
        return rest
    # The scalar core's remainder has the sign of the dividend.
    negative = emit(arith.CmpiOp(rest, _constant(0, emit), "slt"))
    return emit(arith.SelectOp(negative, emit(arith.AddiOp(rest, right)), rest))


def _floor_quotient(left: SSAValue, right: SSAValue, emit: Emit, *, natural: bool) -> SSAValue:
    """`left / right` for a positive `right`, rounded down; `natural`: `left` is not negative."""
    quotient = emit(arith.DivSIOp(left, right))
    if natural:
        return quotient
    # The scalar core rounds towards zero.
    rest = emit(arith.RemSIOp(left, right))
    negative = emit(arith.CmpiOp(rest, _constant(0, emit), "slt"))
    below = emit(arith.SubiOp(quotient, _constant(1, emit)))
    return emit(arith.SelectOp(negative, below, quotient))


def _is_natural(expr: AffineExpr) -> bool:
    """Whether `expr` is certainly not negative: grid indices and what adds or multiplies them."""
    match expr:
        case AffineDimExpr():
            return True
        case AffineConstantExpr():
            return expr.value >= 0
        case AffineBinaryOpExpr():
            return _is_natural(expr.lhs) and _is_natural(expr.rhs)
        case _:
            return False
