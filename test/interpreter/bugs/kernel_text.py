"""Short kernels as Mosaic text: every line of a kernel is `kernel.py:LINE` in its diagnostics.

A kernel is a list of lines in a small language, one Mosaic operation (or two) each:

    dma %x -> %a on %s            start a copy; `send %s2`, `device %d`, `core %c` make it remote
    wait %s for %a                wait for a copy the size of %a
    await %r by 1                 wait for a regular semaphore
    signal %r by 1                `device %d`, `core %c` signal another device, another core
    load %a[0, 0] 8x128           load a vector, and keep it in %sink
    store %a[0, 0] 8x128          store a vector of ones
    slice %b = %a[%i, 0] 8x128    a view
    get %table[0]                 load a scalar from SMEM, and keep it
    put %table[0]                 store a scalar into SMEM
    MLIR                          anything else is taken as it is

Indices are numbers or i32 values. Blocks of structured operations are written as in MLIR, with one
line for each opening and closing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

DMA, REGULAR = "!tpu.dma_semaphore", "!tpu.semaphore"


def memref(text: str) -> str:
    """`8x128xf32 vmem` as a memref type."""
    if text == "dma":
        return f"memref<{DMA}, #tpu.memory_space<semaphore_mem>>"
    if text == "regular":
        return f"memref<{REGULAR}, #tpu.memory_space<semaphore_mem>>"
    shape, space = text.split()
    if space == "dma":
        return f"memref<{shape}x{DMA}, #tpu.memory_space<semaphore_mem>>"
    return f"memref<{shape}, #tpu.memory_space<{space}>>"


DEFAULTS = {
    "%x": "32x128xf32 any",
    "%o": "32x128xf32 any",
    "%a": "32x128xf32 vmem",
    "%b": "32x128xf32 vmem",
    "%sink": "32x128xf32 vmem",
    "%table": "16xi32 smem",
    "%s": "dma",
    "%t": "dma",
    "%r": "regular",
}
"""What every kernel has: one input, one output, and scratch."""


class Writer:
    """Turns lines into the text of a module."""

    def __init__(self, arguments: dict[str, str]):
        self.types = {name: memref(text) for name, text in arguments.items()}
        self.body: list[str] = []
        self.count = 0
        self.line = 0

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def emit(self, text: str) -> None:
        self.body.append(f'{text} loc("kernel.py":{self.line}:5)')

    def indices(self, text: str, index: bool = True) -> str:
        """Values for `0, %i`, of type index or i32."""
        names: list[str] = []
        for part in text.split(","):
            part = part.strip()
            name = part
            if not part.startswith("%"):
                name = self.fresh()
                self.emit(f"{name} = arith.constant {part} : {'index' if index else 'i32'}")
            elif index:
                name = self.fresh()
                self.emit(f"{name} = arith.index_cast {part} : i32 to index")
            names.append(name)
        return ", ".join(names)

    def element(self, name: str) -> str:
        return re.sub(r"^memref<([0-9?]+x)*|[,>].*$", "", self.types[name])

    def write(self, line: str) -> None:
        """One line of the kernel."""
        for pattern, method in PATTERNS:
            found = re.fullmatch(pattern, line)
            if found:
                method(self, **found.groupdict())
                return
        if not line or line.startswith("//"):
            return
        # The location of an operation with regions stands behind their end.
        if line.endswith("{"):
            self.body.append(line)
        else:
            self.emit(line)

    def dma(
        self, source: str, target: str, on: str, send: str | None, device: str | None,
        core: str | None,
    ) -> None:  # fmt: skip
        types = self.types
        text = f"tpu.enqueue_dma source({source} : {types[source]}) "
        text += f"target({target} : {types[target]}) "
        if send:
            text += f"source_semaphore({send} : {types[send]}) "
        text += f"target_semaphore({on} : {types[on]})"
        text += f" device_id({device})" if device else ""
        self.emit(text + (f" core_id({core})" if core else ""))

    def wait(self, on: str, ref: str) -> None:
        types = self.types
        self.emit(
            f"tpu.wait_dma2 semaphore({on} : {types[on]}) src({ref} : {types[ref]}) "
            f"dst({ref} : {types[ref]})"
        )

    def sync(
        self, verb: str, on: str, amount: str, device: str | None, core: str | None
    ) -> None:  # fmt: skip
        value = self.indices(amount, index=False)
        name = "sem_wait" if verb == "await" else "sem_signal"
        where = f" device_id {device}" if device else f" core_id {core}" if core else ""
        self.emit(f"tpu.{name} {on}, {value}{where} : {self.types[on]}")

    def load(self, ref: str, index: str, shape: str) -> None:
        value, vector = self.fresh(), f"vector<{shape}x{self.element(ref)}>"
        where = self.indices(index)
        self.emit(f"{value} = vector.load {ref}[{where}] : {self.types[ref]}, {vector}")
        sink = "%sink" if self.element("%sink") == self.element(ref) else ref
        self._store(sink if sink != ref else ref, "0, 0" if sink != ref else index, value, vector)

    def store(self, ref: str, index: str, shape: str, mask: str | None) -> None:
        element = self.element(ref)
        value, vector = self.fresh(), f"vector<{shape}x{element}>"
        one = "1" if element.startswith("i") else "1.0"
        self.emit(f"{value} = arith.constant dense<{one}> : {vector}")
        self._store(ref, index, value, vector, mask)

    def _store(
        self, ref: str, index: str, value: str, vector: str, mask: str | None = None
    ) -> None:
        where = f" masked {mask}" if mask else ""
        kind = ""
        if mask:
            kind = f", {vector[: vector.rindex('x')]}xi1>"
        self.emit(
            f"tpu.vector_store {ref}[{self.indices(index)}], {value}{where} "
            f"{{strides = array<i32>}} : {self.types[ref]}, {vector},{kind[1:]}"
        )

    def slice(self, name: str, ref: str, index: str, shape: str) -> None:
        old = self.types[ref]
        space = old[old.index("#") :]
        self.types[name] = f"memref<{shape}x{self.element(ref)}, {space}"
        self.emit(
            f"{name} = tpu.memref_slice {ref}[{self.indices(index, index=False)}] : {old} -> "
            f"{self.types[name]}"
        )

    def pick(self, name: str, ref: str, index: str) -> None:
        """One semaphore of an array."""
        old = self.types[ref]
        kind = old[old.index("!") :]
        one = f"memref<1x{kind}"
        view = self.fresh()
        self.emit(f"{view} = tpu.memref_slice {ref}[{self.indices(index, False)}] : {old} -> {one}")
        self.types[name] = f"memref<{kind}"
        self.emit(f"{name} = tpu.memref_squeeze {view} : {one} -> {self.types[name]}")

    def scalar(self, verb: str, ref: str, index: str) -> None:
        value, where = self.fresh(), self.indices(index)
        if verb == "get":
            self.emit(f"{value} = memref.load {ref}[{where}] : {self.types[ref]}")
            self.emit(f"memref.store {value}, {ref}[{where}] : {self.types[ref]}")
        else:
            self.emit(f"{value} = arith.constant 1 : i32")
            self.emit(f"memref.store {value}, {ref}[{where}] : {self.types[ref]}")

    def alloc(self, name: str, type: str) -> None:
        self.types[name] = memref(type)
        op = "tpu.sem_alloc" if type.endswith("dma") else "memref.alloca()"
        self.emit(f"{name} = {op} : {self.types[name]}")


_N = r"%\w+"
PATTERNS = (
    (rf"dma (?P<source>{_N}) -> (?P<target>{_N}) on (?P<on>{_N})"
     rf"(?: send (?P<send>{_N}))?(?: device (?P<device>{_N}))?(?: core (?P<core>{_N}))?",
     Writer.dma),
    (rf"wait (?P<on>{_N}) for (?P<ref>{_N})", Writer.wait),
    (rf"(?P<verb>await|signal) (?P<on>{_N}) by (?P<amount>-?[%\w]+)(?: device (?P<device>{_N}))?"
     rf"(?: core (?P<core>{_N}))?",
     Writer.sync),
    (rf"load (?P<ref>{_N})\[(?P<index>[^]]*)\] (?P<shape>[0-9x]+)", Writer.load),
    (rf"store (?P<ref>{_N})\[(?P<index>[^]]*)\] (?P<shape>[0-9x]+)(?: masked (?P<mask>{_N}))?",
     Writer.store),
    (rf"slice (?P<name>{_N}) = (?P<ref>{_N})\[(?P<index>[^]]*)\] (?P<shape>[0-9x]+)", Writer.slice),
    (rf"pick (?P<name>{_N}) = (?P<ref>{_N})\[(?P<index>[^]]*)\]", Writer.pick),
    (rf"(?P<verb>get|put) (?P<ref>{_N})\[(?P<index>[^]]*)\]", Writer.scalar),
    (rf"alloc (?P<name>{_N}) : (?P<type>.*)", Writer.alloc),
)  # fmt: skip


def window(number: int, bounds: str, extra: str = "") -> str:
    """The window parameters of one operand."""
    return (
        f"{{{extra}transform_indices = @transform_{number}, window_bounds = array<i64: {bounds}>}}"
    )


def module(
    lines: Sequence[str],
    arguments: dict[str, str] | None = None,
    *,
    operands: int = 2,
    grid: str = "",
    windows: Sequence[str] = (),
    transforms: str = "",
    semantics: str = "arbitrary",
) -> str:
    """The text of a kernel; arguments behind the first `operands` ones are scratch."""
    named = DEFAULTS | (arguments or {})
    writer = Writer(named)
    for number, line in enumerate(lines, 1):
        writer.line = number
        writer.write(line.strip())
    body = "\n        ".join(writer.body)
    names = ", ".join(f"{name}: {writer.types[name]}" for name in named)
    steps = grid.count(",") + 1 if grid else 0
    points = "".join(f"%i{d}: i32, " for d in range(steps))
    semantics = ", ".join([f"#tpu.dimension_semantics<{semantics}>"] * steps)
    bounds = ""
    if grid:
        bounds = f"iteration_bounds = array<i64: {grid}>, window_params = [{', '.join(windows)}],"
    return f"""
    module attributes {{stable_mosaic.version = 11 : i64}} {{
      func.func @kernel({points}{names}) attributes {{
          dimension_semantics = [{semantics}], {bounds} scalar_prefetch = 0 : i64,
          scratch_operands = {len(named) - operands} : i64, tpu.core_type = #tpu.core_type<tc>}} {{
        {body}
        return loc("kernel.py":{len(lines) + 1}:5)
      }} loc("kernel.py":100:1)
      {transforms}
    }}"""
