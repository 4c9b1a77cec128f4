"""What the pages say of JAX programs: their code runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

import pallasite  # noqa: E402
from pallasite.dialects.kernel import form_of  # noqa: E402
from pallasite.targets import TARGETS  # noqa: E402

pytestmark = pytest.mark.jax

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGE = (ROOT / "docs" / "jax.md").read_text()
EXTENDING = (ROOT / "docs" / "extending.md").read_text()
X = np.arange(256 * 256, dtype=np.float32).reshape(256, 256)
Y = X[::-1].copy()


def code_of(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


def code_with(page: str, words: str) -> str:
    (code,) = (code for code in code_of(page) if words in code)
    return code


def indented_with(page: str, words: str) -> str:
    """The lines of code in `page`, set off by spaces, that hold `words`."""
    blocks = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", page, re.MULTILINE)
    (code,) = (block for block in blocks if words in block)
    return re.sub(r"^ {4}", "", code, flags=re.MULTILINE)


def run(code: str, **names: Any) -> dict[str, Any]:
    exec(compile(code, "page", "exec"), names)
    return names


def add(x: Any, y: Any) -> Any:
    def body(x: Any, y: Any, o: Any) -> None:
        o[...] = x[...] + y[...]

    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)


def test_the_kernel_of_the_readme_is_its_example() -> None:
    code = code_with(README, "as_text()")
    text = run(code, jax=jax, jnp=jnp, pl=pl, x=X, y=Y)["text"]
    example = pallasite.parse((ROOT / "examples" / "add.stablehlo.mlir").read_text())
    for module in (pallasite.parse(text), example):
        (out,) = pallasite.run(module, [X, Y])
        np.testing.assert_array_equal(out, X + Y)


def test_programs_of_the_readme() -> None:
    made = run(code_with(README, "pallasite.jax.simulate("), f=lambda x: add(x, x), x=X)
    np.testing.assert_array_equal(made["y"], X + X)
    assert form_of(made["module"]) == "pallas"


def test_programs_of_the_page() -> None:
    made = run(code_with(PAGE, "pallasite.jax.simulate("), f=lambda x: add(x, x), x=X)
    np.testing.assert_array_equal(made["y"], X + X)


def test_kernels_of_the_page() -> None:
    code = code_with(PAGE, "pallasite.jax.trace(")
    made = run(code, pallasite=pallasite, f=add, x=X, y=Y)
    np.testing.assert_array_equal(made["out"], X + Y)


def test_all_code_of_the_page_is_run() -> None:
    assert len(code_of(PAGE)) == 3, "a test of the new code belongs here"


def test_the_fixture_of_the_page(tmp_path: Path) -> None:
    code = "import pytest\n\n" + code_with(PAGE, "tpu_simulator")
    kernel = """import jax, jax.numpy as jnp
    from jax.experimental import pallas as pl
    def body(o):
        o[...] = jnp.ones(o.shape, o.dtype)
    assert pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32))()[0, 0] == 1
"""
    assert code.rstrip().endswith("...")
    file = tmp_path / "test_of_page.py"
    file.write_text(code.rstrip().removesuffix("...") + kernel)
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", str(file))
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True)
    assert "2 passed" in done.stdout, done.stdout


def test_passes_in_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = ROOT / "examples" / "passes"
    monkeypatch.chdir(examples)
    monkeypatch.syspath_prepend(str(examples))

    def quarter(x: Any, o: Any) -> None:
        o[...] = x[...] / 4

    def f(x: Any) -> Any:
        return pl.pallas_call(quarter, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    passes = run(code_with(EXTENDING, "ExactDivisionPass()"))["passes"]
    code = indented_with(EXTENDING, "pallasite.jax.simulate(")
    made = run(code, pallasite=pallasite, passes=passes, f=f, x=X)
    np.testing.assert_array_equal(made["y"], X / 4)


def test_a_target_in_a_program() -> None:
    try:
        run(indented_with(EXTENDING, "TARGETS["))
        with pytest.raises(pallasite.Diagnostic, match="small has 1048576 for a kernel"):
            with pallasite.jax.simulate(target="small"):
                add(np.zeros((1024, 256), np.float32), np.zeros((1024, 256), np.float32))
        with pallasite.jax.simulate(target="small"):
            np.testing.assert_array_equal(add(X, Y), X + Y)
    finally:
        TARGETS.pop("small", None)
