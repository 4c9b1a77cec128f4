"""Splits the pattern of a register class into layers with one source row per sublane."""

from __future__ import annotations

from dataclasses import dataclass, field

from pallasite.layouts.planner.classes import RegisterClass
from pallasite.layouts.registers import SUBLANES


@dataclass
class Layer:
    """One source row per sublane, and the lane segments in which it is needed.

    `rows` maps a sublane to (rank of the source register, sublane there).
    """

    rows: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    segments: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    by_rank: dict[int, dict[int, int]] = field(default_factory=dict[int, dict[int, int]])
    """The same as `rows`, per rank of a source register: sublane to sublane of the source."""
    turns: dict[int, int] = field(default_factory=dict[int, int])
    """Per distance in sublanes, how many rows move by it."""

    def put(self, sublane: int, rank: int, row: int, segments: list[int]) -> None:
        """Records that `sublane` needs row `row` of the source of that rank, in `segments`."""
        self.rows[sublane] = (rank, row)
        self.turns[row - sublane] = self.turns.get(row - sublane, 0) + 1
        self.segments[sublane] = segments
        self.by_rank.setdefault(rank, {})[sublane] = row

    def ranks(self) -> list[int]:
        """The ranks of the source registers, ascending."""
        return sorted(self.by_rank)

    def rows_from(self, rank: int) -> dict[int, int]:
        """The rows of the source of that rank: sublane to sublane of the source."""
        return self.by_rank[rank]

    def pattern(self, first: int, second: int) -> list[int]:
        """The two-register shuffle pattern for the sources `first` and `second`.

        Rows of `second` are numbered from 8 on; -1 marks sublanes that need neither.
        """
        result = [-1] * SUBLANES
        for base, rank in ((SUBLANES, second), (0, first)):
            for s, row in self.by_rank[rank].items():
                result[s] = base + row
        return result


def layers_of(group: RegisterClass) -> list[Layer]:
    """Splits a pattern into layers, each with one source row per sublane.

    Sublanes with the most sources are assigned first, so that layers tend to share sources.
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
    """Per source, the layers that already use it; a row is preferably added to one of these."""
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
