"""Real kernels for the tests of the ways in, and jaxlib as the judge of our reading and writing."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


class Jaxlib:
    """MLIR with the dialects of jaxlib."""

    def __init__(self) -> None:
        from jaxlib.mlir import ir
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext
        from jaxlib.mosaic.python import tpu

        registry = ir.DialectRegistry()
        _jax_mlir_ext.register_dialects(registry)
        self.context = ir.Context()
        self.context.append_dialect_registry(registry)
        tpu.register_dialect(self.context)
        self.context.load_all_available_dialects()
        self.context.allow_unregistered_dialects = True
        self._ir = ir

    def parse(self, source: bytes | str) -> Any:
        with self.context:
            return self._ir.Module.parse(source)

    def run(self, module: Any, pipeline: str) -> Any:
        from jaxlib.mlir.passmanager import PassManager

        with self.context:
            PassManager.parse(f"builtin.module({pipeline})").run(module.operation)
        return module

    def deserialize(self, source: bytes | str) -> Any:
        options = "serialize=false keep-version-attr=false"
        return self.run(self.parse(source), f"mosaic-serde{{{options}}}")

    def serialize(self, module: Any, version: int) -> Any:
        return self.run(module, f"mosaic-serde{{serialize=true target-version={version}}}")

    @staticmethod
    def generic(module: Any, *, locations: bool = False) -> str:
        return module.operation.get_asm(print_generic_op_form=True, enable_debug_info=locations)


@pytest.fixture(scope="session")
def jaxlib() -> Jaxlib:
    pytest.importorskip("jaxlib.mosaic.python.tpu")
    return Jaxlib()
