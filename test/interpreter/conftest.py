"""What tests of copies share."""

from __future__ import annotations

from typing import Any

import pytest

from pallasite.interpreter.machine.core import Core
from pallasite.interpreter.machine.views import Ref


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The copies that were started one by one."""
    seen: list[Any] = []
    start = Core.start

    def noted(core: Core, source: Ref, *rest: Any) -> None:
        seen.append(source)
        start(core, source, *rest)

    monkeypatch.setattr(Core, "start", noted)
    return seen
