"""Transfers that are rounded up to whole tiles: what they may overwrite behind the elements that
they move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from pallasite.diagnostics import ExecutionError, Note, SourceLocation
from pallasite.interpreter.machine.boxes import blocks_of, digits_of, offsets_of
from pallasite.interpreter.machine.copies import spoil
from pallasite.interpreter.machine.views import Ref
from pallasite.interpreter.values import POISON_WORDS
from pallasite.layouts.registers import SUBLANES
from pallasite.layouts.tiling import Tiling

if TYPE_CHECKING:
    from pallasite.interpreter.replay.recorder import Recorder


def check_rounded(
    ref: Ref,
    starts: Sequence[int],
    sizes: Sequence[int],
    multiples: Mapping[int, int],
    at: SourceLocation | None,
) -> None:
    """Raises unless the slice, rounded up to `multiples` by dimension, lies in the same tiles."""
    for d, multiple in multiples.items():
        if 0 in sizes or sizes[d] % multiple == 0:
            continue
        block, first = ref.blocks[d], ref.starts[d] + starts[d]
        end = -(-(ref.starts[d] + ref.shape[d]) // block) * block
        behind = first + sizes[d] + -sizes[d] % multiple
        if first % multiple or _tile(ref, d) % multiple or behind > end:
            raise ExecutionError(
                "broken-promise",
                f"expected a multiple of {multiple}, as pl.multiple_of promises, got {sizes[d]}",
                at,
                _about_promises(multiple, rows=d < len(sizes) - 1),
            )


def _about_promises(multiple: int, *, rows: bool) -> list[Note]:
    """The notes about why a slice is not rounded up, and what to write instead, for `rows` or
    columns."""
    own = (
        "; or give rows tiles of their own: of an array of [rows, 1, columns], a block of "
        "(pl.BoundedSlice(n), 1, columns) begins and ends anywhere"
    )
    return [
        Note("only what ends in a tile may be rounded up, to the end of that tile"),
        Note(
            "JAX promises this of the slices of a pipeline (pl.BoundedSlice, pl.Element): let "
            f"them begin at multiples of {multiple} and end within the array{own if rows else ''}"
        ),
    ]


def _tile(ref: Ref, d: int) -> int:
    """The elements of a tile in dimension `d`.

    VMEM that we tile by single rows counts with the compiler's tiles, which are registers.
    """
    if ref.buffer.memory.kind == "vmem" and d == len(ref.shape) - 2:
        return max(ref.blocks[d], SUBLANES * ref.codec.packing)
    return ref.blocks[d]


def in_tiles(part: Ref, tiling: Tiling, kept: Sequence[int]) -> Ref | None:
    """`part` as a part of an array with `tiling`, of whose dimensions it has those in `kept`.

    None if some element would lie elsewhere in such tiles: what is adjacent in smaller tiles is not
    adjacent in the array.
    """
    first = part.offset((0,) * len(part.shape))
    if first % (prod(tiling.first) or 1):
        return None
    tiles, sizes = digits_of(tiling), blocks_of(tiling)
    digits, blocks = tuple(tiles[d] for d in kept), tuple(sizes[d] for d in kept)
    for here, start, size, there in zip(part.digits, part.starts, part.shape, digits, strict=True):
        places = offsets_of(here, np.arange(start, start + size))
        if np.any(places - places[:1] != offsets_of(there, np.arange(size))):
            return None
    return Ref(part.buffer, part.element, part.shape, digits, None, first, blocks)


def reach(target: Ref, multiples: Mapping[int, int]) -> Ref | None:
    """`target` rounded up; None if it is whole already."""
    if 0 in target.shape:
        return None
    shape = list(target.shape)
    for d, multiple in multiples.items():
        shape[d] += -shape[d] % multiple
    if tuple(shape) == target.shape:
        return None
    return _grown(target, tuple(shape))


def block_reach(source: Ref, target: Ref, edges: Mapping[int, int]) -> Ref | None:
    """The block of which `target` is the first part, with the sizes `edges` by dimension; None if
    `source` has all of it."""
    shape = list(target.shape)
    beyond = False
    for d, size in edges.items():
        shape[d] = max(shape[d], size)
        beyond = beyond or _inside(source, d) < shape[d]
    return _grown(target, tuple(shape)) if beyond and 0 not in shape else None


def _inside(source: Ref, d: int) -> int:
    """How many elements of `source` lie in its array, in dimension `d`."""
    return min(source.shape[d], source.ends[d] - source.starts[d])


def fill_edge(source: Ref, target: Ref, shape: tuple[int, ...]) -> None:
    """Marks as written those elements of the block of `shape` that begins with `target` which lie
    outside the array of `source`.

    Kernels load whole blocks, and leave these elements out afterwards.
    """
    whole = _grown(target, shape)
    for d, size in enumerate(shape):
        inside = _inside(source, d)
        if inside < size:
            starts, sizes = [0] * len(shape), list(shape)
            starts[d], sizes[d] = inside, size - inside
            whole.slice(starts, sizes).mark_whole()


def spoil_behind(target: Ref, shape: tuple[int, ...], recorder: Recorder | None = None) -> None:
    """Makes poison of the elements between `target` and the block of `shape` that begins with it,
    since it is not known what was written there; tells `recorder`."""
    whole = _grown(target, shape)
    for d, (size, rounded) in enumerate(zip(target.shape, shape, strict=True)):
        if size < rounded:
            starts, sizes = [0] * len(shape), list(shape)
            starts[d], sizes[d] = size, rounded - size
            spoil(whole.slice(starts, sizes), recorder)


def spoil_block(target: Ref, count: int, recorder: Recorder | None = None) -> None:
    """Makes poison of the block that contains `target`, one of `count` equal blocks that follow
    each other; tells `recorder`.

    A block that reaches over the edge of its array has no values there. On the hardware it keeps
    those of an earlier block, which nobody should mistake for a result (JAX's interpreters have NaN
    there).
    """
    buffer = target.buffer
    size = max(buffer.size // count, 1)
    first = (target.address - buffer.address) // size * size
    poison = np.full(-(-size // 4), POISON_WORDS[buffer.memory.poison], np.uint32)
    buffer.bytes[first : first + size] = poison.view(np.uint8)[:size]
    if recorder is not None:
        recorder.spoiled_bytes(buffer, first, size)


def _grown(ref: Ref, shape: tuple[int, ...]) -> Ref:
    """The elements from the first of `ref` on; the last ones may be padding of its last tile."""
    return Ref(ref.buffer, ref.element, shape, ref.digits, ref.starts, ref.base, ref.blocks)
