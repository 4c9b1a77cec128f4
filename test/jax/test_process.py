"""Whole processes: `PALLASITE_SIMULATE`, `python -m pallasite.jax`, the pytest fixture."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

pytestmark = pytest.mark.jax

PROGRAM = """
import sys, threading
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

def body(x, o):
    o[...] = x[pl.ds(int(sys.argv[1]), 8), :] + 1.0

def run():
    x = jnp.zeros((8, 128))
    out = pl.pallas_call(body, out_shape=x)(x)
    print(pltpu.get_tpu_info().chip_version, float(out.sum()), flush=True)

run()
thread = threading.Thread(target=run)
thread.start()
thread.join()
"""

TEST = """
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

def body(x, o):
    o[...] = x[...] + 1.0

def test_platform_is_chosen_before():
    chosen = jax.config.jax_platforms
    jax.devices()
    assert jax.config.jax_platforms == chosen

def test_kernel():
    x = jnp.zeros((8, 128))
    assert pl.pallas_call(body, out_shape=x)(x).sum() == 1024
    assert pltpu.get_tpu_info().generation == 6
"""


def python(
    *arguments: str, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "JAX_PLATFORMS": "cpu", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_module_runs_a_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = python("-m", "pallasite.jax", str(program), "0")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "v5e 1024.0\nv5e 1024.0\n"
    words = "-m", "pallasite.jax", "-m", "program", "0"
    done = python(*words, folder=tmp_path, PALLASITE_SIMULATE="v6e:vreg")
    assert done.stdout == "v6e 1024.0\nv6e 1024.0\n", done.stderr


def test_environment_switches_a_program_over(tmp_path: Path) -> None:
    """Through the plugins of JAX; the metadata here stands for that of an installed Pallasite."""
    metadata = tmp_path / "plugin.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 0\n")
    (metadata / "entry_points.txt").write_text("[jax_plugins]\nhere = pallasite.jax.plugin\n")
    program = tmp_path / "program.py"
    text = PROGRAM.replace("import jax,", "import numpy as np, jax,")
    program.write_text(text.replace("jnp.zeros((8, 128))", "np.ones((8, 128), np.float32) - 1"))
    done = python(str(program), "0", PALLASITE_SIMULATE="v6e", PYTHONPATH=str(tmp_path))
    assert done.stdout == "v6e 1024.0\nv6e 1024.0\n", done.stderr
    done = python(str(program), "0", PYTHONPATH=str(tmp_path))
    assert "Only interpret mode is supported on CPU" in done.stderr
    done = python(str(program), "0", PALLASITE_SIMULATE="v9", PYTHONPATH=str(tmp_path))
    assert "PALLASITE_SIMULATE: error: expected a target of v4" in done.stderr
    assert "configuration error" not in done.stderr and done.returncode == 1


def test_diagnostics_of_a_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("int(sys.argv[1])", "pl.program_id(0) + 4").replace(
        "out_shape=x", "out_shape=x, grid=(1,)"))  # fmt: skip
    done = python("-m", "pallasite.jax", str(program))
    assert done.returncode == 1
    assert done.stderr.startswith(f"{program}:8:"), done.stderr
    assert "Traceback" not in done.stderr
    done = python("-m", "pallasite.jax", str(program), PALLASITE_SIMULATE="v9")
    assert done.returncode == 1
    assert "expected a target" in done.stderr


PRODUCT = """
import jax.numpy as jnp
x = jnp.full((8, 128), 1.001)
print(float((x @ x.T)[0, 0]) == 128.0)
"""


def test_products_of_a_process_are_those_of_a_tpu_unless_it_says_otherwise(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PRODUCT)
    for variable, rounded in (("v6e", "True"), ("v6e:tiles:cpu", "False")):
        done = python("-m", "pallasite.jax", str(program), PALLASITE_SIMULATE=variable)
        assert done.stdout == f"{rounded}\n", done.stderr
    done = python("-m", "pallasite.jax", str(program), PALLASITE_SIMULATE="v6e:tiles:gpu")
    assert done.returncode == 1
    assert "expected products of cpu or tpu" in done.stderr
    assert "Traceback" not in done.stderr


RACE = """
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
def body(x, o, buffer, done):
    copy = pltpu.make_async_copy(x, buffer, done)
    copy.start()
    o[...] = buffer[...]
    copy.wait()
x = jnp.ones((8, 128))
pl.pallas_call(body, out_shape=x, in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
               scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA])(x)
"""


@pytest.mark.parametrize(("variable", "status"), [("v5e", 0), ("v5e:::race", 1)])
def test_checks_of_a_process(variable: str, status: int, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(RACE)
    done = python("-m", "pallasite.jax", str(program), PALLASITE_SIMULATE=variable)
    assert done.returncode == status, done.stderr
    assert ("[data-race]" in done.stderr) == bool(status)


def test_usage() -> None:
    assert python("-m", "pallasite.jax").returncode == 2
    told = python("-m", "pallasite.jax", "--help").stdout
    assert told.startswith("usage:") and "PALLASITE_SIMULATE=TARGET" in told
    option = python("-m", "pallasite.jax", "--target", "v6e", "program.py")
    assert option.returncode == 2 and "PALLASITE_SIMULATE=TARGET" in option.stderr
    missing = python("-m", "pallasite.jax", "missing.py")
    assert missing.returncode == 2 and missing.stderr.startswith("error: cannot read missing.py")


@pytest.mark.parametrize("name", ["missing", "package", "package.missing", ".module"])
def test_no_such_module(name: str, tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    done = python("-m", "pallasite.jax", "-m", name, folder=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"error: there is no module {name!r} to run\n")


def test_folders_are_programs_by_their_main(tmp_path: Path) -> None:
    done = python("-m", "pallasite.jax", str(tmp_path))
    assert done.returncode == 2 and done.stderr.endswith("it has no __main__.py\n")
    (tmp_path / "__main__.py").write_text("import sys\nprint(sys.argv[1])")
    assert python("-m", "pallasite.jax", str(tmp_path), "word").stdout == "word\n"
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text("import not_installed")
    done = python("-m", "pallasite.jax", "-m", "package", folder=tmp_path)
    assert done.returncode == 1 and "No module named 'not_installed'" in done.stderr


def test_without_jax_processes_say_so(tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("raise ImportError")
    program = tmp_path / "program.py"
    program.write_text("print('ran')")
    done = python("-m", "pallasite.jax", str(program), PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr.startswith("error: pallasite.jax needs JAX") and "Traceback" not in done.stderr
    )


def test_a_wrong_environment_is_told_by_pytest(tmp_path: Path) -> None:
    plugin = ("-p", "pallasite.jax.pytest_plugin", "-p", "no:cacheprovider")
    done = python("-m", "pytest", *plugin, str(tmp_path), PALLASITE_SIMULATE="v9")
    assert (done.returncode, done.stdout) == (pytest.ExitCode.USAGE_ERROR, "")
    assert done.stderr.startswith(
        "ERROR: error: expected a target of v4, v5e, v5p, v6e, v7x, got 'v9'"
    )


def test_environment_switches_pytest_over(tmp_path: Path) -> None:
    test = tmp_path / "test_kernel.py"
    test.write_text(TEST)
    plugin = ("-p", "pallasite.jax.pytest_plugin", "-p", "no:cacheprovider")
    switched = {"PALLASITE_SIMULATE": "v6e", "JAX_PLATFORMS": ""}
    done = python("-m", "pytest", "-q", *plugin, str(test), **switched)
    assert done.returncode == 0, done.stdout
    assert python("-m", "pytest", "-q", *plugin, str(test)).returncode == 1


def double(x: Any) -> Any:
    from jax.experimental import pallas as pl

    def body(x: Any, o: Any) -> None:
        o[...] = x[...] * 2.0

    return pl.pallas_call(body, out_shape=x)(x)


def test_fixture(tpu_simulator: Any) -> None:
    x = jax.numpy.ones((8, 128))
    np.testing.assert_array_equal(double(x), 2 * x)
    assert tpu_simulator.settings.target == "v5e"


@pytest.mark.parametrize("tpu_simulator", ["v6e", {"target": "v6e"}], indirect=True)
def test_fixture_with_target(tpu_simulator: Any) -> None:
    from jax.experimental.pallas import tpu as pltpu

    assert pltpu.get_tpu_info().generation == 6
