"""Compiles what a recorder was told to one Python function.

A script holds no arrays: it gets memory for each run, and works on the arrays of the call.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pallasite.interpreter.call_plan import ArrayType
from pallasite.interpreter.machine.copies import parts_of
from pallasite.interpreter.machine.spare import Block, Spare, fresh
from pallasite.interpreter.process import keep_freed, products_on_one_thread
from pallasite.interpreter.replay.chains import chained
from pallasite.interpreter.replay.choices import with_known_conditions
from pallasite.interpreter.replay.direct import direct
from pallasite.interpreter.replay.forward import forwarded
from pallasite.interpreter.replay.in_place import put_in_place
from pallasite.interpreter.replay.known import with_known
from pallasite.interpreter.replay.lines import COPY, Box, Line, View, groups, together
from pallasite.interpreter.replay.narrow import settled
from pallasite.interpreter.replay.once import once
from pallasite.interpreter.replay.recorder import Recorder, Room
from pallasite.interpreter.replay.stacks import stacked
from pallasite.interpreter.replay.values import Values
from pallasite.interpreter.values import Array, quiet


@dataclass(frozen=True)
class Script:
    """The compiled function, and what it needs to run."""

    text: str
    """The Python source of the function."""
    function: Callable[..., None]
    """Takes the bytes of all operands, rooms and results, in this order."""
    rooms: Sequence[Room]
    results: Sequence[ArrayType]
    length: int
    """The number of its lines."""

    @staticmethod
    def of(recorder: Recorder, inputs: int, results: Sequence[ArrayType]) -> Script:
        """The script of what `recorder` was told of a run with `inputs` operands."""
        lines = once(forwarded(recorder.lines))
        bound, kinds, bind = recorder.bound, recorder.kinds, recorder.bind
        lines = with_known_conditions(with_known(lines, bound, bind), kinds, bound, bind)
        lines, seen = direct(lines, kinds, bind)
        lines = chained(lines, bind)
        lines = stacked(lines, Values(kinds, seen), bound, bind)
        lines = put_in_place(lines, bound, bind)
        lines = [settled(_in_parts(line, bind), bind) for line in lines]
        views = {view: f"v{n}" for n, view in enumerate(_views(lines, seen))}
        used = {view.memory for view in views}
        rooms = tuple(room for room in recorder.rooms if room.name in used)
        names = [f"i{n}" for n in range(inputs)] + [room.name for room in rooms]
        names += [f"o{n}" for n in range(len(results))]
        made = [
            f"{', '.join([views[view] for view in group])} = {together(group, bind)}"
            for group in groups(views)
        ]
        text = "\n ".join(
            [f"def script({', '.join(names)}):", *made, *_named(lines, views, seen), "pass\n"]
        )
        # What lines were made with that are left out is not kept.
        scope = {name: bound[name] for name in bound.keys() & _names(text)}
        exec(compile(text, "<pallasite script>", "exec"), scope)
        return Script(text, scope["script"], rooms, results, len(lines))

    def run(
        self, inputs: Sequence[Array], spare: Spare | None, into: Sequence[Array] | None = None
    ) -> tuple[list[Array], float]:
        """Returns (results for `inputs`, seconds); the results are in the arrays `into` if
        given."""
        keep_freed()
        began = time.perf_counter()
        arrays = [_bytes(array) for array in inputs]
        blocks = [_room(room, spare) for room in self.rooms]
        if into is None:
            into = [_new(type) for type in self.results]
        found = [array.reshape(-1).view(np.uint8) for array in into]
        with quiet(), products_on_one_thread():
            self.function(*arrays, *blocks, *found)
        if spare is not None:
            spare.keep(blocks)
        return list(into), time.perf_counter() - began


def _new(type: ArrayType) -> Array:
    return fresh(type.byte_count).view(type.dtype).reshape(type.shape)


def _bytes(array: Array) -> Block:
    """The bytes of an operand, read-only."""
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


def _names(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def _in_parts(line: Line, bind: Callable[[str, Any], str]) -> Line:
    """A copy split into the parts in which NumPy copies fastest."""
    read, write = line.read, line.write
    if line.text != COPY or not isinstance(read, Box) or not isinstance(write, Box):
        return line
    # Within a memory one part might overwrite what another one reads.
    apart = read.memory != write.memory
    parts = parts_of(read.shape, read.strides, write.strides) if apart else ()
    names = [bind("c", part) for part in parts]
    texts = [f"{{w}}[{name}] = {{r}}[{name}]" for name in names]
    return line._replace(text="; ".join(texts)) if texts else line


def _views(lines: Sequence[Line], seen: Mapping[int, View]) -> dict[View, None]:
    """The views that `lines` read, write, or take as values."""
    found: dict[View, None] = {}
    for line in lines:
        found.update((seen[value], None) for value in line.takes if value in seen)
        found.update((view, None) for view in line.views)
    return found


def _named(lines: Sequence[Line], views: Mapping[View, str], seen: Mapping[int, View]) -> list[str]:
    """The Python text of `lines`. Names of values are reused once the value is not needed any more;
    values in `seen` have the names of views."""
    last = {value: n for n, line in enumerate(lines) for value in line.takes + line.makes}
    names = {value: views[seen[value]] for value in last if value in seen}
    free: list[str] = []
    count = 0
    texts: list[str] = []
    for n, line in enumerate(lines):
        takes = [names[value] for value in line.takes]
        over = [value for value in line.takes if value not in seen and last[value] == n]
        free += dict.fromkeys(names[value] for value in over)
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
