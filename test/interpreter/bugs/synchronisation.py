"""Deadlocks, transfers that nobody waits for, semaphores that are not zero."""

from __future__ import annotations

from .bug import NEIGHBOURS, Bug

SYNC = (
    Bug("nobody-signals", "deadlock", 1, None, ("%r", "for 1", "has 0"), """
await %r by 1
"""),
    Bug("waits-twice", "deadlock", 3, 2, ("%s", "16384", "has 0", "has ended was here"), """
dma %x -> %a on %s
wait %s for %a
wait %s for %a
"""),
    Bug("waits-for-another-slot", "deadlock", 2, 1, ("%t", "of core 0 holds 16384"), """
dma %x -> %a on %s
wait %t for %a
"""),
    Bug("waits-for-more", "deadlock", 4, None, ("%s", "16384", "has 4096"), """
slice %x1 = %x[0, 0] 8x128
slice %a1 = %a[0, 0] 8x128
dma %x1 -> %a1 on %s
wait %s for %a
"""),
    Bug("never-waited-for", "unawaited-dma", 1, None, ("%a", "%s", "wait"), """
dma %x -> %a on %s
"""),
    Bug("scope-ends-first", "unawaited-dma", 3, 2, ("%c", "%s", "wait"), """
"tpu.region"() ({
alloc %c : 32x128xf32 vmem
dma %x -> %c on %s
"tpu.yield"() : () -> ()
}) : () -> ()
"""),
    Bug("signal-too-many", "semaphore-not-zero", 2, 3, ("%r", "holds 1", "pl.semaphore_wait"), """
signal %r by 1
signal %r by 1
await %r by 1
"""),
    Bug("waits-for-half", "semaphore-not-zero", 1, 3, ("%s", "holds 8192", "copy.wait()"), """
dma %x -> %a on %s
slice %a1 = %a[0, 0] 16x128
wait %s for %a1
"""),
    Bug("device-that-is-not-there", "no-such-device", 6, None, ("device id 2", "2 devices"),
        NEIGHBOURS + "signal %r by 1 device %two\n", devices=2),
    Bug("copy-to-nowhere", "no-such-device", 6, None, ("device id 2", "2 devices"),
        NEIGHBOURS + "dma %x -> %a on %s send %t device %two\n", devices=2),
    Bug("each-waits-for-the-other", "deadlock", 6, 6,
        ("%r", "core 0 of device 1", "cycle", "pl.semaphore_signal(sem, n)"),
        NEIGHBOURS + "await %r by 1\nsignal %r by 1 device %peer\n", devices=2),
    Bug("three-in-a-ring", "deadlock", 12, 12, ("%r", "cycle", "device 2"), """
%me = tpu.device_id : i32
%one = arith.constant 1 : i32
%three = arith.constant 3 : i32
%next = arith.addi %me, %one : i32
%peer = arith.remsi %next, %three : i32
%lo = arith.constant 0 : i32
%hi = arith.constant 3 : i32
%by = arith.constant 1 : i32
// two signals for three waits
signal %r by 1 device %peer
scf.for %i = %lo to %hi step %by : i32 {
await %r by 1
%more = arith.cmpi slt, %i, %by : i32
scf.if %more {
signal %r by 1 device %peer
}
}
""", devices=3),
    Bug("signals-one-that-has-finished", "signal-after-end", 7, None,
        ("device 1", "finished", "%r"), """
%me = tpu.device_id : i32
%one = arith.constant 1 : i32
%zero = arith.constant 0 : i32
%first = arith.cmpi eq, %me, %zero : i32
scf.if %first {
tpu.delay %one
signal %r by 1 device %one
} else {
}
""", devices=2),
    Bug("barrier-that-one-leaves-out", "deadlock", 7, None, ("device 1", "finished"), """
%me = tpu.device_id : i32
%one = arith.constant 1 : i32
%zero = arith.constant 0 : i32
%first = arith.cmpi eq, %me, %zero : i32
scf.if %first {
signal %r by 1 device %one
await %r by 1
} else {
await %r by 1
}
""", devices=2),
)  # fmt: skip
