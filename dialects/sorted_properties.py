"""Operations whose properties are printed as MLIR prints them."""

from __future__ import annotations

from abc import ABC

from xdsl.irdl import IRDLOperation


class SortedProperties(IRDLOperation, ABC):
    """An operation that keeps its properties sorted by name, in which order MLIR prints them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        properties = self.properties
        if len(properties) > 1:
            self.properties = dict(sorted(properties.items()))
