"""The `tpu` dialect of Mosaic: vectors, memory, DMAs and semaphores of a TPU core.

The operations follow spec/tpu_dialect.md: those of jaxlib 0.10.2, newer ones, and those that the
output of the old C++ passes still has (`tpu.rotate`, `tpu.relayout`, `#tpu.vpad`). Verifiers are as
strict as Mosaic's and no stricter.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from pallasite.dialects.tpu import (
    control,
    convert,
    debug,
    dma,
    ids,
    mask,
    matmul,
    memory,
    movement,
    reduce,
    sync,
    views,
)
from pallasite.dialects.tpu.attrs import (
    ContractPrecision as ContractPrecision,
)
from pallasite.dialects.tpu.attrs import (
    ContractPrecisionAttr as ContractPrecisionAttr,
)
from pallasite.dialects.tpu.attrs import (
    CoreType as CoreType,
)
from pallasite.dialects.tpu.attrs import (
    CoreTypeAttr as CoreTypeAttr,
)
from pallasite.dialects.tpu.attrs import (
    DimensionSemantics as DimensionSemantics,
)
from pallasite.dialects.tpu.attrs import (
    DimensionSemanticsAttr as DimensionSemanticsAttr,
)
from pallasite.dialects.tpu.attrs import (
    DotDimensionNumbersAttr as DotDimensionNumbersAttr,
)
from pallasite.dialects.tpu.attrs import (
    ElementWindowAttr as ElementWindowAttr,
)
from pallasite.dialects.tpu.attrs import (
    MemorySpace as MemorySpace,
)
from pallasite.dialects.tpu.attrs import (
    MemorySpaceAttr as MemorySpaceAttr,
)
from pallasite.dialects.tpu.attrs import (
    PackFormat as PackFormat,
)
from pallasite.dialects.tpu.attrs import (
    PackFormatAttr as PackFormatAttr,
)
from pallasite.dialects.tpu.attrs import (
    PipelineMode as PipelineMode,
)
from pallasite.dialects.tpu.attrs import (
    PipelineModeAttr as PipelineModeAttr,
)
from pallasite.dialects.tpu.attrs import (
    ReductionKind as ReductionKind,
)
from pallasite.dialects.tpu.attrs import (
    ReductionKindAttr as ReductionKindAttr,
)
from pallasite.dialects.tpu.attrs import (
    RevisitMode as RevisitMode,
)
from pallasite.dialects.tpu.attrs import (
    RevisitModeAttr as RevisitModeAttr,
)
from pallasite.dialects.tpu.attrs import (
    RoundingMode as RoundingMode,
)
from pallasite.dialects.tpu.attrs import (
    RoundingModeAttr as RoundingModeAttr,
)
from pallasite.dialects.tpu.attrs import (
    TiledLayoutAttr as TiledLayoutAttr,
)
from pallasite.dialects.tpu.attrs import (
    VectorPadAttr as VectorPadAttr,
)
from pallasite.dialects.tpu.control import (
    DelayOp as DelayOp,
)
from pallasite.dialects.tpu.control import (
    RegionOp as RegionOp,
)
from pallasite.dialects.tpu.control import (
    TraceOp as TraceOp,
)
from pallasite.dialects.tpu.control import (
    TraceStartOp as TraceStartOp,
)
from pallasite.dialects.tpu.control import (
    TraceStopOp as TraceStopOp,
)
from pallasite.dialects.tpu.control import (
    TraceValueOp as TraceValueOp,
)
from pallasite.dialects.tpu.control import (
    YieldOp as YieldOp,
)
from pallasite.dialects.tpu.convert import (
    ExtFOp as ExtFOp,
)
from pallasite.dialects.tpu.convert import (
    FPToSIOp as FPToSIOp,
)
from pallasite.dialects.tpu.convert import (
    FPToUIOp as FPToUIOp,
)
from pallasite.dialects.tpu.convert import (
    LogisticOp as LogisticOp,
)
from pallasite.dialects.tpu.convert import (
    PackElementwiseOp as PackElementwiseOp,
)
from pallasite.dialects.tpu.convert import (
    PackSubelementsOp as PackSubelementsOp,
)
from pallasite.dialects.tpu.convert import (
    ReciprocalOp as ReciprocalOp,
)
from pallasite.dialects.tpu.convert import (
    SIToFPOp as SIToFPOp,
)
from pallasite.dialects.tpu.convert import (
    StochasticConvertElementwiseOp as StochasticConvertElementwiseOp,
)
from pallasite.dialects.tpu.convert import (
    StochasticConvertOp as StochasticConvertOp,
)
from pallasite.dialects.tpu.convert import (
    TruncFOp as TruncFOp,
)
from pallasite.dialects.tpu.convert import (
    UIToFPOp as UIToFPOp,
)
from pallasite.dialects.tpu.convert import (
    UnpackElementwiseOp as UnpackElementwiseOp,
)
from pallasite.dialects.tpu.convert import (
    UnpackSubelementsOp as UnpackSubelementsOp,
)
from pallasite.dialects.tpu.convert import (
    WeirdOp as WeirdOp,
)
from pallasite.dialects.tpu.debug import (
    LogBufferOp as LogBufferOp,
)
from pallasite.dialects.tpu.debug import (
    LogOp as LogOp,
)
from pallasite.dialects.tpu.dma import (
    EnqueueDMAOp as EnqueueDMAOp,
)
from pallasite.dialects.tpu.dma import (
    EnqueueIndirectDMAOp as EnqueueIndirectDMAOp,
)
from pallasite.dialects.tpu.dma import (
    WaitDMA2Op as WaitDMA2Op,
)
from pallasite.dialects.tpu.dma import (
    WaitDMAOp as WaitDMAOp,
)
from pallasite.dialects.tpu.dma import (
    WaitIndirectDMAOp as WaitIndirectDMAOp,
)
from pallasite.dialects.tpu.ids import (
    CoreIdOp as CoreIdOp,
)
from pallasite.dialects.tpu.ids import (
    DeviceIdOp as DeviceIdOp,
)
from pallasite.dialects.tpu.ids import (
    IterationBoundOp as IterationBoundOp,
)
from pallasite.dialects.tpu.ids import (
    PRNGRandomBitsOp as PRNGRandomBitsOp,
)
from pallasite.dialects.tpu.ids import (
    PRNGSeed32Op as PRNGSeed32Op,
)
from pallasite.dialects.tpu.ids import (
    SubcoreIdOp as SubcoreIdOp,
)
from pallasite.dialects.tpu.mask import (
    CreateMaskOp as CreateMaskOp,
)
from pallasite.dialects.tpu.mask import (
    CreateSubelementMaskOp as CreateSubelementMaskOp,
)
from pallasite.dialects.tpu.mask import (
    MaskCastOp as MaskCastOp,
)
from pallasite.dialects.tpu.mask import (
    PackVmskOp as PackVmskOp,
)
from pallasite.dialects.tpu.matmul import (
    MatmulAccLhsOp as MatmulAccLhsOp,
)
from pallasite.dialects.tpu.matmul import (
    MatmulLhsFifoOp as MatmulLhsFifoOp,
)
from pallasite.dialects.tpu.matmul import (
    MatmulOp as MatmulOp,
)
from pallasite.dialects.tpu.matmul import (
    MatmulPopFifoOp as MatmulPopFifoOp,
)
from pallasite.dialects.tpu.matmul import (
    MatmulPopOp as MatmulPopOp,
)
from pallasite.dialects.tpu.matmul import (
    MatmulPushRhsOp as MatmulPushRhsOp,
)
from pallasite.dialects.tpu.memory import (
    LoadOp as LoadOp,
)
from pallasite.dialects.tpu.memory import (
    ShuffledLoadOp as ShuffledLoadOp,
)
from pallasite.dialects.tpu.memory import (
    ShuffledStoreOp as ShuffledStoreOp,
)
from pallasite.dialects.tpu.memory import (
    StoreOp as StoreOp,
)
from pallasite.dialects.tpu.memory import (
    StridedLoadOp as StridedLoadOp,
)
from pallasite.dialects.tpu.memory import (
    StridedStoreOp as StridedStoreOp,
)
from pallasite.dialects.tpu.memory import (
    VectorLoadIdxOp as VectorLoadIdxOp,
)
from pallasite.dialects.tpu.memory import (
    VectorLoadOp as VectorLoadOp,
)
from pallasite.dialects.tpu.memory import (
    VectorStoreIdxOp as VectorStoreIdxOp,
)
from pallasite.dialects.tpu.memory import (
    VectorStoreOp as VectorStoreOp,
)
from pallasite.dialects.tpu.movement import (
    AssumeMultipleOp as AssumeMultipleOp,
)
from pallasite.dialects.tpu.movement import (
    BitcastOp as BitcastOp,
)
from pallasite.dialects.tpu.movement import (
    BitcastVregOp as BitcastVregOp,
)
from pallasite.dialects.tpu.movement import (
    BroadcastInSublanesOp as BroadcastInSublanesOp,
)
from pallasite.dialects.tpu.movement import (
    ConcatenateOp as ConcatenateOp,
)
from pallasite.dialects.tpu.movement import (
    DynamicGatherOp as DynamicGatherOp,
)
from pallasite.dialects.tpu.movement import (
    DynamicRotateOp as DynamicRotateOp,
)
from pallasite.dialects.tpu.movement import (
    GatherOp as GatherOp,
)
from pallasite.dialects.tpu.movement import (
    IotaOp as IotaOp,
)
from pallasite.dialects.tpu.movement import (
    RelayoutOp as RelayoutOp,
)
from pallasite.dialects.tpu.movement import (
    RepeatOp as RepeatOp,
)
from pallasite.dialects.tpu.movement import (
    ReshapeOp as ReshapeOp,
)
from pallasite.dialects.tpu.movement import (
    RollVectorsOp as RollVectorsOp,
)
from pallasite.dialects.tpu.movement import (
    RotateOp as RotateOp,
)
from pallasite.dialects.tpu.movement import (
    SublaneShuffleOp as SublaneShuffleOp,
)
from pallasite.dialects.tpu.movement import (
    TransposeOp as TransposeOp,
)
from pallasite.dialects.tpu.movement import (
    UnrollVectorsOp as UnrollVectorsOp,
)
from pallasite.dialects.tpu.reduce import (
    AllReduceOp as AllReduceOp,
)
from pallasite.dialects.tpu.reduce import (
    ReduceIndexOp as ReduceIndexOp,
)
from pallasite.dialects.tpu.reduce import (
    ScanCountOp as ScanCountOp,
)
from pallasite.dialects.tpu.reduce import (
    ScanOp as ScanOp,
)
from pallasite.dialects.tpu.reduce import (
    SortOp as SortOp,
)
from pallasite.dialects.tpu.sync import (
    BarrierOp as BarrierOp,
)
from pallasite.dialects.tpu.sync import (
    FetchAndAddSyncOp as FetchAndAddSyncOp,
)
from pallasite.dialects.tpu.sync import (
    SemAllocOp as SemAllocOp,
)
from pallasite.dialects.tpu.sync import (
    SemBarrierOp as SemBarrierOp,
)
from pallasite.dialects.tpu.sync import (
    SemReadOp as SemReadOp,
)
from pallasite.dialects.tpu.sync import (
    SemSignalOp as SemSignalOp,
)
from pallasite.dialects.tpu.sync import (
    SemWaitOp as SemWaitOp,
)
from pallasite.dialects.tpu.types import (
    DMASemaphoreType as DMASemaphoreType,
)
from pallasite.dialects.tpu.types import (
    Float8EXMYType as Float8EXMYType,
)
from pallasite.dialects.tpu.types import (
    SemaphoreType as SemaphoreType,
)
from pallasite.dialects.tpu.views import (
    AssumeLayoutOp as AssumeLayoutOp,
)
from pallasite.dialects.tpu.views import (
    EraseMemRefLayoutOp as EraseMemRefLayoutOp,
)
from pallasite.dialects.tpu.views import (
    InternalScratchOp as InternalScratchOp,
)
from pallasite.dialects.tpu.views import (
    MemRefBitcastOp as MemRefBitcastOp,
)
from pallasite.dialects.tpu.views import (
    MemRefReshapeOp as MemRefReshapeOp,
)
from pallasite.dialects.tpu.views import (
    MemRefSliceOp as MemRefSliceOp,
)
from pallasite.dialects.tpu.views import (
    MemRefSqueezeOp as MemRefSqueezeOp,
)
from pallasite.dialects.tpu.views import (
    ReinterpretCastOp as ReinterpretCastOp,
)

Tpu = Dialect(
    "tpu",
    [
        *views.OPERATIONS,
        *memory.OPERATIONS,
        *movement.OPERATIONS,
        *convert.OPERATIONS,
        *matmul.OPERATIONS,
        *reduce.OPERATIONS,
        *mask.OPERATIONS,
        *dma.OPERATIONS,
        *sync.OPERATIONS,
        *control.OPERATIONS,
        *ids.OPERATIONS,
        *debug.OPERATIONS,
    ],
    [
        CoreTypeAttr,
        PipelineModeAttr,
        RevisitModeAttr,
        DimensionSemanticsAttr,
        ContractPrecisionAttr,
        PackFormatAttr,
        ReductionKindAttr,
        RoundingModeAttr,
        MemorySpaceAttr,
        TiledLayoutAttr,
        DotDimensionNumbersAttr,
        ElementWindowAttr,
        VectorPadAttr,
        SemaphoreType,
        DMASemaphoreType,
        Float8EXMYType,
    ],
)
