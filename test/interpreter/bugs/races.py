"""Races: of a core with its own transfers, and between devices."""

from __future__ import annotations

from .bug import NEIGHBOURS, Bug

RACES = (
    Bug("load-before-wait", "data-race", 2, 1, ("%a", "bytes 0 to 4095", "wait", "%s"), """
dma %x -> %a on %s
load %a[0, 0] 8x128
wait %s for %a
"""),
    Bug("store-into-target", "data-race", 2, 1, ("%a", "bytes 4096 to 8191", "wait", "%s"), """
dma %x -> %a on %s
store %a[8, 0] 8x128
wait %s for %a
"""),
    Bug("rewrite-source", "data-race", 3, 2, ("%a", "bytes 0 to 4095", "wait", "%s"), """
store %a[0, 0] 32x128
dma %a -> %o on %s
store %a[0, 0] 8x128
wait %s for %a
"""),
    Bug("two-copies-one-target", "data-race", 2, 1, ("%a", "bytes 0 to 16383", "%s"), """
dma %x -> %a on %s
dma %x -> %a on %t
wait %s for %a
wait %t for %a
"""),
    Bug("two-copies-overlap", "data-race", 6, 5, ("%a", "bytes 4096 to 8191"), """
slice %x1 = %x[0, 0] 16x128
slice %a1 = %a[0, 0] 16x128
slice %x2 = %x[8, 0] 16x128
slice %a2 = %a[8, 0] 16x128
dma %x1 -> %a1 on %s
dma %x2 -> %a2 on %t
wait %s for %a1
wait %t for %a2
"""),
    Bug("copy-out-before-copy-in", "data-race", 2, 1, ("%a", "wait", "%s"), """
dma %x -> %a on %s
dma %a -> %o on %t
wait %s for %a
wait %t for %a
"""),
    Bug("result-written-twice", "data-race", 4, 3, ("%o", "wait", "%s"), """
store %a[0, 0] 32x128
store %b[0, 0] 32x128
dma %a -> %o on %s
dma %b -> %o on %t
wait %s for %a
wait %t for %b
"""),
    Bug("wrong-semaphore", "data-race", 4, 1, ("%a", "wait", "%s"), """
dma %x -> %a on %s
dma %x -> %b on %t
wait %t for %b
load %a[0, 0] 8x128
wait %s for %a
"""),
    Bug("wrong-slot", "data-race", 8, 6, ("%a", "bytes 8192 to"), """
slice %x0 = %x[0, 0] 16x128
slice %x1 = %x[16, 0] 16x128
slice %a0 = %a[0, 0] 16x128
slice %a1 = %a[16, 0] 16x128
dma %x0 -> %a0 on %s
dma %x1 -> %a1 on %t
wait %s for %a0
load %a[16, 0] 8x128
wait %t for %a1
"""),
    Bug("shared-semaphore", "data-race", 4, 1, ("%a", "%s"), """
dma %x -> %a on %s
dma %x -> %b on %s
wait %s for %b
load %a[0, 0] 8x128
wait %s for %a
"""),
    Bug("shared-semaphore-in-any-order", "data-race", 4, 2, ("%b", "%s", "either may land"), """
dma %x -> %a on %s
dma %x -> %b on %s
wait %s for %b
load %b[0, 0] 8x128
wait %s for %a
"""),
    Bug("part-of-a-copy", "data-race", 5, 3, ("%a", "lands in any order"), """
slice %first = %a[0, 0] 8x128
slice %rest = %a[8, 0] 24x128
dma %x -> %a on %s
wait %s for %first
load %a[0, 0] 8x128
wait %s for %rest
"""),
    Bug("part-of-two-copies", "data-race", 6, 4, ("%a", "wait", "%s"), """
slice %first = %a[0, 0] 8x128
slice %rest = %a[8, 0] 24x128
dma %x -> %b on %s
dma %x -> %a on %s
wait %s for %first
load %a[0, 0] 8x128
wait %s for %rest
wait %s for %b
"""),
    Bug("one-row-too-far", "data-race", 4, 3, ("%a", "bytes 7680 to 8191"), """
slice %x1 = %x[0, 0] 16x128
slice %a1 = %a[0, 0] 16x128
dma %x1 -> %a1 on %s
store %a[15, 0] 1x128
wait %s for %a1
"""),
    Bug("column-too-far", "data-race", 7, 5, ("%a",), """
%lane = tpu.iota {dimensions = array<i32: 1>} : vector<32x128xi32>
%last = arith.constant dense<127> : vector<32x128xi32>
%right = arith.cmpi sge, %lane, %last : vector<32x128xi32>
slice %a1 = %a[0, 0] 32x128
dma %x -> %a1 on %s
store %a[0, 128] 32x128
store %a[0, 0] 32x128 masked %right
wait %s for %a1
""", {"%a": "32x256xf32 vmem"}),
    Bug("table-before-wait", "data-race", 2, 1, ("%table", "bytes 12 to 15", "wait", "%s"), """
dma %x -> %table on %s
get %table[3]
wait %s for %table
""", {"%x": "16xi32 any"}),
    Bug("loop-overtakes", "data-race", 6, 6, ("%a", "wait", "%s"), """
%lo = arith.constant 0 : i32
%hi = arith.constant 4 : i32
%by = arith.constant 1 : i32
// every iteration starts a copy, the waits come behind the loop
scf.for %i = %lo to %hi step %by : i32 {
dma %x -> %a on %s
}
wait %s for %a
wait %s for %a
wait %s for %a
wait %s for %a
"""),
    Bug("prefetch-into-live-slot", "data-race", 4, 3, ("%a", "wait"), """
dma %x -> %a on %s
wait %s for %a
dma %x -> %a on %s
load %a[0, 0] 8x128
wait %s for %a
"""),
    Bug("copy-overlaps-itself", "data-race", 3, None, ("%a", "bytes 4096 to 8191", "overlap"), """
slice %first = %a[0, 0] 16x128
slice %rest = %a[8, 0] 16x128
dma %first -> %rest on %s
wait %s for %rest
"""),
    Bug("packed-load-before-wait", "data-race", 2, 1, ("%a", "wait", "%s"), """
dma %x -> %a on %s
load %a[0, 0] 16x128
wait %s for %a
""", {"%x": "32x128xbf16 any", "%a": "32x128xbf16 vmem", "%sink": "32x128xbf16 vmem"}),
)  # fmt: skip

OVERTAKEN = Bug(
    "one-sender-shares-a-semaphore",
    "data-race",
    13,
    7,
    ("%a", "wait", "%s"),
    """
%me = tpu.device_id : i32
%zero = arith.constant 0 : i32
%one = arith.constant 1 : i32
%is1 = arith.cmpi eq, %me, %one : i32
// both of its transfers are counted by one semaphore of device 0
scf.if %is1 {
dma %x -> %a on %s send %t device %zero
dma %x -> %b on %s send %t device %zero
wait %t for %a
wait %t for %b
} else {
wait %s for %a
load %a[0, 0] 8x128
wait %s for %b
}
""",
    devices=2,
    unordered=True,
)

DEVICES = (
    OVERTAKEN,
    Bug("no-handshake", "data-race", 7, 6, ("%a", "signal"), NEIGHBOURS + """
store %a[0, 0] 32x128
dma %b -> %a on %s send %t device %peer
wait %t for %b
wait %s for %a
""".lstrip("\n"), devices=2),
    Bug("source-reused-before-sent", "data-race", 8, 7, ("%b", "wait", "%t"), NEIGHBOURS + """
store %b[0, 0] 32x128
dma %b -> %a on %s send %t device %peer
store %b[0, 0] 32x128
wait %t for %b
wait %s for %a
""".lstrip("\n"), devices=2),
    Bug("waits-for-send-only", "data-race", 8, 6, ("%a", "wait"), NEIGHBOURS + """
dma %x -> %a on %s send %t device %peer
wait %t for %a
load %a[0, 0] 8x128
wait %s for %a
""".lstrip("\n"), devices=2),
    Bug("waits-for-receive-only", "data-race", 9, 7, ("%b", "wait", "%t"), NEIGHBOURS + """
store %b[0, 0] 32x128
dma %b -> %a on %s send %t device %peer
wait %s for %a
store %b[0, 0] 32x128
wait %t for %b
""".lstrip("\n"), devices=2),
    Bug("two-senders-one-target", "data-race", 5, 5, ("%a", "signal"), """
%me = tpu.device_id : i32
%first = arith.constant 0 : i32
%is = arith.cmpi eq, %me, %first : i32
// everybody, device 0 too, sends to device 0
dma %x -> %a on %s send %t device %first
wait %t for %a
scf.if %is {
wait %s for %a
wait %s for %a
wait %s for %a
}
""", devices=3),
    Bug("handshake-too-early", "data-race", 9, 8, ("%a", "signal"), NEIGHBOURS + """
signal %r by 1 device %peer
await %r by 1
load %b[0, 0] 8x128
dma %x -> %a on %s send %t device %peer
""".replace("load %b[0, 0] 8x128", "store %a[0, 0] 32x128").lstrip("\n") + """wait %t for %a
wait %s for %a
""", devices=2),
    Bug("ring-overwrites-its-only-slot", "data-race", 12, 12, ("%a", "signal"), """
%me = tpu.device_id : i32
%one = arith.constant 1 : i32
%three = arith.constant 3 : i32
%next = arith.addi %me, %one : i32
%peer = arith.remsi %next, %three : i32
%zero = arith.constant 0 : i32
%two = arith.constant 2 : i32
// an all-gather with one receive semaphore and one slot, and no signal that the slot was read
store %b[0, 0] 32x128

scf.for %i = %zero to %two step %one : i32 {
dma %b -> %a on %s send %t device %peer
wait %t for %b
wait %s for %a
load %a[0, 0] 32x128
store %b[0, 0] 32x128
}
""", devices=3),
    Bug("two-senders-share-a-semaphore", "data-race", 18, 7, ("%a", "wait", "%s"), """
%me = tpu.device_id : i32
%zero = arith.constant 0 : i32
%one = arith.constant 1 : i32
%is0 = arith.cmpi eq, %me, %zero : i32
%is1 = arith.cmpi eq, %me, %one : i32
scf.if %is1 {
dma %x -> %a on %s send %t device %zero
wait %t for %a
} else {
scf.if %is0 {
} else {
dma %x -> %b on %s send %t device %zero
wait %t for %b
}
}
scf.if %is0 {
wait %s for %a
load %a[0, 0] 8x128
wait %s for %b
}
""", devices=3),
    Bug("a-scope-that-may-not-have-begun", "data-race", 12, 9,
        ("%buf", "the allocation", "a signal from"), NEIGHBOURS.rstrip("\n") + """
dma %x -> %a on %s
wait %s for %a
"tpu.region"() ({
alloc %buf : 32x128xf32 vmem
alloc %send : dma
alloc %receive : dma
dma %a -> %buf on %receive send %send device %peer
wait %send for %a
wait %receive for %buf
load %buf[0, 0] 8x128
"tpu.yield"() : () -> ()
}) : () -> ()
""", devices=2),
)  # fmt: skip
