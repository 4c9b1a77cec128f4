"""Reads of what nobody wrote, accesses out of bounds, memories that are full, broken promises."""

# ruff: noqa: E501 (MLIR)

from __future__ import annotations

from .bug import Bug, transform
from .kernel_text import window

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
    Bug("copy-of-nothing-over-an-operand", "uninitialised-read", 5, 100, ("%a", "bytes 0 to 4095"), """
dma %b -> %x on %s
wait %s for %x
dma %x -> %a on %s
wait %s for %a
load %a[0, 0] 8x128
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
)  # fmt: skip

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
)  # fmt: skip

CAPACITY = (
    Bug("vmem", "vmem-exhausted", 100, None, ("%c", "%d", "bytes"), """
alloc %c : 24576x1024xf32 vmem
alloc %d : 8192x1024xf32 vmem
store %c[0, 0] 8x128
store %d[0, 0] 8x128
""", {}),
    Bug("smem", "smem-exhausted", 100, None, ("%c", "bytes"), """
alloc %c : 1048576xi32 smem
put %c[0]
"""),
    Bug("semaphores", "semaphore-mem-exhausted", 1, None, ("%c", "100000"), """
alloc %c : 100000 dma
pick %one = %c[0]
dma %x -> %a on %one
wait %one for %a
"""),
)  # fmt: skip

PROMISES = (
    Bug("comes-back-to-a-block", "block-revisited", 100, None,
        ("output 0", "[0, 0]", "visited again", "RevisitMode.ANY"), """
store %o[0, 0] 8x128
""", {"%x": "8x128xf32 vmem", "%o": "8x128xf32 vmem"}, grid="4",
        windows=(window(0, "8, 128"), window(1, "8, 128")),
        transforms=transform(0, "", "%i")
        + transform(1, "%c2 = arith.constant 2 : i32\n%m = arith.remsi %i, %c2 : i32", "%m")),
    Bug("reads-what-its-alias-writes", "broken-promise", 100, None,
        ("input 0", "share"), """
store %o[0, 0] 8x128
load %x[0, 0] 8x128
""", {"%x": "8x128xf32 vmem", "%o": "8x128xf32 vmem"}, grid="4",
        windows=(window(0, "8, 128"), window(1, "8, 128")), aliases={0: 0},
        transforms=transform(0, "%one = arith.constant 1 : i32\n%k = arith.subi %i, %one : i32\n"
                             "%m = arith.maxsi %k, %z : i32", "%m")
        + transform(1, "", "%i")),
    Bug("not-a-multiple", "broken-promise", 4, None, ("got 1", "multiple of 8"), """
put %table[0]
%z = arith.constant 0 : index
%n = memref.load %table[%z] : memref<16xi32, #tpu.memory_space<smem>>
%m = tpu.assume_multiple %n, 8 : i32
store %a[%m, 0] 8x128
"""),
)  # fmt: skip
