"""Patterns of rows split into layers: per sublane one source row, wherever it is wanted."""

from __future__ import annotations

from dataclasses import dataclass, field

from pallasite.layouts.planner.classes import RegisterClass
from pallasite.layouts.registers import SUBLANES


@dataclass
class Layer:
    """Per sublane one source row, and the segments of lanes where it is wanted."""

    rows: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    segments: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    by_rank: dict[int, dict[int, int]] = field(default_factory=dict[int, dict[int, int]])
    """The same per source register: which of its rows goes to which sublane."""
    turns: dict[int, int] = field(default_factory=dict[int, int])
    """How many rows move by so many sublanes."""

    def put(self, sublane: int, rank: int, row: int, segments: list[int]) -> None:
        """Wants a row of a source register at `sublane`."""
        self.rows[sublane] = (rank, row)
        self.turns[row - sublane] = self.turns.get(row - sublane, 0) + 1
        self.segments[sublane] = segments
        self.by_rank.setdefault(rank, {})[sublane] = row

    def ranks(self) -> list[int]:
        """The source registers."""
        return sorted(self.by_rank)

    def rows_from(self, rank: int) -> dict[int, int]:
        """Which row of one source goes to which sublane."""
        return self.by_rank[rank]

    def pattern(self, first: int, second: int) -> list[int]:
        """The rows of two sources, stacked, per sublane; -1 where neither is wanted."""
        result = [-1] * SUBLANES
        for base, rank in ((SUBLANES, second), (0, first)):
            for s, row in self.by_rank[rank].items():
                result[s] = base + row
        return result


def layers_of(group: RegisterClass) -> list[Layer]:
    """Splits a pattern into layers that differ along the sublanes only.

    Sublanes with most sources go first, so that the layers follow the sources.
    """
    wanted: list[tuple[int, dict[tuple[int, int], list[int]]]] = []
    for s, (ranks, rows) in enumerate(
        zip(group.rank.tolist(), group.sublane.tolist(), strict=True)
    ):
        sources: dict[tuple[int, int], list[int]] = {}
        for segment, source in enumerate(zip(ranks, rows, strict=True)):
            if source[0] >= 0:
                sources.setdefault(source, []).append(segment)
        wanted.append((s, sources))
    layers: list[Layer] = []
    having: dict[int, list[Layer]] = {}
    """The layers with rows of a source: who shares one fits better than who does not."""
    for s, sources in sorted(wanted, key=lambda item: (-len(item[1]), item[0])):
        for (rank, row), segments in sources.items():
            mine = having.setdefault(rank, [])
            free = [layer for layer in mine if s not in layer.rows]
            free = free or [layer for layer in layers if s not in layer.rows]
            if free:
                layer = max(free, key=lambda f: _affinity(f, rank, row - s))
            else:
                layer = Layer()
                layers.append(layer)
            if rank not in layer.by_rank:
                mine.append(layer)
            layer.put(s, rank, row, segments)
    return layers


def _affinity(layer: Layer, rank: int, turn: int) -> tuple[int, int]:
    """How well a row fits a layer: shared source registers, then shared displacement."""
    return (len(layer.by_rank.get(rank, ())), layer.turns.get(turn, 0))
