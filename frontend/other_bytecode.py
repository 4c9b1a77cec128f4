"""Bytecode of versions that JAX does not write for kernels, and StableHLO's portable artifacts.

MLIR's tools write version 6 (`mlir-opt --emit-bytecode`, `write_bytecode` in Python), `jax.export`
artifacts of StableHLO. From version 5 on operations hold their properties as each operation's
definition has them, which only MLIR knows: jaxlib reads them and prints text. It does so in a
process of its own, because MLIR may abort on what is malformed.
"""

from __future__ import annotations

import re
import subprocess
import sys

from pallasite.diagnostics import Note, ReadError, SourceLocation
from pallasite.frontend.bytecode_cursor import Cursor
from pallasite.frontend.bytecode_format import MAGIC, VERSION

CHILD = "pallasite.frontend.bytecode_child"
MISSING = 3
"""Exit status of the child where jaxlib is not installed."""
NEWEST = 6
"""The newest version of MLIR's bytecode that there is."""


def is_other_bytecode(data: bytes, name: str) -> bool:
    """Whether `data`, which is bytecode, has another version than JAX's kernels."""
    return _version(data, name) != VERSION


def as_text(data: bytes, name: str) -> str:
    """The module in `data` as text, locations included; `name` is the file that errors speak of.

    Raises `ReadError` where it is malformed, of an unknown version, or jaxlib is not installed.
    """
    version = _version(data, name)
    if version > NEWEST:
        raise _unsupported(name, f"expected MLIR bytecode version 0 to {NEWEST}, got {version}")
    child = subprocess.run([sys.executable, "-m", CHILD], input=data, capture_output=True)
    if child.returncode == 0:
        return child.stdout.decode()
    said = _sentence(child.stderr.decode(errors="replace"))
    if child.returncode == MISSING:
        error = _unsupported(name, f"MLIR bytecode version {version} needs jaxlib to be read")
        error.notes.append(Note("install pallasite[jax], or give the module as text"))
        raise error
    raise ReadError(
        "corrupt-bytecode",
        f"expected a module in MLIR bytecode of version {version}: {said}",
        SourceLocation(name),
    )


def _version(data: bytes, name: str) -> int:
    return Cursor(data, name, len(MAGIC)).varint()


def _sentence(said: str) -> str:
    """What MLIR says first, without the places it has no name for; it says nothing of an abort."""
    lines = (
        re.sub(r'.*error: ("-":0:0: )?', "", line)
        for line in said.splitlines()
        if "error: " in line
    )
    return next(lines, "the reader ended")


def _unsupported(name: str, message: str) -> ReadError:
    return ReadError("unsupported-bytecode", message, SourceLocation(name))
