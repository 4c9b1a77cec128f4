"""The process in which jaxlib reads bytecode: bytes on standard input, text on standard output.

See `pallasite.frontend.other_bytecode`. What cannot be read is told on standard error.
"""

from __future__ import annotations

import sys
from typing import Any

from pallasite.frontend.other_bytecode import MISSING

ARTIFACT = b"StableHLO_v"
"""How the producer's name begins in StableHLO's portable artifacts, whose dialect is VHLO."""


def main() -> int:
    """Reads one module; 0 if its text was written."""
    try:
        from jaxlib.mlir import ir
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext
        from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo
        from jaxlib.mosaic.python import tpu
    except ImportError as error:
        print(error, file=sys.stderr)
        return MISSING
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    mhlo.register_mhlo_dialect(context)
    for dialect in (chlo, sdy, stablehlo, tpu):
        dialect.register_dialect(context)
    context.load_all_available_dialects()
    context.allow_unregistered_dialects = True
    data = sys.stdin.buffer.read()
    try:
        # The producer's name is the first string behind magic and version.
        if data[5:].startswith(ARTIFACT):
            module: Any = stablehlo.deserialize_portable_artifact(context, data)
        else:
            with context:
                module = ir.Module.parse(data)
    except Exception as error:
        print(error, file=sys.stderr)
        return 1
    sys.stdout.write(module.operation.get_asm(enable_debug_info=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
