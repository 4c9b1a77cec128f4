"""The `pallas` dialect: a kernel as its author wrote it.

A `pallas.kernel` has the grid, the operands with their blocks and index maps, the scratch, and a
body. The body works on refs: memrefs with a memory space.

    pallas.kernel @scale grid (i = 4)
      input %x: tensor<32x128xf32> in vmem block (8, 128) at (i, 0)
      output %o: tensor<32x128xf32> in vmem block (8, 128) at (i, 0)
    {
      %v = pallas.load %x[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
      %w = arith.addf %v, %v : vector<8x128xf32>
      pallas.store %w, %o[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
    }

The dialect has only those operations that no other dialect has. For all others, bodies use `arith`,
`math`, `vector`, `scf`, and operations of `tpu` on whole vectors, such as `tpu.iota`. A value of
rank 0 is a scalar, any other a vector. Integers are signless; booleans are i1, in memory too. The
rules are those of spec/pallas_semantics.md.
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
