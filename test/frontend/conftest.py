"""Real kernels for the tests of the ways in."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

DATA = Path(__file__).parent.parent / "data"
KERNELS = (
    "argmax_ax1_f32",
    "cast_int4_bfloat16",
    "cf_switch_vec",
    "cf_while",
    "cmp_select_bf16",
    "emit_pipeline_mm",
    "flash_bf16",
    "io_alias",
    "remote_ring_logical",
)


@pytest.fixture
def data() -> Path:
    return DATA


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest) -> str:
    """The name of each real kernel in turn."""
    return str(request.param)


def _body(name: str) -> bytes:
    program = (DATA / f"{name}.stablehlo.mlir").read_text()
    match = re.search(r'backend_config = "((?:[^"\\]|\\.)*)"', program)
    if match is None:
        raise ValueError(f"no call in {name}")
    config = json.loads(re.sub(r"\\([0-9A-F]{2})", lambda m: chr(int(m[1], 16)), match[1]))
    return base64.b64decode(config["custom_call_config"]["body"])


@pytest.fixture
def body() -> Callable[[str], bytes]:
    """The Mosaic bytecode of a kernel, found without the code under test."""
    return _body
