"""A run as one Python function: what a recorder was told, written down and compiled.

A script has memory of its own for each run, and works on the arrays of the call. It holds none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pallasite.interpreter.call_plan import ArrayType
from pallasite.interpreter.machine.spare import Block, Spare, fresh
from pallasite.interpreter.process import keep_freed, products_on_one_thread
from pallasite.interpreter.replay.forward import forwarded
from pallasite.interpreter.replay.lines import Line, View
from pallasite.interpreter.replay.once import once
from pallasite.interpreter.replay.recorder import Recorder, Room
from pallasite.interpreter.values import Array, quiet


@dataclass(frozen=True)
class Script:
    """What every run of a kernel does, and tells."""

    text: str
    """Its Python source, for the curious."""
    function: Callable[..., None]
    """Takes the bytes of operands, rooms and results."""
    rooms: Sequence[Room]
    results: Sequence[ArrayType]

    @staticmethod
    def of(recorder: Recorder, inputs: int, results: Sequence[ArrayType]) -> Script:
        """What `recorder` was told of a run with so many operands."""
        lines = once(forwarded(recorder.lines))
        views = {view: f"v{n}" for n, view in enumerate(_views(lines))}
        used = {view.memory for view in views}
        rooms = tuple(room for room in recorder.rooms if room.name in used)
        names = [f"i{n}" for n in range(inputs)] + [room.name for room in rooms]
        names += [f"o{n}" for n in range(len(results))]
        made = [f"{name} = {view.text(recorder.bind)}" for view, name in views.items()]
        text = "\n ".join(
            [f"def script({', '.join(names)}):", *made, *_named(lines, views), "pass\n"]
        )
        scope = dict(recorder.bound)
        exec(compile(text, "<pallasite script>", "exec"), scope)
        return Script(text, scope["script"], rooms, results)

    def run(self, inputs: Sequence[Array], spare: Spare | None) -> tuple[list[Array], float]:
        """The results for `inputs`, and how many seconds they took."""
        keep_freed()
        began = time.perf_counter()
        arrays = [_bytes(array) for array in inputs]
        blocks = [_room(room, spare) for room in self.rooms]
        found = [fresh(type.byte_count) for type in self.results]
        with quiet(), products_on_one_thread():
            self.function(*arrays, *blocks, *found)
        if spare is not None:
            spare.keep(blocks)
        outputs = [
            block.view(type.dtype).reshape(type.shape)
            for block, type in zip(found, self.results, strict=True)
        ]
        return outputs, time.perf_counter() - began


def _bytes(array: Array) -> Block:
    """What a script reads of an operand, and never writes."""
    found = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    found.flags.writeable = False
    return found


def _room(room: Room, spare: Spare | None) -> Block:
    block = None if spare is None else spare.take(room.size)
    if block is None:
        block = fresh(room.size)
    if room.fill is not None:
        block.view(np.uint32)[...] = room.fill
    return block


def _views(lines: Sequence[Line]) -> dict[View, None]:
    return dict.fromkeys(view for line in lines for view in line.views)


def _named(lines: Sequence[Line], views: Mapping[View, str]) -> list[str]:
    """The text of `lines`, in which values take the names of those that are not used any more."""
    last = {value: n for n, line in enumerate(lines) for value in line.takes + line.makes}
    names: dict[int, str] = {}
    free: list[str] = []
    count = 0
    texts: list[str] = []
    for n, line in enumerate(lines):
        takes = [names[value] for value in line.takes]
        free += dict.fromkeys(names[value] for value in line.takes if last[value] == n)
        for value in line.makes:
            if free:
                names[value] = free.pop()
            else:
                names[value] = f"x{count}"
                count += 1
        makes = [names[value] for value in line.makes]
        free += [names[value] for value in line.makes if last[value] == n]
        read, write = (None if v is None else views[v] for v in (line.read, line.write))
        texts.append(line.text.format(*takes, *makes, r=read, w=write))
    return texts
