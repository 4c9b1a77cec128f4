"""How what goes wrong in a kernel reaches the caller of its program, through XLA.

Programs that contain simulated kernels are executed to their end before they return. A callback
that fails ends the program with a number, under which the kernel's call keeps the diagnostic itself
until no execution of the program is left that might raise it.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import jax
from jax._src import dispatch
from jax._src.pallas.mosaic.error_handling import MosaicError

from pallasite.diagnostics import Diagnostic, ExecutionError
from pallasite.jax.alone import Alone
from pallasite.jax.calls import Array, KernelCall

_MARK = re.compile(r"pallasite-failure-(\d+);")


def as_jax_raises(error: BaseException) -> BaseException:
    """`error`; a diagnostic also caught as what JAX raises when a TPU program does not compile
    or run.

    Programs that try several block sizes catch `jax.errors.JaxRuntimeError` for those that do not
    fit.
    """
    if isinstance(error, Diagnostic) and not isinstance(error, jax.errors.JaxRuntimeError):
        error.__class__ = _jax_kind(type(error))
    return error


@functools.cache
def _jax_kind(kind: type[Diagnostic]) -> type[Diagnostic]:
    bases: tuple[type, ...] = (kind, jax.errors.JaxRuntimeError)
    if not issubclass(kind, ExecutionError):
        bases += (MosaicError,)
    return type(kind.__name__, bases, {"__module__": kind.__module__, "__doc__": kind.__doc__})


class _KernelFailure(Exception):
    """Ends an XLA program; its message has the number of what its call keeps."""


def call_back(
    call: KernelCall, results: Sequence[Array] | None, device: Array, *inputs: Array
) -> Sequence[Array]:
    """What XLA calls for a kernel: the results of `call` on `device`, some of them in `results`
    if there is such memory.

    Where it fails, the diagnostic is kept in the call and the XLA program ends; on several devices
    it goes on with zeros.
    """
    try:
        return call(int(device), inputs, results)
    except BaseException as error:  # an interrupt reaches the caller as what it is, too
        if call.devices > 1:
            # The other devices may wait for this one in a collective of XLA.
            call.failure = call.failure or error
            return call.nothing()
        raise _KernelFailure(f"pallasite-failure-{call.failures.keep(error)}; {error}") from None


def surfacing_diagnostics(execute: Callable[..., Any]) -> Callable[..., Any]:
    """Executes programs with simulated kernels to their end; raises what went wrong in a kernel."""

    @functools.wraps(execute)
    def call(self: Any, *args: Any) -> Any:
        calls = [item for item in self.keepalive or () if isinstance(item, KernelCall)]
        if not calls:
            return execute(self, *args)
        self.has_unordered_effects = True  # keeps JAX from going past us when called again
        results = _run_alone(self, args)
        if results is not None:
            return results
        with _executing(calls):
            try:
                out = execute(self, *args)
                _wait(self, out)
            except (jax.errors.JaxRuntimeError, ValueError) as error:
                for device in self._local_devices:
                    dispatch.runtime_tokens.output_runtime_tokens.pop(device, None)
                known = _kept(calls, str(error))
                if known is None:
                    raise
                raise as_jax_raises(known) from None
            for item in calls:
                if item.failure is not None:
                    raise as_jax_raises(item.failure) from None
            return out

    return call


def _run_alone(program: Any, args: Sequence[Any]) -> Any:
    """The results of a `program` that is a single kernel, which runs without XLA; None for
    others."""
    alone = next((item for item in program.keepalive if isinstance(item, Alone)), None)
    if alone is None:
        return None
    try:
        return alone.run(program, args)
    except Diagnostic as error:
        raise as_jax_raises(error) from None


def _wait(program: Any, results: Any) -> None:
    """Returns when the execution of `program` that gives `results` has ended."""
    jax.block_until_ready(results)
    for device in program._local_devices:
        if token := dispatch.runtime_tokens.output_runtime_tokens.get(device):
            token.block_until_ready()


def _kept(calls: Sequence[KernelCall], message: str) -> BaseException | None:
    """The failure of one of `calls` whose number is in the `message` with which XLA ended."""
    numbers = [int(number) for number in _MARK.findall(message)]
    found = (call.failures.find(number) for number in numbers for call in calls)
    return next((failure for failure in found if failure is not None), None)


@contextmanager
def _executing(calls: Sequence[KernelCall]) -> Generator[None]:
    """One execution of a program with `calls`, all of them on as many devices."""
    with ExitStack() as stack:
        if calls[0].devices > 1:
            # Devices of two executions of one program must not meet each other.
            stack.enter_context(calls[0].executing)
        for call in calls:
            stack.enter_context(call.failures.executing())
            if call.devices > 1:
                stack.enter_context(_on_all_devices(call))
        yield


@contextmanager
def _on_all_devices(call: KernelCall) -> Generator[None]:
    """One execution of `call` on all devices; what it leaves, inputs and failures, goes with it."""

    def restart() -> None:
        call.meeting.restart()
        call.failure = None

    restart()
    try:
        yield
    finally:
        restart()


_UNKNOWN = re.compile(r"No such compile option: '(xla_\w+)'")


def without_tpu_options(
    compile: Callable[..., Any], simulating: Callable[[], bool]
) -> Callable[..., Any]:
    """Programs with simulated kernels, and those compiled while `simulating`, may carry options of
    the TPU compiler (`xla_tpu_...`, `xla_sc_...`): of `xla_...` what the CPU's does not know, but
    its own (`xla_cpu_...`), which are misspelt then."""

    @functools.wraps(compile)
    def without(*args: Any, compiler_options_kvs: Any, keepalive: Any, **rest: Any) -> Any:
        for_tpu = simulating() or any(isinstance(item, KernelCall) for item in keepalive or ())
        options = tuple(
            item
            for item in compiler_options_kvs
            if not (for_tpu and item[0].startswith("xla_tpu_"))
        )
        while True:
            try:
                return compile(*args, compiler_options_kvs=options, keepalive=keepalive, **rest)
            except jax.errors.JaxRuntimeError as error:
                said = _UNKNOWN.search(str(error))
                unknown = said[1] if said else ""
                if not for_tpu or unknown.startswith("xla_cpu_") or unknown not in dict(options):
                    raise
                options = tuple(item for item in options if item[0] != unknown)

    return without
