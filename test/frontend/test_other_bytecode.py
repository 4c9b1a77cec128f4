"""Bytecode of versions that JAX does not write for kernels, which jaxlib reads for us."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from pallasite import frontend
from pallasite.diagnostics import ReadError
from pallasite.dialects.kernel_call import call_of
from pallasite.frontend.other_bytecode import as_text

from ..printing import printed

KERNEL = "flash_bf16"
ADVICE = "install pallasite[jax], or give the module as text"


def _bytecode(module: Any, version: int) -> bytes:
    stream = io.BytesIO()
    module.operation.write_bytecode(stream, version)
    return stream.getvalue()


@pytest.mark.parametrize("version", [1, 6])
@pytest.mark.parametrize("form", ["registered", "serialized"])
def test_kernels_are_those_of_the_text(jaxlib: Any, data: Path, form: str, version: int) -> None:
    text = (data / f"{KERNEL}.mosaic.mlir").read_text()
    module = jaxlib.parse(text)
    if form == "serialized":
        module = jaxlib.serialize(module, 9)
    ours = frontend.read(_bytecode(module, version), "kernel.bin")
    expected = frontend.read(module.operation.get_asm(enable_debug_info=True), "kernel.mlir")
    assert printed(ours, generic=True) == printed(expected, generic=True)


def test_artifacts_and_bytecode_of_programs(jaxlib: Any, data: Path) -> None:
    stablehlo = pytest.importorskip("jaxlib.mlir.dialects.stablehlo")
    stablehlo.register_dialect(jaxlib.context)
    source = (data / f"{KERNEL}.stablehlo.mlir").read_text()
    program = jaxlib.parse(source)
    bytecode = _bytecode(program, 6)
    with jaxlib.context:
        artifact = stablehlo.serialize_portable_artifact(
            program, stablehlo.get_current_version(), allow_other_dialects=True
        )
    expected = frontend.read(source, "program.mlir")
    for other in (artifact, bytecode):
        module = frontend.read(other, "program.bin")
        assert printed(module, generic=True) == printed(expected, generic=True)
        assert call_of(module) == call_of(expected)


def test_malformed_bytecode_ends_in_a_diagnostic(jaxlib: Any, data: Path) -> None:
    module = jaxlib.parse((data / f"{KERNEL}.mosaic.mlir").read_text())
    whole = _bytecode(module, 6)
    with pytest.raises(ReadError, match=r"of version 6: attempting to parse \d+ bytes") as caught:
        frontend.read(whole[: len(whole) // 2], "kernel.bin")
    assert caught.value.code == "corrupt-bytecode"
    assert str(caught.value.location) == "kernel.bin"


def test_without_jaxlib_the_message_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jaxlib.py").write_text("raise ImportError('no jaxlib here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ReadError, match="version 6 needs jaxlib to be read") as caught:
        as_text(b"ML\xefR\x0dMLIR\0", "kernel.bin")
    assert caught.value.code == "unsupported-bytecode"
    assert [note.message for note in caught.value.notes] == [ADVICE]


def test_unknown_versions_are_told() -> None:
    with pytest.raises(ReadError, match="expected MLIR bytecode version 0 to 6, got 7"):
        frontend.read(b"ML\xefR\x0fMLIR\0", "kernel.bin")
