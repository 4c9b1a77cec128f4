"""The spellings of `mlir-opt`, put into those of `xdsl-opt`.

`--canonicalize --cse` and `--pass-pipeline='builtin.module(canonicalize,cse)'` are both
`-p canonicalize,cse`; `--target` is a TPU generation or an output format. And the options that
several tools have: which kernel, how it is lowered, how a tool reports.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import zip_longest

from pallasite.diagnostics import UsageError

_FLAGS = {
    "--mlir-print-op-generic": "--print-op-generic",
    "--mlir-print-debuginfo": "--print-debuginfo",
    "--mlir-print-ir-after-all": "--print-between-passes",
    "--mlir-timing": "--time-passes",
}
PLUGIN = "--load-pass-plugin"
"""As `mlir-opt` spells it."""
PIPELINE = ("-p", "--passes", "--pass-pipeline")
_TARGET = ("-t", "--target")
_VERIFY_EACH = "--verify-each"
"""On unless `=false` or `=0` follows."""
_ANCHOR = re.compile(r"\s*(?:any|[A-Za-z_][\w-]*(?:\.[\w-]+)+)\s*\(")


def translate(
    arguments: Sequence[str],
    passes: Collection[str],
    generations: Collection[str],
    formats: Collection[str],
) -> list[str]:
    """`arguments` in the spelling of `xdsl-opt`, with one `-p` and `--tpu-target` for a generation.

    Pass options in MLIR's style, `--name='a=1 b=2'`, become `name{a=1 b=2}`.
    """
    result: list[str] = []
    pipeline: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.partition("=")
        flag = _dashes(flag, passes)
        if flag in PIPELINE:
            pipeline.append(flatten(value if equals else _next(flag, rest)))
        elif flag in _TARGET:
            result += _target(value if equals else _next(flag, rest), generations, formats)
        elif flag.startswith("--") and flag[2:] in passes:
            pipeline.append(f"{flag[2:]}{{{value}}}" if equals else flag[2:])
        elif flag == _VERIFY_EACH:
            off = equals and value.lower() not in ("true", "1")
            result += ["--disable-verify"] if off else []
        elif flag == "--":
            result += [word, *rest]
            break
        else:
            result.append(_FLAGS.get(flag, word))
    if pipeline:
        result = ["-p", ",".join(p for p in pipeline if p), *result]
    return result


def _dashes(flag: str, passes: Collection[str]) -> str:
    """MLIR takes one dash for two."""
    long = "-" + flag
    known = long in (*_FLAGS, *PIPELINE, *_TARGET, _VERIFY_EACH) or long[2:] in passes
    return long if len(flag) > 2 and flag[1] != "-" and known else flag


def _next(flag: str, rest: list[str]) -> str:
    if not rest:
        raise UsageError("missing-value", f"{flag} expects a value")
    return rest.pop(0)


def _target(value: str, generations: Collection[str], formats: Collection[str]) -> list[str]:
    if value in generations:
        return ["--tpu-target", value]
    if re.split(r"[{ ]", value)[0] in formats:
        return ["-t", value]
    raise UsageError(
        "unknown-target",
        f"expected a TPU generation of {', '.join(generations)}, got {value!r}",
    )


def flatten(pipeline: str) -> str:
    """`builtin.module(func.func(a),b)` is `a,b`: our passes all run on modules."""
    result: list[str] = []
    anchors: list[bool] = []
    position = 0
    while position < len(pipeline):
        match = _ANCHOR.match(pipeline, position) if _at_start(result) else None
        if match is not None:
            anchors.append(True)
            position = match.end()
            continue
        letter = pipeline[position]
        position += 1
        if letter == "(":
            anchors.append(False)
        elif letter == ")" and anchors and anchors.pop():
            continue
        result.append(letter)
    if anchors:
        raise UsageError("invalid-pipeline", f"'(' without ')' in the pipeline {pipeline}")
    return "".join(result).strip()


def _at_start(written: Sequence[str]) -> bool:
    """Whether the next word begins a pass."""
    text = "".join(written).rstrip()
    return not text or text[-1] == ","


def add_plugin_option(parser: argparse.ArgumentParser) -> None:
    """The option that makes the passes of a Python file available."""
    parser.add_argument(
        PLUGIN, action="append", default=[], metavar="FILE",
        help="make the passes that a Python file defines available; may be repeated",
    )  # fmt: skip


def add_like_option(parser: argparse.ArgumentParser) -> None:
    """The option that names a program for a kernel that does not record its call."""
    parser.add_argument(
        "--like",
        metavar="FILE",
        help="program that calls the kernel, for one that does not record operand and result types",
    )


def add_kernel_options(parser: argparse.ArgumentParser) -> None:
    """The file of tools that read a kernel, which kernel in it is meant, and which version."""
    parser.add_argument(
        "-v", "--version", action="version",
        version=f"{parser.prog} of pallasite {package_version()}",
        help="print the version and exit",
    )  # fmt: skip
    parser.add_argument(
        "file", nargs="?", default="-", help="kernel or program; - is standard input"
    )
    add_like_option(parser)
    parser.add_argument(
        "--call",
        type=int,
        metavar="N",
        help="which of the kernels that a program calls (default: 0)",
    )


def package_version() -> str:
    """The version that is installed; empty where the sources are used without."""
    try:
        return version("pallasite")
    except PackageNotFoundError:  # run from its sources
        return ""


def add_format_option(parser: argparse.ArgumentParser) -> None:
    """The option that says how a tool reports."""
    parser.add_argument(
        "--format", choices=("text", "json"), default="text",
        help="how the result is reported (default: text)",
    )  # fmt: skip


def add_lowering_options(parser: argparse.ArgumentParser) -> None:
    """The options of tools that lower: passes to run first, where they come from, and what is
    admitted."""
    parser.add_argument(
        *PIPELINE, action="append", default=[], metavar="PIPELINE",
        help="passes to run before those that are still needed to reach the form, as for tpu-opt",
    )  # fmt: skip
    add_plugin_option(parser)
    parser.add_argument(
        "--allow-beyond-reference", action="store_true",
        help="accept kernels that the TPU compiler refuses although this lowering supports them",
    )  # fmt: skip


def plugin_files(words: Sequence[str]) -> list[str]:
    """The files that `words` name with `PLUGIN`, to be known before the words can be understood."""
    files: list[str] = []
    for word, following in zip_longest(words, words[1:]):
        flag, equals, value = word.partition("=")
        if flag in (PLUGIN, PLUGIN[1:]):
            if not equals and following is None:
                raise UsageError("missing-value", f"{flag} expects a value")
            files.append(value if equals else str(following))
    return files
