"""Races between devices that a signal from somebody else, or a later one, hides in most orders."""

from __future__ import annotations

from .bug import Bug


def ring(devices: int) -> str:
    """Lines 1 to 8 of kernels of so many devices in a ring."""
    return f"""
%me = tpu.device_id : i32
%one = arith.constant 1 : i32
%last = arith.constant {devices - 1} : i32
%count = arith.addi %last, %one : i32
%next = arith.addi %me, %one : i32
%right = arith.remsi %next, %count : i32
%before = arith.addi %me, %last : i32
%left = arith.remsi %before, %count : i32
"""


LUCK = (
    # Its wait takes either of two signals, of which the second is the one that it needs.
    Bug("waits-for-the-first-of-two-credits", "data-race", 16, 11, ("%a", "may end without"), """
%me = tpu.device_id : i32
%zero = arith.constant 0 : i32
%one = arith.constant 1 : i32
%is0 = arith.cmpi eq, %me, %zero : i32
slice %a1 = %a[16, 0] 16x128
slice %x1 = %x[16, 0] 16x128
scf.if %is0 {
store %a[0, 0] 32x128
load %a[0, 0] 8x128
signal %r by 1 device %one
load %a[16, 0] 8x128
signal %r by 1 device %one
wait %s for %a1
} else {
await %r by 1
dma %x1 -> %a1 on %s send %t device %zero
wait %t for %a1
await %r by 1
}
""", devices=2),
    Bug("waits-for-one-neighbour-of-two", "data-race", 13, 9, ("%a", "may come in"), ring(3) + """
store %a[0, 0] 32x128
signal %r by 1 device %left
signal %r by 1 device %right
await %r by 1
dma %x -> %a on %s send %t device %right
wait %t for %a
await %r by 1
wait %s for %a
""".lstrip("\n"), devices=3),
    # The left neighbour may come to the second barrier before the right one comes to the first.
    Bug("barrier-is-used-twice", "data-race", 13, 9, ("%a", "may come in"), ring(5) + """
store %a[0, 0] 32x128
signal %r by 1 device %left
signal %r by 1 device %right
await %r by 2
dma %x -> %a on %s send %t device %right
wait %t for %a
wait %s for %a
signal %r by 1 device %left
signal %r by 1 device %right
await %r by 2
""".lstrip("\n"), devices=5),
)  # fmt: skip
