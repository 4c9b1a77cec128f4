"""Bugs of two cores of one device that share a kernel: `%i0` is the core."""

# ruff: noqa: E501 (MLIR)

from __future__ import annotations

from typing import Any

from .bug import Bug

MESH: dict[str, Any] = {
    "grid": "2", "windows": ("{}", "{}"), "semantics": "parallel", "target": "v4"
}  # fmt: skip
OTHER = """
%one = arith.constant 1 : i32
%other = arith.subi %one, %i0 : i32
"""  # lines 1 to 3

CORES = (
    Bug("cores-write-one-result", "data-race", 2, 2, ("output 0", "core 0", "core 1", "signal"), """
store %a[0, 0] 32x128
dma %a -> %o on %s
wait %s for %a
""", **MESH),
    Bug("core-loads-before-its-wait", "data-race", 6, 5, ("%b", "core 1", "wait"), OTHER + """
store %a[0, 0] 32x128
dma %a -> %b on %t send %s core %other
load %b[0, 0] 8x128
wait %s for %a
wait %t for %b
""", **MESH),
    Bug("core-stores-into-what-it-sends", "data-race", 6, 5, ("%a", "wait", "%s"), OTHER + """
store %a[0, 0] 32x128
dma %a -> %b on %t send %s core %other
store %a[8, 0] 8x128
wait %s for %a
wait %t for %b
""", **MESH),
    Bug("core-is-overtaken", "data-race", 6, 5, ("%b", "signal"), OTHER + """
store %a[0, 0] 32x128
store %b[0, 0] 32x128
dma %a -> %b on %t send %s core %other
wait %s for %a
wait %t for %b
""", **MESH),
    Bug("core-sends-twice-before-the-other-begins", "data-race", 8, 6, ("%b", "core 1", "wait"), OTHER + """
%first = arith.cmpi eq, %other, %one : i32
scf.if %first {
dma %a -> %b on %s send %t core %one
wait %t for %a
dma %a -> %b on %s send %t core %one
wait %t for %a
} else {
wait %s for %b
load %b[0, 0] 8x128
wait %s for %b
}
""", **MESH),
    Bug("cores-wait-for-each-other", "deadlock", 4, 4, ("%r", "core 0 waits for core 1", "cycle"), OTHER + """
await %r by 1
signal %r by 1 core %other
""", **MESH),
    Bug("core-that-is-not-there", "no-such-core", 5, None, ("core id 2", "2 cores"), OTHER + """
%two = arith.constant 2 : i32
signal %r by 1 core %two
""", **MESH),
    Bug("core-that-has-finished", "signal-after-end", 7, None, ("core 1", "finished", "%r"), OTHER + """
%first = arith.cmpi eq, %other, %one : i32
scf.if %first {
tpu.delay %one
signal %r by 1 core %one
} else {
}
""", **MESH),
)  # fmt: skip
