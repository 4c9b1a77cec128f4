"""Walks a jaxpr and emits operations of the `pallas` form, by one rule per primitive.

A rule (`rules.py`) emits operations for an `Equation` and returns its results. Literals stay
`Known` until an operation needs them, so that rules can tell a constant from a value. Functions
that JAX's TPU lowering expands (sign, clamp, ...) are traced by JAX and walked like any jaxpr
(`Equation.expand`), so that numbers agree.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import jax
import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pallasite.diagnostics import DEFECT, Diagnostic, Note, Unsupported
from pallasite.dialects import arith, vector
from pallasite.dialects.locations import position_of
from pallasite.frontend.jaxprs import types
from pallasite.frontend.jaxprs.advice import ADVICE, ADVICE_OF_FUNCTIONS, ON_SUBCORES
from pallasite.frontend.jaxprs.internals import jax_core, tpu_core
from pallasite.frontend.jaxprs.locations import LibraryFunction, library_function, location_of
from pallasite.frontend.jaxprs.rules import rule_of
from pallasite.frontend.jaxprs.scopes import start_scope, stop_scope


@dataclass(frozen=True)
class Known:
    """A scalar constant that no operation needed yet."""

    value: Any
    dtype: Any


@dataclass(frozen=True)
class Key:
    """A random key of Pallas: its words, as scalars."""

    words: tuple[SSAValue, ...]
    shape: tuple[int, ...]


Value: TypeAlias = SSAValue | Known | Key


@dataclass(frozen=True)
class Surroundings:
    """What a body can ask for besides its arguments."""

    axes: int | None = None
    """How many axes `program_id` counts; None without a grid."""
    names: frozenset[Hashable] = frozenset()
    """Names of axes of the kernel's grid."""
    mesh: Any = None
    """JAX's mesh of devices (`MeshInfo`), None outside of `shard_map`."""
    is_map: bool = False
    """Whether the body is an index map, whose arguments are the numbers of the grid."""
    core: Any = tpu_core.CoreType.TC
    """JAX's name of the kind of core that runs the body."""
    layouts: bool = True
    """Whether the compiler's layout passes see vectors first, which need not be registers then."""

    @property
    def on_subcores(self) -> bool:
        """Whether subcores of SparseCores run the body."""
        return self.core is not tpu_core.CoreType.TC


_EXPANSION = LibraryFunction("", 0)
"""A function of ours, which calls nothing of the user's."""


class Tracer:
    """Emits operations at the end of `block`, at the location of the equation that asks for them.

    `surroundings` say what the code may ask for: axes, devices, kind of core. Operations that no
    equation asks for are at `location`. Rules that fill blocks of their own do it `inside` them.
    """

    def __init__(self, surroundings: Surroundings, block: Block, location: LocationAttr) -> None:
        self.surroundings = surroundings
        self.block = block
        self.location = location
        self._function: LibraryFunction | None = None
        """The function of JAX's own that is being emitted."""
        self._called: list[str] = []
        """The names of the functions that are being emitted, from the outermost."""

    def run(
        self, jaxpr: jax_core.Jaxpr, arguments: Sequence[Value], consts: Sequence[Value] = ()
    ) -> list[Value]:
        """Emits what `jaxpr` does; its results."""
        values: dict[Any, Value] = {}
        scopes: list[str] = []
        values.update(zip(jaxpr.constvars, consts, strict=True))
        values.update(zip(jaxpr.invars, arguments, strict=True))

        def read(atom: Any) -> Value:
            if hasattr(atom, "val"):
                return (
                    self.constants([atom.val])[0]
                    if atom.aval.shape
                    else Known(atom.val, atom.aval.dtype)
                )
            return values[atom]

        atoms = [atom for equation in jaxpr.eqns for atom in equation.invars] + [*jaxpr.outvars]
        used = {atom for atom in atoms if not hasattr(atom, "val")}
        for equation in jaxpr.eqns:
            with self._at(equation.source_info):
                self._name(scopes, [s.name for s in equation.source_info.name_stack.stack])
                arguments = [read(atom) for atom in equation.invars]
                reads = [variable in used for variable in equation.outvars]
                results = self._apply(Equation(self, equation, arguments, reads))
            for variable, result in zip(equation.outvars, results, strict=True):
                values[variable] = result
        self._name(scopes, [])
        return [read(atom) for atom in jaxpr.outvars]

    def inline(self, closed: jax_core.ClosedJaxpr, arguments: Sequence[Value]) -> list[Value]:
        """Emits a function that the current equation calls.

        JAX keeps the jaxprs of its own functions, so that their equations tell who called them
        first: they get the line of this call, but for what a function of the user's does that is
        called there, like the body of a `pl.loop`.
        """
        with self._within(library_function(closed.jaxpr.debug_info)):
            return self.run(closed.jaxpr, arguments, self.constants(closed.consts))

    def expand(
        self, function: Callable[..., Any], arguments: Sequence[Value], avals: Sequence[Any]
    ) -> list[Value]:
        """Emits what JAX makes of `function` for arguments of those abstract values."""
        shapes = [
            jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=getattr(a, "weak_type", False))
            for a in avals
        ]
        closed = jax.make_jaxpr(function)(*shapes)
        with self._within(_EXPANSION):
            return self.run(closed.jaxpr, arguments, self.constants(closed.consts))

    def emit(self, op: Operation) -> SSAValue:
        """Adds `op`; its first result."""
        self.add(op)
        return op.results[0]

    def add(self, op: Operation) -> None:
        """Adds `op`, which belongs to the current line."""
        op.location = self.location
        self.block.add_op(op)

    @contextmanager
    def inside(self, block: Block, surroundings: Surroundings | None = None) -> Generator[None]:
        """Emits into `block`, whose body may have other surroundings."""
        outer = self.block, self.surroundings
        self.block = block
        self.surroundings = surroundings or self.surroundings
        try:
            yield
        finally:
            self.block, self.surroundings = outer

    def scalar(self, value: Any, type: Attribute) -> SSAValue:
        """The constant `value` of scalar type `type`."""
        if isinstance(type, IntegerType):
            number = int(value)
            low, high = -(1 << type.bitwidth - 1), 1 << type.bitwidth - 1
            if type.bitwidth > 1 and not low <= number < high:
                number = (number + high) % (1 << type.bitwidth) - high
            return self.emit(arith.ConstantOp(IntegerAttr(number, type)))
        return self.emit(arith.ConstantOp(FloatAttr(float(value), cast(AnyFloat, type))))

    def type_of(self, aval: Any) -> Attribute:
        """The type of a value or ref of abstract value `aval` on the core that runs the body."""
        return types.type_of(aval, self.surroundings.core)

    def value(self, value: Value) -> SSAValue:
        """`value` as operand of an operation."""
        if isinstance(value, Known):
            return self.scalar(value.value, types.element_type(value.dtype))
        if isinstance(value, Key):
            raise self.unsupported(
                "a random key of Pallas is no array",
                "use it in pltpu.prng_seed, jax.random.fold_in, or a sampler of jax.random",
            )
        return value

    def spread(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """`value` broadcast to `shape` by NumPy's rule."""
        type = value.type
        element = type.element_type if isinstance(type, VectorType) else type
        wanted = types.value_type(shape, element)
        return value if type == wanted else self.emit(vector.BroadcastOp(value, wanted))

    def unsupported(
        self, message: str, *advice: str, code: str = "unsupported-primitive"
    ) -> Diagnostic:
        """The diagnostic that says so at the current line; within a function of JAX that has
        advice of its own, with that."""
        if code == "unsupported-primitive":
            advice = next((a for n in self._called if (a := ADVICE_OF_FUNCTIONS.get(n))), advice)
        return Unsupported(code, message, position_of(self.location), [Note(a) for a in advice])

    def constants(self, consts: Sequence[Any]) -> list[Value]:
        """Constants that a jaxpr holds; only scalars have a place in a kernel."""
        arrays = [np.asarray(const) for const in consts]
        for array in arrays:
            if array.ndim:
                raise self.unsupported(
                    f"the kernel captures a constant array of shape {array.shape}",
                    "pass it as an input, or compute it with lax.broadcasted_iota",
                    code="captured-constant",
                )
        return [Known(array[()], array.dtype) for array in arrays]

    def _apply(self, equation: Equation) -> Sequence[Value]:
        found = rule_of(equation.equation.primitive, self.surroundings.core)
        if found is None and self.surroundings.on_subcores:
            raise self.unsupported(
                f"JAX primitive '{equation.name}' is not lowered for subcores of SparseCores",
                ON_SUBCORES.get(equation.name, "compute it in a pallas_call on a TensorCore"),
            )
        if found is None:
            message = f"JAX primitive '{equation.name}' has no meaning in a TPU kernel"
            raise self.unsupported(message, *ADVICE.get(equation.name, ()))
        try:
            for aval in equation.outputs:
                types.check_elements(aval, equation.inputs)
            results = found(equation)
        except types.UnsupportedType as error:
            raise self.unsupported(error.message, error.advice, code="unsupported-type") from None
        except Diagnostic:
            raise
        except NotImplementedError as error:
            # What JAX's own expansion of a primitive says of its operands.
            kinds = ", ".join(dict.fromkeys(str(aval.dtype) for aval in equation.inputs))
            message = f"JAX does not expand '{equation.name}' of {kinds}: {error}"
            advice = "cast the operands to float32 first, and the result back"
            raise self.unsupported(message, advice, code="unsupported-type") from error
        except Exception as error:
            message = f"tracing '{equation.name}': {type(error).__name__}: {error}"
            raise self.unsupported(message, DEFECT.message, code="internal-error") from error
        return results if isinstance(results, Sequence) else [results]

    def _name(self, scopes: list[str], wanted: list[str]) -> None:
        """Leaves and enters named scopes, as many as it takes."""
        common = 0
        while common < min(len(scopes), len(wanted)) and scopes[common] == wanted[common]:
            common += 1
        for _ in scopes[common:]:
            self.add(stop_scope())
        for name in wanted[common:]:
            self.add(start_scope(name))
        scopes[:] = wanted

    @contextmanager
    def _at(self, source_info: Any) -> Generator[None]:
        outer = self.location
        self.location = location_of(source_info, self._function) or outer
        try:
            yield
        finally:
            self.location = outer

    @contextmanager
    def _within(self, function: LibraryFunction | None) -> Generator[None]:
        outer = self._function
        self._function = function or outer
        self._called.append(function.name if function else "")
        try:
            yield
        finally:
            self._function = outer
            self._called.pop()


@dataclass(frozen=True)
class Equation:
    """One application of a primitive, as rules see it."""

    tracer: Tracer
    equation: jax_core.JaxprEqn
    arguments: list[Value]
    used: list[bool]
    """Which results anything reads."""

    @property
    def name(self) -> str:
        """The name of the primitive."""
        return self.equation.primitive.name

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the primitive."""
        return self.equation.params

    @property
    def inputs(self) -> list[Any]:
        """The abstract values of the arguments."""
        return [atom.aval for atom in self.equation.invars]

    @property
    def outputs(self) -> list[Any]:
        """The abstract values of the results."""
        return [variable.aval for variable in self.equation.outvars]

    @property
    def output(self) -> Any:
        """The abstract value of the first result."""
        return self.equation.outvars[0].aval

    @property
    def result_type(self) -> Attribute:
        """The type of the first result as a value of the `pallas` form."""
        return self.tracer.type_of(self.output)

    def operand(self, index: int) -> SSAValue:
        """Argument number `index` as operand of an operation."""
        return self.tracer.value(self.arguments[index])

    def operands(self) -> list[SSAValue]:
        """All arguments as operands of an operation."""
        return [self.operand(i) for i in range(len(self.arguments))]

    def spread(self, index: int) -> SSAValue:
        """Argument number `index`, broadcast to the shape of the result."""
        return self.tracer.spread(self.operand(index), self.output.shape)

    def filled(self, value: Any, dtype: Any = None) -> SSAValue:
        """The constant `value` in the shape of the result, of its element type or of `dtype`."""
        element = types.element_type(self.output.dtype if dtype is None else dtype)
        return self.tracer.spread(self.tracer.scalar(value, element), self.output.shape)

    def emit(self, op: Operation) -> SSAValue:
        """Adds `op` at the equation's line and gives its only result."""
        return self.tracer.emit(op)

    def add(self, op: Operation) -> None:
        """Adds `op` at the equation's line."""
        self.tracer.add(op)

    def expand(self, function: Callable[..., Any]) -> list[Value]:
        """What JAX makes of `function` of the arguments."""
        return self.tracer.expand(function, self.arguments, self.inputs)

    def unsupported(
        self, message: str, *advice: str, code: str = "unsupported-primitive"
    ) -> Diagnostic:
        """A diagnostic at the equation's line; `advice` becomes notes."""
        return self.tracer.unsupported(message, *advice, code=code)
