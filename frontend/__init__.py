"""Ways in: every file that holds a TPU kernel becomes a module of registered operations.

What a file is, its content tells: MLIR text of a kernel module, Mosaic bytecode, a StableHLO
module (text, bytecode or a portable artifact) or an HLO dump. From the latter two the kernel is
taken out of its custom call, and how the program calls it is recorded on the module
(`pallasite.dialects.kernel_call`).
"""

from __future__ import annotations

import re
import warnings

from xdsl.dialects.builtin import ModuleOp

from pallasite.diagnostics import (
    Diagnostic,
    KernelWarning,
    Note,
    ReadError,
    SourceLocation,
    UsageError,
)
from pallasite.dialects import make_context
from pallasite.dialects.kernel_call import set_call
from pallasite.frontend import hlo, stablehlo
from pallasite.frontend.bytecode_reader import is_bytecode, read_bytecode
from pallasite.frontend.calls import AS_TEXT, CallSite, first_of, may_call, pick, unpack
from pallasite.frontend.other_bytecode import as_text, is_other_bytecode
from pallasite.frontend.scan import Tokens, scan
from pallasite.frontend.text import read_text
from pallasite.frontend.versions import is_serialized, upgrade

__all__ = ["is_kernel_text", "read"]

_STABLE_OPERATION = re.compile(r'"stable_mosaic\.\w+\.\w+"\(')
_KINDS = (
    "a file holds a kernel as MLIR text or Mosaic bytecode, or a StableHLO or HLO program "
    "that calls it"
)
_OF_JAX = f"JAX writes a program: {AS_TEXT}"
_OF_PYTHON = "a program in Python runs as it is: python -m pallasite.jax FILE.py"


def read(data: str | bytes, name: str = "<input>", call: int | None = 0) -> ModuleOp:
    """The kernel module in `data`; `call` picks one of the custom calls of a program, None the
    first one, with a warning if there are others.

    `name` is the file that diagnostics speak of. Raises `ReadError` for what is none of the above,
    `UsageError` where there is no such call.
    """
    if isinstance(data, bytes):
        if is_bytecode(data) and not is_other_bytecode(data, name):
            _check_bare(call, name)
            return _from_bytecode(data, name)
        data = _as_text(data, name)
    sites = _find_calls(data, name)
    if sites is None:
        _check_bare(call, name)
        return _from_text(data, name)
    site = pick(sites, call or 0, name)
    if call is None and len(sites) > 1:
        warnings.warn(KernelWarning(first_of(sites)), stacklevel=2)
    kernel, description = unpack(site)
    try:
        module = read_kernel(kernel, name)
    except Diagnostic as error:
        error.notes.append(Note(f"in the kernel of custom call {call or 0}", site.location))
        raise
    set_call(module, description)
    return module


def is_kernel_text(data: bytes, name: str = "<input>") -> bool:
    """Whether `data` is MLIR text of a kernel, and neither bytecode nor a program with calls."""
    return not is_bytecode(data) and _find_calls(_decode(data, name), name) is None


def read_kernel(data: str | bytes, name: str = "<input>") -> ModuleOp:
    """The module in Mosaic bytecode or in MLIR text."""
    if isinstance(data, bytes) and is_bytecode(data) and not is_other_bytecode(data, name):
        return _from_bytecode(data, name)
    return _from_text(_as_text(data, name) if isinstance(data, bytes) else data, name)


def _check_bare(call: int | None, name: str) -> None:
    if call:
        raise UsageError(
            "no-such-call",
            f"expected call 0 of a file that holds a kernel and no calls, got {call}",
            SourceLocation(name),
        )


def _find_calls(text: str, name: str) -> list[CallSite] | None:
    """The custom calls of a program, None for text that is no program."""
    if text.lstrip().startswith("HloModule"):
        return hlo.find_calls(Tokens(text, name, angles=False)) if may_call(text) else []
    if not any(mark in text for mark in stablehlo.DIALECTS):
        return None
    if not stablehlo.is_program(scan(text, name)):
        return None
    return stablehlo.find_calls(Tokens(text, name, angles=True)) if may_call(text) else []


def _from_bytecode(data: bytes, name: str) -> ModuleOp:
    module = read_bytecode(data, name)
    upgrade(module)
    return module


def _from_text(text: str, name: str) -> ModuleOp:
    stable = _STABLE_OPERATION.search(text) is not None
    try:
        module = read_text(text, name, make_context(allow_unregistered=True) if stable else None)
    except ReadError as error:
        # What begins a program in Python may look like MLIR, as its docstring does.
        python = name.endswith(".py")
        if python or _is_beginning(text, error.location):
            hints = [_KINDS, _OF_JAX, *([_OF_PYTHON] if python else [])]
            error.notes += [Note(hint) for hint in hints]
        raise
    if is_serialized(module):
        upgrade(module)
    return module


def _is_beginning(text: str, where: SourceLocation | None) -> bool:
    """Whether `where` is the first word of `text`, or its end if there is none."""
    space = text[: len(text) - len(text.lstrip())]
    first = (space.count("\n") + 1, len(space) - space.rfind("\n"))
    return where is not None and (where.line, where.column) == first


def _as_text(data: bytes, name: str) -> str:
    return as_text(data, name) if is_bytecode(data) else _decode(data, name)


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReadError(
            "unknown-format",
            "expected Mosaic bytecode (4d 4c ef 52) or UTF-8 text, got other bytes "
            f"at byte {error.start}",
            SourceLocation(name),
        ) from error
