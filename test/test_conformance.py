"""Every conformance kernel in every form, without a process per kernel.

`PALLASITE_TARGETS=v4,v5p pytest test/test_conformance.py` tries other targets. What the reference
compiler refuses must be refused in every form, with the line of the kernel that is at fault.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from pallasite import Diagnostic, api

from .conformance import CASES, accepted, difference, inputs_of, program

FORMS = ("mosaic", "dma", "tiles", "vreg")
TARGETS = tuple(os.environ.get("PALLASITE_TARGETS", "v5e,v6e").split(","))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_conformance(name: str, target: str, tmp_path: Path) -> None:
    module = api.parse(program(name).read_text())
    if not accepted(name, target):
        for form in FORMS:
            with pytest.raises(Diagnostic) as refused:
                api.lower(module, form=form, target=target)
            assert refused.value.location is not None
        return
    devices = CASES[name]["devices"]
    for form in FORMS:
        with np.errstate(all="ignore"):
            outcome = api.simulate(
                module, inputs_of(name, module), form=form, target=target, devices=devices
            )
        assert difference(name, module, outcome, tmp_path) is None, form
