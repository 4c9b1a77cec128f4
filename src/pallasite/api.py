"""`parse`, `lower` and `run`: the library as one function per step (docs: "Python").

Every error is a `pallasite.Diagnostic`. All state belongs to the call.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from pallasite import arguments
from pallasite.collection import paused
from pallasite.diagnostics import (
    Diagnostic,
    ExecutionError,
    KernelWarning,
    Note,
    UsageError,
    VerifyError,
    warn,
)
from pallasite.dialects.kernel import form_of
from pallasite.targets import DEFAULT_TARGET, Target, get_target

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

    from pallasite.dialects.kernel_call import Call
    from pallasite.interpreter.machine.grid_walk import GridWalk
    from pallasite.interpreter.run import Driver, Outcome


@contextmanager
def diagnosed(what: str) -> Generator[None, None, None]:
    """Lets no exception but a `Diagnostic` out: what nobody foresaw is a defect and says so."""
    try:
        yield
    except Diagnostic:
        raise
    except KernelWarning as error:
        # Of a process for which warnings are errors.
        raise error.diagnostic from error
    except VerifyException as error:
        raise VerifyError("invalid-module", f"{what}: {error}") from error
    except RecursionError as error:
        raise Diagnostic("nested-too-deeply", f"{what}: the module nests too deeply") from error
    except MemoryError as error:
        raise ExecutionError("host-memory", f"{what}: this computer lacks memory") from error
    except Exception as error:
        note = Note("this is a defect of Pallasite, not of the kernel")
        message = f"{what}: internal error: {type(error).__name__}: {error}"
        raise Diagnostic("internal-error", message, notes=[note]) from error


AfterPass = Callable[["ModulePass", str, ModuleOp], None]
"""Called with a pass that has run, the form it left, and the module."""
Tell = Callable[[Diagnostic], None]
"""Called with what is odd about a kernel that is accepted."""


def parse(source: str | bytes, *, name: str = "<input>", call: int | None = 0) -> ModuleOp:
    """The kernel module in `source`: MLIR text of any form, Mosaic bytecode, or a StableHLO module
    or HLO dump with custom calls, of which `call` picks one (None: the first one, with a warning if
    there are others). `name` is what diagnostics call it."""
    from pallasite.frontend import read

    source = arguments.source_of(source)
    call = None if call is None else arguments.whole_number(call, "the call")
    with diagnosed("reading the module"), paused():
        module = read(source, name, call)
        verify(module)
    return module


def verify(module: ModuleOp) -> None:
    """Raises `VerifyError` if `module` breaks a rule of its operations, or of SSA dominance."""
    from pallasite.dialects import verification

    verification.verify(arguments.module_of(module))


def lower(
    module: ModuleOp,
    form: str = "vreg",
    target: str = DEFAULT_TARGET,
    *,
    passes: Sequence[ModulePass] = (),
    after_pass: AfterPass | None = None,
    allow_beyond_reference: bool = False,
) -> ModuleOp:
    """A copy of `module` in `form`; the module itself if it is in that form already.

    `passes` run first, whichever forms they need and leave, then what is still missing to `form`.
    Where one of them is a whole lowering, its steps run. `allow_beyond_reference` admits kernels
    that the TPU compiler refuses but we can lower. What is odd about an accepted kernel is a
    `KernelWarning`.
    """
    return lower_telling(
        warn, module, form, target, passes=passes, after_pass=after_pass,
        allow_beyond_reference=allow_beyond_reference,
    )  # fmt: skip


def lower_telling(
    tell: Tell,
    module: ModuleOp,
    form: str,
    target: str,
    *,
    passes: Sequence[ModulePass] = (),
    after_pass: AfterPass | None = None,
    allow_beyond_reference: bool = False,
) -> ModuleOp:
    """`lower`, telling what is odd about the kernel instead of warning of it."""
    from pallasite.lowering.pipelines import check_form

    get_target(target)
    passes = arguments.passes(passes)
    arguments.called(after_pass, "after_pass")
    present = check_form(arguments.module_of(module), form)
    with paused():
        if present == "pallas":
            # The form's rules are its verifiers; the lowering relies on them.
            verify(module)
        return _lower_verified(
            module, form, target, passes, after_pass, allow_beyond_reference, tell
        )


def _lower_verified(
    module: ModuleOp,
    form: str,
    target: str,
    passes: Sequence[ModulePass],
    after_pass: AfterPass | None,
    allow_beyond_reference: bool,
    tell: Tell,
) -> ModuleOp:
    """`lower_telling` for arguments that were looked at."""
    from pallasite.dialects import make_context
    from pallasite.dialects.kernel import set_form
    from pallasite.dialects.subcores import subcore_functions
    from pallasite.lowering.pipelines import planned
    from pallasite.passes.fold_kernel import FoldKernelPass
    from pallasite.passes.plugins import blamed

    model, present = get_target(target), form_of(module)
    checked = present in ("mosaic", "dma")
    changes = bool(passes) or present != form
    lowered = module.clone() if checked or changes else module
    if present != "pallas":
        with diagnosed("check-kernel"):
            _check(lowered, model, allow_beyond_reference, tell)
        if checked and changes and after_pass is not None:
            after_pass(FoldKernelPass(target), present, lowered)
    context = make_context()
    for leaves, step in planned(lowered, passes, form, target):
        before = form_of(lowered)
        with diagnosed(step.name), blamed(step):
            step.apply(context, lowered)
        if leaves is None:
            _verify_after(step, lowered)
        else:
            set_form(lowered, leaves)
        after = form_of(lowered)
        if before == "pallas" != after:
            # A copy where it is the answer: what the kernel says stays in it, used or not.
            judged = lowered.clone() if form == after else lowered
            _check(judged, model, allow_beyond_reference, tell)
        if after_pass is not None:
            after_pass(step, after, lowered)
    if subcore_functions(lowered):
        set_form(lowered, form)
    if form == "pallas":
        # What the target or the compiler refuses shows in the next form.
        _lower_verified(lowered, "mosaic", target, (), None, allow_beyond_reference, tell)
    return lowered if changes else module


def _verify_after(step: ModulePass, module: ModuleOp) -> None:
    try:
        verify(module)
    except Diagnostic as error:
        error.notes.append(Note(f"after pass {step.name}"))
        raise


def _check(module: ModuleOp, target: Target, allow_beyond_reference: bool, tell: Tell) -> None:
    """Refuses what no step can make legal; tells what is odd.

    What is trivial or computes nothing that is used goes first: the TPU compiler never looks at it
    either.
    """
    from pallasite.dialects.kernel import describe_kernel, kernel_function
    from pallasite.dialects.kernel_call import call_of
    from pallasite.passes.check_kernel import check_kernel
    from pallasite.passes.check_kernel.aliases import alias_advice
    from pallasite.passes.check_kernel.bounds import bounds_advice
    from pallasite.passes.check_kernel.grid import grid_advice
    from pallasite.passes.fold_kernel import fold_kernel

    func = kernel_function(module)
    if func is not None and form_of(module) in ("mosaic", "dma"):
        fold_kernel(module)
    check_kernel(module, target, allow_beyond_reference=allow_beyond_reference)
    if func is None:
        return
    call = call_of(module)
    kernel = describe_kernel(func)
    told = [*grid_advice(kernel, len(call.results) if call is not None else 0)]
    if call is not None and form_of(module) == "mosaic":
        told += alias_advice(kernel, call)
    if form_of(module) in ("mosaic", "dma"):
        if call is None or not call.unchecked:
            told += bounds_advice(func)
    for advice in told:
        tell(advice)


def with_call(
    module: ModuleOp,
    inputs: Sequence[Any],
    results: Sequence[tuple[Sequence[int], Any]] | None = None,
    aliases: Mapping[int, int] | None = None,
) -> ModuleOp:
    """`module` if it records its call, else a copy that records the call with these arguments."""
    from pallasite.dialects.kernel_call import call_of, set_call
    from pallasite.interpreter.run import call_for, find_kernel

    pallas = form_of(module) == "pallas"
    if pallas or (results is None and call_of(module) is not None):
        if aliases is not None or results is not None:
            how = "its kernel says them" if pallas else "give results, too, for another call"
            message = "results and aliases are for modules that do not record them"
            raise UsageError("recorded-call", message, notes=[Note(how)])
        return module
    call = call_for(find_kernel(module), inputs, results, aliases)
    described = module.clone()
    set_call(described, call)
    return described


def run(
    module: ModuleOp,
    inputs: Sequence[Any],
    *,
    form: str = "tiles",
    target: str = DEFAULT_TARGET,
    checks: Iterable[str] = (),
    seed: int = 0,
    devices: int = 1,
    results: Sequence[tuple[Sequence[int], Any]] | None = None,
    aliases: Mapping[int, int] | None = None,
    driver: Literal["compiled", "reference"] = "compiled",
    max_steps: int | None = None,
    max_memory: int | None = None,
    passes: Sequence[ModulePass] = (),
    allow_beyond_reference: bool = False,
    unordered: bool = False,
) -> Any:
    """Lowers `module` to `form`, runs it on the modelled TPU, and returns its outputs.

    With `devices=N` greater than one, `inputs` and the answer hold one list of arrays per device.
    `results` and `aliases` describe the call of a bare module: (shape, dtype) pairs, and operand
    index -> result index; `passes` are those of `lower`. A sanitizer's finding is raised.
    `unordered` lets transfers between the same two cores overtake each other.
    """
    outcome = simulate(
        module, inputs, form=form, target=target, checks=checks, seed=seed, devices=devices,
        results=results, aliases=aliases, driver=driver, max_steps=max_steps,
        max_memory=max_memory, passes=passes, allow_beyond_reference=allow_beyond_reference,
        unordered=unordered,
    )  # fmt: skip
    if outcome.findings:
        raise outcome.findings[0]
    return outcome.outputs if len(outcome.outputs) > 1 else outcome.outputs[0]


def simulate(
    module: ModuleOp,
    inputs: Sequence[Any],
    *,
    form: str = "tiles",
    target: str = DEFAULT_TARGET,
    checks: Iterable[str] = (),
    seed: int = 0,
    devices: int = 1,
    results: Sequence[tuple[Sequence[int], Any]] | None = None,
    aliases: Mapping[int, int] | None = None,
    driver: Driver = "compiled",
    max_steps: int | None = None,
    max_memory: int | None = None,
    passes: Sequence[ModulePass] = (),
    allow_beyond_reference: bool = False,
    profile: bool = False,
    unordered: bool = False,
    grid_walk: GridWalk | None = None,
) -> Outcome:
    """`run`, returning everything the run tells: outputs, findings, memory peaks, transfers, log;
    and with `profile` the modelled time and what bounds it (forms `tiles` and `vreg`).

    `grid_walk` takes parallel axes of the grid in a seeded order, and is told every step (forms
    `pallas` and `mosaic`).
    """
    model = get_target(target)
    wanted = arguments.checks(checks)
    if driver not in ("compiled", "reference"):
        raise UsageError("unknown-driver", f"expected compiled or reference, got {driver!r}")
    devices, seed = arguments.devices(devices), arguments.seed(seed)
    max_steps = arguments.limit(max_steps, "max_steps")
    max_memory = arguments.limit(max_memory, "max_memory")
    inputs = arguments.array_list(inputs, "inputs" if devices == 1 else "inputs for each device")
    from pallasite.interpreter.run import execute
    from pallasite.lowering.pipelines import check_form

    per_device: Sequence[Sequence[Any]] = inputs if devices > 1 else [inputs]
    check_form(arguments.module_of(module), form)
    module = with_call(module, per_device[0] if per_device else (), results, aliases)
    lowered = lower(
        module, form, target, passes=passes, allow_beyond_reference=allow_beyond_reference
    )
    with diagnosed("executing the module"):
        return execute(
            lowered, per_device, target=model, seed=seed, checks=wanted, devices=devices,
            driver=driver, max_steps=max_steps, max_memory=max_memory, profile=profile,
            unordered=unordered, grid_walk=grid_walk,
        )  # fmt: skip


Array = NDArray[Any]


def random_inputs(
    module: ModuleOp, seed: int = 0, *, devices: int = 1, max_memory: int | None = None
) -> list[Array]:
    """Seeded inputs for the call that `module` records: normal floats, small integers, bools.

    Refuses arrays that a run on that many devices would refuse, as they exceed `max_memory`.
    """
    from pallasite.dialects.kernel_call import call_of
    from pallasite.interpreter.run import check_arrays

    seed, devices = arguments.seed(seed), arguments.devices(devices)
    max_memory = arguments.limit(max_memory, "max_memory")
    call = call_of(arguments.module_of(module))
    if call is None:
        raise UsageError(
            "unknown-operands", "the module does not record its operands; give inputs, or --like"
        )
    with diagnosed("making inputs"):
        check_arrays(call, devices, max_memory, module)
        return _random_arrays(call, seed)


def _random_arrays(call: Call, seed: int) -> list[Array]:
    from pallasite.dialects.kernel_call import BOOLEAN_OPERANDS
    from pallasite.interpreter.arrays import dtype_of

    generator = np.random.default_rng(seed)
    booleans = call.settings.get(BOOLEAN_OPERANDS, ())
    inputs: list[Array] = []
    for position, type in enumerate(call.operands):
        dtype = dtype_of(type.element_type)
        shape = type.get_shape()
        if position in booleans:
            inputs.append(generator.integers(0, 2, shape).astype(dtype))
        elif dtype.kind == "b" or dtype.kind in "iu" or dtype.name.startswith(("int", "uint")):
            low = 0 if dtype.kind in "bu" or dtype.name.startswith("uint") else -4
            inputs.append(
                generator.integers(low, 2 if dtype.kind == "b" else 4, shape).astype(dtype)
            )
        else:
            inputs.append(generator.standard_normal(shape).astype(np.float32).astype(dtype))
    return inputs
