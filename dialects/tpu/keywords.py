"""The enumerations of the `tpu` dialect (spec/tpu_dialect.md section 2).

All of them print as `#tpu.name<keyword>`. `MemorySpace` is the first part of an attribute of two
(`attrs.MemorySpaceAttr`).
"""

from __future__ import annotations

from typing import ClassVar, TypeVar, cast

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.str_enum import StrEnum

E = TypeVar("E", bound=StrEnum)


class _Keyword(Data[E]):
    """One of the words of an enumeration."""

    words: ClassVar[type[StrEnum]]

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data.value}>")

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> E:
        with parser.in_angle_brackets():
            return cast(E, parser.parse_str_enum(cls.words))


class CoreType(StrEnum):
    """The kinds of cores: the TensorCore and the two subcores of a SparseCore."""

    TC = "tc"
    SC_SCALAR_SUBCORE = "sc_scalar_subcore"
    SC_VECTOR_SUBCORE = "sc_vector_subcore"


@irdl_attr_definition
class CoreTypeAttr(_Keyword[CoreType]):
    """The kind of core a function runs on, or a piece of memory belongs to."""

    name = "tpu.core_type"
    words = CoreType


class PipelineMode(StrEnum):
    """How many buffers a window has: one, or two that take turns."""

    SYNCHRONOUS = "synchronous"
    DOUBLE_BUFFERED = "double_buffered"


@irdl_attr_definition
class PipelineModeAttr(_Keyword[PipelineMode]):
    """How many buffers a window has: one or two."""

    name = "tpu.pipeline_mode"
    words = PipelineMode


class RevisitMode(StrEnum):
    """When an output block may be visited again: in the next step only, or at any time."""

    IMMEDIATE = "immediate"
    ANY = "any"


@irdl_attr_definition
class RevisitModeAttr(_Keyword[RevisitMode]):
    """Whether an output block may be visited again after other blocks."""

    name = "tpu.revisit_mode"
    words = RevisitMode


class DimensionSemantics(StrEnum):
    """How the steps of a grid dimension depend on each other, and which cores share them."""

    PARALLEL = "parallel"
    ARBITRARY = "arbitrary"
    CORE_PARALLEL = "core_parallel"
    SUBCORE_PARALLEL = "subcore_parallel"


@irdl_attr_definition
class DimensionSemanticsAttr(_Keyword[DimensionSemantics]):
    """How the steps of one grid dimension may be ordered and distributed."""

    name = "tpu.dimension_semantics"
    words = DimensionSemantics


class ContractPrecision(StrEnum):
    """What f32 factors are multiplied as: rounded, whole, or in three bf16 passes."""

    BF16 = "bf16"
    FP32 = "fp32"
    BF16X3 = "bf16x3"


@irdl_attr_definition
class ContractPrecisionAttr(_Keyword[ContractPrecision]):
    """The precision with which a matmul multiplies f32 operands."""

    name = "tpu.contract_precision"
    words = ContractPrecision


class PackFormat(StrEnum):
    """Whether neighbours in a word come from neighbouring rows, or from different registers."""

    COMPRESSED = "compressed"
    INTERLEAVED = "interleaved"


@irdl_attr_definition
class PackFormatAttr(_Keyword[PackFormat]):
    """The order in which narrow elements share 32-bit words (spec/tpu_dialect.md section 3.4)."""

    name = "tpu.pack_format"
    words = PackFormat


class ReductionKind(StrEnum):
    """What a reduction computes along its dimensions."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    ARG_MAX = "arg_max"
    ARG_MIN = "arg_min"
    FIND_FIRST_SET = "find_first_set"
    # The current TPU compiler has one symbol per signedness instead of `max` and `min`.
    MAXF = "maxf"
    MINF = "minf"
    MAXSI = "maxsi"
    MINSI = "minsi"
    MAXUI = "maxui"
    MINUI = "minui"


@irdl_attr_definition
class ReductionKindAttr(_Keyword[ReductionKind]):
    """What a reduction computes."""

    name = "tpu.reduction_kind"
    words = ReductionKind


class RoundingMode(StrEnum):
    """How a conversion rounds."""

    TOWARDS_ZERO = "towards_zero"
    TO_NEAREST_EVEN = "to_nearest_even"


@irdl_attr_definition
class RoundingModeAttr(_Keyword[RoundingMode]):
    """How a conversion rounds."""

    name = "tpu.rounding_mode"
    words = RoundingMode


class MemorySpace(StrEnum):
    """The memories of a TPU; `any` leaves the choice to the compiler."""

    ANY = "any"
    VMEM = "vmem"
    SMEM = "smem"
    HBM = "hbm"
    CMEM = "cmem"
    SEMAPHORE_MEM = "semaphore_mem"
    VMEM_SHARED = "vmem_shared"
    HOST = "host"
