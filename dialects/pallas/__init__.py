"""The `pallas` dialect: a kernel as its author wrote it.

`pallas.kernel` holds the grid, the operands with their blocks and index maps, the scratch, and a
body over refs, which are memrefs with a memory space. Whatever `arith`, `math`, `vector`, `scf` or
an operation of `tpu` on logical values already says, the body says with that; here are only the
operations that nothing else has. Values of rank 0 are scalars, all others vectors; integers are
signless and booleans are i1, in memory too. The rules are those of spec/pallas_semantics.md.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from pallasite.dialects.pallas.attrs import DimAttr, DimKind, OperandAttr, Role, WindowAttr
from pallasite.dialects.pallas.dot import DotOp
from pallasite.dialects.pallas.ids import AxisIndexOp, NumProgramsOp, ProgramIdOp
from pallasite.dialects.pallas.indexing import Entry, at, whole
from pallasite.dialects.pallas.kernel import KernelOp
from pallasite.dialects.pallas.pipeline import EmitPipelineOp
from pallasite.dialects.pallas.reduce import ArgReduceOp, ReduceOp
from pallasite.dialects.pallas.refs import AtOp, LoadOp, StoreOp, SwapOp
from pallasite.dialects.pallas.scope import RunScopedOp, YieldOp
from pallasite.dialects.pallas.shape import BroadcastOp

OPERATIONS = (
    KernelOp,
    EmitPipelineOp,
    RunScopedOp,
    YieldOp,
    ProgramIdOp,
    NumProgramsOp,
    AxisIndexOp,
    LoadOp,
    StoreOp,
    SwapOp,
    AtOp,
    DotOp,
    ReduceOp,
    ArgReduceOp,
    BroadcastOp,
)

Pallas = Dialect("pallas", list(OPERATIONS), [DimAttr, WindowAttr, OperandAttr])

__all__ = [
    "ArgReduceOp",
    "AtOp",
    "AxisIndexOp",
    "BroadcastOp",
    "DimAttr",
    "DimKind",
    "DotOp",
    "EmitPipelineOp",
    "Entry",
    "KernelOp",
    "LoadOp",
    "NumProgramsOp",
    "OperandAttr",
    "Pallas",
    "ProgramIdOp",
    "ReduceOp",
    "Role",
    "RunScopedOp",
    "StoreOp",
    "SwapOp",
    "WindowAttr",
    "YieldOp",
    "at",
    "whole",
]
