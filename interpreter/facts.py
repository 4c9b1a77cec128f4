"""What every meaning may know before a run."""

from __future__ import annotations

from dataclasses import dataclass

from pallasite.targets import Target


@dataclass(frozen=True)
class Facts:
    """The target that is modelled, which pattern fills undefined values (0 or 1), and whether the
    run keeps the clock."""

    target: Target
    poison: int = 0
    profile: bool = False
