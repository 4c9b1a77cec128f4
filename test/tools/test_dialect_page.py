"""The page about the `pallas` dialect says what the definitions say."""

from __future__ import annotations

from pallasite.tools.dialect_page import PAGE, page


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run python -m pallasite.tools.dialect_page"
