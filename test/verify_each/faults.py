"""Wrong rules, one at a time: which pass each belongs to, and a kernel that shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest import MonkeyPatch

from .kernels import Kernel

Plant = Callable[[MonkeyPatch], None]


@dataclass(frozen=True)
class Fault:
    """A wrong rule, the pass that must be named, and a kernel whose answer depends on it."""

    name: str
    guilty: str
    kernel: Kernel
    plant: Plant


FAULTS: list[Fault] = []


def fault(guilty: str, shown_by: Kernel) -> Callable[[Plant], Plant]:
    """Registers a function that breaks one rule of the pass `guilty`."""

    def register(plant: Plant) -> Plant:
        FAULTS.append(Fault(plant.__name__, guilty, shown_by, plant))
        return plant

    return register


def never(*_: Any, **__: Any) -> None:
    """A rule that forgets to do anything."""
