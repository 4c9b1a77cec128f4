"""How a float operation treats denormal numbers; part of `pallasite.dialects.arith`.

MLIR's float operations said so for some weeks of 2024, and JAX 0.4.36 ships them like that. They
no longer do: what upgrades a kernel drops the one value that means what is done anyway.
"""

from __future__ import annotations

from enum import auto

from xdsl.dialects.utils import EnumAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.str_enum import StrEnum


class DenormalMode(StrEnum):
    """What becomes of denormal operands and results."""

    ieee = auto()
    preserve_sign = auto()
    positive_zero = auto()


@irdl_attr_definition
class DenormalModeAttr(EnumAttribute[DenormalMode]):
    """`#arith.denormal<ieee>`"""

    name = "arith.denormal"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> DenormalMode:
        with parser.in_angle_brackets():
            return parser.parse_str_enum(DenormalMode)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)
