"""The conformance kernels: a folder that tests may be given, and what it expects of a run.

The folder, `PALLASITE_CORPUS` or `../shared/corpus` beside the project, has `index.json`, per
kernel a folder with the program that JAX serialised and its inputs and expected results, and
`check`, whose comparison is the judge here too. Without the folder its tests are skipped.
"""

from __future__ import annotations

import importlib.util
import json
import os
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from pallasite.dialects.kernel_call import BOOLEANS, call_of
from pallasite.tools.array_files import device_inputs, save_arrays

ROOT = Path(__file__).resolve().parents[1]
CORPUS = Path(os.environ.get("PALLASITE_CORPUS", ROOT.parent / "shared" / "corpus"))


def loaded(name: str, path: Path) -> Any:
    """The Python file of the corpus at `path`, which need not end in `.py`, as a module."""
    spec = importlib.util.spec_from_loader(name, SourceFileLoader(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def index() -> dict[str, dict[str, Any]]:
    """The entries of the corpus by name; none without a corpus."""
    path = CORPUS / "index.json"
    return {c["name"]: c for c in json.loads(path.read_text())} if path.exists() else {}


def program(name: str) -> Path:
    """The program around the kernel; it does not exist where JAX itself refuses the kernel."""
    return CORPUS / name / "kernel.stablehlo.mlir"


EVERY = index()
CASES = {name: case for name, case in EVERY.items() if program(name).exists()}
"""The kernels that JAX makes a program of."""


def accepted(name: str, target: str) -> bool:
    """Whether the reference compiler takes the kernel."""
    return CASES[name]["reference_verdict"].get(target) == "accepted"


def inputs_of(name: str, module: Any) -> list[Any]:
    """Operands as `api.simulate` takes them: a list of arrays, or one such list per device.

    They are the corpus's, else random ones.
    """
    path, devices = CORPUS / name / "inputs.npz", CASES[name]["devices"]
    parts = device_inputs(module, str(path) if path.exists() else None, devices)
    return parts if devices > 1 else parts[0]


@cache
def _compare() -> Any:
    return loaded("corpus_check", CORPUS / "check").compare


def difference(name: str, module: Any, outcome: Any, folder: Path) -> str | None:
    """What differs from the expected results, as the corpus compares; `folder` is scratch."""
    if not (CORPUS / name / "expected.npz").exists() or CASES[name]["group"] == "prng":
        return None
    call, out = call_of(module), folder / "out.npz"
    save_arrays(str(out), outcome, call.settings.get(BOOLEANS, ()) if call else ())
    return _compare()(CASES[name], CORPUS / name, out)
