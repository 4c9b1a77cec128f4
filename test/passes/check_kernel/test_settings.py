"""Compiler flags of a call: what the TPU compiler does not know, it does not read."""

from __future__ import annotations

import json

import pytest

from pallasite.diagnostics import Unsupported
from pallasite.frontend import read
from pallasite.passes.check_kernel import check_kernel
from pallasite.targets import get_target


def call(*flags: object) -> str:
    config = {"custom_call_config": {"flag_configs": list(flags)}}
    settings = json.dumps(config).replace('"', '\\"')
    return f"""
    builtin.module attributes {{tpu.call = {{operands = [], results = [], aliases = array<i64>,
        settings = "{settings}"}}}} {{
      func.func @kernel() attributes {{dimension_semantics = [], scalar_prefetch = 0 : i64,
          scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>}} {{
        func.return
      }}
    }}"""


def flag(name: object, value: object = True) -> dict[str, object]:
    kind = "boolean_value" if isinstance(value, bool) else "integer_value"
    return {"flag_type": name, "value": {kind: value}}


def is_taken(*flags: object, beyond: bool = False) -> bool:
    try:
        check_kernel(read(call(*flags)), get_target("v5e"), allow_beyond_reference=beyond)
    except Unsupported as refusal:
        assert refusal.code == "compiler-flag" and refusal.notes and refusal.location
        return False
    return True


SCHEDULER = "XLA_TPU_FORCE_LP_LLO_SCHEDULER"


@pytest.mark.parametrize("name", [SCHEDULER, "UNKNOWN", "0", "01", " 1", "-1", str(2**31 - 1)])
def test_known_flags(name: str) -> None:
    assert is_taken(flag(name)) and is_taken(flag(name, 2**40))


@pytest.mark.parametrize("name", [
    "xla_tpu_enable_x", "XLA_TPU_SCOPED_VMEM_LIMIT_KIB", SCHEDULER.lower(), "", "1.0", "1e2",
    str(2**32),
])  # fmt: skip
def test_unknown_flags(name: str) -> None:
    assert not is_taken(flag(name)) and not is_taken(flag(SCHEDULER), flag(name))
    assert is_taken(flag(name), beyond=True)


def test_values_have_64_bits() -> None:
    assert is_taken(flag(SCHEDULER, 2**63 - 1)) and not is_taken(flag(SCHEDULER, 2**63))


def test_settings_that_are_no_flags_are_nobodys_business() -> None:
    assert is_taken(7, {"flag_type": 3}, {"value": 1})
