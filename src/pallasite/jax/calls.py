"""A kernel inside a JAX program: lowered once, then run whenever the program reaches it.

JAX calls back once per device. Kernels that talk to other devices meet: the last device to arrive
runs the kernel on all of them, in one machine; the others wait for its results.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

from pallasite.api import lower_telling, parse
from pallasite.diagnostics import (
    Diagnostic,
    ExecutionError,
    Note,
    UsageError,
    warn_before_run,
)
from pallasite.dialects.kernel_call import call_of
from pallasite.dialects.locations import position_of, source_location
from pallasite.dialects.subcores import first_function
from pallasite.dialects.tpu import DeviceIdOp
from pallasite.frontend.jaxprs.internals import jax_core
from pallasite.frontend.jaxprs.locations import location_of_kernel
from pallasite.frontend.jaxprs.windows import give_names
from pallasite.interpreter.arrays import dtype_of
from pallasite.interpreter.run import execute, find_kernel, prepare
from pallasite.jax.interpreted import TALLY
from pallasite.jax.known_kernels import Key, KnownKernel
from pallasite.jax.scoped_names import name_scoped
from pallasite.jax.settings import Settings
from pallasite.targets import get_target

Array = NDArray[Any]
PATIENCE = 120.0
"""Seconds that a device waits for the others while none of them does anything."""


class KernelCall:
    """One custom call of a program, ready to run; may be called from several threads."""

    def __init__(
        self,
        text: str,
        name: str,
        settings: Settings,
        *,
        devices: int,
        traced: ModuleOp | None = None,
        jaxpr: jax_core.Jaxpr | None = None,
    ) -> None:
        """`text` is the call as JAX wrote it, in a program that so many `devices` run; `traced` its
        kernel in `pallas` form, if wanted; `jaxpr` is what JAX lowered, if known."""
        self.settings = settings
        self.name = name
        if traced is not None:
            self.kernel = lowered_from_trace(traced, settings)
        else:
            self.kernel = lowered_by_jax(text, name, settings, jaxpr)
        module = self.module = self.kernel.module
        call = call_of(module)
        if call is None:
            raise UsageError("no-kernel", f"the call of {name} carries no kernel")
        self.operands = [_array_type(type) for type in call.operands]
        self.results = [_array_type(type) for type in call.results]
        self.callback = -1
        """The number of its callback in the program."""
        config = call.config
        self.cost: dict[str, Any] = config.get("cost_estimate") or {}
        """What the program says that one call costs: flops, transcendentals, bytes_accessed."""
        talks = bool(config.get("has_communication")) or config.get("collective_id") is not None
        self.collective = devices > 1 and (talks or _knows_its_device(module))
        self.devices = devices
        self.meeting = Meeting(self)
        self.executing = threading.Lock()
        self.failures = Failures()
        self.failure: BaseException | None = None
        """What went wrong on one of several devices."""

    def __call__(
        self, device: int, inputs: Sequence[Array], into: Sequence[Array] | None = None
    ) -> list[Array]:
        """The results on one device; collective kernels return when all devices have called.

        Results may be the arrays `into`, if there are any.
        """
        TALLY.simulated += 1
        if self.collective:
            return self.meeting.join(device, inputs)
        return self.run([inputs], into)[0]

    def run(
        self, inputs: Sequence[Sequence[Array]], into: Sequence[Array] | None = None
    ) -> list[list[Array]]:
        """Runs the kernel on as many devices as there are lists of inputs."""
        settings, kernel = self.settings, self.kernel
        target, options = get_target(settings.target), settings.options
        try:
            prepared = kernel.prepared.pop()
        except IndexError:
            prepared = prepare(kernel.lowered, options, target=target)
        try:
            outcome = execute(
                kernel.lowered,
                inputs,
                options,
                target=target,
                prepared=prepared,
                spare=settings.spare,
                into=into,
            )
        except Diagnostic as error:
            _print(error.log)
            raise
        kernel.prepared.append(prepared)
        _print(outcome.log)
        if outcome.findings:
            raise outcome.findings[0]
        return outcome.outputs

    def nothing(self) -> list[Array]:
        """Results of a call that failed, so that the program around it can end."""
        return [np.zeros(shape, dtype) for shape, dtype in self.results]


def _print(lines: Iterable[str]) -> None:
    """Prints what a kernel logged."""
    for line in lines:
        print(line, file=sys.stderr, flush=True)


class Failures:
    """What went wrong in one call of a program, by number, while executions of that last."""

    _numbers = itertools.count(1)

    def __init__(self) -> None:
        self._found: dict[int, BaseException] = {}
        self._executions = 0
        self._lock = threading.Lock()

    @contextmanager
    def executing(self) -> Generator[None]:
        """Within, an execution lasts; after the last one nobody asks any more."""
        with self._lock:
            self._executions += 1
        try:
            yield
        finally:
            with self._lock:
                self._executions -= 1
                if not self._executions:
                    self._found.clear()

    def keep(self, error: BaseException) -> int:
        """The number of `error`, different from that of every other failure of the process."""
        number = next(self._numbers)
        with self._lock:
            if self._executions:
                self._found[number] = error
        return number

    def find(self, number: int) -> BaseException | None:
        """The failure of that number, if it is one of this call's."""
        return self._found.get(number)

    def __len__(self) -> int:
        return len(self._found)


class Meeting:
    """Gathers the calls of all devices, round by round, and runs each round once."""

    def __init__(self, call: KernelCall) -> None:
        self.call = call
        self.changed = threading.Condition()
        self.arrived: Counter[int] = Counter()
        self.rounds: dict[int, _Round] = {}

    def join(self, device: int, inputs: Sequence[Array]) -> list[Array]:
        """The results on `device` of its next round."""
        with self.changed:
            number = self.arrived[device]
            self.arrived[device] += 1
            round = self.rounds.setdefault(number, _Round())
            round.inputs[device] = inputs
            if len(round.inputs) < self.call.devices:
                self._wait(round)
                return round.take(device)
            del self.rounds[number]
        round.run(self.call)
        with self.changed:
            round.done = True
            self.changed.notify_all()
        return round.take(device)

    def restart(self) -> None:
        """Forgets who has come; a program that ended early leaves devices of different counts."""
        with self.changed:
            self.arrived.clear()
            self.rounds.clear()

    def _wait(self, round: _Round) -> None:
        present = len(round.inputs)
        while not round.done:
            if self.changed.wait(PATIENCE) or round.done or len(round.inputs) > present:
                present = len(round.inputs)
                continue
            if present == self.call.devices:
                continue
            missing = sorted(set(range(self.call.devices)) - set(round.inputs))
            raise ExecutionError(
                "collective-incomplete",
                f"kernel {self.call.name} talks to other devices, but devices "
                f"{', '.join(map(str, missing))} do not call it",
                source_location(find_kernel(self.call.module).func),
                [Note("every device of the mesh must run a kernel that communicates")],
            )


class _Round:
    """One execution of a collective kernel."""

    def __init__(self) -> None:
        self.inputs: dict[int, Sequence[Array]] = {}
        self.outputs: list[list[Array]] = []
        self.error: BaseException | None = None
        self.done = False

    def run(self, call: KernelCall) -> None:
        try:
            self.outputs = call.run([self.inputs[device] for device in range(call.devices)])
        except BaseException as error:  # the other devices wait for the end of the round
            self.error = error

    def take(self, device: int) -> list[Array]:
        if self.error is not None:
            raise self.error
        return self.outputs[device]


def lowered_by_jax(
    text: str, name: str, settings: Settings, jaxpr: jax_core.Jaxpr | None = None
) -> KnownKernel:
    """The kernel in the call as JAX wrote it, which calls of the same text share; its `jaxpr`
    knows what its author calls what it works on."""

    def make() -> KnownKernel:
        module = parse(text, name=name)
        if jaxpr is not None:
            _name_memory(module, jaxpr)
        return _lowered(module, settings)

    said: tuple[Any, ...] = ()
    if jaxpr is not None:
        said = (*(jaxpr.debug_info.arg_names or ()), location_of_kernel(jaxpr))
    return _known(text, said, settings, make)


def lowered_from_trace(module: ModuleOp, settings: Settings) -> KnownKernel:
    """The kernel that was traced to `module`, which calls with the same lines share."""
    text = StringIO()
    Printer(text, print_generic_format=True, print_debuginfo=True).print_op(module)
    return _known(text.getvalue(), (), settings, lambda: _lowered(module, settings))


def _known(
    text: str, said: tuple[Any, ...], settings: Settings, make: Callable[[], KnownKernel]
) -> KnownKernel:
    """The kernel of that text, made if it is new; whoever asks for it is told what is odd."""
    key = Key(
        text, said, settings.target, settings.form, settings.allow_beyond_reference,
        settings.max_memory,
    )  # fmt: skip
    kernel = settings.kernels.known(key, make)
    for advice in kernel.advice:
        warn_before_run(advice, settings.checks)
    return kernel


def _name_memory(module: ModuleOp, jaxpr: jax_core.Jaxpr) -> None:
    """Gives the memory of a kernel its author's names, and the kernel the line on which it begins:
    JAX's module says neither."""
    func, names = first_function(module), jaxpr.debug_info.arg_names
    if func is None or position_of(func.location) is not None:
        return
    func.location = location_of_kernel(jaxpr)
    if names is not None and len(names) == len(jaxpr.invars) <= len(func.args):
        give_names(func.args[len(func.args) - len(names) :], names)
    name_scoped(func, jaxpr)


def _lowered(module: ModuleOp, settings: Settings) -> KnownKernel:
    advice: list[Diagnostic] = []
    lowered = lower_telling(
        advice.append, module, settings.form, settings.target, passes=settings.passes,
        allow_beyond_reference=settings.allow_beyond_reference,
    )  # fmt: skip
    return KnownKernel(module, lowered, tuple(advice))


def _array_type(type: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return tuple(type.get_shape()), np.dtype(dtype_of(type.element_type))


def _knows_its_device(module: ModuleOp) -> bool:
    return any(isinstance(op, DeviceIdOp) for op in module.walk())
