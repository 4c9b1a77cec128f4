"""`vector` with the operations of Mosaic's IR that upstream lacks.

Upstream's classes serve the rest. `load`, `store` and `broadcast` are ours because upstream's
verifiers are slow or too lenient. Every class is found here under its upstream name.
"""

from __future__ import annotations

from xdsl.dialects.vector import (
    BitcastOp,
    CombiningKindAttr,
    CombiningKindFlag,
    CreateMaskOp,
    FMAOp,
    MaskedLoadOp,
    MaskedStoreOp,
    PrintOp,
    ReductionOp,
    ShuffleOp,
    TransferReadOp,
    TransferWriteOp,
)
from xdsl.dialects.vector import Vector as UpstreamVector

from pallasite.dialects.derive import derive
from pallasite.dialects.vector_compute import (
    COMPUTE_OPS,
    ContractOp,
    IteratorType,
    IteratorTypeAttr,
    MultiReductionOp,
    OuterProductOp,
    ScanOp,
    YieldOp,
)
from pallasite.dialects.vector_elements import (
    ELEMENT_OPS,
    DeinterleaveOp,
    FromElementsOp,
    InterleaveOp,
    ToElementsOp,
)
from pallasite.dialects.vector_memory import (
    MEMORY_OPS,
    ConstantMaskOp,
    GatherOp,
    LoadOp,
    StepOp,
    StoreOp,
)
from pallasite.dialects.vector_positions import POSITION_OPS, ExtractOp, InsertOp
from pallasite.dialects.vector_shapes import (
    SHAPE_OPS,
    BroadcastOp,
    ExtractStridedSliceOp,
    InsertStridedSliceOp,
    ShapeCastOp,
    TransposeOp,
)

Vector = derive(
    UpstreamVector,
    [*SHAPE_OPS, *POSITION_OPS, *ELEMENT_OPS, *COMPUTE_OPS, *MEMORY_OPS],
    [IteratorTypeAttr],
)

__all__ = [
    "BitcastOp",
    "BroadcastOp",
    "CombiningKindAttr",
    "CombiningKindFlag",
    "ConstantMaskOp",
    "ContractOp",
    "CreateMaskOp",
    "DeinterleaveOp",
    "ExtractOp",
    "ExtractStridedSliceOp",
    "FMAOp",
    "FromElementsOp",
    "GatherOp",
    "InsertOp",
    "InsertStridedSliceOp",
    "InterleaveOp",
    "IteratorType",
    "IteratorTypeAttr",
    "LoadOp",
    "MaskedLoadOp",
    "MaskedStoreOp",
    "MultiReductionOp",
    "OuterProductOp",
    "PrintOp",
    "ReductionOp",
    "ScanOp",
    "ShapeCastOp",
    "ShuffleOp",
    "StepOp",
    "StoreOp",
    "ToElementsOp",
    "TransferReadOp",
    "TransferWriteOp",
    "TransposeOp",
    "Vector",
    "YieldOp",
]
