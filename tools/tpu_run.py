"""`tpu-run`: lowers a kernel to a form and executes it on the modelled TPU.

    tpu-run FILE [--inputs in.npz] [--outputs out.npz] [--form F] [--target v5e] [--seed N]
            [-p PIPELINE] [--devices N] [--check NAMES] [--verify-each] [--format text|json]

Exit status: 0 ok, 1 rejected or failed, 2 wrong usage, 3 a sanitizer finding.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pallasite.arguments import DRIVERS
from pallasite.diagnostics import (
    Diagnostic,
    ExecutionError,
    Note,
    UsageError,
    warn_before_run,
)
from pallasite.dialects.kernel import FORMS
from pallasite.interpreter.driver import DEFAULT_STEPS
from pallasite.targets import DEFAULT_TARGET, TARGETS, get_target
from pallasite.tools.array_files import check_output, device_inputs, save_arrays
from pallasite.tools.command_line import (
    add_format_option,
    add_kernel_options,
    add_lowering_options,
)
from pallasite.tools.profile_text import profile_text
from pallasite.tools.reporting import (
    FAILED,
    FINDING,
    OK,
    STATUS,
    WRONG_USAGE,
    as_diagnostic,
    guarded,
    kernel_warnings,
    placed,
    read_kernel,
    report,
    write_output,
)

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from pallasite.interpreter.run import Outcome
    from pallasite.tools.array_files import Array
    from pallasite.tools.verify_each import Conditions


def parser() -> argparse.ArgumentParser:
    """The command line of `tpu-run`."""
    p = argparse.ArgumentParser(
        "tpu-run",
        description="Executes a kernel on the modelled TPU.",
        epilog=f"{STATUS}, 3 if a check has findings",
    )
    add_kernel_options(p)
    p.add_argument("--inputs", metavar="NPZ", help="operands arr_0, arr_1, ... (default: random)")
    p.add_argument("--outputs", metavar="NPZ", help="where to write the results")
    p.add_argument(
        "--form", choices=FORMS,
        help="form to execute (default: tiles, or the form of FILE, or the one that the passes "
        "named lead to, if that comes later)",
    )  # fmt: skip
    p.add_argument(
        "--target", default=DEFAULT_TARGET, help=f"{', '.join(TARGETS)} (default: %(default)s)"
    )
    add_lowering_options(p)
    _add_machine_options(p)
    p.add_argument(
        "--check", default="", metavar="NAMES",
        help="sanitizers: race, init, bounds, sync (comma list), or all",
    )  # fmt: skip
    p.add_argument(
        "--verify-each", action="store_true",
        help="execute before and after every pass; name the first that changes the answer",
    )  # fmt: skip
    p.add_argument(
        "--profile", action="store_true",
        help="estimate the time on the chip; report what each unit did and what limits the kernel",
    )  # fmt: skip
    add_format_option(p)
    return p


def _add_machine_options(p: argparse.ArgumentParser) -> None:
    """The options that say on what, and how, the kernel runs."""
    p.add_argument(
        "--devices", type=int, default=1, metavar="N",
        help="run N devices at once, each with its slice of every array along axis 0 (default: 1)",
    )  # fmt: skip
    p.add_argument(
        "--seed", type=int, default=0, metavar="N",
        help="seed of random inputs, and of the order in which transfers complete; with 0 each "
        "completes as late as the waits allow (default: 0)",
    )  # fmt: skip
    p.add_argument(
        "--unordered", action="store_true",
        help="let transfers between the same two cores overtake each other",
    )  # fmt: skip
    p.add_argument(
        "--driver", choices=DRIVERS, default="compiled",
        help="execute the kernel as compiled Python code, or one operation at a time (default: "
        "compiled)",
    )  # fmt: skip
    p.add_argument(
        "--max-steps", type=int, metavar="N",
        help=f"scalar operations after which a run counts as endless (default: {DEFAULT_STEPS})",
    )  # fmt: skip
    p.add_argument(
        "--max-memory", type=int, metavar="BYTES",
        help="host memory that the modelled memories and vectors may take (default: 8 GiB, or half "
        "of what the host has)",
    )  # fmt: skip


_DEFAULT_FORM = "tiles"
_RANDOM = "operands are random numbers, tables of indices as well: --inputs NPZ gives others"


class Session:
    """One invocation: what it has measured and found so far, which is reported at any end.

    `seconds` are of wall clock, by step; `ops` counts operations by form; `memory` has the most
    bytes that one core held, `transfers` the count and the bytes of all DMAs (docs/commands.md).
    """

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.form: str = options.form or _DEFAULT_FORM
        self.seconds = {"parse": 0.0, "lower": 0.0, "run": 0.0}
        self.ops: dict[str, int] = {}
        self.memory = {"vmem_peak_bytes": 0, "smem_peak_bytes": 0}
        self.transfers = {"count": 0, "bytes": 0}
        self.profile: dict[str, Any] | None = None
        self.diagnostics: list[Diagnostic] = []
        self.log: list[str] = []
        self.passes: tuple[ModulePass, ...] = ()
        self.booleans: list[int] = []
        """Results that the program turns into bools right behind the call."""

    def run(self) -> tuple[str, int]:
        """Does the work; the status and the exit code."""
        with kernel_warnings() as told:
            status = self._run()
        self.diagnostics[:0] = told
        return status

    def _run(self) -> tuple[str, int]:
        try:
            outcome = self._execute()
        except Exception as error:
            diagnostic = placed(as_diagnostic(error), self.options.file)
            if diagnostic.code == "out-of-bounds" and self.options.inputs is None:
                diagnostic.notes.append(Note(_RANDOM))
            self.diagnostics.append(diagnostic)
            self.log = diagnostic.log
            if isinstance(diagnostic, UsageError):
                return "failed", WRONG_USAGE
            return ("failed" if isinstance(diagnostic, ExecutionError) else "rejected"), FAILED
        self.diagnostics += outcome.findings
        return ("finding", FINDING) if outcome.findings else ("ok", OK)

    def _execute(self) -> Outcome:
        from pallasite import api, arguments
        from pallasite.dialects.kernel_call import call_of
        from pallasite.lowering.pipelines import check_form, furthest_form
        from pallasite.tools.pass_options import chosen_passes

        o = self.options
        if o.outputs is not None:
            check_output(o.outputs)
        # Files of passes may bring targets.
        self.passes = chosen_passes(o, o.target)
        get_target(o.target)
        o.check = arguments.checks(o.check)
        arguments.seed(o.seed)
        arguments.limit(o.max_steps, "--max-steps")
        arguments.limit(o.max_memory, "--max-memory")
        began = time.perf_counter()
        module = self._read()
        self.seconds["parse"] = time.perf_counter() - began
        if o.form is None:
            self.form = furthest_form(module, self.passes, _DEFAULT_FORM)
        self.ops[check_form(module, self.form)] = count_ops(module)
        if call_of(module) is None:
            module = api.with_call(module, self._inputs(module)[0])
        if o.verify_each:
            return self._finish(self._verify_each(module, self._inputs(module)))
        began = time.perf_counter()
        lowered = api.lower_telling(
            lambda advice: warn_before_run(advice, o.check), module, self.form, o.target,
            passes=self.passes, after_pass=self._count,
            allow_beyond_reference=o.allow_beyond_reference,
        )  # fmt: skip
        self.seconds["lower"] = time.perf_counter() - began
        return self._finish(self._simulate(lowered, self._inputs(lowered)))

    def _count(self, _: ModulePass, form: str, module: ModuleOp) -> None:
        """Counts the operations of a form; later passes of it prepare the next form."""
        self.ops.setdefault(form, count_ops(module))

    def _read(self) -> ModuleOp:
        from pallasite.dialects.kernel_call import call_of

        module = read_kernel(self.options)
        recorded = call_of(module)
        if recorded is not None:
            self.booleans = list(recorded.boolean_results)
        return module

    def _inputs(self, module: ModuleOp) -> list[list[Array]]:
        """The operands of each device."""
        from pallasite import arguments

        o = self.options
        arguments.devices(o.devices)
        return device_inputs(module, o.inputs, o.devices, o.seed, o.max_memory)

    def _simulate(
        self, module: ModuleOp, inputs: list[list[Array]], conditions: Conditions | None = None
    ) -> Outcome:
        from pallasite.interpreter import run
        from pallasite.interpreter.options import Options

        o = self.options
        options = Options.of(
            # A seed of the user's picks other random orders, not the order as late as possible.
            seed=conditions.seed and (o.seed or conditions.seed) if conditions else o.seed,
            checks=o.check, max_steps=o.max_steps, max_memory=o.max_memory, profile=o.profile,
            unordered=o.unordered, poison=conditions.poison if conditions else 0,
        )  # fmt: skip
        return run.execute(module, inputs, options, target=get_target(o.target), driver=o.driver)

    def _verify_each(self, module: ModuleOp, inputs: list[list[Array]]) -> Outcome:
        from pallasite.tools.verify_each import verify_each

        def simulate(lowered: ModuleOp, conditions: Conditions) -> Outcome:
            return self._simulate(lowered, inputs, conditions)

        began = time.perf_counter()
        last = verify_each(
            module, self.form, self.options.target, simulate, passes=self.passes,
            after_pass=self._count, allow_beyond_reference=self.options.allow_beyond_reference,
        )  # fmt: skip
        self.seconds["lower"] = time.perf_counter() - began
        return last

    def _finish(self, outcome: Outcome) -> Outcome:
        self.seconds["run"] = outcome.seconds
        self.memory = outcome.memory
        self.transfers = outcome.transfers
        self.profile = outcome.profile
        self.log = outcome.log
        if self.options.outputs is not None:
            save_arrays(self.options.outputs, outcome, self.booleans)
        return outcome

    def report(self, status: str) -> None:
        """Prints diagnostics on standard error and the summary on standard output."""
        for diagnostic in self.diagnostics:
            report(diagnostic)
        o = self.options
        if o.format == "json":
            summary: dict[str, Any] = {
                "status": status,
                "form": self.form,
                "target": o.target,
                "seconds": {k: round(v, 6) for k, v in self.seconds.items()},
                "ops": self.ops,
                "diagnostics": [d.as_json() for d in self.diagnostics],
                "memory": self.memory,
                "transfers": self.transfers,
                "profile": self.profile,
                "log": self.log,
            }
            write_output(None, json.dumps(summary) + "\n")
            return
        lines = list(self.log)
        if status == "ok":
            took = ", ".join(f"{k} {v:.3f} s" for k, v in self.seconds.items())
            vmem = self.memory["vmem_peak_bytes"]
            lines.append(f"ok: {self.form} form on {o.target}, {took}, VMEM peak {vmem} bytes")
            if self.profile is not None:
                lines.append(profile_text(self.profile))
        write_output(None, "".join(f"{line}\n" for line in lines))


def count_ops(module: ModuleOp) -> int:
    """Operations of the kernel function, nested ones included."""
    from pallasite.dialects.subcores import first_function

    func = first_function(module)
    return sum(1 for _ in (func or module).walk()) - 1


@guarded
def main(arguments: Sequence[str] | None = None) -> int:
    """The console script."""
    session = Session(parser().parse_args(arguments))
    # Not at the top: NumPy is slow to import, and --help does not need it.
    from pallasite.interpreter.process import tune

    tune()
    status, code = session.run()
    session.report(status)
    return code


if __name__ == "__main__":
    sys.exit(main())
