"""jaxlib as the judge of what we read, print and write."""

from __future__ import annotations

from typing import Any

import pytest


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
