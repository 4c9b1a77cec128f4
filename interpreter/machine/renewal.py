"""Keeps refs, and how they are accessed, from one run of a program for the next.

A kernel that is called again and again allocates the same buffers in the same order each time. A
ref knows the views that were taken of it, its register accesses and what the last transfer copied.
So the next run gets the same refs again, over buffers with the same addresses that count as not
written yet, in another machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from xdsl.ir import Attribute

from pallasite.diagnostics import SourceLocation
from pallasite.interpreter.machine.memory import Memory
from pallasite.interpreter.machine.views import Ref

MOST_REFS = 1 << 9
"""Refs, views of them included, that are left of one core."""
MOST_ACCESSES = 1 << 10
"""Register accesses to these refs that are left."""
MOST_BYTES = 1 << 17
"""Bytes of memory that stay with their buffers on one core."""


class Wanted(NamedTuple):
    """All that determines the layout of an allocated ref; equal ones are laid out alike."""

    type: Attribute
    sizes: tuple[int, ...]
    zero: bool
    pinned: bool
    argument: bool


class Allocations:
    """The refs that one core allocates, in order."""

    def __init__(self, earlier: Allocations | None = None) -> None:
        """`earlier` are those of the previous run, which has ended; nobody else continues it."""
        self._made: list[tuple[Wanted, Ref]] = []
        self._earlier = iter(()) if earlier is None else iter(earlier._made)

    def again(
        self,
        wanted: Wanted,
        memories: Mapping[str, Memory],
        name: str,
        location: SourceLocation | None,
    ) -> Ref | None:
        """The ref allocated at this point of the previous run, allocated again; None if another
        kind of ref is wanted.

        `memories` are those of the core, by memory space.
        """
        found = next(self._earlier, None)
        if found is None:
            return None
        if found[0] != wanted:
            # From here on the runs have nothing in common.
            self._earlier = iter(())
            return None
        ref = found[1]
        old = ref.buffer
        buffer = memories[old.memory.kind].allocate(
            old.size, name, location, zero=wanted.zero, pinned=wanted.pinned, again=old
        )
        return ref if buffer is old else ref.over(buffer)

    def add(self, wanted: Wanted, ref: Ref) -> None:
        """Adds a new allocation."""
        if len(self._made) < MOST_REFS:
            self._made.append((wanted, ref))

    def retire(self) -> Allocations:
        """Drops the contents of memory, and what is too much to keep."""
        refs, accesses, room = MOST_REFS, MOST_ACCESSES, MOST_BYTES
        for _, ref in self._made:
            views = [ref]
            # What is appended meanwhile has its turn, too.
            for view in views:
                views += view.views.values()
            if len(views) > refs:
                ref.views, views = {}, [ref]
            refs = max(refs - len(views), 0)
            kept = ref.buffer.retire(room)
            room -= kept
            for view in views:
                if not kept:
                    view.moved = None
                if view.registers is None:
                    continue
                accesses -= len(view.registers)
                if accesses < 0:
                    view.registers = None
                elif not kept:
                    # They have views of memory that is not to be held.
                    for access in view.registers.values():
                        access.forget()
        return self
