"""MLIR as jaxlib has it, with the dialects of Mosaic."""

from __future__ import annotations

from typing import Any

import pytest


def mosaic_context(*, unregistered: bool = False) -> Any:
    """A context of jaxlib that knows Mosaic's dialects, and takes `unregistered` operations or not.

    Skips the test where jaxlib is not installed.
    """
    ir = pytest.importorskip("jaxlib.mlir.ir")
    tpu = pytest.importorskip("jaxlib.mosaic.python.tpu")
    extension = pytest.importorskip("jaxlib.mlir._mlir_libs._jax_mlir_ext")
    registry = ir.DialectRegistry()
    extension.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    tpu.register_dialect(context)
    context.load_all_available_dialects()
    context.allow_unregistered_dialects = unregistered
    return context


def is_taken(text: str) -> bool:
    """Whether jaxlib parses and verifies a module of registered operations."""
    ir = pytest.importorskip("jaxlib.mlir.ir")
    with mosaic_context(), ir.Location.unknown():
        try:
            ir.Module.parse(text)
        except ir.MLIRError:
            return False
    return True
