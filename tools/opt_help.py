"""The help of `tpu-opt`: a line about each pass of ours and of plug-ins, xDSL's by name."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Collection, Mapping

from xdsl.passes import ModulePass

from pallasite.passes.registry import PassFactory
from pallasite.targets import TARGETS
from pallasite.tools.reporting import STATUS

_WIDTH = 88


def describe(
    parser: argparse.ArgumentParser,
    passes: Mapping[str, PassFactory],
    formats: Collection[str],
) -> None:
    """Says in `parser` what options of xDSL mean here, and lists `passes` below."""
    texts = {
        "input_file": "kernel or program; standard input if it is - or left out",
        "output_file": "where to write; standard output if it is - or left out",
        "frontend": "not needed: the kind of the file is recognised by its content",
        "disable_verify": "verify neither the input nor the results of passes",
        "allow_unregistered_dialect": "read operations of unknown dialects in MLIR text",
        "no_implicit_module": "refuse MLIR text without a module at the top, instead of adding one",
        "verify_diagnostics": "print errors in place of the result, and exit with 0",
        "parsing_diagnostics": "do so for syntax errors only",
        "split_input_file": "treat the parts between lines `// -----` as separate files",
        "print_op_generic": "print operations in the generic form",
        "print_no_properties": "print properties among the attributes, as old versions of MLIR do",
        "print_debuginfo": "print the location of every operation",
        "syntax_highlight": "print in colours",
        "shrink": "exit with 0 only if a pass raised xDSL's ShrinkException: for reducers of tests",
        "version": "print the version and exit",
        "target": f"TPU generation ({', '.join(TARGETS)}), or a format to print "
        f"({', '.join(sorted(formats))})",
        "passes": "comma-separated passes with options in braces: "
        "lower-to-dma{target=v6e},cse; each pass is also a flag: --cse",
        "print_between_passes": "print the IR after every pass, and after every step of whole "
        "lowerings, on standard error; also --mlir-print-ir-after-all",
        "time_passes": "print the time of every pass, and of every step of whole lowerings, on "
        "standard error; also --mlir-timing",
    }
    for action in parser._actions:
        action.help = texts.get(action.dest, action.help)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = textwrap.fill(parser.description or "", _WIDTH)
    parser.epilog = _listed(passes)


def _listed(passes: Mapping[str, PassFactory]) -> str:
    from xdsl.transforms import get_all_passes

    upstream = get_all_passes()
    own = sorted(name for name in passes if name not in upstream)
    width = max(map(len, own))
    lines = [f"  {name:{width}}  {_summary(passes[name]())}".rstrip() for name in own]
    names = ", ".join(sorted(set(upstream) & set(passes)))
    wrapped = textwrap.fill(
        names, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )
    status = textwrap.fill(STATUS, _WIDTH)
    return "\n".join(["passes:", *lines, "", "passes of xDSL:", wrapped, "", status])


def _summary(kind: type[ModulePass]) -> str:
    """The first sentence about a pass; a dataclass without any is given its signature by Python."""
    text = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
    return "" if text.startswith(f"{kind.__name__}(") else text.split(". ")[0].rstrip(".")
