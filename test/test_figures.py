"""Figures that several pages give are the same, and every page is linked from another one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()
Figures = tuple[int, ...]
"""Of a row of trials: cases, those that pass, what JAX refuses, other limits."""


def rows(text: str) -> list[tuple[str, Figures]]:
    """The rows of tables that end with four whole numbers, by what they are about."""
    found = re.findall(r"^\| (.*) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    return [(row[0], tuple(map(int, row[1:]))) for row in found]


def summed(figures: list[Figures]) -> Figures:
    return tuple(map(sum, zip(*figures, strict=True)))


HEAD, *SECTIONS = re.split(r"^## ", (DOCS / "trials.md").read_text(), flags=re.MULTILINE)
TRIALS = dict(rows(HEAD))
SUMS = {section.split("\n")[0]: rows(section) for section in SECTIONS}


@pytest.mark.parametrize("linked", TRIALS)
def test_trials_are_the_sums_of_their_tables(linked: str) -> None:
    (title,) = re.findall(r"\[(.*)\]", linked)
    assert TRIALS[linked] == summed([figures for _, figures in SUMS[title]])


def test_the_page_on_jax_has_the_trials() -> None:
    text = (DOCS / "jax.md").read_text()
    assert [figures for _, figures in rows(text)] == list(TRIALS.values())
    (runs,) = re.findall(r"Some ([\d,]+) runs of programs", text)
    assert int(runs.replace(",", "")) == round(summed(list(TRIALS.values()))[0], -2)


@pytest.mark.parametrize(
    ("pattern", "page", "source"),
    [
        (r"(\d+) of \d+ of the first tier", "scoreboard.md", r"\*\*(\d+) of \d+\*\* features"),
        (r"first tier, (\d+ of \d+) of the second", "scoreboard.md", r"(\d+ of \d+) of the second"),
        (r"(0\.\d\d) of theirs on average", "register_counts.md", r"\| both \| \d+ \| (0\.\d\d)"),
        (r"(0\.\d\d) of theirs \(\[code", "code_bytes.md", r"\| v5e \| \d+ \| (\d\.\d\d)"),
        (r"(0\.\d\d) of theirs \(\[code", "code_bytes.md", r"\| v6e \| \d+ \| (\d\.\d\d)"),
        (
            r"(\d+) times as fast in form `tiles`", "run_time.md",
            r"InterpretParams\(\) /[\s\S]*?\| geometric mean \| [\d.]+ \| [\d.]+ \| (\d+)\.",
        ),
    ],
)  # fmt: skip
def test_figures_of_the_readme(pattern: str, page: str, source: str) -> None:
    (told,) = re.findall(pattern, README)
    found = re.search(source, (DOCS / page).read_text())
    assert found and told == found[1]


def test_programs_of_the_readme() -> None:
    (told,) = re.findall(r"about ([\d,]+) \(\[trials\]", README)
    assert int(told.replace(",", "")) == round(summed(list(TRIALS.values()))[0], -2)


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_pages_are_linked(page: Path) -> None:
    others = [README, *(p.read_text() for p in DOCS.glob("*.md") if p != page)]
    assert any(re.search(rf"\]\((docs/)?{page.name}[)#]", text) for text in others)
