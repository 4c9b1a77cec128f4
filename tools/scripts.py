"""The console scripts. A tool takes longer to be imported than many a kernel to be lowered: whoever
stops it meanwhile hears as little as later, when `reporting.guarded` looks after it."""

from __future__ import annotations

from importlib import import_module


def tpu_opt() -> int:
    """`tpu-opt`: the exit status."""
    return _run("tpu_opt")


def tpu_run() -> int:
    """`tpu-run`: the exit status."""
    return _run("tpu_run")


def tpu_aot() -> int:
    """`tpu-aot`: the exit status."""
    return _run("tpu_aot")


def _run(tool: str) -> int:
    try:
        return import_module(f"pallasite.tools.{tool}").main()
    except KeyboardInterrupt:
        return 130
