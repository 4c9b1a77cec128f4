"""Memories with a capacity, and the buffers allocated in them.

An allocation has an address, so exhaustion and "the same ref on another device" mean what they mean
on the chip; its bytes exist only once touched. Scoped allocations form a stack; what must outlive
scopes (`pinned`) comes from the high end.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pallasite.diagnostics import ExecutionError, Note, SourceLocation
from pallasite.interpreter.machine.boxes import Digits
from pallasite.interpreter.machine.spare import LEAST, Block, Spare, fresh
from pallasite.interpreter.values import POISON_WORDS

MEMORY_NOTE = Note("a larger run needs a larger limit (max_memory, --max-memory)")
Landed = set[tuple[int, tuple[int, ...], tuple[int, ...], tuple[Digits, ...]]]
"""Boxes of a buffer: the base, starts and shape of a ref, and the digits of its dimensions."""
ALIGNMENT = 512
"""Bytes: one sublane of 128 words, the unit in which registers address memory."""


@cache
def default_memory() -> int:
    """8 GiB, or half of this computer's memory if that is less."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 8 << 30
    return min(8 << 30, physical // 2)


class HostMemory:
    """The bytes of this computer that the machine of one run may still touch."""

    def __init__(self, limit: int | None = None, spare: Spare | None = None):
        """`spare` has blocks of earlier runs, and gets those of this one for later ones."""
        self.limit = default_memory() if limit is None else limit
        self.used = 0
        self.spare = spare
        self._left: list[Block] = []
        self._left_bytes = 0

    def take(self, size: int, name: str, location: SourceLocation | None = None) -> None:
        """Counts `size` bytes more; raises if that exceeds the limit."""
        if self.used + size > self.limit:
            raise ExecutionError(
                "memory-limit",
                f"simulated memory takes {self.used + size} bytes with {name}, more than the limit "
                f"of {self.limit}",
                location,
                [MEMORY_NOTE],
            )
        self.used += size

    def give(self, size: int) -> None:
        """Counts `size` bytes less."""
        self.used -= size

    def block(self, size: int) -> Block:
        """`size` bytes that hold anything."""
        found = None if self.spare is None else self.spare.take(size)
        return fresh(size) if found is None else found

    def leave(self, block: Block) -> None:
        """Puts a block by for the time after the run: until then a late transfer may name it."""
        if self.spare is not None and self._left_bytes + len(block) <= self.spare.limit:
            self._left.append(block)
            self._left_bytes += len(block)

    def close(self) -> None:
        """The run has ended, and nothing of its memories is left but what was put by."""
        if self.spare is not None:
            self.spare.keep(self._left)
        self._left, self._left_bytes = [], 0


@dataclass(eq=False)
class Buffer:
    """A contiguous range of a memory, holding a tiled (and tile-padded) array."""

    memory: Memory
    address: int
    size: int
    name: str
    location: SourceLocation | None
    zero: bool = False
    pinned: bool = False
    freed: bool = False
    taken: int = 0
    """Bytes of this computer that it counts for."""
    block: Block | None = None
    """What the run may leave to the next one."""
    kept: Block | None = None
    """What an earlier run of the same program has left to this buffer alone."""
    shadow: NDArray[np.uint8] | None = None
    """All-ones where a byte was written; None when nobody asks."""
    complete: bool = False
    """Whether nobody asks because all of it was written."""
    boxes: dict[Any, SourceLocation | None] | None = None
    """Where each box was copied to from, if DMAs may write a box only once
    (spec/pallas_semantics.md 1.7)."""
    landed: Landed | None = None
    """What transfers have written, if nobody reads it and the rest becomes poison afterwards."""
    aliased: bool = False
    """Whether an input and an output of the kernel share it."""

    _integers: memoryview[Any] | None = None

    @property
    def _whole_words(self) -> int:
        """Bytes of the whole 32-bit words that hold it."""
        return -(-self.size // 4) * 4

    @property
    def fill(self) -> int:
        """What each word of it holds before it is written."""
        return 0 if self.zero else POISON_WORDS[self.memory.poison]

    @cached_property
    def bytes(self) -> NDArray[np.uint8]:
        """The contents, zero if asked for, else poison: whole words, to be viewed as such."""
        if self.zero:
            self._take(self._whole_words)
            return np.zeros(self._whole_words, np.uint8)
        block = self._new_block()
        if self.landed is None:
            block.view(np.uint32)[...] = POISON_WORDS[self.memory.poison]
        return block

    def integers(self, dtype: np.dtype[Any]) -> memoryview[Any]:
        """The contents as integers of `dtype`, which come out as those of Python."""
        found = self._integers
        if found is None or found.format != dtype.char:
            found = self._integers = self.bytes.data.cast(cast("Any", dtype.char))
        return found

    def renew(self, memory: Memory, name: str, location: SourceLocation | None) -> None:
        """Begins another life at the same address, in the memory of the next run."""
        self.memory, self.name, self.location = memory, name, location
        self.freed = self.complete = self.aliased = False
        self.taken = 0
        self.shadow = self.boxes = self.landed = None

    def retire(self, room: int) -> int:
        """Ends its part in a run, which has ended: nothing is left of its contents but memory for
        its next life, of at most `room` bytes. Gives how many these are."""
        block, self.block = self.block, None
        self.__dict__.pop("bytes", None)
        self._integers = None
        # Larger blocks are for every run to take.
        left = block is not None and len(block) < min(LEAST, room + 1)
        self.kept = block if left else None
        return 0 if self.kept is None else len(self.kept)

    @property
    def touched(self) -> bool:
        """Whether its contents exist."""
        return "bytes" in self.__dict__

    def unfilled(self) -> None:
        """All of it is about to be written: before its first use, saves filling it."""
        self.bytes = self._new_block()

    def adopt(self, contents: Block) -> None:
        """The caller's memory is its contents, to which nobody may write: before its first use."""
        self._take(len(contents))
        self.bytes = contents.view()
        self.bytes.flags.writeable = False

    @property
    def is_adopted(self) -> bool:
        """Whether its contents are the caller's memory."""
        return self.touched and not self.bytes.flags.writeable

    def hand_over(self) -> Block | None:
        """Its contents, for the caller to keep: at the end of its life, and only once."""
        contents = self.bytes
        mine, self.block = self.block, None
        self.kept = None
        return None if mine is None else contents

    def _new_block(self) -> Block:
        count, host = self._whole_words, self.memory.host
        self._take(count)
        self.block = self.kept
        if self.block is None:
            self.block = fresh(count) if host is None else host.block(count)
        return self.block

    def track(self) -> None:
        """Starts remembering which bytes were written."""
        count = self._whole_words
        self._take(count)
        # Zeros that nobody touches take no time.
        self.shadow = np.full(count, 0xFF, np.uint8) if self.zero else np.zeros(count, np.uint8)

    def completed(self) -> None:
        """All of it is written: nothing is left to remember."""
        if self.shadow is not None:
            self._give(len(self.shadow))
            self.shadow, self.complete = None, True

    def reopened(self) -> NDArray[np.uint8] | None:
        """What to mark when something unwritten may get into it; None when nobody asks."""
        if self.complete:
            self.complete = False
            self._take(self._whole_words)
            self.shadow = np.full(self._whole_words, 0xFF, np.uint8)
        return self.shadow

    def _take(self, size: int) -> None:
        if self.memory.host is not None:
            self.memory.host.take(size, self.title, self.location)
            self.taken += size

    def _give(self, size: int) -> None:
        if self.memory.host is not None:
            self.memory.host.give(size)
            self.taken -= size

    def forget(self) -> None:
        """Gives back what this computer holds of the buffer, whose life has ended."""
        if self.taken:
            self._give(self.taken)
        if self.block is not None and self.memory.host is not None:
            self.memory.host.leave(self.block)

    @property
    def title(self) -> str:
        """What messages call it."""
        return self.name or self.memory.kind

    def __str__(self) -> str:
        where = f" ({self.location})" if self.location else ""
        return f"{self.name or 'buffer'}{where}: {self.size} bytes at {self.address}"


@dataclass(eq=False)
class Memory:
    """One memory of one core or device: allocates addresses, knows the peak."""

    kind: str
    capacity: int
    owner: str = ""
    poison: int = 0
    tracked: bool = False
    """Whether buffers remember which of their bytes were written."""
    host: HostMemory | None = None
    peak_bytes: int = 0
    _low: int = 0
    _high: int = 0

    def __post_init__(self) -> None:
        self._stack: list[Buffer] = []
        self._pinned: list[Buffer] = []
        self._live: dict[int, Buffer] = {}

    @property
    def used_bytes(self) -> int:
        return self._low + self._high

    def allocate(
        self,
        size: int,
        name: str = "",
        location: SourceLocation | None = None,
        *,
        zero: bool = False,
        pinned: bool = False,
        again: Buffer | None = None,
    ) -> Buffer:
        """Reserves `size` bytes; raises `<kind>-exhausted` with a list of who holds the memory.

        The buffer is `again`, of an earlier run, if that was at the same place.
        """
        unit = 4 if self.kind in ("smem", "semaphore_mem") else ALIGNMENT
        span = max(1, -(-size // unit)) * unit
        if self._low + self._high + span > self.capacity:
            raise self._exhausted(span, name, location)
        if pinned:
            self._high += span
            address = self.capacity - self._high
        else:
            address = self._low
            self._low += span
        if again is not None and (again.address, again.size) == (address, span):
            buffer = again
            buffer.renew(self, name, location)
        else:
            buffer = Buffer(self, address, span, name, location, zero, pinned)
        (self._pinned if pinned else self._stack).append(buffer)
        self._live[address] = buffer
        used = self._low + self._high
        if used > self.peak_bytes:
            self.peak_bytes = used
        if self.tracked:
            buffer.track()
        return buffer

    def _exhausted(self, span: int, name: str, location: SourceLocation | None) -> ExecutionError:
        holders = sorted(self._stack + self._pinned, key=lambda b: -b.size)
        notes = [
            Note(f"{b.name or 'buffer'} holds {b.size} bytes", b.location) for b in holders[:20]
        ]
        if len(holders) > 20:
            rest = sum(b.size for b in holders[20:])
            notes.append(Note(f"{len(holders) - 20} smaller buffers hold {rest} bytes"))
        where = f" of {self.owner}" if self.owner else ""
        return ExecutionError(
            f"{self.kind.replace('_', '-')}-exhausted",
            f"{self.kind}{where} has {self.capacity} bytes, {self.used_bytes} in use, "
            f"cannot allocate {span} more for {name or 'a buffer'}",
            location,
            notes,
        )

    def free(self, buffer: Buffer) -> None:
        """Ends the life of `buffer`; its addresses return once nothing newer lies above them."""
        buffer.freed = True
        buffer.forget()
        del self._live[buffer.address]
        if buffer.pinned:
            self._pinned.remove(buffer)
            self._high = max((self.capacity - b.address for b in self._pinned), default=0)
            return
        if self._stack[-1] is buffer:
            # The newest one is nearly always the one to go.
            self._stack.pop()
        else:
            self._stack.remove(buffer)
        last = self._stack[-1] if self._stack else None
        self._low = last.address + last.size if last else 0

    def at(self, address: int) -> Buffer | None:
        """The live buffer that starts at `address`."""
        return self._live.get(address)

    def live(self) -> list[Buffer]:
        """The buffers that are allocated now, in order of allocation."""
        return [*self._stack, *self._pinned]

    def drop(self) -> None:
        """Forgets all buffers: nobody asks for one any more."""
        self._stack.clear()
        self._pinned.clear()
        self._live.clear()
