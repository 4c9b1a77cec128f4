"""`vector`; every class is found here under its upstream name."""

from __future__ import annotations

from xdsl.dialects.vector import (
    BitcastOp,
    BroadcastOp,
    CombiningKindAttr,
    CombiningKindFlag,
    CreateMaskOp,
    ExtractOp,
    FMAOp,
    InsertOp,
    LoadOp,
    MaskedLoadOp,
    MaskedStoreOp,
    PrintOp,
    ReductionOp,
    ShuffleOp,
    StoreOp,
    TransferReadOp,
    TransferWriteOp,
    Vector,
)

__all__ = [
    "BitcastOp",
    "BroadcastOp",
    "CombiningKindAttr",
    "CombiningKindFlag",
    "CreateMaskOp",
    "ExtractOp",
    "FMAOp",
    "InsertOp",
    "LoadOp",
    "MaskedLoadOp",
    "MaskedStoreOp",
    "PrintOp",
    "ReductionOp",
    "ShuffleOp",
    "StoreOp",
    "TransferReadOp",
    "TransferWriteOp",
    "Vector",
]
