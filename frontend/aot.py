"""Asks the real TPU compiler, on a machine without a TPU, whether it accepts a kernel.

JAX's ahead-of-time compilation loads libtpu and compiles for a described chip. The kernel travels
as in JAX: bytecode in stable form, base64 in the configuration of a `tpu_custom_call`, the other
settings of the original call around it. The compiler may abort its process (arithmetic that a
chip lacks does), so it runs in a child process. It is only asked; nothing of it is looked into.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO, Any, Self, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    ComplexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute
from xdsl.utils.type import get_element_type_or_self

from pallasite.diagnostics import Diagnostic, Note, Unsupported, UsageError
from pallasite.dialects.kernel import FORM, describe_kernel
from pallasite.dialects.kernel_call import (
    BOOLEAN_OPERANDS,
    BOOLEANS,
    CALL,
    CONFIG,
    EFFECTS,
    NAME,
    Call,
    call_of,
)
from pallasite.dialects.subcores import first_function
from pallasite.dialects.tpu import ReductionKind, ReductionKindAttr
from pallasite.dialects.types import memory_space
from pallasite.frontend.bytecode_writer import write_bytecode
from pallasite.frontend.calls import BODY
from pallasite.frontend.versions import NEWEST, VERSION, serialize

CHILD = "pallasite.frontend.aot_child"
SINGLE_BUFFERING = 9
"""Modules of older versions mean single buffers where newer ones ask for them."""
WINDOW_SETTINGS = ("allow_input_fusion",)
"""Settings that speak of the windows of a kernel, which the lower forms do not have."""
_OURS = (CONFIG, BOOLEANS, BOOLEAN_OPERANDS, NAME, EFFECTS, "metadata")
"""Settings that the compiler does not read from beside the kernel's configuration."""

_ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


@dataclass(frozen=True)
class Verdict:
    """What the compiler said: `message` is empty if it accepted."""

    accepted: bool
    message: str
    seconds: float
    code_bytes: int | None

    def as_json(self) -> dict[str, object]:
        """The verdict as `tpu-aot --format json` prints it."""
        return {
            "accepted": self.accepted,
            "message": self.message,
            "seconds": self.seconds,
            "code_bytes": self.code_bytes,
        }


def compile_ahead_of_time(
    module: ModuleOp,
    *,
    topology: str,
    layout_passes: bool,
    timeout: float = 600.0,
    compiler: Compiler | None = None,
) -> Verdict:
    """The compiler's verdict on `module`, whose call must be recorded (`tpu.call`).

    `layout_passes` lets the compiler choose layouts, which forms above `vreg` need; of kernels of
    SparseCores, their call says whether it does. `timeout` is in seconds. `compiler` is the process
    to ask, without it one just for this. Raises a `Diagnostic` where there is no answer: no call,
    no JAX or libtpu, an unknown topology, semaphores that come from other kernels or go to them.
    """
    call = call_of(module)
    if call is None:
        raise UsageError(
            "unknown-operands", "the module does not record the types of its operands and results"
        )
    spaces = _spaces(module)
    if "semaphore_mem" in spaces:
        raise UsageError(
            "not-alone",
            f"operand {spaces.index('semaphore_mem')} of the kernel is a semaphore, which the "
            "compiler knows within a program only",
            notes=[Note("ask about a kernel that waits for what it starts")],
        )
    request = {
        "config": json.dumps(_configuration(module, call, layout_passes)),
        "operands": [_array(t) for t in call.operands],
        "memories": _memories(call, spaces),
        "results": [_array(t) for t in call.results],
        "aliases": list(call.aliases),
        "side_effect": call.effects or not call.results,
        "topology": topology,
        "everywhere": _names_devices(module),
    }
    return (compiler.ask if compiler is not None else _ask)(request, timeout)


def _configuration(module: ModuleOp, call: Call, layout_passes: bool) -> dict[str, Any]:
    """The call's own settings, with the module as body."""
    own = call.config
    config = {k: v for k, v in own.items() if k not in (BODY, *WINDOW_SETTINGS)}
    if _has_windows(module):
        config.update({k: own[k] for k in WINDOW_SETTINGS if k in own})
    body = base64.b64encode(kernel_bytecode(module)).decode()
    if "sparse_core_config" in call.settings:
        # Kernels of SparseCores are the same text in every form.
        layout_passes = bool(own.get("needs_layout_passes", False))
    config |= {BODY: body, "serialization_format": 1, "needs_layout_passes": layout_passes}
    siblings = {key: value for key, value in call.settings.items() if key not in _OURS}
    return {CONFIG: config, **siblings}


def _spaces(module: ModuleOp) -> list[str | None]:
    """The memory spaces of what the kernel gets from its program, results included."""
    func = first_function(module)
    if func is None:
        return []
    kernel = describe_kernel(func)
    return [memory_space(argument.type) for argument in (*kernel.prefetch, *kernel.operands)]


def _memories(call: Call, spaces: list[str | None]) -> list[str | None]:
    """The kind of memory of each operand, as JAX names it; None is the device's own."""
    if not spaces:
        return [None] * len(call.operands)
    # The call passes the sizes of the grid that the kernel learns when it runs before all else.
    bounds = len(call.operands) + len(call.results) - len(spaces)
    kinds = ["pinned_host" if space == "host" else None for space in spaces]
    return [*[None] * bounds, *kinds][: len(call.operands)]


def _names_devices(module: ModuleOp) -> bool:
    """Whether the kernel copies to devices, or signals some, by number: then it is compiled for all
    of the topology, since the compiler refuses the number of a device that there is not."""
    return any(getattr(op, "device_id", None) is not None for op in module.walk())


def _has_windows(module: ModuleOp) -> bool:
    return any("window_params" in op.attributes for op in module.body.block.ops)


def kernel_bytecode(module: ModuleOp) -> bytes:
    """`module` as the compiler wants it: stable form, its newest names, nothing of ours."""
    kernel = module.clone()
    for key in (CALL, FORM):
        kernel.attributes.pop(key, None)
    rename_reductions(kernel)
    recorded = module.attributes.get(VERSION)
    old = isinstance(recorded, IntegerAttr) and recorded.value.data < SINGLE_BUFFERING
    version = SINGLE_BUFFERING - 1 if old and _has_windows(module) else NEWEST
    return write_bytecode(serialize(kernel, version))


def rename_reductions(module: ModuleOp) -> None:
    """Says `maxf`, `maxsi`, ... for `max`, and so for `min`, by element type.

    jaxlib 0.10.2 knows only the names without a type, the compiler only those with one.
    """
    for op in module.walk():
        kind = op.properties.get("kind")
        if op.name == "tpu.all_reduce" and isinstance(kind, ReductionKindAttr):
            if kind.data in (ReductionKind.MAX, ReductionKind.MIN):
                element = get_element_type_or_self(op.operands[0].type)
                suffix = "si" if isinstance(element, IntegerType) else "f"
                op.properties["kind"] = ReductionKindAttr(ReductionKind(kind.data + suffix))


def _array(kind: TensorType[Attribute]) -> tuple[list[int], str]:
    """Shape and element type, the latter as NumPy and ml_dtypes name it."""
    return list(kind.get_shape()), _dtype(kind.element_type)


def _dtype(kind: Attribute) -> str:
    match kind:
        case IntegerType():
            width = kind.width.data
            if width == 1:
                return "bool"
            return f"{'u' if kind.signedness.data == Signedness.UNSIGNED else ''}int{width}"
        case BFloat16Type():
            return "bfloat16"
        case ComplexType():
            return f"complex{2 * cast(AnyFloat, kind.element_type).bitwidth}"
        case _:
            # f32 is float32, f8E4M3FN is float8_e4m3fn.
            digits, letter, rest = kind.name[1:].partition("E")
            return f"float{digits}" + (f"_e{rest.lower()}" if letter else "")


def _ask(request: dict[str, Any], timeout: float) -> Verdict:
    """Asks a compiler of its own."""
    with Compiler() as compiler:
        return compiler.ask(request, timeout)


class Compiler:
    """A child process that runs the compiler and answers one question after the other.

    A context manager. Starting takes seconds, so whoever asks often passes one to
    `compile_ahead_of_time`. After an abort or a timeout the next question starts another process.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] = tempfile.TemporaryFile()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._stop(self._child)
        self._log.close()

    def ask(self, request: dict[str, Any], timeout: float) -> Verdict:
        """The verdict; `timeout` is in seconds. Raises as `compile_ahead_of_time` does."""
        child = self._child = self._child or self._start()
        assert child.stdin is not None and child.stdout is not None
        # A child that ended early says why in its log.
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(json.dumps(request).encode() + b"\n")
            child.stdin.flush()
        if not select.select([child.stdout], [], [], timeout)[0]:
            child.kill()
            self._stop(child)
            raise Unsupported(
                "compiler-timeout", f"the TPU compiler gave no answer within {timeout:g} seconds"
            )
        line = child.stdout.readline()
        if not line:
            return self._ended(child)
        answer = cast(dict[str, Any], json.loads(line))
        if "error" in answer:
            raise UsageError(answer["error"], answer["message"])
        return Verdict(**answer)

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**_ENVIRONMENT, **os.environ, "JAX_PLATFORMS": "cpu"}
        pipe = subprocess.PIPE
        # What an earlier child said is not why this one ends.
        self._log.seek(0)
        self._log.truncate()
        return subprocess.Popen(
            [sys.executable, "-m", CHILD],
            stdin=pipe, stdout=pipe, stderr=self._log, env=environment,
        )  # fmt: skip

    def _ended(self, child: subprocess.Popen[bytes]) -> Verdict:
        """What the end of the child without an answer means: an abort is a rejection."""
        self._stop(child)
        self._log.seek(0)
        log = self._log.read().decode(errors="replace").splitlines()
        if child.returncode < 0:
            name = signal.Signals(-child.returncode).name
            message = f"the compiler aborted ({name}): {_last_words(log)}"
            return Verdict(accepted=False, message=message, seconds=0.0, code_bytes=None)
        raise Diagnostic("compiler-failed", f"the TPU compiler did not run: {_last_words(log)}")

    def _stop(self, child: subprocess.Popen[bytes]) -> None:
        self._child = None
        with contextlib.suppress(BrokenPipeError):
            child.communicate()


def _last_words(log: Iterable[str]) -> str:
    """The line of the compiler's log that says why: its last fatal one, else its last."""
    lines = [line.strip() for line in log if line.strip()]
    fatal = [line for line in lines if line.startswith("F") and "]" in line]
    return (fatal or lines or ["it said nothing"])[-1]
