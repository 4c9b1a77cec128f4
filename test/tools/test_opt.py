"""`tpu-opt` in process: spellings, files of every kind, where output and errors go."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pallasite.diagnostics import UsageError
from pallasite.dialects import get_derived_dialects, get_own_dialects
from pallasite.lowering.pipelines import STEPS
from pallasite.passes.registry import get_all_passes
from pallasite.tools.command_line import flatten, translate
from pallasite.tools.tpu_opt import TpuOptMain, main

DATA = Path(__file__).parent.parent / "data"
EXAMPLES = Path(__file__).parents[2] / "examples"
PASSES = ("canonicalize", "cse", "lower-to-tiles")


def spelled(*words: str) -> list[str]:
    return translate(words, PASSES, ("v4", "v5e"), ("mlir", "arm-asm"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("a.mlir", "-p", "cse"), ["-p", "cse", "a.mlir"]),
        (("--canonicalize", "a.mlir", "-cse"), ["-p", "canonicalize,cse", "a.mlir"]),
        (("--lower-to-tiles=target=v4",), ["-p", "lower-to-tiles{target=v4}"]),
        (("--pass-pipeline=builtin.module(cse)",), ["-p", "cse"]),
        (("-pass-pipeline", "cse", "--passes=cse"), ["-p", "cse,cse"]),
        (("--target", "v4"), ["--tpu-target", "v4"]),
        (("--target=v4", "-t", "mlir"), ["--tpu-target", "v4", "-t", "mlir"]),
        (("--mlir-print-op-generic",), ["--print-op-generic"]),
        (("-mlir-print-debuginfo",), ["--print-debuginfo"]),
        (("--verify-each=false",), ["--disable-verify"]),
        (("--verify-each=true",), []),
        (("-verify-each=0",), ["--disable-verify"]),
        (("--verify-each", "a.mlir"), ["a.mlir"]),
        (("-", "-o", "-"), ["-", "-o", "-"]),
        (("--cse", "--", "--canonicalize"), ["-p", "cse", "--", "--canonicalize"]),
    ],
)
def test_spellings(words: tuple[str, ...], expected: list[str]) -> None:
    assert spelled(*words) == expected


@pytest.mark.parametrize("words", [("--target", "v9"), ("--target",), ("-p",)])
def test_wrong_values_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        spelled(*words)


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        ("cse", "cse"),
        ("builtin.module(cse, canonicalize)", "cse, canonicalize"),
        ("builtin.module(func.func(cse{a=1 b=(2)}),canonicalize)", "cse{a=1 b=(2)},canonicalize"),
        ("any(cse)", "cse"),
        ("builtin.module()", ""),
    ],
)
def test_anchors_of_pipelines_fall_away(pipeline: str, expected: str) -> None:
    assert flatten(pipeline) == expected


def test_open_anchor_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'\(' without '\)'"):
        flatten("builtin.module(cse")


def test_target_goes_to_passes_that_do_not_name_one() -> None:
    driver = TpuOptMain(
        ["--target", "v4", "-p", "lower-to-tiles,cse,lower-to-vregs{target=v6e}", "x.mlir"]
    )
    named = [getattr(step, "target", None) for step in driver.pipeline.passes]
    assert named == ["v4", None, "v6e"]


def test_default_target_is_v5e() -> None:
    (step,) = TpuOptMain(["-p", "lower-to-tiles"]).pipeline.passes
    assert getattr(step, "target", None) == "v5e"


@pytest.mark.parametrize(
    "name", ["argmax_ax1_f32.stablehlo.mlir", "two_calls.hlo", "argmax_ax1_f32.mosaic.mlir"]
)
def test_every_kind_of_file_is_read(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(DATA / name)]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("builtin.module") and "func.func" in captured.out
    assert ("several-calls" in captured.err) == name.startswith("two_calls")


def test_failure_keeps_standard_output_and_the_output_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "in.mlir", tmp_path / "out.mlir"
    source.write_text("func.func @f(\n")
    target.write_text("before")
    assert main([str(source), "-o", str(target)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"{source}:2:1: error: ")
    assert target.read_text() == "before"


@pytest.mark.parametrize(
    "words",
    [
        ["--target", "v1"],
        ["-p", "nothing"],
        ["-p", "cse{"],
        ["/no/such/file"],
        ["--load-pass-plugin"],
    ],
)
def test_wrong_usage_is_status_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("error: ")


@pytest.mark.parametrize("words", [["-t", "riscv-asm"], ["-p", "mlir-opt"]])
def test_what_fails_of_xdsl_is_no_defect_of_ours(
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    source = tmp_path / "in.mlir"
    source.write_text("func.func @f(%a: memref<8x128xf32>) { func.return }")
    assert main([str(source), *words]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and "of xDSL failed" in captured.err
    assert "internal" not in captured.err


@pytest.mark.parametrize(
    ("step", "known"), [("lower-to-tiles", "it has target"), ("cse", "it has none")]
)
def test_unknown_pass_options_are_told_with_those_known(
    step: str, known: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["-p", f"{step}{{colour=red}}"]) == 2
    assert f"{step} has no option 'colour' [invalid-pass-option]\nnote: {known}" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("pipeline", "told"),
    [
        ("lower-to-dma{target=1}", "lower-to-dma: expected str for option 'target', got 1"),
        ("lower-to-dma{target}", "lower-to-dma: expected str for option 'target', got nothing"),
        ("cse{", "expected argument name in the pipeline cse{"),
    ],
)
def test_what_pipelines_may_not_say(
    pipeline: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["-p", pipeline]) == 2
    assert capsys.readouterr().err.startswith(f"error: {told} [")


def test_timing_and_intermediate_forms_go_to_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.mlir"
    source.write_text("%0 = arith.constant 0 : i32\n")
    assert main([str(source), "-p", "cse,cse", "--time-passes", "--print-between-passes"]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("builtin.module") == 1
    assert "IR after cse" in captured.err and " s\n" in captured.err


def test_steps_of_whole_lowerings_are_shown_and_timed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kernel = str(EXAMPLES / "matmul.pallas.mlir")
    words = [kernel, "-p", "lower-to-dma,lower-to-vregs"]
    assert main(words) == 0
    plain = capsys.readouterr()
    assert main([*words, "--mlir-print-ir-after-all", "--mlir-timing"]) == 0
    shown = capsys.readouterr()
    assert shown.out == plain.out and plain.err == ""
    steps = [name for form in STEPS.values() for name in form]
    assert re.findall(r"^// IR after ([\w-]+):", shown.err, re.M) == steps
    assert re.findall(r"^([\w-]+): [\d.]+ s$", shown.err, re.M) == steps
    forms = re.findall(r'tpu.form = "(\w+)"', shown.err)
    assert list(dict.fromkeys(forms)) == ["mosaic", "dma", "tiles", "vreg"]
    _, _, last = shown.err.rpartition(f"// IR after {steps[-1]}:\n")
    assert last.strip() == plain.out.strip()


@pytest.mark.parametrize(
    ("flag", "told"),
    [("--print-op-generic", '"builtin.module"'), ("--print-debuginfo", "loc(")],
)
def test_steps_are_shown_as_the_result_is_printed(
    flag: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = str(EXAMPLES / "add.stablehlo.mlir")
    assert main([kernel, "--cse", flag, "--print-between-passes"]) == 0
    shown = capsys.readouterr()
    assert told in shown.out and shown.err.strip() == f"// IR after cse:\n{shown.out.strip()}"


@pytest.mark.parametrize("flag", ["--allow-unregistered-dialect", "--no-implicit-module"])
def test_flags_about_text_leave_programs_alone(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program = str(EXAMPLES / "add.stablehlo.mlir")
    assert main([program]) == 0
    plain = capsys.readouterr().out
    assert main([program, flag]) == 0
    assert capsys.readouterr().out == plain


def test_a_program_describes_a_bare_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    bare, program = (str(DATA / f"io_alias.{kind}.mlir") for kind in ("mosaic", "stablehlo"))
    assert main([bare, "-p", "lower-to-dma"]) == 2
    assert "or name it with --like" in capsys.readouterr().err
    assert main(["--like", program, bare, "-p", "lower-to-dma"]) == 0
    described = capsys.readouterr().out.split("\n")[0]
    assert main([program, "-p", "lower-to-dma"]) == 0
    assert capsys.readouterr().out.split("\n")[0] == described
    assert main(["--like", bare, bare]) == 2
    assert "does not say how its kernel is called" in capsys.readouterr().err


def test_help_says_what_our_passes_do(capsys: pytest.CaptureFixture[str]) -> None:
    plugin = str(EXAMPLES / "passes" / "exact_division.py")
    with pytest.raises(SystemExit):
        main(["--help", "--load-pass-plugin", plugin])
    text = capsys.readouterr().out
    for name, factory in get_all_passes().items():
        summary = (factory().__doc__ or "").split(".")[0]
        assert re.search(rf"^  {name} +\S", text, re.M), summary
    assert "exact-division" in text and "canonicalize," in text
    assert max(map(len, text.splitlines())) < 110


def test_split_input_keeps_line_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "in.mlir"
    source.write_text(
        "%0 = arith.constant 0 : i32\n// -----\n\n"
        '%0 = "arith.constant"() : () -> i8\n// -----\n%0 = arith.constant 1 : i32\n'
    )
    assert main([str(source), "--split-input-file"]) == 1
    captured = capsys.readouterr()
    assert captured.out.count("builtin.module") == 2
    assert captured.err.startswith(f"{source}:4:1: error: 'arith.constant'")


def test_every_pass_of_the_registry_loads_under_its_name() -> None:
    for name, factory in get_all_passes().items():
        assert factory().name == name


def test_every_dialect_loads_under_its_name() -> None:
    for name, factory in (get_own_dialects() | get_derived_dialects()).items():
        assert factory().name == name
