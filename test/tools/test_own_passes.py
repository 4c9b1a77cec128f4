"""Passes that users bring: read from files, run first or in between, executed and blamed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from importlib.util import module_from_spec, spec_from_file_location
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.passes import ModulePass
from xdsl.universe import Universe

from pallasite import api
from pallasite.diagnostics import Diagnostic, UsageError
from pallasite.dialects import arith
from pallasite.dialects.kernel import form_of
from pallasite.lowering.pipelines import LowerToDmaPass, LowerToTilesPass
from pallasite.lowering.vectors_to_tiles import converter, rules
from pallasite.passes import plugins
from pallasite.targets import TARGETS
from pallasite.tools import tpu_aot, tpu_opt, tpu_run

EXAMPLES = Path(__file__).parents[2] / "examples" / "passes"
KERNEL = EXAMPLES / "quarter.pallas.mlir"
PLUGIN = EXAMPLES / "exact_division.py"
FORMS = ("pallas", "mosaic", "vreg")
X = np.arange(256 * 128, dtype=np.float32).reshape(256, 128)

HEADER = """
from dataclasses import dataclass
from xdsl.passes import ModulePass
from pallasite.dialects import arith

"""
ONES = (
    HEADER
    + """
class OnesPass(ModulePass):
    name = "ones"

    def apply(self, ctx, op):
        for div in [d for d in op.walk() if isinstance(d, arith.DivfOp)]:
            div.operands[1] = div.operands[0]
"""
)
STOPS = (
    HEADER
    + """
class StepwisePass(ModulePass):
    name = "stepwise"

    def apply(self, ctx, op):
        self.apply_admitted(ctx, op, lambda rewrite, op: True)

    def apply_admitted(self, ctx, op, admits):
        for div in [d for d in op.walk() if isinstance(d, arith.DivfOp)]:
            if admits("ones", div):
                div.operands[1] = div.operands[0]
"""
)
FAILS = (
    HEADER
    + """
class FailingPass(ModulePass):
    name = "failing"

    def apply(self, ctx, op):
        return [].pop()
"""
)
FAILING_LINE = FAILS.splitlines().index("        return [].pop()") + 1
SPOILS = (
    HEADER
    + """
@dataclass(frozen=True)
class SpoilingPass(ModulePass):
    name = "spoiling"
    times: int = 1

    def apply(self, ctx, op):
        for div in [d for d in op.walk() if isinstance(d, arith.DivfOp)]:
            div.operands = [*div.operands, *[div.operands[0]] * self.times]
"""
)


DOUBLES = (
    HEADER
    + """
class DoublingPass(ModulePass):
    name = "doubling"

    def apply(self, ctx, op):
        copy = next(inner for inner in op.walk() if inner.name == "tpu.enqueue_dma")
        copy.parent.insert_op_before(copy.clone(), copy)
"""
)


def plugin(folder: Path, text: str) -> str:
    path = folder / "mine.py"
    path.write_text(text)
    return f"--load-pass-plugin={path}"


def result(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = tpu_run.main([str(KERNEL), "--format", "json", *words])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("before", ["", "lower-to-dma,", "lower-to-vregs,"])
def test_tpu_opt_runs_passes_of_a_file(capsys: pytest.CaptureFixture[str], before: str) -> None:
    words = [str(KERNEL), "--load-pass-plugin", str(PLUGIN), "-p", f"{before}exact-division"]
    assert not tpu_opt.main(words)
    out = capsys.readouterr().out
    assert "arith.mulf" in out and "arith.divf" not in out


def test_a_pass_of_a_file_has_a_flag_and_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(KERNEL), plugin(tmp_path, SPOILS), "--spoiling=times=0", "-p", "cse"]
    assert not tpu_opt.main(words)
    assert "arith.divf" in capsys.readouterr().out


def test_what_is_not_valid_is_shown_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(KERNEL), plugin(tmp_path, SPOILS), "--spoiling", "--print-between-passes"]
    assert tpu_opt.main(words) == 1
    shown, _, refused = capsys.readouterr().err.partition(": error: ")
    assert shown.startswith("// IR after spoiling:\n") and "spoiling" in refused


@pytest.mark.parametrize(
    ("pipeline", "form"),
    [
        *product(("exact-division", "builtin.module(exact-division,cse)"), FORMS),
        *product(("lower-to-mosaic,exact-division",), FORMS[1:]),
    ],
)
def test_tpu_run_runs_them_before_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pipeline: str, form: str
) -> None:
    out = tmp_path / "out.npz"
    np.savez(tmp_path / "in.npz", X)
    code, told = result(
        capsys, "--inputs", str(tmp_path / "in.npz"), "--outputs", str(out), "--form", form,
        "--load-pass-plugin", str(PLUGIN), "-p", pipeline,
    )  # fmt: skip
    assert (code, told["status"]) == (0, "ok")
    np.testing.assert_array_equal(np.load(out)["arr_0"], X / 4)


def test_passes_may_not_go_beyond_the_form(capsys: pytest.CaptureFixture[str]) -> None:
    code, told = result(capsys, "-p", "lower-to-tiles", "--form", "dma")
    assert code == 2 and told["diagnostics"][0]["code"] == "form-passed"


@pytest.mark.parametrize("pipeline", ["ones", "lower-to-dma,ones", "lower-to-vregs,ones"])
def test_verify_each_names_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pipeline: str
) -> None:
    code, told = result(
        capsys, plugin(tmp_path, ONES), "-p", pipeline, "--form", "vreg", "--verify-each"
    )
    assert code == 1
    assert told["diagnostics"][0]["message"].startswith("ones changes output 0")


def test_verify_each_names_their_rewrite_where_they_can_stop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = result(capsys, plugin(tmp_path, STOPS), "-p", "stepwise", "--verify-each")
    assert code == 1
    note = told["diagnostics"][0]["notes"][0]
    assert note["message"] == "the first wrong rewrite is ones of arith.divf"
    assert "quarter.pallas.mlir:8" in note["location"]


def test_verify_each_tells_a_finding_that_was_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "-p", "lower-to-dma,doubling", "--form", "dma", "--verify-each", "--check", "sync"
    code, told = result(capsys, plugin(tmp_path, DOUBLES), *words)
    assert code == 1
    found = told["diagnostics"][0]
    assert found["code"] == "new-finding"
    assert found["message"].startswith("doubling causes a finding: ")


def test_what_they_leave_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = result(capsys, plugin(tmp_path, SPOILS), "-p", "spoiling")
    assert code == 1
    assert told["diagnostics"][0]["notes"][-1]["message"] == "after pass spoiling"


@pytest.mark.parametrize("tool", [tpu_opt, tpu_run, tpu_aot])
def test_their_errors_are_theirs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tool: Any
) -> None:
    assert tool.main([str(KERNEL), plugin(tmp_path, FAILS), "-p", "failing"]) == 1
    err = capsys.readouterr().err
    assert f"mine.py:{FAILING_LINE}" in err and "pass failing: IndexError" in err
    assert "defect" not in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "defines no ModulePass"),
        ("import nothing_of_that_name", "No module named"),
        ("def (", "mine.py:1"),
        (HEADER + "class P(ModulePass):\n    name = 'cse'", "called 'cse' already"),
        (ONES + ONES.replace("OnesPass", "Other"), "two passes called 'ones'"),
    ],
)
def test_files_without_usable_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    for main in (tpu_opt.main, tpu_run.main, tpu_aot.main):
        assert main([str(KERNEL), plugin(tmp_path, text), "-p", "cse"]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("-p", "none-such"), "unknown-pass"),
        (("-p", "lower-to-dma{"), "invalid-pipeline"),
        (("-p", "lower-to-dma{foo=1}"), "invalid-pass-option"),
        (("-p", "cse,lower-to-dma{target=v5e target=v6e}"), "invalid-pass-option"),
        (("--load-pass-plugin", "/nowhere/mine.py"), "pass-plugin"),
        (("--load-pass-plugin", str(KERNEL)), "pass-plugin"),
    ],
)
def test_wrong_words_are_told(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: str
) -> None:
    for tool in (tpu_opt, tpu_run, tpu_aot):
        assert tool.main([str(KERNEL), *words]) == 2
        assert code in capsys.readouterr().err


@dataclass(frozen=True)
class Forms(ModulePass):
    """Notes which form it saw."""

    name = "forms"
    seen: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        SEEN.append((form_of(op), sum(isinstance(o, arith.DivfOp) for o in op.walk())))


SEEN: list[tuple[str, int]] = []


def test_in_python() -> None:
    module = api.parse(KERNEL.read_text())
    SEEN.clear()
    passes = (Forms(), LowerToDmaPass(), Forms(), LowerToTilesPass(), Forms())
    lowered = api.lower(module, "vreg", passes=passes)
    assert SEEN == [("pallas", 1), ("dma", 1), ("tiles", 1)]
    assert (form_of(module), form_of(lowered)) == ("pallas", "vreg")
    np.testing.assert_array_equal(api.run(module, [X], form="vreg", passes=passes)[0], X / 4)


def test_of_a_whole_lowering_every_step_is_told() -> None:
    names: list[str] = []
    api.lower(
        api.parse(KERNEL.read_text()), "tiles", passes=(LowerToTilesPass(),),
        after_pass=lambda step, form, module: names.append(f"{step.name} {form}"),
    )  # fmt: skip
    assert names[0] == "lower-to-mosaic mosaic" and names[-1] == "legalize-shuffles tiles"


def test_passes_do_not_hide_what_the_compiler_refuses() -> None:
    module = api.parse(KERNEL.read_text().replace("xf32", "xf16"))
    with pytest.raises(Diagnostic) as plain:
        api.lower(module, "tiles")
    with pytest.raises(Diagnostic) as passed:
        api.lower(module, "tiles", passes=(LowerToTilesPass(),))
    assert (passed.value.code, passed.value.message) == (plain.value.code, plain.value.message)


def test_installed_packages_offer_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "entry_points", lambda group: [ENTRY])
    assert plugins.installed_passes()["forms"]() is Forms
    wrong = EntryPoint("them", f"{__name__}:SEEN", plugins.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [wrong])
    with pytest.raises(UsageError, match="expected a Universe"):
        plugins.installed_passes()


UNIVERSE = Universe(all_passes={"forms": lambda: Forms})
ENTRY = EntryPoint("them", f"{__name__}:UNIVERSE", plugins.GROUP)


PRODUCTS = """
pallas.kernel @products grid (i = 2)
  input %x: tensor<256x128xi32> in vmem block (128, 128) at (i, 0)
  output %y: tensor<256x128xi32> in vmem block (128, 128) at (i, 0)
{
  %a = pallas.load %x[...] : memref<128x128xi32, #tpu.memory_space<vmem>>
  %four = arith.constant dense<4> : vector<128x128xi32>
  %three = arith.constant dense<3> : vector<128x128xi32>
  %b = arith.muli %a, %four : vector<128x128xi32>
  %c = arith.muli %b, %three : vector<128x128xi32>
  %less = arith.constant dense<-4> : vector<128x128xi32>
  %d = arith.muli %c, %less : vector<128x128xi32>
  pallas.store %d, %y[...] : memref<128x128xi32, #tpu.memory_space<vmem>>
}"""


def test_a_rule_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).integers(-(2**31), 2**31, (256, 128)).astype(np.int32)
    module = api.parse(PRODUCTS)
    assert rules.FAMILIES  # registered before, they stay when the registry of this test goes
    monkeypatch.setattr(converter._RULES, "of", dict(converter._RULES.of))
    spec = spec_from_file_location("shifts", EXAMPLES / "shifts.py")
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(module_from_spec(spec))
    tiles = api.lower(module, form="tiles", target="v6e")
    made = [
        type(op)
        for op in tiles.walk()
        if isinstance(op, arith.ShLIOp | arith.MuliOp) and isinstance(op.result.type, VectorType)
    ]
    assert made == [arith.ShLIOp, arith.MuliOp, arith.MuliOp]
    for target in ("v4", "v6e"):
        (y,) = api.run(module, [x], form="vreg", target=target)
        np.testing.assert_array_equal(y, x * -48)


@pytest.mark.parametrize("passes", ["ones,", ""])
def test_a_target_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], passes: str
) -> None:
    small = "TARGETS['small'] = replace(TARGETS['v6e'], name='small', scoped_vmem_bytes=2**16)"
    path = tmp_path / "small.py"
    path.write_text(
        "from dataclasses import replace\nfrom pallasite.targets import TARGETS\n"
        + (ONES if passes else "")
        + small
    )
    words = [str(KERNEL), "--load-pass-plugin", str(path), "-p"]
    try:
        assert tpu_run.main([*words, f"{passes}cse", "--target", "small"]) == 1
        assert "small has 65536 for a kernel" in capsys.readouterr().err
        assert tpu_opt.main([*words, "lower-to-vregs", "--target", "small"]) == 0
    finally:
        TARGETS.pop("small", None)


def test_a_file_with_a_rule_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rules.FAMILIES
    monkeypatch.setattr(converter._RULES, "of", dict(converter._RULES.of))
    words = [str(KERNEL), "--load-pass-plugin", str(EXAMPLES / "shifts.py")]
    assert tpu_opt.main([*words, "-p", "lower-to-tiles"]) == 0
    assert converter._RULES.of[arith.MuliOp].__module__.startswith("pallasite_plugin")
    capsys.readouterr()


PAGE = (EXAMPLES.parents[1] / "docs" / "extending.md").read_text()


@pytest.mark.parametrize("line", re.findall(r"^\$ (tpu-.*)$", PAGE, re.MULTILINE))
def test_commands_of_the_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    monkeypatch.chdir(EXAMPLES)
    tool, *words = line.split()
    main = {"tpu-opt": tpu_opt.main, "tpu-run": tpu_run.main}[tool]
    assert not main(words), capsys.readouterr().err


def test_python_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    exec(compile(text, "docs/extending.md", "exec"), {})


def test_a_file_of_passes_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none.py"
    assert tpu_run.main([str(KERNEL), "--load-pass-plugin", str(path)]) == 2
    told = f"error: cannot read {path}: No such file or directory [pass-plugin]\n"
    assert capsys.readouterr().err == told
