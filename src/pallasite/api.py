"""`parse`, `lower` and `run`: the library as one function per step (docs/python.md).

Every error is a `pallasite.Diagnostic`; its subclass says which step refused. All state belongs to
the call, or to the module that it is given (`pallasite.again`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from xdsl.dialects.builtin import ModuleOp

from pallasite import arguments
from pallasite.again import Lowered, lowered_once
from pallasite.borders import diagnosed
from pallasite.collection import paused
from pallasite.diagnostics import Diagnostic, Note, UsageError, warn, warn_before_run
from pallasite.dialects.kernel import form_of
from pallasite.lowering.whole import AfterPass, Lowering, Tell
from pallasite.targets import DEFAULT_TARGET, get_target

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

    from pallasite.dialects.kernel_call import Call
    from pallasite.interpreter.machine.grid_walk import GridWalk
    from pallasite.interpreter.options import Options
    from pallasite.interpreter.run import Driver, Outcome

Array = NDArray[Any]
Inputs = Sequence[ArrayLike] | Sequence[Sequence[ArrayLike]]
"""The operands of a call in their order, or of several devices a sequence of them for each."""
ResultType = tuple[Sequence[int], DTypeLike]
"""Shape and element type of a result, for modules that do not record them."""


def parse(
    source: str | bytes, *, name: str | PathLike[str] = "<input>", call: int | None = 0
) -> ModuleOp:
    """The kernel module in `source`.

    `source` is MLIR text of any form, Mosaic bytecode, or a StableHLO module or HLO dump with
    custom calls, of which `call` picks one by number (None: the first one, with a warning if there
    are others). Diagnostics call it `name`.

    Raises `ReadError` if it cannot be parsed, `VerifyError` if it breaks a rule of its operations,
    `UsageError` if there is no such call.
    """
    from pallasite.frontend import read

    source, name = arguments.source_of(source), arguments.name_of(name)
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

    `passes` run first, whichever forms they need and leave, then the passes from the form after
    them to `form`. A whole lowering among `passes` (`lower-to-tiles`) is replaced by its steps.
    `allow_beyond_reference` accepts kernels that the TPU compiler refuses but we can lower;
    `after_pass(step, form, module)` is called after every pass. Warnings about an accepted kernel
    are given as `KernelWarning`.

    Raises `Unsupported` at the kernel's line for what `target` or this lowering cannot do,
    `UsageError` for a form before that of the module, or a target that does not exist.
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
    """`lower`, which calls `tell` with each warning instead of giving it."""
    from pallasite.lowering.pipelines import check_form

    model = get_target(target)
    passes = arguments.passes(passes)
    arguments.called(after_pass, "after_pass")
    beyond = arguments.flag(allow_beyond_reference, "allow_beyond_reference")
    present = check_form(arguments.module_of(module), form)
    with paused():
        if present == "pallas":
            # The form's rules are its verifiers; the lowering relies on them.
            verify(module)
        lowering = Lowering(model, passes, after_pass, beyond, tell)
        return lowering.run(module, form)


def with_call(
    module: ModuleOp,
    inputs: Sequence[ArrayLike],
    results: Sequence[ResultType] | None = None,
    aliases: Mapping[int, int] | None = None,
) -> ModuleOp:
    """`module` if it records its call (`tpu.call`), else a copy that records this one.

    Raises a `UsageError` for `results` or `aliases` where the module already records them.
    """
    from pallasite.dialects.kernel_call import call_of, set_call
    from pallasite.interpreter.calls import call_for
    from pallasite.interpreter.run import find_kernel

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
    inputs: Inputs,
    *,
    form: str = "tiles",
    target: str = DEFAULT_TARGET,
    checks: Iterable[str] = (),
    seed: int = 0,
    devices: int = 1,
    results: Sequence[ResultType] | None = None,
    aliases: Mapping[int, int] | None = None,
    driver: Driver = "compiled",
    max_steps: int | None = None,
    max_memory: int | None = None,
    passes: Sequence[ModulePass] = (),
    allow_beyond_reference: bool = False,
    unordered: bool = False,
) -> Any:
    """Lowers `module` to `form`, runs it on the modelled TPU, and returns its outputs.

    `inputs` are the operands in order, arrays of the shapes and element types that the call has;
    the result is the list of results, in order, as NumPy arrays. With `devices=N` greater than one,
    both have one such list per device. `results` and `aliases` describe the call of a module that
    does not record one: (shape, dtype) pairs, and operand index -> result index.

    `checks` are sanitizers: race, init, bounds, sync, or all. With `seed` 0 transfers land as late
    as their waits allow, with another in an order made from it; `unordered` lets transfers between
    the same two cores overtake each other. `max_steps` limits the steps of the run (a scalar
    operation is one), `max_memory` the bytes that its memories and vectors take on this computer.
    `passes` and `allow_beyond_reference` are those of `lower`.

    Raises what `lower` raises; `UsageError` for arguments that do not fit the call;
    `ExecutionError` for an access outside of a ref, a deadlock, or a limit that is reached; and the
    first finding of a sanitizer.
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
    inputs: Inputs,
    *,
    form: str = "tiles",
    target: str = DEFAULT_TARGET,
    checks: Iterable[str] = (),
    seed: int = 0,
    devices: int = 1,
    results: Sequence[ResultType] | None = None,
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
    """`run`, but returns all that is known of the run: outputs, findings of sanitizers, memory
    peaks, transfers and the log; with `profile` also the modelled time and what bounds it (forms
    `tiles` and `vreg`).

    Findings are not raised. `grid_walk` decides the order of the steps along parallel axes of the
    grid, from a seed, and is called for every step (forms `pallas` and `mosaic`).
    """
    from pallasite.interpreter.options import Options
    from pallasite.lowering.pipelines import check_form

    get_target(target)
    wanted = arguments.checks(checks)
    arguments.driver(driver)
    devices = arguments.devices(devices)
    options = Options.of(
        checks=wanted,
        seed=arguments.seed(seed),
        unordered=arguments.flag(unordered, "unordered"),
        grid_walk=grid_walk,
        max_steps=arguments.limit(max_steps, "max_steps"),
        max_memory=arguments.limit(max_memory, "max_memory"),
        profile=arguments.flag(profile, "profile"),
    )
    per_device = _for_each_device(inputs, devices)
    check_form(arguments.module_of(module), form)
    module = with_call(module, per_device[0] if per_device else (), results, aliases)
    told = functools.partial(warn_before_run, checks=wanted)
    kernel = _lowered(
        told, module, form, target, passes=passes, allow_beyond_reference=allow_beyond_reference
    )
    return _executed(kernel, per_device, options, target, driver)


def _for_each_device(inputs: Inputs, devices: int) -> Sequence[Sequence[ArrayLike]]:
    """The inputs of each of the `devices`; those of a single one are not in a list of their own."""
    if devices == 1:
        return [arguments.array_list(inputs, "inputs")]
    per_device = arguments.array_list(inputs, "inputs for each device")
    if len(per_device) != devices:
        raise UsageError(
            "device-count", f"expected inputs for {devices} devices, got {len(per_device)}"
        )
    return per_device


def _lowered(
    tell: Tell,
    module: ModuleOp,
    form: str,
    target: str,
    *,
    passes: Sequence[ModulePass],
    allow_beyond_reference: bool,
) -> Lowered:
    """`module` in `form`, from the cache if it is unchanged; tells its warnings either way."""
    told: list[Diagnostic] = []

    def make() -> Lowered:
        def telling(advice: Diagnostic) -> None:
            told.append(advice)
            tell(advice)

        kernel = lower_telling(
            telling, module, form, target, passes=passes,
            allow_beyond_reference=allow_beyond_reference,
        )  # fmt: skip
        return Lowered(kernel, tuple(told))

    # Not cached with passes of the user, which may do anything.
    beyond = arguments.flag(allow_beyond_reference, "allow_beyond_reference")
    kept = (form, get_target(target), beyond)
    kernel = make() if passes else lowered_once(module, kept, make)
    for advice in kernel.advice[len(told) :]:
        tell(advice)
    return kernel


def _executed(
    kernel: Lowered,
    per_device: Sequence[Sequence[ArrayLike]],
    options: Options,
    target: str,
    driver: Driver,
) -> Outcome:
    """What a run of `kernel` gives, which keeps what the run prepared for the next one."""
    from pallasite.interpreter.run import execute, prepare

    model = get_target(target)
    usual = driver == "compiled" and options.limits.memory is None and not options.profile
    with diagnosed("executing the module"):
        prepared = None
        if usual:
            prepared = kernel.take() or prepare(kernel.module, target=model)
        outcome = execute(
            kernel.module, per_device, options, target=model, driver=driver, prepared=prepared
        )
    if prepared is not None:
        kernel.prepared.append(prepared)
    return outcome


def random_inputs(
    module: ModuleOp, seed: int = 0, *, devices: int = 1, max_memory: int | None = None
) -> list[Array]:
    """Random inputs for the call that `module` records: normal floats, small integers, bools.

    Raises a `UsageError` if the module records no call. Refuses arrays that a run on that many
    devices would refuse because they exceed `max_memory`.
    """
    from pallasite.dialects.kernel_call import call_of
    from pallasite.interpreter.calls import check_arrays

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
    from pallasite.interpreter.arrays import dtype_of

    generator = np.random.default_rng(seed)
    inputs: list[Array] = []
    for position, type in enumerate(call.operands):
        dtype = dtype_of(type.element_type)
        shape = type.get_shape()
        if position in call.boolean_operands:
            inputs.append(generator.integers(0, 2, shape).astype(dtype))
        elif dtype.kind == "b" or dtype.kind in "iu" or dtype.name.startswith(("int", "uint")):
            low = 0 if dtype.kind in "bu" or dtype.name.startswith("uint") else -4
            inputs.append(
                generator.integers(low, 2 if dtype.kind == "b" else 4, shape).astype(dtype)
            )
        else:
            inputs.append(generator.standard_normal(shape).astype(np.float32).astype(dtype))
    return inputs
