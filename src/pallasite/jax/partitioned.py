"""Kernels within `custom_partitioning`, whose rule says what each device computes.

XLA asks for that while it compiles, in a thread of its own: JAX traces and lowers the function of
the rule then, into a module of its own, when the program around it is lowered already. So the
program reserves one callback for all kernels of the rule, which are told apart by a number.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
from jax._src import custom_partitioning
from jax._src.interpreters import mlir
from jax.experimental.buffer_callback import ExecutionContext

from pallasite.jax.settings import Settings


class Reserved:
    """The callback of a program for the kernels of one `custom_partitioning` call in it."""

    def __init__(self, module_context: Any) -> None:
        self.keepalives: list[Any] = module_context.keepalives
        """What the program keeps, to which the calls of the kernels are added."""
        self.slot = len(module_context.host_callbacks)
        """The number of the callback in the program."""
        self.failure: Exception | None = None
        """Why a kernel could not be traced or lowered."""
        self._kernels: list[Callable[..., Any]] = []
        module_context.add_host_callback(self._call)
        module_context.add_keepalive(self)

    def add(self, kernel: Callable[..., Any]) -> None:
        """Kernel number `count`, as XLA calls it, the number being its first operand."""
        self._kernels.append(kernel)

    @property
    def count(self) -> int:
        """How many kernels there are."""
        return len(self._kernels)

    def _call(self, *given: Any) -> Any:
        # XLA says what executes first, where it passes its own memory.
        number = given[isinstance(given[0], ExecutionContext)]
        return self._kernels[int(np.asarray(number))](*given)


def program_of(settings: Settings) -> Reserved | None:
    """What the program has reserved for a kernel of a rule; None for any other."""
    return None if settings.program is None else settings.program()


def keep_failure(settings: Settings, error: Exception) -> None:
    """Keeps why a kernel of a rule failed, of which XLA passes on no more than a text."""
    if (program := program_of(settings)) is not None:
        program.failure = program.failure or error


def partition_kernels(
    current: Callable[[], Settings | None],
    scope: Callable[[Settings], AbstractContextManager[None]],
) -> None:
    """Functions of rules are traced with the settings of the program around, which `current` gives
    and `scope` enters; they name what the program has reserved."""
    original: Any = custom_partitioning._custom_partitioning_lowering_rule

    @functools.wraps(original)
    def rule(
        ctx: mlir.LoweringRuleContext, *operands: Any, partition: Any, **params: Any
    ) -> Sequence[Any]:
        module, settings = ctx.module_context, current()
        if settings is None or partition is None:
            return original(ctx, *operands, partition=partition, **params)
        ours: list[Reserved] = []
        known = len(module.keepalives)
        results = original(
            ctx, *operands, partition=_simulated(partition, settings, ours, scope), **params
        )
        # On one device, JAX lowers the function itself, and asks no rule.
        if any(
            isinstance(kept, custom_partitioning._ShardingCallbackInfo)
            for kept in module.keepalives[known:]
        ):
            ours.append(Reserved(module))
        return results

    mlir.register_lowering(custom_partitioning.custom_partitioning_p, rule)


def _simulated(
    partition: Any,
    settings: Settings,
    ours: list[Reserved],
    scope: Callable[[Settings], AbstractContextManager[None]],
) -> Any:
    """`partition`, whose function calls the kernels of the program that has reserved `ours`."""

    @functools.wraps(partition)
    def partitioned(*args: Any) -> tuple[Any, ...]:
        mesh, function, *shardings = partition(*args)
        (program,) = ours
        inner = replace(settings, program=weakref.ref(program))

        @functools.wraps(function)
        def simulated(*shards: Any) -> Any:
            with scope(inner):
                try:
                    return function(*shards)
                except Exception as error:
                    # The user's function may raise anything; XLA would keep only its text.
                    keep_failure(inner, error)
                    raise

        return (mesh, simulated, *shardings)

    return partitioned


def surfacing_refusals(compile: Callable[..., Any]) -> Callable[..., Any]:
    """Where XLA reports that the function of a rule failed, the error is the function's."""

    @functools.wraps(compile)
    def surfacing(*args: Any, **options: Any) -> Any:
        try:
            return compile(*args, **options)
        except Exception:
            # Whatever compiling raises is raised again, unless a rule's function is known to have
            # failed: then that failure is the cause, and says more than XLA's text of it.
            for kept in options.get("keepalive") or ():
                if isinstance(kept, Reserved) and kept.failure is not None:
                    raise kept.failure from None
            raise

    return surfacing
