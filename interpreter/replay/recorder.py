"""Records what a run does with arrays, in order: calls of meanings, copies, loads and stores.

If nothing that decides anything (a loop bound, an index) comes from an array, except for scalars
that are there before the kernel begins, then a kernel does the same whatever its other operands
hold: loops, scalars, views, allocations and semaphores of a second run with the same scalars are
those of the first. The recorder is told of everything else. It gives up for good if it is told of
something that a script cannot express, or meets an array of unknown origin.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pallasite.interpreter.blocks import Operand
from pallasite.interpreter.compiled import Program
from pallasite.interpreter.compiled.reuse import ufunc_of
from pallasite.interpreter.in_order import is_filled, unwritten
from pallasite.interpreter.machine import rows
from pallasite.interpreter.machine.codec import is_semaphore
from pallasite.interpreter.machine.copies import (
    move_between,
    route_between,
    row_major,
    same_bits,
)
from pallasite.interpreter.machine.memory import Buffer
from pallasite.interpreter.machine.register_access import Access
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.meanings import Narrowing, Staged
from pallasite.interpreter.ops.grid import Joined
from pallasite.interpreter.replay.apart import apart, put, take
from pallasite.interpreter.replay.direct import Kind
from pallasite.interpreter.replay.lines import COPY, LOOK, Box, Line, View, Whole, of_one_kind
from pallasite.interpreter.replay.narrow import Narrow, elements_of
from pallasite.interpreter.values import Array

MOST_LINES = 1 << 13
"""Lines of the longest script: Python takes some 30 us to record and compile one, which saves 5."""


@dataclass(frozen=True)
class Room:
    """Memory of a script: `size` bytes, each word initialised to `fill` unless that is None."""

    name: str
    size: int
    fill: int | None


class Recorder:
    """Is told of what a run does; `plain` while a script can express all of it."""

    def __init__(self, program: Program) -> None:
        self.plain = True
        self.lines: list[Line] = []
        self.rooms: list[Room] = []
        self.bound: dict[str, Any] = {}
        """The globals of the script."""
        self._program = program
        self._constants = {
            id(value) for value in program.globals.values() if isinstance(value, np.ndarray)
        }
        self._names: dict[int, str] = {}
        """Of what is bound, by identity."""
        self._memories: dict[Buffer, str] = {}
        self._poison: int | None = None
        """The number of the room that holds nothing else."""
        self._scalars: set[Buffer] = set()
        """Memory that holds scalars of which no line tells."""
        self._values: dict[int, tuple[weakref.ref[Array], int]] = {}
        """The numbers of arrays that exist, by identity."""
        self._accesses: dict[Access, Callable[..., Array]] = {}
        """What gives the elements of each, apart from memory, of what it views."""
        self._fills: dict[Access, Callable[[Array], Array]] = {}
        self._cuts: dict[Access, Callable[[Array], Array]] = {}
        """What makes registers of the part that each accesses, and takes that of them."""
        self.kinds: list[Kind] = []
        """Those of values, by number."""
        self._prepared = 0
        """Lines that only prepare operands of others."""

    @property
    def effects(self) -> Set[Any]:
        """The kinds of effects in the program."""
        return self._program.effects

    def give_up(self) -> None:
        """Called where this run does something that a script cannot express."""
        self.plain = False

    # The operands and results of the call

    def begin(
        self,
        inputs: Sequence[Operand],
        given: Sequence[Array],
        results: Sequence[Operand],
        held: Sequence[Ref],
    ) -> None:
        """Called when a run begins. The last of the arrays `given` are its operands, `results` the
        places of its results, `held` the scalars that are there before the kernel begins."""
        self._scalars.update(ref.buffer for ref in held)
        bounds = len(given) - len(inputs)
        for number, (operand, array) in enumerate(zip(inputs, given[bounds:], strict=True), bounds):
            if operand.buffer.buffer.is_adopted:
                self._memories[operand.buffer.buffer] = f"i{number}"
            elif same_bits(array.dtype, operand.ref) and not is_semaphore(operand.ref.element):
                self._copy(self._array(operand.ref, f"i{number}"), operand.ref)
            elif not is_semaphore(operand.ref.element):
                convert = partial(put, apart(operand.ref), array.dtype, array.shape)
                self._convert(convert, f"i{number}", self._memory(operand.ref.buffer))
            else:
                self.give_up()
        for number, operand in enumerate(results):
            if operand.buffer.buffer.landed is not None:
                self._memories[operand.buffer.buffer] = f"o{number}"

    def end(self, results: Sequence[Operand], given: Sequence[Array]) -> None:
        """Called when the run has ended, with the arrays `given` as its results."""
        for number, (operand, array) in enumerate(zip(results, given, strict=True)):
            if operand.buffer.buffer.landed is not None:
                if not same_bits(array.dtype, operand.ref):
                    self.give_up()
                elif not is_filled(operand.buffer):
                    self._spoil_rest(operand.buffer)
            elif same_bits(array.dtype, operand.ref) and not is_semaphore(operand.ref.element):
                self._copy(operand.ref, self._array(operand.ref, f"o{number}"))
            elif not is_semaphore(operand.ref.element):
                convert = partial(take, apart(operand.ref), array.dtype)
                self._convert(convert, self._memory(operand.ref.buffer), f"o{number}")
            else:
                self.give_up()
        for access in self._accesses:
            # It is asked for views of the memory of other runs from now on.
            access.forget()

    def _spoil_rest(self, result: Ref) -> None:
        """Records that words of a result which nobody has written are poison."""
        edges = np.flatnonzero(np.diff(unwritten(result), prepend=False, append=False))
        for first, end in edges.reshape(-1, 2).tolist():
            self.spoiled_bytes(result.buffer, first * 4, (end - first) * 4)

    def _array(self, ref: Ref, name: str) -> Ref:
        """Array `name` of the call, as a ref like `ref`."""
        found = row_major(ref)
        self._memories[found.buffer] = name
        return found

    def _convert(self, convert: Callable[[Array, Array], None], read: str, write: str) -> None:
        """Records that `convert` copies between an array and memory with another format."""
        text = f"{self.bind('f', convert)}({{r}}, {{w}})"
        self._line(Line(text, read=Whole(read), write=Whole(write)))

    # What the machine tells

    def copied(self, source: Ref, target: Ref) -> None:
        """Called when a transfer has copied the elements of `source` to `target`."""
        self._copy(source, target)

    def spoiled(self, held: Ref, target: Ref) -> None:
        """Called when poison was copied from `held`, a ref full of it, to `target`."""
        size = -(-held.buffer.size // 4) * 4
        if self._poison is None:
            self._poison = len(self.rooms)
            self.rooms.append(Room(f"m{self._poison}", 0, held.buffer.fill))
        room = self.rooms[self._poison]
        self.rooms[self._poison] = replace(room, size=max(room.size, size))
        self._memories[held.buffer] = room.name
        self._copy(held, target)
        # Nobody names it any more, and it may be thrown away.
        del self._memories[held.buffer]

    def spoiled_bytes(self, buffer: Buffer, first: int, size: int) -> None:
        """Called when `size` bytes of `buffer`, from byte `first` on, were filled with poison."""
        if first % 4 or size % 4:
            self.give_up()
        words = Box(self._memory(buffer), (size // 4,), np.dtype(np.uint32), first, (4,))
        self._line(Line(f"{{w}}[...] = {buffer.fill}", write=words))

    def _copy(self, source: Ref, target: Ref) -> None:
        if 0 in source.shape:
            return
        route = route_between(source, target)
        if route is None:
            move = self.bind("f", partial(move_between, apart(source), apart(target)))
            names = self._memory(source.buffer), self._memory(target.buffer)
            read, write = map(Whole, names)
            return self._line(Line(f"{move}({{r}}, {{w}})", read=read, write=write))
        read = Box.at(route.read, self._memory(source.buffer))  # First: it may be the same one.
        whole = target.byte_count == target.buffer.size
        write = Box.at(route.write, self._memory(target.buffer, whole))
        self._line(Line(COPY, read=read, write=write))

    def loaded(self, access: Access, ref: Ref, look: bool, value: Array) -> None:
        """Called when a load has given `value`; with `look`, that is a view of memory."""
        memory, contents = self._memory(ref.buffer), ref.buffer.bytes
        taken = self._accesses.setdefault(access, access.taken)
        view = access.viewer(ref.codec, ref.base, contents)
        narrow: Narrow | None = None
        if view is not None:
            read: View = Box.of(view, contents, memory)
            text = LOOK if look else f"{{}} = {self.bind('f', taken)}({{r}})"
        elif (part := access.part(ref.codec, ref.base, contents)) is not None:
            fill = self._fills.setdefault(access, access.filled(ref))
            read, text = Box.of(part, contents, memory), f"{{}} = {self.bind('f', fill)}({{r}})"
        elif (elements := elements_of(access, ref, memory)) is not None:
            read, narrow = elements
            text = f"{{}} = {self.bind('f', narrow.load)}({{r}})"
        else:
            general = partial(rows.read_from, apart(ref), access.plan, access.pattern.shape)
            read, text = Whole(memory), f"{{}} = {self.bind('f', general)}({{r}})"
        size, load = (0 if look else value.nbytes), view is not None and not look
        line = Line(text, (), (self._new(value),), read=read, made_bytes=size)
        self._line(line._replace(is_load=load, narrow=narrow))

    def stored(self, access: Access, ref: Ref, value: Array, mask: Array | None, add: bool) -> None:
        """Called when a store has written `value`, or added it (`add`), where `mask` is true."""
        memory, contents = self._memory(ref.buffer), ref.buffer.bytes
        self._accesses.setdefault(access, access.taken)
        takes, texts = self._told([value] if mask is None else [value, mask])
        plain, box_of = mask is None and not add, partial(Box.of, contents=contents, memory=memory)
        target = None if add else access.taker(ref.codec, ref.base, contents)
        if target is not None and plain:
            self._line(Line(f"{{w}}[...] = {texts[0]}", takes, write=box_of(target)))
        elif target is not None and mask is not None and of_one_kind(target, value, mask):
            text = f"{self.bind('f', np.copyto)}({{w}}, {texts[0]}, where={texts[1]})"
            self._line(Line(text, takes, write=box_of(target), whole=False))
        elif plain and (part := access.part(ref.codec, ref.base, contents)) is not None:
            cut = self.bind("f", self._cuts.setdefault(access, access.cut))
            self._line(Line(f"{{w}}[...] = {cut}({texts[0]})", takes, write=box_of(part)))
        elif plain and (elements := elements_of(access, ref, memory)) is not None:
            box, narrow = elements
            text = f"{self.bind('f', narrow.store)}({texts[0]}, {{w}})"
            self._line(Line(text, takes, write=box, narrow=narrow))
        else:
            write = self.bind("f", partial(rows.write_to, apart(ref), access.plan, add=add))
            text = f"{write}({', '.join(['{w}', *texts])})"
            self._line(Line(text, takes, read=Whole(memory), write=Whole(memory)))

    def loaded_scalar(self, buffer: Buffer) -> None:
        """Called when a scalar was loaded from `buffer`; it may decide what the kernel does."""
        if buffer in self._memories:
            self.give_up()  # There may be another one in the next run.

    def stored_scalar(self, buffer: Buffer) -> None:
        """Called when a scalar was stored to `buffer`; all scalars are the same in every run."""
        if buffer in self._memories:
            self.give_up()
        self._scalars.add(buffer)

    def computed(
        self, fn: Callable[..., Any], taken: Sequence[Any], target: Array, buffer: Buffer
    ) -> None:
        """Called when `fn` of `taken` was computed into `target`, which is a view of `buffer`."""
        takes, texts = self._told(taken)
        box = Box.of(target, buffer.bytes, self._memory(buffer))
        text = f"{self.bind('f', fn)}({', '.join(texts)}, out={{w}})"
        self._line(Line(text, takes, write=box))

    # What the compiled driver tells

    @contextmanager
    def listening(self) -> Generator[None]:
        """Context in which all calls of the program's meanings are recorded."""
        names = self._program.globals
        before = {name: fn for name, fn in names.items() if re.match(r"[fs]\d", name)}
        names.update({name: partial(self.call, fn) for name, fn in before.items()})
        count = len(names)
        try:
            yield
        finally:
            names.update(before)
            if len(names) > count:
                self.give_up()  # A function was written meanwhile, of which nobody was told.

    def call(self, fn: Callable[..., Any], *arguments: Any, **rest: Any) -> Any:
        """Calls `fn` and records the call."""
        if isinstance(fn, Staged) and self.plain:
            first, second, third = arguments
            # Most scripts do that once for many products.
            self._prepared += 2
            left, right = self.call(fn.left, first), self.call(fn.right, second)
            return self.call(fn.last, left, right, third)
        result = fn(*arguments, **rest)
        if self.plain:
            self._called(fn, arguments, rest, result)
        return result

    def _called(
        self, fn: Callable[..., Any], arguments: Sequence[Any], rest: Mapping[str, Any], result: Any
    ) -> None:
        results = result if isinstance(result, tuple) else (result,)
        if not any(isinstance(x, np.ndarray) for x in results):
            if any(isinstance(x, np.ndarray) and id(x) not in self._constants for x in arguments):
                self.give_up()  # What it decides may be another thing in the next run.
            return
        if not rest and len(results) == 1 and self._known(results[0]):
            return
        takes, texts = self._told(arguments)
        if rest:
            (name, over), *_ = rest.items()
            more, (text,) = self._told([over], len(takes))
            if over is not result:
                return self.give_up()
            call = f"{self.bind('f', fn)}({', '.join(texts)}, {name}={text})"
            over = next(iter(more), None)
            return self._line(Line(call, takes + more, overwritten=over, ufunc=ufunc_of(fn)))
        through = tuple(self._seen_through(arguments, results))
        if isinstance(fn, Joined) and not through:
            # Parts apart may all be views of memory in the script, which is written later.
            fn, through = (fn, takes) if fn.seen(*arguments) is not None else (fn.copied, ())
        makes = tuple(map(self._new, results))
        left = "".join(f"{{{len(takes) + n}}}, " for n in range(len(makes)))
        if not isinstance(result, tuple):
            left = left.removesuffix(", ")
        call = f"{left} = {self.bind('f', fn)}({', '.join(texts)})"
        size = 0 if through else sum(x.nbytes for x in results if isinstance(x, np.ndarray))
        line = Line(call, takes, makes, seen_through=through, made_bytes=size)
        if isinstance(fn, Joined) or len(arguments) == len(results) == len(takes) == 1:
            line = line._replace(look=fn.look if isinstance(fn, Joined) else fn)
        if not through:
            into = fn.into if isinstance(fn, Narrowing) else None
            line = line._replace(ufunc=ufunc_of(fn), into=into)
        self._line(line)

    def _seen_through(self, arguments: Sequence[Any], results: Sequence[Any]) -> Iterator[int]:
        """The numbers of the arguments that may share memory with results."""
        for x in arguments:
            found = self._values.get(id(x))
            if found and any(np.may_share_memory(x, y) for y in results):
                yield found[1]

    # Names

    def _line(self, line: Line) -> None:
        if len(self.lines) - self._prepared >= MOST_LINES:
            self.give_up()
        if self.plain:
            self.lines.append(line)

    def _known(self, value: Any) -> bool:
        return id(value) in self._values or id(value) in self._constants

    def _new(self, value: Any) -> int:
        """Gives `value`, which a line has just made, a number."""
        key, number = id(value), len(self.kinds)
        self.kinds.append(Kind(np.shape(value), np.asarray(value).dtype))
        if not isinstance(value, np.ndarray) or not value.ndim:
            # Nobody tells what becomes of single numbers.
            self.give_up()
            return number
        values = self._values
        values[key] = weakref.ref(value, lambda _: values.pop(key, None)), number
        return number

    def _told(self, values: Sequence[Any], first: int = 0) -> tuple[tuple[int, ...], list[str]]:
        """The numbers of values that lines have made, and what the next line calls each value."""
        takes: list[int] = []
        texts: list[str] = []
        for value in values:
            if not isinstance(value, np.ndarray) or id(value) in self._constants:
                if not isinstance(value, np.ndarray | np.generic | int | float):
                    self.give_up()
                texts.append(self.bind("c", value))
                continue
            found = self._values.get(id(value))
            if found is None:
                self.give_up()
                found = None, 0
            texts.append(f"{{{first + len(takes)}}}")
            takes.append(found[1])
        return tuple(takes), texts

    def bind(self, prefix: str, value: Any) -> str:
        """The name of a global of the script that holds `value`."""
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = f"{prefix}{len(self._names)}"
            self.bound[name] = value
        return name

    def _memory(self, buffer: Buffer, whole: bool = False) -> str:
        """The name of a buffer's contents in the script; with `whole`, all of it is about to be
        written, so that it needs no initial contents."""
        if buffer in self._scalars:
            self.give_up()  # A script does not fill it.
        name = self._memories.get(buffer)
        if name is None:
            name = self._memories[buffer] = f"m{len(self.rooms)}"
            fill = None if whole else buffer.fill
            self.rooms.append(Room(name, -(-buffer.size // 4) * 4, fill))
        return name
