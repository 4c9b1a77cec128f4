"""Executes a kernel module on arrays: binds them to the kernel's arguments, runs it, reads results.

Works for every executable form; what differs between forms is only in which memory the kernel's
arguments live (`pallasite.interpreter.windows`).
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from xdsl.dialects.builtin import ModuleOp

from pallasite.collection import paused
from pallasite.diagnostics import Diagnostic, Note, UsageError, VerifyError, warn
from pallasite.dialects.core_split import CoreSplit, core_split
from pallasite.dialects.kernel import Kernel, describe_kernel, form_of, functions_of
from pallasite.dialects.kernel_call import Call, call_of
from pallasite.dialects.locations import source_location
from pallasite.dialects.subcores import Kernels, first_function, subcore_kernels
from pallasite.interpreter import compiled, values
from pallasite.interpreter.binding import bind
from pallasite.interpreter.call_plan import CallPlan, dynamic_bounds
from pallasite.interpreter.calls import call_for, check_size, checked_inputs
from pallasite.interpreter.driver import DEFAULT_STEPS, Budget, Program, located
from pallasite.interpreter.facts import Facts
from pallasite.interpreter.in_order import Use, uses_of
from pallasite.interpreter.limits import check_functions
from pallasite.interpreter.machine.clock import Clock, Profile
from pallasite.interpreter.machine.grid_walk import GridWalk
from pallasite.interpreter.machine.machine import Machine
from pallasite.interpreter.machine.memory import default_memory
from pallasite.interpreter.machine.renewal import Allocations
from pallasite.interpreter.machine.spare import Spare
from pallasite.interpreter.machine.subcore_tally import SubcoreTally
from pallasite.interpreter.odd_results import undefined, unwritten
from pallasite.interpreter.process import keep_freed, products_on_one_thread
from pallasite.interpreter.replay.repeats import Limits, Repeats, Replay
from pallasite.interpreter.replay.script import Script
from pallasite.interpreter.subcores import mesh_of
from pallasite.interpreter.values import Array
from pallasite.targets import Target

Driver = Literal["compiled", "reference"]


@dataclass
class Outcome:
    """What a run produced."""

    outputs: list[list[Array]]
    """Per device, the results of the call."""
    memory: dict[str, int]
    """`vmem_peak_bytes` and `smem_peak_bytes`, the most that any core held."""
    seconds: float
    transfers: dict[str, int] = field(default_factory=lambda: {"count": 0, "bytes": 0})
    """`count` and `bytes` of all DMAs, on all devices; padding is not counted."""
    profile: dict[str, Any] | None = None
    """`Clock.summary`, or `SubcoreTally.summary`, if the run was measured."""
    findings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    log: list[str] = field(default_factory=list[str])

    def all(self) -> list[Array]:
        """Every output of every device."""
        return [array for outputs in self.outputs for array in outputs]


@dataclass(frozen=True)
class Described:
    """A kernel in a form that the drivers run, and what is said about it."""

    module: ModuleOp
    kernel: Kernel
    call: Call | None
    """The call that the module records."""
    subcores: Kernels = field(default_factory=dict[str, Kernel])
    """The kernels of SparseCores, of which `kernel` is one."""
    uses: Sequence[Use] = ()
    """What `kernel` does with its operands."""

    @cached_property
    def plan(self) -> CallPlan | None:
        """That of the call that the module records."""
        return None if self.call is None else CallPlan.of(self.kernel, self.call, self.uses)

    @staticmethod
    def of(module: ModuleOp) -> Described:
        """Of the kernel of `module`, which may be in any form."""
        module = _executable(module)
        kernel = find_kernel(module)
        return Described(module, kernel, call_of(module), subcore_kernels(module), uses_of(kernel))


@dataclass(frozen=True)
class Prepared:
    """A kernel made executable, for any number of runs one after another."""

    described: Described
    program: Program
    left: list[Allocations] = field(default_factory=list["Allocations"])
    """What the last run has left to the next one, by core."""
    repeats: Repeats = field(default_factory=Repeats)
    """What is known of its runs that nobody observes."""


def execute(
    module: ModuleOp,
    inputs: Sequence[Sequence[Any]],
    *,
    results: Sequence[tuple[Sequence[int], Any]] | None = None,
    aliases: Mapping[int, int] | None = None,
    target: Target,
    seed: int = 0,
    checks: Iterable[str] = (),
    devices: int = 1,
    driver: Driver = "compiled",
    max_steps: int | None = None,
    max_memory: int | None = None,
    poison: int = 0,
    prepared: Prepared | None = None,
    profile: bool = False,
    unordered: bool = False,
    grid_walk: GridWalk | None = None,
    spare: Spare | None = None,
) -> Outcome:
    """Runs the kernel of `module`, `inputs[d]` being the operands on device d.

    `results` and `aliases` stand in for the call that a bare module does not record. With seed 0
    transfers land as late as their waits allow; any other seed makes their order random, by seed.
    Those from one core to another keep the order in which they were started, unless `unordered`.
    `poison` (0 or 1) picks the pattern that memory and registers hold before they are written.
    `prepared` is what `prepare` made of the same arguments, and is not running. `profile` keeps the
    modelled time of a kernel in form `tiles` or `vreg`. `grid_walk` is for kernels that still have
    their grid, in form `pallas` or `mosaic`. `spare` is memory that earlier runs have left.
    """
    described = Described.of(module) if prepared is None else prepared.described
    kernel, subcores = described.kernel, described.subcores
    call, plan = _planned(described, inputs, results, aliases)
    checked = checked_inputs(call, plan, inputs, devices)
    check_size(plan.array_bytes * devices, max_memory, kernel.func)
    limits = Limits(max_memory, poison, DEFAULT_STEPS if max_steps is None else max_steps)
    repeats = None
    if prepared is not None and plan is described.plan:
        if not (seed or checks or profile or subcores or grid_walk or devices > 1):
            repeats = prepared.repeats
            replayed = repeats.run(checked[0], limits, spare)
            if replayed is not None:
                return _replayed(*replayed)
    split = None if subcores else _split(described.module, kernel, call, target)
    machine = Machine(
        target,
        devices=devices,
        cores=1 if split is None else split.cores,
        seed=seed,
        policy="random" if seed else "on_wait",
        checks=tuple(checks),
        poison=poison,
        max_memory=max_memory,
        unordered=unordered,
        spare=spare,
        mesh=mesh_of(subcores, call, target),
        earlier=[] if prepared is None else prepared.left,
    )
    machine.grid_walk = _checked_walk(grid_walk, described.module)
    machine.reads_outside = call.unchecked and "bounds" not in machine.checks
    if prepared is None:
        prepared = _prepare(described, target, driver, max_memory, poison, profile)
    program = prepared.program
    clock = (SubcoreTally if subcores else Clock).start(machine) if profile else None
    # Whatever this run does, nobody gets it twice.
    prepared.left.clear()
    program.budget.limit = program.budget.left = limits.steps
    recorder = None
    if repeats is not None and len(machine.cores) == 1:
        recorder = machine.cores[0].recorder = repeats.recorder(program, kernel, plan)
    began = time.perf_counter()
    # Checks keep what has happened, which grows as modules do; steps leave no cycles.
    with _telling(machine, kernel), paused() if machine.observers else nullcontext():
        outputs = _run(machine, program, described, split, plan, checked)
    outcome = _outcome(machine, outputs, time.perf_counter() - began, clock)
    if repeats is not None and recorder is not None and recorder.plain:
        script = Script.of(recorder, len(checked[0]), plan.results)
        limits = replace(limits, steps=limits.steps - program.budget.left)
        repeats.keep(Replay(script, limits, outcome.memory, outcome.transfers), recorder.effects)
    if not subcores and not machine.observers:
        left = [core.allocations.retire() for core in machine.cores]
        if prepared.repeats.replay is None:
            prepared.left.extend(left)
    machine.drop()
    return outcome


def _replayed(replay: Replay, outputs: list[Array], seconds: float) -> Outcome:
    """What a run would have told in whose place a script has run."""
    return Outcome([outputs], dict(replay.memory), seconds, dict(replay.transfers))


def _planned(
    described: Described,
    inputs: Sequence[Sequence[Any]],
    results: Sequence[tuple[Sequence[int], Any]] | None,
    aliases: Mapping[int, int] | None,
) -> tuple[Call, CallPlan]:
    """The call that the module records, unless there is none or `results` say another, planned."""
    call, plan = described.call, described.plan
    if call is None or plan is None or results is not None:
        call = call_for(described.kernel, inputs[0] if inputs else (), results, aliases)
        plan = CallPlan.of(described.kernel, call, described.uses)
    return call, plan


@contextmanager
def _telling(machine: Machine, kernel: Kernel) -> Generator[None]:
    """Diagnostics get the place of the kernel, if they have none, and what was printed before."""
    try:
        yield
    except Diagnostic as error:
        located(error, kernel.func)
        error.log = _log(machine)
        raise


def _checked_walk(grid_walk: GridWalk | None, module: ModuleOp) -> GridWalk | None:
    if grid_walk is not None and form_of(module) not in ("pallas", "mosaic"):
        raise UsageError(
            "grid-form", "the order of a grid is chosen and told in forms pallas and mosaic; in "
            "later forms the grid is a loop of the kernel",
        )  # fmt: skip
    return grid_walk


def _outcome(
    machine: Machine, outputs: list[list[Array]], seconds: float, clock: Profile | None
) -> Outcome:
    """What `machine` tells of the programs that it ran."""
    peaks = {
        f"{kind}_peak_bytes": max(getattr(core, kind).peak_bytes for core in machine.cores)
        for kind in ("vmem", "smem")
    }
    return Outcome(
        outputs,
        peaks,
        seconds,
        {"count": machine.engine.started, "bytes": (machine.engine.bits + 7) // 8},
        clock.summary() if clock is not None else None,
        list(machine.findings),
        _log(machine),
    )


def _log(machine: Machine) -> list[str]:
    """What the cores printed, one after the other."""
    return [line for core in machine.cores for line in core.log]


def _run(
    machine: Machine,
    program: Program,
    described: Described,
    split: CoreSplit | None,
    plan: CallPlan,
    inputs: Sequence[Sequence[Any]],
) -> list[list[Array]]:
    """Runs the program on every device of `machine` to its end; gives the results per device."""
    keep_freed()
    kernel = described.kernel
    with values.quiet(), products_on_one_thread():
        bound = [
            bind(device, program, kernel, split, plan, arrays, described.subcores)
            for device, arrays in zip(machine.devices, inputs, strict=True)
        ]
        recorder = machine.cores[0].recorder
        if recorder is not None:
            recorder.begin(bound[0].inputs, inputs[0], bound[0].results)
        with nullcontext() if recorder is None else recorder.listening():
            machine.run([(i.core, i.steps()) for b in bound for i in b.invocations])
        outputs = [b.outputs(plan) for b in bound]
        if recorder is not None:
            recorder.end(bound[0].results, outputs[0])
    machine.close()
    if "init" in machine.checks and not machine.findings:
        begins = source_location(kernel.func)
        for device, given, results in zip(bound, inputs, outputs, strict=True):
            core, operands = device.core, device.results
            left_out = [*unwritten(core, operands, begins)]
            for odd in left_out or undefined(core, operands, given, results, begins):
                warn(odd)
    return outputs


def _split(module: ModuleOp, kernel: Kernel, call: Call, target: Target) -> CoreSplit | None:
    """How the cores of a device share the grid of `kernel`."""
    if target.cores == 1 and "core_parallel" not in kernel.semantics:
        return None
    inputs = len(call.operands) - dynamic_bounds(kernel) - len(kernel.prefetch)
    outputs = range(max(inputs, 0), len(kernel.operands))
    return core_split(kernel, functions_of(module), outputs, target.cores)


def prepare(
    module: ModuleOp,
    *,
    target: Target,
    driver: Driver = "compiled",
    max_memory: int | None = None,
    poison: int = 0,
    profile: bool = False,
) -> Prepared:
    """The kernel of `module` made executable."""
    return _prepare(Described.of(module), target, driver, max_memory, poison, profile)


def _prepare(
    described: Described,
    target: Target,
    driver: Driver,
    max_memory: int | None,
    poison: int,
    profile: bool,
) -> Prepared:
    module = described.module
    form = form_of(module)
    registers = form in ("tiles", "vreg") or (described.subcores and form != "pallas")
    if profile and (driver != "compiled" or not registers):
        raise UsageError(
            "profile-form",
            "time is kept by the compiled driver and in forms tiles and vreg, whose operations "
            "say how many registers they work on",
        )
    limit = default_memory() if max_memory is None else max_memory
    with paused():
        program = _program(driver, module, Facts(target, poison, profile), Budget())
        for kernel in described.subcores.values() or [described.kernel]:
            check_functions(program.functions, kernel.func.sym_name.data, limit)
    return Prepared(described, program)


def _executable(module: ModuleOp) -> ModuleOp:
    """`module` as the drivers run it."""
    if not any(op.name == "pallas.kernel" for op in module.body.block.ops):
        return module
    # Imported when met: the form has a dialect of its own.
    from pallasite.interpreter.pallas_program import executable

    return executable(module)


def _program(driver: Driver, module: ModuleOp, facts: Facts, budget: Budget) -> Program:
    if driver == "compiled":
        return compiled.Program(module, facts, budget)
    # Imported when asked for: xDSL's interpreter takes a while to load.
    from pallasite.interpreter import reference

    return reference.Program(module, facts, budget)


def find_kernel(module: ModuleOp) -> Kernel:
    """The kernel of `module` with its arguments sorted; a `VerifyError` if there is none."""
    func = first_function(module)
    if func is None:
        raise VerifyError(
            "no-kernel",
            "the module has no kernel function",
            source_location(module),
            [Note("expected a func.func with tpu.core_type = #tpu.core_type<tc>, or @main")],
        )
    return describe_kernel(func)
