"""`tpu-opt`: reads a kernel, runs passes on it, prints it.

`tpu-opt [FILE] [-p PIPELINE] [--target T] [-o FILE]`, with all flags of `xdsl-opt` and the
spellings of `mlir-opt` where they differ. `--target` names a TPU generation, which goes to every
pass with an option `target` that does not say otherwise, or one of xDSL's output formats.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.targets.mlir import MLIRTarget
from xdsl.utils.exceptions import (
    DiagnosticException,
    ShrinkException,
    VerifyException,
)
from xdsl.xdsl_opt_main import xDSLOptMain

from pallasite.diagnostics import Diagnostic, ReadError, UsageError
from pallasite.lowering.pipelines import step_by_step
from pallasite.passes.plugins import blamed, upstream
from pallasite.targets import DEFAULT_TARGET, TARGETS
from pallasite.tools.command_line import (
    add_like_option,
    add_plugin_option,
    package_version,
    plugin_files,
    translate,
)
from pallasite.tools.opt_help import describe
from pallasite.tools.pass_options import available_passes, make_passes
from pallasite.tools.reporting import (
    FAILED,
    OK,
    exit_code,
    guarded,
    input_name,
    read_input,
    report,
    take_call,
    write_output,
)

_SEPARATOR = b"// -----"


class TpuOptMain(xDSLOptMain):
    """xDSL's driver with our dialects, passes and readers, and errors as diagnostics.

    `arguments` are the words of the command line, by default those of this process; spellings of
    `mlir-opt` are accepted (`pallasite.tools.command_line`).
    """

    version_format: ClassVar[str] = (
        f"tpu-opt of pallasite {package_version()} on xDSL {{xdsl_version}}"
    )

    def __init__(self, arguments: Sequence[str] | None = None) -> None:
        from xdsl.targets import get_all_targets

        words = sys.argv[1:] if arguments is None else arguments
        self._passes = available_passes(plugin_files(words))
        self._asks_for_help = not {"-h", "--help"}.isdisjoint(words)
        super().__init__(
            "Runs passes over TPU kernels: MLIR text, Mosaic bytecode, StableHLO or HLO programs.",
            translate(words, tuple(self._passes), tuple(TARGETS), tuple(get_all_targets())),
        )

    # What there is

    def register_all_dialects(self) -> None:
        from pallasite.dialects import get_all_dialects

        for name, factory in get_all_dialects().items():
            self.ctx.register_dialect(name, factory)

    def register_all_frontends(self) -> None:
        # Files are told apart by content; the flag only has to exist.
        self.available_frontends["mlir"] = lambda stream: self._parse(stream.read())

    def register_all_passes(self) -> None:
        self.available_passes |= self._passes

    def register_all_targets(self) -> None:
        from xdsl.targets import get_all_targets

        self.available_targets |= get_all_targets()

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        arg_parser.prog = "tpu-opt"
        arg_parser.add_argument(
            "--tpu-target",
            choices=tuple(TARGETS),
            default=DEFAULT_TARGET,
            help="TPU generation; also spelled --target (default: %(default)s)",
        )
        arg_parser.add_argument(
            "--call",
            type=int,
            metavar="N",
            help="which custom call of a StableHLO or HLO program to read (default: 0)",
        )
        add_like_option(arg_parser)
        add_plugin_option(arg_parser)
        if self._asks_for_help:
            describe(arg_parser, self._passes, self.available_targets)

    def setup_pipeline(self) -> None:
        passes = make_passes(self.args.passes or "", self.available_passes, self.args.tpu_target)
        self.pipeline = PassPipeline(passes, None)

    # What happens

    def execute(self) -> int:
        """Reads, transforms and prints each chunk of the input; returns the exit status."""
        outputs: list[str] = []
        status = OK
        source = self.args.input_file or "-"
        for chunk in self._chunks():
            try:
                module = self._parse(chunk)
                self._apply(module)
                outputs.append(self._print(module))
            except ShrinkException:
                if self.args.shrink:
                    print("success, can shrink", file=sys.stderr)
                    return OK
                raise
            except Exception as error:
                if self._is_expected(error):
                    report(error, sys.stdout, source)
                    continue
                # The other chunks still have their say, as in mlir-opt.
                report(error, file=source)
                status = max(status, exit_code(error))
        if outputs or status == OK:
            write_output(self.args.output_file, "// -----\n".join(outputs))
        return FAILED if self.args.shrink else status

    def _print(self, module: ModuleOp) -> str:
        with upstream(f"target {self.args.target}"):
            return self.output_resulting_program(module)

    def _is_expected(self, error: Exception) -> bool:
        """Whether a flag asks for this error to be printed as if it were the result."""
        if self.args.parsing_diagnostics and isinstance(error, ReadError):
            return True
        known = isinstance(error, Diagnostic | DiagnosticException | VerifyException)
        return self.args.verify_diagnostics and known and not isinstance(error, UsageError)

    def _chunks(self) -> list[bytes]:
        """The parts of the input, each behind as many newlines as stand before it."""
        data = read_input(self.args.input_file)
        if not self.args.split_input_file:
            return [data]
        chunks: list[bytes] = []
        lines = 0
        for part in data.split(_SEPARATOR):
            chunks.append(b"\n" * lines + part)
            lines += part.count(b"\n")
        return chunks

    def _parse(self, data: bytes) -> ModuleOp:
        from pallasite.dialects.verification import verify
        from pallasite.frontend import is_kernel_text, read

        name = input_name(self.args.input_file)
        as_it_is = self.args.allow_unregistered_dialect or self.args.no_implicit_module
        if as_it_is and is_kernel_text(data, name):
            module = self._parse_text(data, name)
        else:
            module = read(data, name, self.args.call)
        take_call(module, self.args.input_file, self.args.like, self.args.call)
        if not self.args.disable_verify:
            verify(module)
        return module

    def _parse_text(self, data: bytes, name: str) -> ModuleOp:
        """The flags about dialects and modules only mean something for MLIR text."""
        from pallasite.frontend.text import read_text

        implicit = not self.args.no_implicit_module
        return read_text(data.decode(), name, self.ctx, implicit_module=implicit)

    def _apply(self, module: ModuleOp) -> None:
        from pallasite.dialects.kernel import set_form
        from pallasite.dialects.verification import verify_after

        for form, step in self._steps(module):
            started = time.perf_counter()
            with blamed(step):
                step.apply(self.ctx, module)
            if form is not None:
                set_form(module, form)
            if self.args.time_passes:
                seconds = time.perf_counter() - started
                print(f"{step.name}: {seconds:.3f} s", file=sys.stderr)
            if self.args.print_between_passes:
                # Before it is verified: a pass is mended by looking at what it left.
                self._show(module, step)
            if not self.args.disable_verify:
                verify_after(module, step.name)

    def _show(self, module: ModuleOp, step: ModulePass) -> None:
        """Prints what `step` left on standard error, as the flags about printing say."""
        print(f"// IR after {step.name}:", file=sys.stderr)
        MLIRTarget(
            print_generic_format=self.args.print_op_generic,
            print_properties_as_attributes=self.args.print_no_properties,
            print_debuginfo=self.args.print_debuginfo,
            syntax_highlight=self.args.syntax_highlight,
        ).emit(self.ctx, module, sys.stderr)

    def _steps(self, module: ModuleOp) -> Iterator[tuple[str | None, ModulePass]]:
        """The passes, each with the form that it leaves unless that is its own business.

        Whole lowerings come step by step where steps are shown.
        """
        if self.args.print_between_passes or self.args.time_passes:
            return step_by_step(module, self.pipeline.passes)
        return ((None, step) for step in self.pipeline.passes)


@guarded
def main(arguments: Sequence[str] | None = None) -> int:
    """The console script."""
    return TpuOptMain(arguments).execute()


if __name__ == "__main__":
    sys.exit(main())
