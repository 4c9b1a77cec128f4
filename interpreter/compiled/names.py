"""The base of a function's writer: lines of generated code, and the names of values in them."""

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
"""Operations that NumPy computes faster, with the same bits, if a uniform operand has one
element."""


class Names:
    """The lines of one function of generated code, and the names that values have in them.

    Names are a letter and a number. Locals are

    * `v3`: a value, or the mark of a scope of memory if the letter is `t`;
    * `p3`: a pack of registers, of which `p3[5]` is one.

    Globals, whose names end in the function's name, are

    * `k3`: a hoisted constant, or what was computed from constants (`fold`);
    * `f3`: a meaning without effects; `e3`: one with effects; `c3`: a copy, or a loop of copies;
    * `s3`: a function that slices or reshapes slim arrays; `w3`: work that the clock is told of;
    * `o3`: an operation, for error messages; `r3`: a region that was moved out to a function.

    The name of a vector or a pack is used again once it is dead, which also frees its array.
    """

    def __init__(self, program: Program, func: FuncOp):
        self.program = program
        self.func = func
        self.python_name = program_name(func.sym_name.data)
        self.lines: list[str] = []
        self.line_ops: list[Operation | None] = []
        """The operation that each line comes from."""
        self._depth = 0
        self._op: Operation | None = func
        self._names: dict[SSAValue, str] = {}
        self._known: dict[SSAValue, Any] = {}
        """Literals and hoisted constants: values that are the same in every run of the function."""
        self._memory = Memory()
        self._thin_names: dict[SSAValue, str | None] = {}
        self._free: list[str] = []
        self._free_packs: list[str] = []
        self._members: dict[str, int] = {}
        """How many registers of each pack are still used later."""
        self._pinned: set[str] = set()
        self._dying = _last_uses(func)
        self._mortal = {value for values in self._dying.values() for value in values}
        self._count = 0

    # Text

    def _line(self, text: str) -> None:
        """Appends a line of source at the current depth, for the current operation."""
        self.lines.append(" " * self._depth + text)
        self.line_ops.append(self._op)

    def _fresh(self, prefix: str) -> str:
        """A new name that begins with `prefix`."""
        self._count += 1
        return f"{prefix}{self._count}"

    def _bind(self, prefix: str, value: Any) -> str:
        """A global of the generated code that holds `value`."""
        name = f"{self._fresh(prefix)}_{self.python_name}"
        self.program.globals[name] = value
        return name

    def _bind_effect(self, fn: Any, kind: Any) -> str:
        """A global of the generated code that is a function with an effect of kind `kind`."""
        self.program.effects.add(kind)
        return self._bind("e", fn)

    # Names of values

    def _define(self, value: SSAValue) -> str:
        """A name for `value`; a vector may take one whose vector is dead."""
        bulky = isinstance(value.type, VectorType)
        name = self._free.pop() if bulky and self._free else self._fresh("v")
        self._names[value] = name
        return name

    def _uses(self, op: Operation) -> list[str]:
        """The names of the operands of `op`."""
        return [self._names[operand] for operand in op.operands]

    def _operands(self, op: Operation) -> list[str]:
        """The names of the operands of `op`; uniform constants have one element where that is
        faster."""
        if type(op) not in QUICK:
            return self._uses(op)
        return [self._thin(operand) or self._names[operand] for operand in op.operands]

    def _steered(
        self, fn: Function, op: Operation, names: Sequence[str], count: int | None = None
    ) -> tuple[Function, Sequence[str]]:
        """`fn` and the names of its operands, or a function that has the second operand built in.

        `fn` is the meaning of `op`, whose operands are called `names`. If it is `Steered` and its
        second operand is known, `fn.by` gives a function of the first operand alone. `count` is the
        number of registers of a pack, for which the known operand is repeated.
        """
        if not isinstance(fn, Steered) or op.operands[1] not in self._known:
            return fn, names
        known = self._known[op.operands[1]]
        return fn.by(known if count is None else spread(known, count)), names[:1]

    def _thin(self, value: SSAValue) -> str | None:
        """A global that holds a known uniform vector as one element; None if `value` is none."""
        if value not in self._known or not isinstance(value.type, VectorType):
            return None
        if value not in self._thin_names:
            found = uniform(self._known[value])
            self._thin_names[value] = None if found is None else self._bind("k", found)
        return self._thin_names[value]

    def _bury(self, op: Operation) -> None:
        """Makes the names of vectors whose last use is `op` available again."""
        for value in self._dying.get(op, ()):
            name, _, place = self._names[value].partition("[")
            if place:
                self._members[name] -= 1
                if not self._members[name]:
                    self._free_packs.append(name)
            elif name.startswith("v") and name not in self._pinned:
                self._free.append(name)

    def _define_pack(self, values: Sequence[SSAValue]) -> str:
        """The name of an array whose elements are the registers `values`, in order."""
        name = self._free_packs.pop() if self._free_packs else self._fresh("p")
        self._members[name] = sum(value in self._mortal for value in values)
        for place, value in enumerate(values):
            self._names[value] = f"{name}[{place}]"
        if not self._members[name]:
            self._free_packs.append(name)
        return name


def program_name(symbol: str) -> str:
    """The Python name of the function `symbol`; one-to-one, as symbols may have any character."""
    return "fn_" + "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in symbol)


def _last_uses(func: FuncOp) -> dict[Operation, list[SSAValue]]:
    """For each operation the vectors that no later operation of their block uses."""
    dying: dict[Operation, list[SSAValue]] = {}
    for value, op in last_users(func, Elements()).values():
        dying.setdefault(op, []).append(value)
    return dying
