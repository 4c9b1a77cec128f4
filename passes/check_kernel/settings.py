"""Refuses compiler flags of a call that the TPU compiler cannot parse.

It parses the settings of a kernel as a protocol buffer with known fields (asked of libtpu 0.0.51):
"Could not convert JSON string to proto".
"""

from __future__ import annotations

import re
from typing import cast

from xdsl.dialects.builtin import ModuleOp

from pallasite.dialects.integers import greatest, least
from pallasite.dialects.kernel_call import call_of
from pallasite.dialects.locations import refusal
from pallasite.dialects.subcores import first_function

_FLAGS = "flag_configs"
"""The setting in which JAX stores `CompilerParams(flags=...)`."""
_NAMED = "XLA_TPU_FORCE_LP_LLO_SCHEDULER"
"""The only flag that the compiler knows by name; public kernels use no other."""
_NUMBER = re.compile(r"\s*-?\d+\s*")
"""A flag may also be given by its number, of 32 bits."""


def check_settings(module: ModuleOp) -> None:
    """Raises `Unsupported` for a flag with an unknown name, or a value of more than 64 bits."""
    call, func = call_of(module), first_function(module)
    flags = call.config.get(_FLAGS) if call is not None else None
    if func is None or not isinstance(flags, list):
        return
    for flag in cast("list[object]", flags):
        fields = _object(flag)
        name, number = fields.get("flag_type"), _object(fields.get("value")).get("integer_value")
        if isinstance(name, str) and not _is_known(name):
            raise refusal(
                func, "compiler-flag", f"the TPU compiler has no flag {name!r} for a kernel",
                f"it knows {_NAMED}, and no flags of XLA",
                "leave it out of CompilerParams(flags=...); flags of XLA are given to the program: "
                "jax.jit(f, compiler_options={...})",
                f"the TPU compiler says: unknown enum value: '{name}'",
            )  # fmt: skip
        if type(number) is int and not least(64) <= number <= greatest(64):
            raise refusal(
                func, "compiler-flag", f"{number} for the flag {name!r} has more than 64 bits",
                "settings of a kernel are integers of 64 bits",
                "pass a smaller number in CompilerParams(flags=...)",
                "the TPU compiler says: Could not convert JSON string to proto",
            )  # fmt: skip


def _object(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _is_known(name: str) -> bool:
    if _NUMBER.fullmatch(name):
        return least(32) <= int(name) <= greatest(32)
    return name in (_NAMED, "UNKNOWN")
