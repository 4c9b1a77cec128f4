"""The process in which the TPU compiler runs: a line of answer for each line on standard input.

See `pallasite.frontend.aot`. Both are JSON; whatever libtpu prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def main() -> None:
    """Answers requests until standard input ends."""
    # libtpu writes where it likes, so the answer has a channel of its own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The verdict on a request, or why there is none."""
    try:
        import jax
        import libtpu  # noqa: F401  # pyright: ignore[reportMissingImports, reportUnusedImport]
        import numpy as np
        from jax.experimental import topologies
        from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
    except ImportError as error:
        return {
            "error": "missing-extra",
            "message": f"the TPU compiler needs JAX and libtpu ({error}); install pallasite[aot]",
        }
    jax.config.update("jax_enable_x64", True)
    topology = request["topology"]
    try:
        description = topologies.get_topology_desc(platform="tpu", topology_name=topology)
    except Exception as error:
        return {
            "error": "unknown-topology",
            "message": f"the TPU compiler does not know topology {topology!r} ({_short(error)})",
        }
    if not request["everywhere"]:
        return _compile(request, SingleDeviceSharding(description.devices[0]))
    mesh = Mesh(np.array(description.devices), ("device",))
    return _compile(request, NamedSharding(mesh, PartitionSpec()))


def _compile(request: dict[str, Any], sharding: Any) -> dict[str, Any]:
    """The verdict for one device, or for each of those that `sharding` has a mesh of."""
    import jax
    from jax.sharding import NamedSharding

    results = [jax.ShapeDtypeStruct(shape, _dtype(name)) for shape, name in request["results"]]
    call = jax.ffi.ffi_call(
        "tpu_custom_call",
        results,
        has_side_effect=request["side_effect"],
        input_output_aliases=dict(request["aliases"]),
        custom_call_api_version=1,
        legacy_backend_config=request["config"],
    )
    operands = [
        jax.ShapeDtypeStruct(shape, _dtype(name), sharding=_in_memory(sharding, kind))
        for (shape, name), kind in zip(request["operands"], request["memories"], strict=True)
    ]
    if isinstance(sharding, NamedSharding):
        whole = sharding.spec
        call = jax.shard_map(
            call, mesh=sharding.mesh, in_specs=whole, out_specs=whole, check_vma=False
        )
    began = time.perf_counter()
    try:
        # Arguments that the kernel only writes to must stay, so none are pruned; a kernel without
        # arguments learns its device from the results.
        traced = jax.jit(call, keep_unused=True, out_shardings=sharding).trace(*operands)
        program = traced.lower(lowering_platforms=("tpu",)).compile()
    except Exception as error:
        # Whatever it raises is its verdict.
        took = time.perf_counter() - began
        return {"accepted": False, "message": str(error), "seconds": took, "code_bytes": None}
    took = time.perf_counter() - began
    sizes = program.memory_analysis()
    code = sizes.generated_code_size_in_bytes if sizes is not None else None
    return {"accepted": True, "message": "", "seconds": took, "code_bytes": code}


def _in_memory(sharding: Any, kind: str | None) -> Any:
    return sharding if kind is None else sharding.with_memory_kind(kind)


def _dtype(name: str) -> Any:
    import ml_dtypes
    import numpy as np

    return np.dtype(getattr(ml_dtypes, name, name))


def _short(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


if __name__ == "__main__":
    main()
