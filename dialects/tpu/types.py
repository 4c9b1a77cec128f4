"""The types of the `tpu` dialect: two kinds of semaphores and a small float kept in a byte.

Semaphores are only ever elements of memrefs (spec/tpu_dialect.md section 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast, get_args

from typing_extensions import Buffer
from xdsl.dialects.builtin import AnyFloat, FixedBitwidthType, PackableType
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.utils.exceptions import VerifyException


@irdl_attr_definition
class SemaphoreType(ParametrizedAttribute, TypeAttribute):
    """A counter that cores signal and wait for; JAX's regular and barrier semaphores."""

    name = "tpu.semaphore"


@irdl_attr_definition
class DMASemaphoreType(ParametrizedAttribute, TypeAttribute):
    """A counter of transferred bytes that DMAs credit."""

    name = "tpu.dma_semaphore"


@irdl_attr_definition
class Float8EXMYType(ParametrizedAttribute, PackableType[float], FixedBitwidthType):
    """A float of at most eight bits in the low bits of a byte, whose higher bits are ignored."""

    name = "tpu.float8_exmy"

    underlying: Attribute = param_def()

    def verify(self) -> None:
        if not isinstance(self.underlying, get_args(AnyFloat)):
            raise VerifyException(f"expected a floating-point type, got {self.underlying}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return (parser.parse_type(),)

    @property
    def bitwidth(self) -> int:
        """Always 8, whatever the underlying type is."""
        return 8

    @property
    def compile_time_size(self) -> int:
        return 1

    @property
    def size(self) -> int:
        return 1

    def iter_unpack(self, buffer: Buffer, /) -> Iterator[float]:
        return self._packing.iter_unpack(buffer)

    def unpack(self, buffer: Buffer, num: int, /) -> tuple[float, ...]:
        return self._packing.unpack(buffer, num)

    def pack_into(self, buffer: Buffer, offset: int, value: float) -> None:
        self._packing.pack_into(buffer, offset, value)

    def pack(self, values: Sequence[float]) -> bytes:
        return self._packing.pack(values)

    @property
    def _packing(self) -> PackableType[float]:
        return cast(PackableType[float], self.underlying)
