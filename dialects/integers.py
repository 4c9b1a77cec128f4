"""Integers of a fixed width: the numbers that their bits stand for."""

from __future__ import annotations


def wrap(value: int, bits: int) -> int:
    """The number congruent to `value` that `bits` bits hold with a sign; of one bit 0 or -1."""
    # Bitwise, so that an unknown value (`machine.undefined`) comes out as one within its width.
    low = value & ((1 << bits) - 1)
    return low | -(low & (1 << (bits - 1)))


def unsigned(value: int, bits: int) -> int:
    """The number congruent to `value` that `bits` bits hold without a sign."""
    return value & ((1 << bits) - 1)


def least(bits: int) -> int:
    """The least number that `bits` bits hold with a sign."""
    return -(1 << (bits - 1))


def greatest(bits: int) -> int:
    """The greatest number that `bits` bits hold with a sign."""
    return (1 << (bits - 1)) - 1
