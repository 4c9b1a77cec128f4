"""Indexers: which elements of a ref an operation accesses, one entry per dimension.

They are written as in a kernel's source. `%x[%i, ds(%j, 8), ds(0, 4, 2), :]` takes index `%i` (the
result does not have this dimension), eight elements from `%j`, four elements from 0 with stride 2,
and the whole last dimension. `%x[...]` is all of `%x`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DYNAMIC_INDEX, i32
from xdsl.ir import Attribute, SSAValue, SSAValues
from xdsl.irdl import opt_prop_def, prop_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects import scf
from pallasite.dialects.kernel import DYNAMIC
from pallasite.dialects.pallas.base import PallasOp, integers_of, ref_type
from pallasite.dialects.tpu.base import I64_ARRAY
from pallasite.dialects.types import AnyMemRef, dense_integers
from pallasite.dialects.verification import BrokenRule

GUARDS = (scf.IfOp, scf.IndexSwitchOp, scf.ForOp, scf.WhileOp)
"""Operations whose regions may never run."""


@dataclass(frozen=True)
class Entry:
    """The elements `start`, `start + stride`, ... (`size` of them) of one dimension.

    A load may have stride 0, which repeats one element. With `drop` the entry is a single index
    whose dimension the result lacks.
    """

    start: int | SSAValue
    size: int | SSAValue = 1
    stride: int = 1
    drop: bool = False


def at(index: int | SSAValue) -> Entry:
    """A single index; its dimension disappears."""
    return Entry(index, drop=True)


def whole(type: AnyMemRef) -> list[Entry]:
    """All elements of a ref."""
    return [Entry(0, size) for size in type.get_shape()]


class Indexed(PallasOp, ABC):
    """An operation on some elements of a ref."""

    starts = prop_def(I64_ARRAY)
    sizes = prop_def(I64_ARRAY)
    strides = opt_prop_def(I64_ARRAY)
    drops = opt_prop_def(I64_ARRAY)

    if TYPE_CHECKING:  # every operation defines these operands in an order of its own
        ref: SSAValue
        dynamic_starts: SSAValues

    @property
    def run_time_sizes(self) -> Sequence[SSAValue]:
        """The sizes that are known only at run time; only views have such."""
        return ()

    @property
    def least_stride(self) -> int:
        """Only loads may come back to the same element."""
        return 1

    @property
    def reads_outside(self) -> bool:
        """Whether this may name what lies behind the end; only loads may."""
        return False

    @property
    def entries(self) -> list[Entry]:
        """The indexer, one entry per dimension of the ref."""
        starts, sizes = iter(self.dynamic_starts), iter(self.run_time_sizes)
        strides = integers_of(self.strides) or (1,) * len(self.starts)
        drops = integers_of(self.drops)
        columns = (integers_of(self.starts), integers_of(self.sizes), strides)
        return [
            Entry(
                next(starts) if start == DYNAMIC else start,
                next(sizes) if size == DYNAMIC else size,
                stride,
                dim in drops,
            )
            for dim, (start, size, stride) in enumerate(zip(*columns, strict=True))
        ]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the elements named; DYNAMIC_INDEX where only run time tells the size."""
        return named_shape(self.entries)

    def check_indexer(self) -> None:
        """The indexer fits the ref; raises naming the first entry that does not."""
        type = ref_type(self.ref)
        rank = type.get_num_dims()
        starts, sizes = integers_of(self.starts), integers_of(self.sizes)
        strides, drops = integers_of(self.strides), integers_of(self.drops)
        if len(starts) != rank or len(sizes) != rank or len(strides) not in (0, rank):
            raise VerifyException(f"expected one index per dimension of {type}, got {len(starts)}")
        if len(self.dynamic_starts) != starts.count(DYNAMIC):
            raise VerifyException(
                f"expected {starts.count(DYNAMIC)} dynamic starts, got {len(self.dynamic_starts)}"
            )
        if len(self.run_time_sizes) != sizes.count(DYNAMIC):
            raise VerifyException(
                f"expected {sizes.count(DYNAMIC)} dynamic sizes, got {len(self.run_time_sizes)}"
            )
        for dim in drops:
            if not 0 <= dim < rank or sizes[dim] != 1:
                raise VerifyException(f"expected a single index in dropped dimension {dim}")
        for dim, (entry, extent) in enumerate(zip(self.entries, type.get_shape(), strict=True)):
            if entry.stride < self.least_stride:
                told = f"expected a stride of at least {self.least_stride}, got {entry.stride}"
                if entry.stride == 0:
                    told += "; of what goes to one place only the last would stay: store it alone"
                raise VerifyException(told)
            _check_entry(entry, dim, type)
            last = _behind(entry, extent)
            if last is not None and not self.reads_outside and not self._may_never_run():
                told = (
                    f"index {last} is out of bounds in dimension {dim} of {type}, of size {extent}"
                )
                raise BrokenRule(told, code="out-of-bounds")

    def _may_never_run(self) -> bool:
        """Whether a branch or loop is around this, which may guard what lies behind the end.

        Copies of the block after the last are started under such a condition. The TPU compiler
        takes them, and a run that comes here all the same says so.
        """
        op = self.parent_op()
        while op is not None:
            if type(op) in GUARDS:
                return True
            op = op.parent_op()
        return False


def _check_entry(entry: Entry, dim: int, type: AnyMemRef) -> None:
    if isinstance(entry.size, int) and entry.size < (0 if not entry.drop else 1):
        raise VerifyException(f"expected a size of at least 0, got {entry.size}")
    if not isinstance(entry.start, int):
        return
    if entry.start < 0:
        told = f"expected a start of at least 0 in dimension {dim} of {type}, got {entry.start}"
        raise BrokenRule(told, code="out-of-bounds")


def _behind(entry: Entry, extent: int) -> int | None:
    """The last index that the entry names, if that is known to lie behind the end."""
    if not isinstance(entry.start, int) or not isinstance(entry.size, int) or not entry.size:
        return None
    last = entry.start + (entry.size - 1) * entry.stride
    return last if extent != DYNAMIC_INDEX and last >= extent else None


def named_shape(entries: Sequence[Entry]) -> tuple[int, ...]:
    """The shape of what an indexer names."""
    return tuple(
        e.size if isinstance(e.size, int) else DYNAMIC_INDEX for e in entries if not e.drop
    )


def indexer_properties(entries: Sequence[Entry]) -> dict[str, Attribute]:
    """The properties that hold the static part of `entries`."""
    drops = [dim for dim, e in enumerate(entries) if e.drop]
    strides = [e.stride for e in entries]
    properties: dict[str, Attribute] = {
        "starts": dense_integers(
            [e.start if isinstance(e.start, int) else DYNAMIC for e in entries]
        ),
        "sizes": dense_integers([e.size if isinstance(e.size, int) else DYNAMIC for e in entries]),
    }
    if drops:
        properties["drops"] = dense_integers(drops)
    if any(stride != 1 for stride in strides):
        properties["strides"] = dense_integers(strides)
    return properties


def dynamic_starts(entries: Sequence[Entry]) -> list[SSAValue]:
    """The starts that are values."""
    return [e.start for e in entries if not isinstance(e.start, int)]


def dynamic_sizes(entries: Sequence[Entry]) -> list[SSAValue]:
    """The sizes that are values."""
    return [e.size for e in entries if not isinstance(e.size, int)]


# Text

Unresolved = int | UnresolvedOperand


@dataclass(frozen=True)
class _Text:
    """An entry as read: its operands have no types yet; `:` has neither start nor size."""

    start: Unresolved | None = None
    size: Unresolved = 1
    stride: int = 1
    drop: bool = False


Indexer = list[_Text] | None


def parse_indexer(parser: Parser) -> Indexer:
    """Reads `[...]`, which is None, or a list of entries in brackets."""
    parser.parse_punctuation("[")
    if parser.parse_optional_punctuation("...") is not None:
        parser.parse_punctuation("]")
        return None
    if parser.parse_optional_punctuation("]") is not None:
        return []
    entries = parser.parse_comma_separated_list(parser.Delimiter.NONE, lambda: _parse_entry(parser))
    parser.parse_punctuation("]")
    return entries


def _parse_entry(parser: Parser) -> _Text:
    if parser.parse_optional_punctuation(":") is not None:
        return _Text()
    if parser.parse_optional_keyword("ds") is None:
        return _Text(_parse_number(parser), drop=True)
    parser.parse_punctuation("(")
    start = _parse_number(parser)
    parser.parse_punctuation(",")
    size = _parse_number(parser)
    stride = 1
    if parser.parse_optional_punctuation(",") is not None:
        stride = parser.parse_integer(allow_boolean=False)
    parser.parse_punctuation(")")
    return _Text(start, size, stride)


def _parse_number(parser: Parser) -> Unresolved:
    operand = parser.parse_optional_unresolved_operand()
    return parser.parse_integer(allow_boolean=False) if operand is None else operand


def resolve_indexer(parser: Parser, indexer: Indexer, type: AnyMemRef) -> list[Entry]:
    """The entries of an indexer of a ref of `type`."""
    if indexer is None:
        return whole(type)
    shape = type.get_shape()
    if len(indexer) != len(shape):
        parser.raise_error(f"expected {len(shape)} indices for {type}, got {len(indexer)}")

    def number(value: Unresolved) -> int | SSAValue:
        return value if isinstance(value, int) else parser.resolve_operand(value, i32)

    return [
        Entry(0, shape[dim])
        if text.start is None
        else Entry(number(text.start), number(text.size), text.stride, text.drop)
        for dim, text in enumerate(indexer)
    ]


def print_indexer(printer: Printer, entries: Sequence[Entry], type: AnyMemRef) -> None:
    """Prints what `parse_indexer` reads."""
    full = [entry == Entry(0, n) for entry, n in zip(entries, type.get_shape(), strict=True)]
    if entries and all(full):
        printer.print_string("[...]")
        return
    printer.print_string("[")
    for dim, entry in enumerate(entries):
        if dim:
            printer.print_string(", ")
        if full[dim]:
            printer.print_string(":")
        elif entry.drop:
            _print_number(printer, entry.start)
        else:
            printer.print_string("ds(")
            _print_number(printer, entry.start)
            printer.print_string(", ")
            _print_number(printer, entry.size)
            printer.print_string(")" if entry.stride == 1 else f", {entry.stride})")
    printer.print_string("]")


def _print_number(printer: Printer, value: int | SSAValue) -> None:
    if isinstance(value, int):
        printer.print_string(str(value))
    else:
        printer.print_ssa_value(value)
