"""The lines of one function of generated code, and what values are called in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from pallasite.dialects import arith, grid, tpu
from pallasite.dialects.func import FuncOp
from pallasite.interpreter.compiled.brief import Memory
from pallasite.interpreter.compiled.fold import uniform
from pallasite.interpreter.compiled.packs import spread
from pallasite.interpreter.limits import Elements, last_users
from pallasite.interpreter.meanings import Function, Steered

if TYPE_CHECKING:
    from pallasite.interpreter.compiled.compiled import Program

QUICK = frozenset(
    (
        arith.AddfOp,
        arith.AddiOp,
        arith.AndIOp,
        arith.CmpfOp,
        arith.CmpiOp,
        arith.DivfOp,
        arith.MaximumfOp,
        arith.MinimumfOp,
        arith.MulfOp,
        arith.MuliOp,
        arith.OrIOp,
        arith.SubfOp,
        arith.SubiOp,
        grid.MatmulOp,
        tpu.MatmulOp,
    )
)
"""What NumPy does faster, and to the same bits, where one operand is the same number throughout."""


class Names:
    """What `writer` writes with.

    Names: `v3` values, `p3[5]` registers of a pack, `k3` hoisted constants and what follows from
    them (`fold`), `f3` meanings, `e3` those with effects, `s3` parts and
    other shapes of slim arrays, `o3` ops for error messages, `r3` regions moved out. The
    name of a vector or a pack is used again once it is dead, which also frees its array.
    """

    def __init__(self, program: Program, func: FuncOp):
        self.program = program
        self.func = func
        self.python_name = program_name(func.sym_name.data)
        self.lines: list[str] = []
        self.line_ops: list[Operation | None] = []
        """The op that each line comes from."""
        self._depth = 0
        self._op: Operation | None = func
        self._names: dict[SSAValue, str] = {}
        self._known: dict[SSAValue, Any] = {}
        """Values that are the same whenever the function runs: literals and hoisted constants."""
        self._memory = Memory()
        self._thin_names: dict[SSAValue, str | None] = {}
        self._free: list[str] = []
        self._free_packs: list[str] = []
        self._members: dict[str, int] = {}
        """How many registers of each pack will still be used."""
        self._pinned: set[str] = set()
        self._dying = _last_uses(func)
        self._mortal = {value for values in self._dying.values() for value in values}
        self._count = 0

    # Text

    def _line(self, text: str) -> None:
        self.lines.append(" " * self._depth + text)
        self.line_ops.append(self._op)

    def _fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _bind(self, prefix: str, value: Any) -> str:
        """A global of the generated code that holds `value`."""
        name = f"{self._fresh(prefix)}_{self.python_name}"
        self.program.globals[name] = value
        return name

    def _bind_effect(self, fn: Any, kind: Any) -> str:
        """A global of the generated code that is a function with an effect of that kind."""
        self.program.effects.add(kind)
        return self._bind("e", fn)

    # Names of values

    def _define(self, value: SSAValue) -> str:
        bulky = isinstance(value.type, VectorType)
        name = self._free.pop() if bulky and self._free else self._fresh("v")
        self._names[value] = name
        return name

    def _uses(self, op: Operation) -> list[str]:
        return [self._names[operand] for operand in op.operands]

    def _operands(self, op: Operation) -> list[str]:
        """The names of operands; constants of one number have one element where that is faster."""
        if type(op) not in QUICK:
            return self._uses(op)
        return [self._thin(operand) or self._names[operand] for operand in op.operands]

    def _steered(
        self, fn: Function, op: Operation, names: Sequence[str], count: int | None = None
    ) -> tuple[Function, Sequence[str]]:
        """`fn`, which is what `op` means, of a grid of `count` registers perhaps, and `names` of
        its operands; or a function of the first one, if `fn` knows one by what the second is."""
        if not isinstance(fn, Steered) or op.operands[1] not in self._known:
            return fn, names
        known = self._known[op.operands[1]]
        return fn.by(known if count is None else spread(known, count)), names[:1]

    def _thin(self, value: SSAValue) -> str | None:
        """A name for a known vector of one number as one element, None if it is none."""
        if value not in self._known or not isinstance(value.type, VectorType):
            return None
        if value not in self._thin_names:
            found = uniform(self._known[value])
            self._thin_names[value] = None if found is None else self._bind("k", found)
        return self._thin_names[value]

    def _bury(self, op: Operation) -> None:
        """Makes the names of vectors that nothing uses after `op` available."""
        for value in self._dying.get(op, ()):
            name, _, place = self._names[value].partition("[")
            if place:
                self._members[name] -= 1
                if not self._members[name]:
                    self._free_packs.append(name)
            elif name.startswith("v") and name not in self._pinned:
                self._free.append(name)

    def _define_pack(self, values: Sequence[SSAValue]) -> str:
        """The name of an array whose elements are the registers `values`."""
        name = self._free_packs.pop() if self._free_packs else self._fresh("p")
        self._members[name] = sum(value in self._mortal for value in values)
        for place, value in enumerate(values):
            self._names[value] = f"{name}[{place}]"
        if not self._members[name]:
            self._free_packs.append(name)
        return name


def program_name(symbol: str) -> str:
    """The Python name of the function `symbol`, one-to-one (symbols may hold any character)."""
    return "fn_" + "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in symbol)


def _last_uses(func: FuncOp) -> dict[Operation, list[SSAValue]]:
    """For each op the vectors that no later op of the block that defines them uses."""
    dying: dict[Operation, list[SSAValue]] = {}
    for value, op in last_users(func, Elements()).values():
        dying.setdefault(op, []).append(value)
    return dying
