"""A `tpu_custom_call` found in a program, and the kernel that travels in it.

The call's configuration is JSON: `custom_call_config` holds the kernel (`body`, base64 of bytecode
or text) and its settings; others stand beside it (spec/tpu_dialect.md section 4.4).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from pallasite.diagnostics import Diagnostic, Note, ReadError, SourceLocation, UsageError
from pallasite.dialects.kernel_call import CONFIG, NAME, Call

TARGET = "tpu_custom_call"
BODY = "body"
_BARE_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|([A-Za-z_]\w*)(?=\s*:)')
"""Strings, to step over them, and names of fields without quotes, which are the group.

Protocol buffers take those in JSON, so the compiler does, and JAX 0.4.31 writes one.
"""


@dataclass(frozen=True)
class CallSite:
    """One call as its program spells it; `config` is the JSON text of its configuration."""

    config: str
    operands: tuple[TensorType[Attribute], ...]
    results: tuple[TensorType[Attribute], ...]
    aliases: tuple[tuple[int, int], ...]
    location: SourceLocation
    extra: dict[str, Any]
    """Settings that the program says outside the configuration (the kernel's name)."""

    def error(self, code: str, message: str) -> ReadError:
        """A diagnostic at the call."""
        return ReadError(code, message, self.location)


AS_TEXT = 'jax.jit(f).trace(*args).lower(lowering_platforms=("tpu",)).as_text()'
"""How JAX writes the program of a function as text."""


def may_call(text: str) -> bool:
    """Whether the text of a program may call a kernel; false for most others, however long."""
    # The target's name is written as it is, unless some of its letters are escaped.
    return TARGET in text or "\\" in text


def _listed(sites: Sequence[CallSite]) -> list[Note]:
    """The calls of a program, by their numbers."""
    return [
        Note(f"call {i} is {site.extra.get(NAME, 'a kernel without name')}", site.location)
        for i, site in enumerate(sites)
    ]


def first_of(sites: Sequence[CallSite]) -> Diagnostic:
    """The warning that a program has several kernels, of which nobody has picked one."""
    return Diagnostic(
        "several-calls",
        f"the program calls {len(sites)} kernels; this is call 0, --call N picks another",
        sites[0].location,
        _listed(sites) if any(NAME in site.extra for site in sites) else [],
        severity="warning",
    )


def pick(sites: Sequence[CallSite], index: int, name: str) -> CallSite:
    """Call number `index` of a program; a `UsageError` lists the calls there are."""
    if not sites:
        raise ReadError(
            "no-kernel",
            f"expected a custom call of @{TARGET}, found none",
            SourceLocation(name),
            [Note(f"the program is one that JAX lowered for the TPU: {AS_TEXT}")],
        )
    if not 0 <= index < len(sites):
        raise UsageError(
            "no-such-call",
            f"expected the number of one of {len(sites)} custom calls, got {index}",
            SourceLocation(name),
            _listed(sites),
        )
    return sites[index]


def _quoted(found: re.Match[str]) -> str:
    return found[0] if found[1] is None else f'"{found[1]}"'


def unpack(site: CallSite) -> tuple[bytes | str, Call]:
    """The kernel in the call, as bytecode or text, and how the program calls it."""
    try:
        settings = json.loads(_BARE_KEY.sub(_quoted, site.config))
    except (ValueError, RecursionError) as error:
        raise site.error(
            "bad-configuration", f"expected JSON as configuration of the call ({error})"
        ) from error
    config = cast(dict[str, Any], settings).get(CONFIG) if isinstance(settings, dict) else None
    body = cast(dict[str, Any], config).get(BODY) if isinstance(config, dict) else None
    if not isinstance(body, str):
        raise site.error(
            "bad-configuration",
            f"expected a string '{CONFIG}.{BODY}' in the configuration of the call",
        )
    rest = {key: value for key, value in cast(dict[str, Any], config).items() if key != BODY}
    call = Call(
        site.operands,
        site.results,
        site.aliases,
        {**cast(dict[str, Any], settings), CONFIG: rest, **site.extra},
    )
    return _kernel(site, body), call


def _kernel(site: CallSite, body: str) -> bytes | str:
    """The body decoded; one that cannot be base64 is the kernel's text itself."""
    if any(mark in body for mark in "({"):
        return body
    try:
        return base64.b64decode("".join(body.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise site.error("bad-base64", f"expected a body in base64 ({error})") from error


def check_aliases(site: CallSite) -> None:
    """Aliases must name operands and results that the call has."""
    for operand, result in site.aliases:
        if operand >= len(site.operands) or result >= len(site.results):
            raise site.error(
                "bad-alias",
                f"alias of operand {operand} and result {result} in a call of "
                f"{len(site.operands)} operands and {len(site.results)} results",
            )
