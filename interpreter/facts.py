"""What every meaning may know before a run."""

from __future__ import annotations

from dataclasses import dataclass

from pallasite.targets import Target


@dataclass(frozen=True)
class Facts:
    """The target that is modelled, and which pattern fills undefined values (0 or 1)."""

    target: Target
    poison: int = 0
