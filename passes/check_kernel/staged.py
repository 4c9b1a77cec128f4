"""Which arrays the program around a kernel keeps in that part of VMEM which kernels do not get.

Their blocks need no buffers then. All of it was asked of libtpu 0.0.51 with blocks larger than
what a kernel gets, of a program that is nothing but the kernel.

* Arrays that another order of dimensions pads less are stored so, and the copy in the order that
  kernels expect is made in VMEM, if the copies of all of them fit beside what kernels get by
  default, or the kernel asks for. v4 does not, and v5p does so for every second one only, which
  is not followed.
* On v7x all inputs are copied there, but for those that become results: the smallest first, as
  long as `Target.vmem_beside_inputs` stay free.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from pallasite.dialects.kernel import DYNAMIC, Kernel
from pallasite.dialects.kernel_call import Call
from pallasite.dialects.types import bit_width, memory_space
from pallasite.layouts.tiling import infer_tiling
from pallasite.targets import Target

_MOST_ORDERED = 5
"""Dimensions whose orders are all tried."""


def staged(kernel: Kernel, call: Call | None, target: Target, limit: int) -> set[int]:
    """The operands, by number, whose blocks lie in arrays that are in VMEM beside the `limit` bytes
    of the kernel."""
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
        elif space in ("vmem", None) and _pads_less_otherwise(shape, bits):
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


def _pads_less_otherwise(shape: Sequence[int], bits: int) -> bool:
    """Whether an array is stored with its dimensions in another order, which pads it less."""
    if not 1 < len(shape) <= _MOST_ORDERED:
        return False
    return min(_padded(order, bits) for order in permutations(shape)) < _padded(shape, bits)


def _padded(shape: Sequence[int], bits: int) -> int:
    """Elements of an array in memory, with those that pad its tiles."""
    return infer_tiling(shape, bits).elements(shape)
