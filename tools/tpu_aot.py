"""`tpu-aot`: lowers a kernel to a form and asks the real TPU compiler whether it accepts it.

    tpu-aot FILE [--form mosaic|dma|vreg] [-p PIPELINE] [--topology v5e:2x2] [--format text|json]

Exit status: 0 accepted, 1 rejected (by us or by the compiler), 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pallasite.diagnostics import Diagnostic, UsageError
from pallasite.targets import TARGETS
from pallasite.tools.command_line import (
    add_format_option,
    add_kernel_options,
    add_lowering_options,
)
from pallasite.tools.reporting import (
    FAILED,
    OK,
    STATUS,
    as_diagnostic,
    exit_code,
    guarded,
    read_kernel,
    report,
    write_output,
)

if TYPE_CHECKING:
    from pallasite.frontend.aot import Verdict

FORMS = ("mosaic", "dma", "vreg")


def parser() -> argparse.ArgumentParser:
    """The command line of `tpu-aot`."""
    p = argparse.ArgumentParser(
        "tpu-aot",
        description="Asks the TPU compiler, without a TPU, whether it accepts a kernel.",
        epilog=STATUS,
    )
    add_kernel_options(p)
    p.add_argument("--form", choices=FORMS, default="vreg", help="form to compile (default: vreg)")
    p.add_argument(
        "--topology",
        "--target",
        default="v5e:2x2",
        help="chips to compile for, or a target alone (default: v5e:2x2)",
    )
    add_lowering_options(p)
    p.add_argument(
        "--timeout", type=float, default=600.0, metavar="SECONDS",
        help="how long the compiler may take (default: 600)",
    )  # fmt: skip
    add_format_option(p)
    return p


def target_of(topology: str) -> tuple[str, str]:
    """The target of a topology, and the topology in full: `v6e` alone means `v6e:2x2`."""
    chip, _, shape = topology.partition(":")
    sizes = shape.split("x") if shape else ["1"]
    known = all(size.isdecimal() and int(size) for size in sizes)
    for name, target in TARGETS.items():
        if known and chip in (name, target.topology.partition(":")[0]):
            return name, topology if shape else target.topology
    like = ", ".join(target.topology for target in TARGETS.values())
    raise UsageError("unknown-topology", f"expected a topology like {like}, got {topology!r}")


def judge(options: argparse.Namespace) -> Verdict:
    """Reads, lowers and compiles; what we cannot lower is rejected with our own message."""
    from pallasite import api
    from pallasite.frontend.aot import Verdict, compile_ahead_of_time
    from pallasite.tools.pass_options import chosen_passes

    if not 0 <= options.timeout < float("inf"):
        raise UsageError(
            "timeout", f"expected --timeout of at least 0 seconds, got {options.timeout:g}"
        )
    target, topology = target_of(options.topology)
    passes = chosen_passes(options, target)
    module = read_kernel(options)
    try:
        lowered = api.lower(
            module,
            options.form,
            target,
            passes=passes,
            allow_beyond_reference=options.allow_beyond_reference,
        )
    except UsageError:
        raise
    except Diagnostic as error:
        report(error, file=options.file)
        message = f"not lowered to {options.form} form: {error}"
        return Verdict(accepted=False, message=message, seconds=0.0, code_bytes=None)
    return compile_ahead_of_time(
        lowered,
        topology=topology,
        layout_passes=options.form != "vreg",
        timeout=options.timeout,
    )


@guarded
def main(arguments: Sequence[str] | None = None) -> int:
    """The console script."""
    from pallasite.frontend.aot import Verdict

    options = parser().parse_args(arguments)
    try:
        verdict = judge(options)
        status = OK if verdict.accepted else FAILED
    except Exception as error:
        diagnostic = as_diagnostic(error)
        report(diagnostic, file=options.file)
        verdict = Verdict(accepted=False, message=str(diagnostic), seconds=0.0, code_bytes=None)
        status = exit_code(diagnostic)
    if options.format == "json":
        line = json.dumps(verdict.as_json()) + "\n"
    elif verdict.accepted:
        line = f"accepted: {verdict.code_bytes} bytes of code in {verdict.seconds:.3f} s\n"
    else:
        # Wrong usage says nothing of the kernel.
        line = f"rejected: {verdict.message}\n" if status == FAILED else ""
    write_output(None, line)
    return status


if __name__ == "__main__":
    sys.exit(main())
