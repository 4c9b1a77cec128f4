"""Operations in pieces, with what a verifier says of them."""

from __future__ import annotations

from dataclasses import dataclass

F32 = "vector<8x128xf32>"
I32 = "vector<8x128xi32>"
I1 = "vector<8x128xi1>"
BF16 = "vector<16x128xbf16>"
SC = "sc_vector_subcore"
SCALAR = "sc_scalar_subcore"
INDEX = ["index", "index"]


def mem(shape: str, space: str = "vmem", layout: str = "") -> str:
    """A memref type."""
    middle = f"#tpu.tiled<{layout}>, " if layout else ""
    return f"memref<{shape}, {middle}#tpu.memory_space<{space}>>"


SEM = mem("!tpu.semaphore", "semaphore_mem")
DMA = mem("!tpu.dma_semaphore", "semaphore_mem")


@dataclass(frozen=True)
class Case:
    """An operation in pieces, and a part of the message if it is wrong.

    It is one of `tpu`, unless its name says otherwise.
    """

    op: str
    operands: tuple[str, ...]
    properties: str
    results: tuple[str, ...]
    error: str | None = None
    core: str | None = "tc"
    differs: str | None = None
    """Why jaxlib 0.10.2 says otherwise, None if it agrees."""
    context: str = ""
    """More attributes of the function around."""

    def __str__(self) -> str:
        verdict = "refuses " + self.error if self.error else "accepts"
        return f"{self.op}-{verdict}-{self.properties}"[:90]

    def module(self) -> str:
        names = ", ".join(f"%a{i}" for i in range(len(self.operands)))
        arguments = ", ".join(f"%a{i}: {type}" for i, type in enumerate(self.operands))
        properties = f" <{{{self.properties}}}>" if self.properties else ""
        core = [f"tpu.core_type = #tpu.core_type<{self.core}>"] if self.core else []
        attributes = ", ".join(core + ([self.context] if self.context else []))
        name = self.op if "." in self.op else f"tpu.{self.op}"
        results = ", ".join(f"%r{i}" for i in range(len(self.results)))
        types = f"({', '.join(self.operands)}) -> ({', '.join(self.results)})"
        return (
            f"func.func @f({arguments}) attributes {{{attributes}}} {{\n"
            f'{results}{" = " if results else ""}"{name}"({names}){properties} : {types}'
            "\nreturn\n}\n"
        )


def case(op: str, operands: list[str], properties: str = "", results: list[str] | None = None,
         error: str | None = None, **more: str | None) -> Case:  # fmt: skip
    return Case(op, tuple(operands), properties, tuple(results or ()), error, **more)


def sizes(*numbers: int) -> str:
    return f"operandSegmentSizes = array<i32: {', '.join(map(str, numbers))}>"
