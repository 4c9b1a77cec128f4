"""Which arrays the program around a kernel keeps in the part of VMEM that the kernel does not get.

Blocks of such arrays need no buffers in the kernel's part. There are two reasons:

* If an array has less padding with its dimensions in another order, the program stores it in that
  order. The copy in the order that the kernel expects is made in VMEM if the copies of all such
  arrays fit beside the kernel's part (the default one, or a larger one that it asks for). v4 makes
  no such copies; v5p makes them for every second array, which is not modelled.
* On v7x the program copies all inputs to VMEM, except those that alias results: the smallest first,
  as long as `Target.vmem_beside_inputs` bytes stay free.

Asked of libtpu 0.0.51 with blocks larger than the kernel's part, in programs of only the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from pallasite.dialects.kernel import DYNAMIC, Kernel
from pallasite.dialects.kernel_call import Call
from pallasite.dialects.types import bit_width, memory_space
from pallasite.layouts.registers import SUBLANES, packing
from pallasite.layouts.tiling import infer_tiling
from pallasite.targets import Target

_MOST_ORDERED = 5
"""Arrays of more dimensions are taken to be stored in the order that the kernel expects."""


def arrays_in_vmem(kernel: Kernel, call: Call | None, target: Target, limit: int) -> set[int]:
    """The numbers of the operands whose arrays are in VMEM beside the kernel's part of `limit`
    bytes."""
    if call is None or not target.copies_to_vmem:
        return set()
    first = sum(size == DYNAMIC for size in kernel.grid or ()) + len(kernel.prefetch)
    arrays = [*call.operands, *call.results][first:]
    inputs = len(call.operands) - first
    results = {operand - first for operand, _ in call.aliases}
    beside = target.vmem_bytes - target.reserved_vmem_bytes
    free = target.vmem_beside_inputs
    copied: dict[int, int] = {}
    loaded: dict[int, int] = {}
    for number, (operand, array) in enumerate(zip(kernel.operands, arrays, strict=False)):
        space = memory_space(operand.type)
        shape, bits = array.get_shape(), bit_width(array.element_type)
        size = _padded(shape, bits) * bits // 8
        if free is not None and number < inputs:
            if number not in results and space in ("vmem", "any", None):
                loaded[number] = size
        elif space in ("vmem", None) and pads_less_otherwise(shape, bits):
            copied[number] = size
    found: set[int] = set()
    if sum(copied.values()) <= beside - max(limit, target.scoped_vmem_bytes):
        found.update(copied)
    left = beside - limit - (free or 0)
    for number in sorted(loaded, key=lambda number: loaded[number]):
        left -= loaded[number]
        if left < 0:
            break
        found.add(number)
    return found


def pads_less_otherwise(shape: Sequence[int], bits: int) -> bool:
    """Whether another order of its dimensions gives the array less padding."""
    if not 1 < len(shape) <= _MOST_ORDERED:
        return False
    return min(_stored(order, bits) for order in permutations(shape)) < _stored(shape, bits)


def _stored(shape: Sequence[int], bits: int) -> int:
    """The number of elements of an array as XLA stores it, of rank 2 or more, padding included.

    Up to 8 rows have tiles of 8 rows, even of 2-bit integers, of which a word holds 16.
    """
    words = max(packing(bits) // SUBLANES, 1) if shape[-2] <= SUBLANES else 1
    return _padded(shape, bits) // words


def _padded(shape: Sequence[int], bits: int) -> int:
    """The number of elements of an array in memory, padding included."""
    return infer_tiling(shape, bits).elements(shape)
