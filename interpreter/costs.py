"""What operations cost on the modelled TPU, in cycles of the units of a core.

Costs are of operations on registers, forms `tiles` and `vreg`; the other forms do not say how many
registers a value takes. A core issues to all units in every cycle, so a straight run of operations
takes as long as its busiest unit (no dependencies, no register pressure: a lower bound).

Where the numbers come from: register and MXU shapes, clocks, operation rates and bandwidths are
those of spec/pallas_semantics.md section 9; which operations are cheap, medium or expensive is
section 4.2. How many cycles a class takes is not published: `MEDIUM` and `EXPENSIVE` are ours, and
only their order means something.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith, grid, tpu
from pallasite.dialects.tpu.cores import TENSOR_CORE, own_core
from pallasite.dialects.types import bit_width, element_type, grid_shape, shape_of
from pallasite.interpreter.cycles import FREE, Cost, cost
from pallasite.interpreter.subcore_costs import subcore_instructions
from pallasite.targets import Target

MEDIUM = 8
EXPENSIVE = 64
"""VPU operations that a register of such a function takes, beyond its step on the EUP."""


def cost_of(op: Operation, target: Target) -> Cost:
    """What one execution of `op` takes."""
    if isinstance(op, grid.Renaming | grid.ConcatOp | grid.PoisonOp | arith.ConstantOp):
        return FREE
    if target.sparse is not None and own_core(op) != TENSOR_CORE:
        return subcore_instructions(op, target.sparse.lanes)
    rule = _RULES.get(type(op))
    if rule is not None:
        return rule(op, target)
    registers = _registers(op)
    if registers == 0:
        return cost(scalar=1)
    if op.name in _MEDIUM:
        return cost(vpu=registers * MEDIUM / target.vpu_slots, eup=registers)
    if op.name in _EXPENSIVE:
        return cost(vpu=registers * EXPENSIVE / target.vpu_slots)
    return cost(vpu=registers / target.vpu_slots)


_MEDIUM = {
    "arith.divf", "arith.divsi", "arith.divui", "arith.remf", "arith.remsi", "arith.remui",
    "math.exp", "math.exp2", "math.log", "math.log1p", "math.powf", "math.rsqrt", "math.sqrt",
    "math.tanh", "tpu.reciprocal",
}  # fmt: skip
_EXPENSIVE = {"math.sin", "math.cos", "math.tan", "math.atan2", "math.erf"}


def registers_of(value: SSAValue) -> int:
    """Registers of a grid; 0 for anything that is not in vector registers."""
    type = value.type
    return prod(grid_shape(type)) if isinstance(type, VectorType) else 0


def _registers(op: Operation) -> int:
    return max((registers_of(v) for v in (*op.operands, *op.results)), default=0)


Rule = Callable[[Operation, Target], Cost]


def _load(op: Operation, target: Target) -> Cost:
    return cost(load=registers_of(op.results[0]) / target.load_slots)


def _store(op: Operation, target: Target) -> Cost:
    return cost(store=_registers(op))


def _crossing(op: Operation, target: Target) -> Cost:
    return cost(xlu=_registers(op))


def _all_reduce(op: Operation, target: Target) -> Cost:
    """A tree over eight sublanes is rotations and VPU operations; lanes go through the XLU whole,
    and through it slower."""
    assert isinstance(op, tpu.AllReduceOp)
    registers = _registers(op)
    rank = len(shape_of(op.results[0].type))
    lanes = op.dim.value.data == rank - 1
    steps = (target.lanes if lanes else target.sublanes).bit_length() - 1
    return cost(xlu=registers * steps, vpu=registers * steps / target.vpu_slots)


def _reduce(op: Operation, target: Target) -> Cost:
    added = registers_of(op.operands[0]) - registers_of(op.results[0])
    return cost(vpu=added / target.vpu_slots)


def matmul_flops(rows: int, depth: int, columns: int, target: Target) -> int:
    """Operations of one product: the stationary operand is cut into tiles of the systolic array,
    and the rows of the other one pass each of them, eight at a time."""
    deep, wide = target.mxu_contracting, target.mxu_columns
    tiles = -(-depth // deep) * -(-columns // wide)
    passed = -(-rows // target.sublanes) * target.sublanes
    return 2 * tiles * passed * deep * wide


def matmul_cycles(flops: int, target: Target, *, narrow: bool) -> float:
    """Cycles that all MXUs of a core together need for `flops`; `narrow` for 8-bit operands."""
    rate = (target.int8_ops_per_second if narrow else 0) or target.bf16_ops_per_second
    return flops * target.clock_hz / rate


_PASSES = {"bf16x3": 3, "fp32": 6}
"""Products of bfloat16 that one of float32 takes by its precision (spec/pallas_semantics.md
4.6); else one."""


def _product(op: Operation, rows: int, depth: int, columns: int, target: Target) -> Cost:
    operand = element_type(op.operands[0].type)
    precision = str(op.properties.get("precision", "")).lower()
    passes = next((n for name, n in _PASSES.items() if name in precision), 1)
    flops = matmul_flops(rows, depth, columns, target)
    cycles = matmul_cycles(flops, target, narrow=bit_width(operand) == 8)
    return cost(flops, mxu=cycles * passes)


def _first_extremum(op: Operation, target: Target) -> Cost:
    """An extremum and a choice for each register that is folded (lowering/tiles_to_vregs)."""
    added = registers_of(op.operands[0]) - registers_of(op.results[0])
    return cost(vpu=2 * added / target.vpu_slots)


def _matmul(op: Operation, target: Target) -> Cost:
    left, result = (shape_of(v.type) for v in (op.operands[0], op.results[0]))
    rows, columns = result[-2:]
    depth = prod(left) // rows
    return _product(op, rows, depth, columns, target)


def _grid_matmul(op: Operation, target: Target) -> Cost:
    assert isinstance(op, grid.MatmulOp)
    left, right = (_elements(v) for v in op.operands[:2])
    result = _elements(op.results[0])
    # (M K) (K N) / (M N) = K squared.
    depth = round((left * right / result) ** 0.5)
    return _product(op, left // depth, depth, right // depth, target)


def _fed_by_hand(op: Operation, target: Target) -> Cost:
    rows = _elements(op.operands[0]) // target.mxu_contracting
    return _product(op, rows, target.mxu_contracting, target.mxu_columns, target)


def _elements(value: SSAValue) -> int:
    return prod(shape_of(value.type))


_RULES: dict[type[Operation], Rule] = {
    tpu.LoadOp: _load,
    tpu.ShuffledLoadOp: _load,
    tpu.StoreOp: _store,
    tpu.ShuffledStoreOp: _store,
    tpu.AllReduceOp: _all_reduce,
    grid.ReduceOp: _reduce,
    grid.FirstExtremumOp: _first_extremum,
    grid.MatmulOp: _grid_matmul,
    grid.TransposeBlocksOp: _crossing,
    tpu.MatmulOp: _matmul,
    tpu.MatmulAccLhsOp: _fed_by_hand,
    tpu.MatmulLhsFifoOp: _fed_by_hand,
    tpu.RollVectorsOp: lambda op, target: FREE,
    tpu.UnrollVectorsOp: lambda op, target: FREE,
    tpu.BitcastVregOp: lambda op, target: FREE,
    **dict.fromkeys(
        (
            tpu.DynamicRotateOp, tpu.RotateOp, tpu.DynamicGatherOp, tpu.GatherOp,
            tpu.SublaneShuffleOp, tpu.BroadcastInSublanesOp, tpu.TransposeOp,
        ),
        _crossing,
    ),
}  # fmt: skip
