"""`tpu-run`: files in and out, the JSON summary, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pallasite.tools import array_files, reporting, tpu_aot, tpu_run
from pallasite.tools.compare import difference

DATA = Path(__file__).parent.parent / "data"
ALIAS = str(DATA / "io_alias.stablehlo.mlir")
KEYS = {"status", "form", "target", "seconds", "ops", "diagnostics", "memory"}
VMEM = "#tpu.memory_space<vmem>"
MEMREF, VECTOR = f"memref<8x128xf32, {VMEM}>", "vector<8x128xf32>"


def kernel(body: str, arguments: str = f"%x: {MEMREF}, %o: {MEMREF}") -> str:
    return f"""
    func.func @kernel({arguments}) attributes {{dimension_semantics = [],
        scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
        tpu.core_type = #tpu.core_type<tc>}} {{
      %c0 = arith.constant 0 : index
      {body}
      return
    }}"""


COPY = kernel(f"""
      %a = vector.load %x[%c0, %c0] : {MEMREF}, {VECTOR}
      tpu.vector_store %o[%c0, %c0], %a {{strides = array<i32>}} : {MEMREF}, {VECTOR},
""")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> tuple[int, str, str]:
        try:
            code = tpu_run.main(arguments)
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def save(path: Path, *arrays: Any) -> str:
    np.savez(path, *arrays)
    return str(path)


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_json_has_its_keys(run: Any) -> None:
    code, out, err = run(ALIAS, "--form", "mosaic", "--format", "json")
    summary = json.loads(out)
    assert (code, err) == (0, "")
    assert summary.keys() >= KEYS
    assert summary["status"] == "ok" and summary["diagnostics"] == []
    assert summary["seconds"].keys() == {"parse", "lower", "run"}
    assert summary["ops"]["mosaic"] > 0
    assert summary["memory"].keys() == {"vmem_peak_bytes", "smem_peak_bytes"}


def test_ops_are_counted_per_form(run: Any) -> None:
    _, out, _ = run(ALIAS, "--form", "vreg", "--format", "json")
    assert json.loads(out)["ops"].keys() == {"mosaic", "dma", "tiles", "vreg"}


def test_inputs_and_outputs(run: Any, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((8, 128)).astype(np.float32)
    inputs, outputs = save(tmp_path / "in.npz", x), tmp_path / "out"
    code, _, _ = run(write(tmp_path / "copy.mlir", COPY), "--inputs", inputs,
                     "--outputs", str(outputs), "--form", "mosaic")  # fmt: skip
    assert code == 0
    np.testing.assert_array_equal(np.load(outputs)["arr_0"], x)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.int4])
def test_types_numpy_cannot_name_are_stored_raw(tmp_path: Path, dtype: Any) -> None:
    from pallasite.interpreter.run import Outcome

    array = np.arange(8).astype(dtype)
    array_files.save_arrays(str(tmp_path / "out.npz"), Outcome([[array]], {}, 0.0))
    (stored,) = array_files.load_arrays(str(tmp_path / "out.npz"))
    assert stored.dtype == f"V{array.dtype.itemsize}"
    assert stored.tobytes() == array.tobytes()


def test_devices_slice_and_join(run: Any, tmp_path: Path) -> None:
    x = np.arange(16 * 128, dtype=np.float32).reshape(16, 128)
    outputs = str(tmp_path / "out.npz")
    file = write(tmp_path / "copy.mlir", COPY)
    arguments = [file, "--inputs", save(tmp_path / "in.npz", x), "--form", "mosaic"]
    code, _, _ = run(*arguments, "--outputs", outputs, "--devices", "2")
    assert code == 0
    np.testing.assert_array_equal(np.load(outputs)["arr_0"], x)
    code, _, err = run(*arguments, "--devices", "3")
    assert code == 2 and "does not divide by 3 devices" in err


def test_scalars_go_to_every_device() -> None:
    assert array_files.split(np.float32(3), 4) == [3] * 4


def test_like_describes_a_bare_kernel(run: Any) -> None:
    bare = str(DATA / "io_alias.mosaic.mlir")
    code, _, err = run(bare, "--form", "mosaic")
    assert code == 2 and "does not record its operands" in err
    code, _, _ = run(bare, "--like", ALIAS, "--form", "mosaic")
    assert code == 0


def test_without_a_form_what_is_beyond_tiles_runs_as_it_is(run: Any) -> None:
    registers = str(DATA / "io_alias.vreg.mlir")
    for words, form in (
        ((registers, "--like", ALIAS), "vreg"),
        ((str(DATA / "io_alias.mosaic.mlir"), "--like", ALIAS), "tiles"),
        ((ALIAS, "-p", "lower-to-vregs"), "vreg"),
    ):
        code, out, _ = run(*words, "--format", "json")
        assert (code, json.loads(out)["form"]) == (0, form)
    code, _, err = run(registers, "--like", ALIAS, "--form", "tiles")
    assert code == 2 and "form-passed" in err


def test_call_picks_one(run: Any) -> None:
    program = str(DATA / "two_calls.stablehlo.mlir")
    assert run(program, "--call", "1", "--form", "mosaic")[0] == 0
    code, _, err = run(program, "--call", "2", "--form", "mosaic")
    assert code == 2 and "one of 2 custom calls, got 2" in err


def test_the_first_of_several_calls_is_told(run: Any) -> None:
    program = str(DATA / "two_calls.stablehlo.mlir")
    code, _, err = run(program, "--form", "mosaic")
    assert code == 0 and "warning: the program calls 2 kernels; this is call 0" in err
    assert "note: call 1 is" in err
    assert "several-calls" not in run(program, "--call", "0", "--form", "mosaic")[2]


def test_verify_each_runs_every_form(run: Any) -> None:
    code, out, _ = run(ALIAS, "--form", "vreg", "--verify-each", "--format", "json")
    assert code == 0 and "vreg" in json.loads(out)["ops"]


@pytest.mark.parametrize("driver", ["compiled", "reference"])
def test_drivers(run: Any, driver: str) -> None:
    assert run(ALIAS, "--form", "mosaic", "--driver", driver)[0] == 0


# What is not ok


def test_a_table_of_random_numbers_is_told(run: Any) -> None:
    program = str(DATA / "old_jax" / "jax_0_9_2.mlir")
    code, _, err = run(program, "--form", "mosaic")
    assert code == 1 and "[out-of-bounds]" in err and "--inputs NPZ gives others" in err


def test_rejected_kernels_exit_1_with_json_and_a_line(run: Any, tmp_path: Path) -> None:
    text = COPY.replace("f32", "f16")
    file = write(tmp_path / "half.mlir", text)
    inputs = save(tmp_path / "in.npz", np.zeros((8, 128), np.float16))
    code, out, err = run(file, "--inputs", inputs, "--format", "json")
    summary = json.loads(out)
    assert code == 1 and summary["status"] == "rejected"
    assert summary["diagnostics"][0]["code"] == "element-type"
    assert f"{file}:7:" in err and "error: vectors of f16" in err


def test_warnings_are_told_and_change_no_status(run: Any, tmp_path: Path) -> None:
    text = write(
        tmp_path / "k.mlir",
        """pallas.kernel @copy grid (i = 2 arbitrary, j = 2 parallel)
          input %x: tensor<16x256xf32> in vmem block (8, 128) at (i, j)
          output %o: tensor<16x256xf32> in vmem block (8, 128) at (i, j)
        {
          %a = pallas.load %x[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
          pallas.store %a, %o[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
        }""",
    )
    code, out, err = run(text, "--form", "dma", "--format", "json")
    (warning,) = json.loads(out)["diagnostics"]
    assert (code, warning["severity"], warning["code"]) == (0, "warning", "parallel-not-first")
    assert f"{text}:1:1: warning: grid axis 1 is parallel but comes behind axis 0" in err


@pytest.mark.parametrize("form", ["pallas", "mosaic", "dma", "tiles", "vreg"])
@pytest.mark.parametrize("start, first", [(0, 8), (8, 0)])
def test_what_nobody_writes_of_an_output(
    form: str, start: int, first: int, run: Any, tmp_path: Path
) -> None:
    text = write(
        tmp_path / "k.mlir",
        f"""pallas.kernel @half
          input %x: tensor<8x128xf32> in vmem
          output %o: tensor<16x128xf32> in vmem
        {{
          %a = pallas.load %x[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
          pallas.store %a, %o[ds({start}, 8), :] : memref<16x128xf32, #tpu.memory_space<vmem>>
        }}""",
    )
    code, out, err = run(text, "--form", form, "--check", "init", "--format", "json")
    (warning,) = json.loads(out)["diagnostics"]
    assert (code, warning["severity"], warning["code"]) == (0, "warning", "unwritten-output")
    found = f"1024 of 2048 elements of output 0 (%o) were never written, the first at [{first}, 0]"
    assert f"{text}:1:1: warning: {found}" in err
    assert "unwritten" not in run(text, "--form", form)[2]


@pytest.mark.parametrize("form", ["pallas", "mosaic", "dma", "tiles", "vreg"])
@pytest.mark.parametrize("rows", [16, 14])
def test_a_block_that_no_array_has(form: str, rows: int, run: Any, tmp_path: Path) -> None:
    text = write(
        tmp_path / "k.mlir",
        f"""pallas.kernel @shifted grid (i = 2 arbitrary)
          input %x: tensor<{rows}x128xf32> in vmem block (8, 128) at (i + 1, 0)
          output %o: tensor<{rows}x128xf32> in vmem block (8, 128) at (i, 0)
        {{
          %a = pallas.load %x[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
          pallas.store %a, %o[...] : memref<8x128xf32, #tpu.memory_space<vmem>>
        }}""",
    )
    code, _, err = run(text, "--form", form)
    assert code == 1 and "input 0" in err and f"[{rows}, 128]" in err
    assert "note: at least one element of every block must lie inside the array" in err


def test_failing_kernels_exit_1(run: Any, tmp_path: Path) -> None:
    wait = """
      %n = arith.constant 1 : i32
      "tpu.region"() ({
        %s = tpu.sem_alloc : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.sem_wait %s, %n : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>
        tpu.yield
      }) : () -> ()"""
    inputs = save(tmp_path / "in.npz", np.zeros((8, 128), np.float32))
    code, out, err = run(write(tmp_path / "wait.mlir", kernel(wait)), "--inputs", inputs,
                         "--form", "mosaic", "--format", "json")  # fmt: skip
    assert code == 1 and json.loads(out)["status"] == "failed" and "deadlock" in err


def test_endless_loops_meet_the_step_limit(run: Any, tmp_path: Path) -> None:
    loop = """
      scf.while : () -> () {
        %t = arith.constant true
        scf.condition(%t)
      } do {
        scf.yield
      }"""
    inputs = save(tmp_path / "in.npz", np.zeros((8, 128), np.float32))
    code, _, err = run(write(tmp_path / "loop.mlir", kernel(loop)), "--inputs", inputs,
                       "--form", "mosaic", "--max-steps", "10000")  # fmt: skip
    assert code == 1 and "exceeds 10000 steps" in err


def test_memory_limit(run: Any) -> None:
    code, _, err = run(ALIAS, "--form", "mosaic", "--max-memory", "1000")
    assert code == 1 and "more than the limit of 1000" in err


def test_findings_exit_3(run: Any, tmp_path: Path) -> None:
    text = COPY.replace("vector.load %x", "vector.load %o").replace(", %a {", ", %b {")
    text = text.replace("tpu.vector_store", f"%b = arith.addf %a, %a : {VECTOR}\n tpu.vector_store")
    inputs = save(tmp_path / "in.npz", np.zeros((8, 128), np.float32))
    code, out, err = run(write(tmp_path / "init.mlir", text), "--inputs", inputs,
                         "--form", "mosaic", "--check", "init", "--format", "json")  # fmt: skip
    assert code == 3 and json.loads(out)["status"] == "finding" and "init" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.mlir"], "missing.mlir"),
        ([ALIAS, "--target", "v9"], "got 'v9'"),
        ([ALIAS, "--check", "fun"], "got 'fun'"),
        ([ALIAS, "--form", "fun"], "invalid choice"),
        ([ALIAS, "--inputs", "missing.npz"], "missing.npz"),
        ([ALIAS, "--inputs", ALIAS], "it is no archive of arrays; make one with numpy.savez"),
        ([ALIAS, "--seed", "-1"], "expected a seed of at least 0, got -1"),
        ([ALIAS, "--devices", "0"], "expected 1 to 16384 devices, got 0"),
        ([ALIAS, "--devices", "1000000"], "expected 1 to 16384 devices"),
        ([ALIAS, "--form", "mosaic", "--outputs", "no/such/folder/o.npz"], "no/such/folder"),
        ([ALIAS, "--outputs", ""], "expected a file for --outputs, got ''"),
        ([ALIAS, "--outputs", "-"], "expected a file for --outputs, got '-'"),
        ([ALIAS, "--outputs", str(DATA)], "Is a directory"),
        ([ALIAS, "--form", "mosaic", "--outputs", "/dev/full"], "cannot write /dev/full: No"),
        ([ALIAS, "--like", str(DATA / "io_alias.mosaic.mlir")], "does not say how its kernel is"),
        ([ALIAS, "--call", "7"], "expected the number of one of 1 custom calls, got 7"),
    ],
)
def test_wrong_usage_exits_2(run: Any, arguments: list[str], message: str) -> None:
    code, _, err = run(*arguments)
    assert code == 2 and message in err and "Traceback" not in err


def test_standard_input_is_read_once(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "read_input", lambda _: Path(ALIAS).read_bytes())
    code, _, err = run("-", "--like", "-")
    assert code == 2 and "expected a file for the kernel or for --like, got -" in err
    assert run("-", "--like", ALIAS, "--form", "mosaic")[0] == 0


def test_standard_input_and_help_of_the_script() -> None:
    command = [sys.executable, "-m", "pallasite.tools.tpu_run"]
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert "--verify-each" in done.stdout
    done = subprocess.run(
        [*command, "--form", "mosaic"],
        input=Path(ALIAS).read_text(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout.startswith("ok: mosaic form on v5e")
    done = subprocess.run([*command, "-"], input="garbage", capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("<stdin>:1:")


def test_differences_between_answers() -> None:
    a = np.linspace(-1, 1, 64, dtype=np.float32)
    assert difference(a, a + np.float32(1e-6)) is None
    changed = difference(a, a + np.float32(1e-2))
    assert changed == "relative error 0.0197, first at [0]: -1.0 became -0.9900000095367432"
    assert difference(a, a[:32]) == "float32[64] became float32[32]"
    nan = np.where(a > 0.9, np.nan, a)
    changed = difference(a, nan.astype(np.float32))
    assert changed is not None and changed.startswith("NaN or infinity in different places")
    changed = difference(np.array([1, 2]), np.array([1, 3]))
    assert changed == "1 of 2 elements differ, first at [1]: 2 became 3"
    assert difference(np.array([1, 2]), np.array([1, 3]), np.array([True, False])) is None
    infinite = np.array([np.inf, 1], np.float32)
    assert difference(infinite, -infinite) is not None


def test_bool_results_of_a_program_are_bools(run: Any, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((32, 128)).astype(np.float32)
    outputs = str(tmp_path / "out.npz")
    code, _, _ = run(str(DATA / "bool_output.stablehlo.mlir"), "--outputs", outputs,
                     "--inputs", save(tmp_path / "in.npz", x), "--form", "mosaic")  # fmt: skip
    assert code == 0 and np.load(outputs)["arr_0"].dtype == np.bool_


@pytest.mark.parametrize("tool", [tpu_run, tpu_aot])
def test_help_says_what_is_assumed_and_the_exit_status(tool: Any, capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        tool.main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert "exit status: 0 if all went well" in text
    for option in tool.parser()._actions:
        assert option.help
        if (
            option.default
            and isinstance(option.default, str)
            and option.dest not in ("help", "version", "file")
        ):
            assert f"(default: {option.default})" in text
