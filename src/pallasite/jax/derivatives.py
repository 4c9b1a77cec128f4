"""What to write instead where JAX gives up on the derivative of a kernel.

JAX has a rule for `jax.jvp` of a kernel, in which one kernel computes values and derivatives, and
none for the rest. In a simulation its errors, which stay, get a note: the line on which the kernel
begins, the rule and what to write.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

import jax
from jax._src.interpreters import ad

from pallasite.diagnostics import Diagnostic, Note, Unsupported
from pallasite.frontend.jaxprs.internals import jax_core
from pallasite.jax.call_faults import FAULTS_OF_MAPPING
from pallasite.jax.captured import replace_function
from pallasite.jax.source_locations import beginning, calling_line, frames_of
from pallasite.jax.tracing_errors import CODE, explain, explaining, kernels_of

_CUSTOM_VJP = "give the function that calls it a jax.custom_vjp, whose rules may call kernels"


@contextmanager
def explaining_derivatives(simulating: bool, params: dict[str, Any]) -> Generator[None]:
    """While a call of a kernel with `params` is traced, by transformations too."""

    def of_call(error: Exception) -> Diagnostic | None:
        return _no_derivative(error, params) or explain(error, faults=FAULTS_OF_MAPPING)

    with explaining(lambda: simulating, of_call, table=False):
        yield


def _no_derivative(error: Exception, params: dict[str, Any]) -> Diagnostic | None:
    """Of a kernel that JAX's rules of differentiation give up on, often without a message."""
    frames = list(frames_of(error.__traceback__))
    if isinstance(error, Diagnostic) or not any(
        file.endswith("interpreters/ad.py") for file, _, _ in frames
    ):
        return None
    rule = "JAX derives no backward pass from a kernel, a forward derivative only from simple ones"
    return _told(rule, [_CUSTOM_VJP, "where only jax.jvp is wanted, a jax.custom_jvp"], params)


def explain_transposes(simulating: Callable[[], bool], primitive: jax_core.Primitive) -> None:
    """What JAX raises for the transpose of a kernel that `primitive` calls gets a note."""
    original: Any = ad.primitive_transposes.get(primitive, functools.partial(_without, primitive))

    @functools.wraps(original)
    def transpose(*cotangents: Any, **params: Any) -> Any:
        def of_call(error: Exception) -> Diagnostic | None:
            advice = (
                "jax.custom_derivatives.linear_call(f, transposed, (), x) takes both functions, "
                "f((), x) and transposed((), cotangent), which may call kernels",
                f"for a backward pass, {_CUSTOM_VJP}",
            )
            return _told("JAX transposes no kernel, linear as it may be", advice, params)

        with explaining(simulating, of_call, table=False):
            return original(*cotangents, **params)

    ad.primitive_transposes[primitive] = transpose


def _without(primitive: jax_core.Primitive, *cotangents: Any, **params: Any) -> Any:
    """Raises what JAX does for a primitive without a rule."""
    raise NotImplementedError(
        f"Transpose rule (for reverse-mode differentiation) for '{primitive}' not implemented"
    )


_TOGETHER = re.compile("but output was batched on axis")


def explain_jacobians(simulating: Callable[[], bool], primitives: Iterable[Any]) -> None:
    """What JAX raises for `jax.jacfwd` of a function that calls kernels, by `primitives`, gets a
    note: JAX maps `jax.jvp` over directions, and wants values that are of none."""
    calls = frozenset(primitives)

    def explained(jacfwd: Any) -> Callable[..., Any]:
        def explained_jacfwd(
            fun: Any, argnums: int | Sequence[int] = 0, *args: Any, **options: Any
        ) -> Any:
            jacobian = jacfwd(fun, argnums, *args, **options)
            numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

            @functools.wraps(jacobian)
            def explained_jacobian(*operands: Any, **named: Any) -> Any:
                def of_derived(*derived: Any) -> Any:
                    whole = dict(enumerate(operands)) | dict(zip(numbers, derived, strict=True))
                    return fun(*whole.values(), **named)

                def of_call(error: Exception) -> Diagnostic | None:
                    if not isinstance(error, ValueError) or not _TOGETHER.search(str(error)):
                        return None
                    traced = jax.make_jaxpr(of_derived)(*(operands[n] for n in numbers))
                    return _no_jacobian(_first_call(traced.jaxpr, calls))

                with explaining(simulating, of_call, table=False):
                    return jacobian(*operands, **named)

            return explained_jacobian

        return explained_jacfwd

    replace_function(jax.jacfwd, explained)


def _first_call(jaxpr: jax_core.Jaxpr, primitives: frozenset[Any]) -> dict[str, Any] | None:
    """The parameters of the first call of a kernel in `jaxpr`."""
    for equation in jaxpr.eqns:
        if equation.primitive in primitives:
            return equation.params
    inner = (_first_call(each, primitives) for each in jax_core.subjaxprs(jaxpr))
    return next((params for params in inner if params is not None), None)


def _no_jacobian(params: dict[str, Any] | None) -> Diagnostic | None:
    """Of a function that calls the kernel with `params`, if it calls one."""
    if params is None:
        return None
    rule = "JAX computes values and derivatives in one kernel, and jax.jacfwd wants them apart"
    advice = (
        "jax.vmap(lambda t: jax.jvp(f, (x,), (t,))[1], out_axes=-1)(directions), with the "
        "directions jnp.eye(x.size).reshape(-1, *x.shape)",
        "or give the function that calls it a jax.custom_jvp, whose rule may call kernels",
    )
    return _told(rule, advice, params)


def _told(rule: str, advice: Iterable[str], params: dict[str, Any]) -> Diagnostic:
    """What a note says of the kernel that is called with `params`."""
    (jaxpr, *_) = kernels_of(params)
    where = beginning(jaxpr.debug_info) or calling_line()
    return Unsupported(CODE, rule, where, [Note(each) for each in advice])
