"""What random scripts have in common: which values may still be used."""

from __future__ import annotations

import numpy as np

from pallasite.interpreter.replay.lines import Line


class RandomLines:
    """Random lines on an operand, two memories and a result, as recorders are told them: a view of
    memory is not used any more once that is written, nor what is overwritten by who shares it."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.lines: list[Line] = []
        self.alive: dict[int, tuple[str | None, int]] = {}
        """Of values that may be used the memory that they are views of, and the value that they
        share theirs with."""

    def memory(self, kinds: str) -> str:
        """One of those of some kinds."""
        return str(self.random.choice([m for m in ("i0", "m0", "m1", "o0") if m[0] in kinds]))

    def write(self, line: Line) -> None:
        assert line.write is not None
        self.lines.append(line)
        gone = line.write.memory
        self.alive = {v: known for v, known in self.alive.items() if known[0] != gone}

    def overwrite(self, line: Line) -> None:
        value = line.overwritten
        assert value is not None
        self.lines.append(line)
        owner = self.alive[value][1]
        self.alive = {v: k for v, k in self.alive.items() if v == value or k[1] != owner}
