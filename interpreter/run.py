"""Executes a kernel module on arrays: binds them to the kernel's arguments, runs it, reads results.

Works for every executable form; what differs between forms is only in which memory the kernel's
arguments live (`pallasite.interpreter.windows`).
"""

from __future__ import annotations

import time
from collections.abc import Generator, Hashable, Sequence
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
from pallasite.interpreter.binding import Bound, bind
from pallasite.interpreter.call_plan import CallPlan, dynamic_bounds
from pallasite.interpreter.calls import call_for, check_size, checked_inputs
from pallasite.interpreter.driver import Budget, Program, located
from pallasite.interpreter.facts import Facts
from pallasite.interpreter.in_order import Use, uses_of
from pallasite.interpreter.limits import check_functions
from pallasite.interpreter.machine.clock import Clock
from pallasite.interpreter.machine.grid_walk import GridWalk
from pallasite.interpreter.machine.machine import Machine
from pallasite.interpreter.machine.memory import HostMemory, default_memory
from pallasite.interpreter.machine.renewal import Allocations
from pallasite.interpreter.machine.spare import Spare
from pallasite.interpreter.machine.subcore_tally import SubcoreTally
from pallasite.interpreter.odd_results import undefined, unwritten
from pallasite.interpreter.options import DEFAULT, Options
from pallasite.interpreter.process import keep_freed, products_on_one_thread
from pallasite.interpreter.replay.recorder import Recorder
from pallasite.interpreter.replay.repeats import Repeats, Replay, key_of
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

    def planned(self, inputs: Sequence[Sequence[Any]]) -> tuple[Call, CallPlan]:
        """The call that the module records, or else the one that the first `inputs` tell of."""
        if self.call is not None and self.plan is not None:
            return self.call, self.plan
        call = call_for(self.kernel, inputs[0] if inputs else ())
        return call, CallPlan.of(self.kernel, call, self.uses)

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

    def repeats_of(self, plan: CallPlan) -> Repeats | None:
        """What is known of runs of `plan`, if it is that of every call of the kernel."""
        described = self.described
        return self.repeats if plan is described.plan and not described.subcores else None


def execute(
    module: ModuleOp,
    inputs: Sequence[Sequence[Any]],
    options: Options = DEFAULT,
    *,
    target: Target,
    driver: Driver = "compiled",
    prepared: Prepared | None = None,
    spare: Spare | None = None,
    into: Sequence[Array] | None = None,
) -> Outcome:
    """Runs the kernel of `module`, `inputs[d]` being the operands on device d.

    `prepared` is what `prepare` made of the same arguments, and is not running. `spare` is memory
    that earlier runs have left, `into` contiguous arrays of the results' shapes and types, which
    may become the results of one device.
    """
    described = Described.of(module) if prepared is None else prepared.described
    call, plan = described.planned(inputs)
    arrays = [checked_inputs(call, plan, device) for device in inputs]
    check_size(plan.array_bytes * len(arrays), options.limits.memory, described.kernel.func)
    repeats, key = None, b""
    if prepared is not None and options.is_plain and len(arrays) == 1:
        repeats = prepared.repeats_of(plan)
    if repeats is not None:
        key = key_of(plan, arrays[0])
        replayed = repeats.run(key, arrays[0], options.limits, options.poison, spare, into)
        if replayed is not None:
            return _replayed(*replayed)
    split = _split(described, call, target)
    machine = Machine(
        target,
        devices=len(arrays),
        cores=1 if split is None else split.cores,
        mesh=mesh_of(described.subcores, call, target),
        order=options.order,
        checks=options.checks,
        poison=options.poison,
        host=HostMemory(options.limits.memory, spare),
        earlier=[] if prepared is None else prepared.left,
    )
    machine.grid_walk = _checked_walk(options.grid_walk, described.module)
    machine.reads_outside = call.unchecked and "bounds" not in machine.checks
    if prepared is None:
        prepared = _prepare(described, target, driver, options)
    run = _Run(machine, prepared, split, plan, arrays, options, repeats, key)
    outcome = run.outcome()
    run.leave()
    return outcome


def _replayed(replay: Replay, outputs: list[Array], seconds: float) -> Outcome:
    """What a run would have told in whose place a script has run."""
    return Outcome([outputs], dict(replay.memory), seconds, dict(replay.transfers))


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


def _log(machine: Machine) -> list[str]:
    """What the cores printed, one after the other."""
    return [line for core in machine.cores for line in core.log]


@dataclass(frozen=True)
class _Run:
    """A kernel with a machine, and with all that it works on."""

    machine: Machine
    prepared: Prepared
    split: CoreSplit | None
    plan: CallPlan
    arrays: Sequence[Sequence[Array]]
    options: Options
    repeats: Repeats | None
    """What is known of earlier runs, if this one may be replayed later."""
    key: Hashable
    """Under which it would be."""

    def outcome(self) -> Outcome:
        """Runs the kernel to its end."""
        machine, described = self.machine, self.prepared.described
        clock = (SubcoreTally if described.subcores else Clock) if self.options.profile else None
        profile = None if clock is None else clock.start(machine)
        # Whatever this run does, nobody gets it twice.
        self.prepared.left.clear()
        self.prepared.program.budget.begin(self.options.limits.steps)
        recorder = self._recorder()
        began = time.perf_counter()
        # Checks keep what has happened, which grows as modules do; steps leave no cycles.
        observed = paused() if machine.observers else nullcontext()
        with _telling(machine, described.kernel), observed:
            outputs = self._outputs(recorder)
        seconds = time.perf_counter() - began
        outcome = Outcome(
            outputs,
            {f"{kind}_peak_bytes": machine.peak_bytes(kind) for kind in ("vmem", "smem")},
            seconds,
            {"count": machine.engine.started, "bytes": (machine.engine.bits + 7) // 8},
            None if profile is None else profile.summary(),
            list(machine.findings),
            _log(machine),
        )
        if recorder is not None and recorder.plain:
            self._keep_script(recorder, outcome)
        return outcome

    def _recorder(self) -> Recorder | None:
        """Who is told of the run, if that is worth it."""
        if self.repeats is None or len(self.machine.cores) > 1:
            return None
        prepared = self.prepared
        kernel = prepared.described.kernel
        recorder = self.repeats.recorder(self.key, prepared.program, kernel, self.plan)
        self.machine.cores[0].recorder = recorder
        return recorder

    def _outputs(self, recorder: Recorder | None) -> list[list[Array]]:
        """Runs the program on every device; gives the results per device."""
        machine, plan, described = self.machine, self.plan, self.prepared.described
        keep_freed()
        with values.quiet(), products_on_one_thread():
            bound = [
                bind(
                    device, self.prepared.program, described.kernel, self.split, plan, arrays,
                    described.subcores,
                )
                for device, arrays in zip(machine.devices, self.arrays, strict=True)
            ]  # fmt: skip
            if recorder is not None:
                (started,) = bound[0].invocations
                recorder.begin(bound[0].inputs, self.arrays[0], bound[0].results, started.held)
            with nullcontext() if recorder is None else recorder.listening():
                machine.run([(i.core, i.steps()) for b in bound for i in b.invocations])
            outputs = [b.outputs(plan) for b in bound]
            if recorder is not None:
                recorder.end(bound[0].results, outputs[0])
        machine.close()
        if "init" in machine.checks and not machine.findings:
            self._warn_of_results(bound, outputs)
        return outputs

    def _warn_of_results(self, bound: Sequence[Bound], outputs: Sequence[Sequence[Array]]) -> None:
        """Warns of results that were not written, or hold what nobody has defined."""
        begins = source_location(self.prepared.described.kernel.func)
        for device, given, results in zip(bound, self.arrays, outputs, strict=True):
            core, operands = device.core, device.results
            left_out = [*unwritten(core, operands, begins)]
            for odd in left_out or undefined(core, operands, given, results, begins):
                warn(odd)

    def _keep_script(self, recorder: Recorder, outcome: Outcome) -> None:
        """Has later runs replay what `recorder` was told of this one, if that can be written."""
        assert self.repeats is not None
        limits = self.options.limits
        try:
            script = Script.of(recorder, len(self.arrays[0]), self.plan.results)
        except Exception:
            return  # This run has its results.
        steps = limits.steps - self.prepared.program.budget.left
        limits = replace(limits, steps=steps)
        replay = Replay(script, limits, self.options.poison, outcome.memory, outcome.transfers)
        self.repeats.keep(self.key, replay, recorder.effects)

    def leave(self) -> None:
        """Ends the machine; what a later run can use of it stays with the prepared kernel."""
        machine, prepared = self.machine, self.prepared
        if not prepared.described.subcores and not machine.observers:
            left = [core.allocations.retire() for core in machine.cores]
            if self.plan.deciding or not prepared.repeats.replays:
                prepared.left.extend(left)
        machine.drop()


def _split(described: Described, call: Call, target: Target) -> CoreSplit | None:
    """How the cores of a device share the grid of the kernel."""
    kernel = described.kernel
    if described.subcores or (target.cores == 1 and "core_parallel" not in kernel.semantics):
        return None
    inputs = len(call.operands) - dynamic_bounds(kernel) - len(kernel.prefetch)
    outputs = range(max(inputs, 0), len(kernel.operands))
    return core_split(kernel, functions_of(described.module), outputs, target.cores)


def prepare(
    module: ModuleOp,
    options: Options = DEFAULT,
    *,
    target: Target,
    driver: Driver = "compiled",
) -> Prepared:
    """The kernel of `module` made executable, for runs with those limits, poison and profile."""
    return _prepare(Described.of(module), target, driver, options)


def _prepare(described: Described, target: Target, driver: Driver, options: Options) -> Prepared:
    module = described.module
    form = form_of(module)
    registers = form in ("tiles", "vreg") or (described.subcores and form != "pallas")
    if options.profile and (driver != "compiled" or not registers):
        raise UsageError(
            "profile-form",
            "time is kept by the compiled driver and in forms tiles and vreg, whose operations "
            "say how many registers they work on",
        )
    memory = options.limits.memory
    limit = default_memory() if memory is None else memory
    facts = Facts(target, options.poison, options.profile)
    with paused():
        program = _program(driver, module, facts, Budget())
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
