"""Kernels with one planted bug each, and what must be said about it."""

# ruff: noqa: E501 (MLIR)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from .kernel_text import DEFAULTS, module, window


@dataclass(frozen=True)
class Bug:
    """A kernel (`kernel_text`) and its finding: where both sides of the bug are, and in words."""

    name: str
    code: str
    at: int
    """The line of the finding; 100 is the kernel itself."""
    other: int | None
    """The line of the operation, or allocation, on the other side."""
    says: tuple[str, ...]
    """What the text must contain: operands, bytes, what is missing."""
    lines: str
    arguments: dict[str, str] = field(default_factory=dict[str, str])
    devices: int = 1
    operands: int = 2
    grid: str = ""
    windows: Sequence[str] = ()
    transforms: str = ""
    forms: tuple[str, ...] = ("mosaic", "dma", "tiles", "vreg")

    def operand(self) -> Any:
        """The input: zeros of the type of `%x`."""
        shape, element = _parts((DEFAULTS | self.arguments)["%x"])
        rows = shape if not self.grid else (32, 128)
        return np.zeros(rows, DTYPES[element])

    def result(self) -> tuple[tuple[int, ...], str]:
        """The shape and type of `%o`."""
        return (32, 128), "float32"

    def text(self) -> str:
        lines = self.lines.strip("\n").split("\n")
        return module(
            lines, self.arguments, operands=self.operands, grid=self.grid, windows=self.windows,
            transforms=self.transforms,
        )  # fmt: skip


DTYPES: dict[str, Any] = {
    "f32": np.float32, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i32": np.int32,
}  # fmt: skip


def _parts(type: str) -> tuple[tuple[int, ...], str]:
    *sizes, element = type.split()[0].split("x")
    return tuple(map(int, sizes)), element


def transform(number: int, body: str, result: str) -> str:
    return (
        f"func.func @transform_{number}(%i: i32) -> (i32, i32) {{\n %z = arith.constant 0 : i32\n"
        f" {body}\n return {result}, %z : i32, i32\n}} "
        'loc("kernel.py":90:1)\n'
    )


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
    Bug("packed-load-before-wait", "data-race", 2, 1, ("%a", "wait", "%s"), """
dma %x -> %a on %s
load %a[0, 0] 16x128
wait %s for %a
""", {"%x": "32x128xbf16 any", "%a": "32x128xbf16 vmem", "%sink": "32x128xbf16 vmem"}),
)

NEIGHBOURS = """
%me = tpu.device_id : i32
%one = arith.constant 1 : i32
%two = arith.constant 2 : i32
%next = arith.addi %me, %one : i32
%peer = arith.remsi %next, %two : i32
"""  # lines 1 to 5

DEVICES = (
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
)

UNWRITTEN = (
    Bug("never-written", "uninitialised-read", 1, 100, ("%a", "bytes 0 to 4095"), """
load %a[0, 0] 8x128
"""),
    Bug("half-written", "uninitialised-read", 2, 100, ("%a", "bytes 4096 to 8191"), """
store %a[0, 0] 8x128
load %a[0, 0] 16x128
"""),
    Bug("int8-rows", "uninitialised-read", 2, 100, ("%a", "bytes 4096 to 8191"), """
store %a[0, 0] 32x128
load %a[32, 0] 32x128
""", {"%a": "64x128xi8 vmem", "%sink": "64x128xi8 vmem"}),
    Bug("half-of-a-word", "uninitialised-read", 5, 100, ("%a", "2048 of 4096 elements"), """
slice %x1 = %x[0, 0] 16x128
slice %a1 = %a[0, 0] 16x128
dma %x1 -> %a1 on %s
wait %s for %a1
load %a[0, 0] 32x128
""", {"%x": "32x128xi8 any", "%a": "32x128xi8 vmem", "%sink": "32x128xi8 vmem"},
        forms=("mosaic", "dma")),
    Bug("table-entry", "uninitialised-read", 2, 100, ("%table", "bytes 8 to 11"), """
put %table[1]
get %table[2]
"""),
    Bug("accumulates-nothing", "uninitialised-read", 2, 100, ("%a", "bytes 0 to"), """
%z = arith.constant 0 : index
%old = vector.load %a[%z, %z] : memref<32x128xf32, #tpu.memory_space<vmem>>, vector<32x128xf32>
%new = arith.addf %old, %old : vector<32x128xf32>
tpu.vector_store %a[%z, %z], %new {strides = array<i32>} : memref<32x128xf32, #tpu.memory_space<vmem>>, vector<32x128xf32>,
"""),
    Bug("copy-of-nothing", "uninitialised-read", 3, 100, ("%b", "bytes 0 to 4095"), """
dma %a -> %b on %s
wait %s for %b
load %b[0, 0] 8x128
"""),
    Bug("partial-tile", "uninitialised-read", 5, 100, ("%a", "384 of 1024 elements"), """
slice %x1 = %x[0, 0] 5x128
slice %a1 = %a[0, 0] 5x128
dma %x1 -> %a1 on %s
wait %s for %a1
load %a[0, 0] 8x128
""", forms=("mosaic", "dma")),
    Bug("masked-store", "uninitialised-read", 5, 100, ("%a", "64 of"), """
%lane = tpu.iota {dimensions = array<i32: 1>} : vector<8x128xi32>
%last = arith.constant dense<64> : vector<8x128xi32>
%right = arith.cmpi sge, %lane, %last : vector<8x128xi32>
store %a[0, 0] 8x128 masked %right
load %a[0, 0] 1x128
""", forms=("mosaic", "dma")),
    Bug("result-before-it-is-written", "uninitialised-read", 1, None, ("output 0",), """
load %o[0, 0] 8x128
store %o[0, 0] 8x128
""", {"%x": "8x128xf32 vmem", "%o": "8x128xf32 vmem"}, grid="2",
        windows=(window(0, "8, 128"), window(1, "8, 128")),
        transforms=transform(0, "", "%i") + transform(1, "", "%i"), forms=("mosaic",)),
    Bug("result-of-the-step-before", "uninitialised-read", 6, None, ("output 0",), """
%z = arith.constant 0 : i32
%first = arith.cmpi eq, %i0, %z : i32
scf.if %first {
store %o[0, 0] 8x128
}
load %o[0, 0] 8x128
""".replace("}\nload", "}\nload"), {"%x": "8x128xf32 vmem", "%o": "8x128xf32 vmem"}, grid="4",
        windows=(window(0, "8, 128"), window(1, "8, 128")),
        transforms=transform(0, "", "%i") + transform(1, "", "%i"), forms=("mosaic",)),
)

BOUNDS = (
    Bug("rows-behind-the-end", "out-of-bounds", 2, None, ("%a", "[28, 0]"), """
%n = arith.constant 28 : i32
load %a[%n, 0] 8x128
"""),
    Bug("dynamic-store", "out-of-bounds", 4, None, ("%a", "[32, 0]"), """
%c8 = arith.constant 8 : i32
%c4 = arith.constant 4 : i32
%n = arith.muli %c8, %c4 : i32
store %a[%n, 0] 8x128
"""),
    Bug("negative-index", "out-of-bounds", 2, None, ("%a", "[-8, 0]"), """
%n = arith.constant -8 : i32
load %a[%n, 0] 8x128
"""),
    Bug("table-index", "out-of-bounds", 2, None, ("%table", "[16]"), """
%n = arith.constant 16 : i32
get %table[%n]
"""),
    Bug("copy-behind-the-end", "out-of-bounds", 2, None, ("%x", "[32, 0]", "[32, 128]"), """
%n = arith.constant 32 : i32
slice %x1 = %x[%n, 0] 8x128
slice %a1 = %a[0, 0] 8x128
dma %x1 -> %a1 on %s
wait %s for %a1
"""),
    Bug("slot-that-is-not-there", "out-of-bounds", 2, None, ("%sems", "[2]"), """
%n = arith.constant 2 : i32
pick %one = %sems[%n]
dma %x -> %a on %one
wait %one for %a
""", {"%sems": "2 dma"}),
    Bug("block-index", "block-out-of-bounds", 100, None, ("input 0", "[4, 0]", "grid point [4]"), """
load %x[0, 0] 8x128
store %o[0, 0] 8x128
""", {"%x": "8x128xf32 vmem", "%o": "8x128xf32 vmem"}, grid="5",
        windows=(window(0, "8, 128"), window(1, "8, 128")),
        transforms=transform(0, "", "%i") + transform(1, "", "%z"), forms=("mosaic",)),
)

SYNC = (
    Bug("nobody-signals", "deadlock", 1, None, ("%r", "for 1", "has 0"), """
await %r by 1
"""),
    Bug("waits-twice", "deadlock", 3, None, ("%s", "16384", "has 0"), """
dma %x -> %a on %s
wait %s for %a
wait %s for %a
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
    Bug("signal-too-many", "semaphore-not-zero", 2, None, ("%r", "holds 1"), """
signal %r by 1
signal %r by 1
await %r by 1
"""),
    Bug("waits-for-half", "semaphore-not-zero", 1, None, ("%s", "holds 8192"), """
dma %x -> %a on %s
slice %a1 = %a[0, 0] 16x128
wait %s for %a1
"""),
    Bug("device-that-is-not-there", "no-such-device", 6, None, ("device id 2", "2 devices"),
        NEIGHBOURS + "signal %r by 1 device %two\n", devices=2),
    Bug("copy-to-nowhere", "no-such-device", 6, None, ("device id 2", "2 devices"),
        NEIGHBOURS + "dma %x -> %a on %s send %t device %two\n", devices=2),
    Bug("each-waits-for-the-other", "deadlock", 6, 6, ("%r", "core 0 of device 1", "cycle"),
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
)

CAPACITY = (
    Bug("vmem", "vmem-exhausted", 2, 1, ("%c", "%d", "bytes"), """
alloc %c : 24576x1024xf32 vmem
alloc %d : 8192x1024xf32 vmem
store %c[0, 0] 8x128
store %d[0, 0] 8x128
""", {}),
    Bug("smem", "smem-exhausted", 1, 100, ("%c", "bytes"), """
alloc %c : 1048576xi32 smem
put %c[0]
"""),
    Bug("semaphores", "semaphore-mem-exhausted", 1, 100, ("%c",), """
alloc %c : 100000 dma
pick %one = %c[0]
dma %x -> %a on %one
wait %one for %a
"""),
)

PROMISES = (
    Bug("comes-back-to-a-block", "block-revisited", 100, None,
        ("output 0", "[0, 0]", "visited again"), """
store %o[0, 0] 8x128
""", {"%x": "8x128xf32 vmem", "%o": "8x128xf32 vmem"}, grid="4",
        windows=(window(0, "8, 128"), window(1, "8, 128")),
        transforms=transform(0, "", "%i")
        + transform(1, "%c2 = arith.constant 2 : i32\n%m = arith.remsi %i, %c2 : i32", "%m")),
    Bug("not-a-multiple", "broken-promise", 4, None, ("got 1", "multiple of 8"), """
put %table[0]
%z = arith.constant 0 : index
%n = memref.load %table[%z] : memref<16xi32, #tpu.memory_space<smem>>
%m = tpu.assume_multiple %n, 8 : i32
store %a[%m, 0] 8x128
"""),
)

BUGS = (*RACES, *DEVICES, *UNWRITTEN, *BOUNDS, *SYNC, *CAPACITY, *PROMISES)
