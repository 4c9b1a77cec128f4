"""Files that pages, docstrings and comments speak of exist, and links lead somewhere."""

from __future__ import annotations

import fnmatch
import importlib
import re
from collections.abc import Iterator
from os import walk
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = (
    "benchmarks dialects docs examples frontend interpreter layouts lowering passes src targets "
    "test tools"
).split()
NOTES = Path("docs/spec")
"""Notes that speak of JAX's files, too; docstrings cite their sections."""

MENTIONED = re.compile(
    rf"(?<![\w/.:*-])((?:[\w*-]+/)*[\w*-]+\.(?:py|md)|(?:{'|'.join(FOLDERS)})(?:/[\w*-]+)+)"
    r"(?![\w/.*-]*\w)"
)
"""Names of Python files and pages, and paths that begin with one of our folders."""
NAME = re.compile(r"\bpallasite(?:\.\w+)+")
"""Names of ours in Python; one that ends with X stands for any module."""
PLACEHOLDER = re.compile(r"[A-Z]{3,}")
PROSE = re.compile(r'^ *"""(?=[\w`])(.*?)"""|# ([^\n]*)', re.MULTILINE | re.DOTALL)
"""Docstrings and comments, where code is formatted; parsing every file takes many times as long."""
NUMBER = r"(?:\d+|[A-Z])(?:\.\d+)*"
CITED = re.compile(
    rf"spec/(\w+)\.md,?\s+(?:(?:sections?|appendix)\s+)?({NUMBER}(?:(?:, | and | to ){NUMBER})*)\b"
)
"""A note and the numbers of sections after it."""
HEADING = re.compile(rf"^#+ (?:Appendix )?({NUMBER})[.:]? ", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")


def _files() -> Iterator[Path]:
    """All files of the repository, relative to it."""
    for top in FOLDERS:
        for folder, inner, names in walk(ROOT / top):
            inner[:] = [name for name in inner if name != "__pycache__"]
            yield from (Path(folder, name).relative_to(ROOT) for name in names)
    yield from (Path(path.name) for path in ROOT.glob("*") if path.is_file())


FILES = sorted(_files())
PLACES = {
    "/".join(place.parts[start:])
    for file in FILES
    for place in (file, file.with_suffix(""), *file.parents)
    for start in range(len(place.parts))
}
"""How files and folders may be called: by the ends of their paths, files without suffix, too."""
PAGES = [file for file in FILES if file.suffix == ".md"]
OWN_PAGES = [page for page in PAGES if page.parent != NOTES]
SOURCES = [file for file in FILES if file.suffix == ".py"]


def _exists(mentioned: str) -> bool:
    """Whether some file or folder is called so, `*` standing for any characters."""
    return mentioned in PLACES or ("*" in mentioned and bool(fnmatch.filter(PLACES, mentioned)))


def _prose(file: Path) -> str:
    return "\n".join(map("".join, PROSE.findall((ROOT / file).read_text())))


def _missing(text: str) -> list[str]:
    found = {m.group(1) for m in MENTIONED.finditer(text)}
    wanted = (n for n in found if not PLACEHOLDER.search(Path(n).stem))
    return sorted(n for n in wanted if not _exists(n))


@pytest.mark.parametrize("page", OWN_PAGES, ids=str)
def test_pages(page: Path) -> None:
    assert _missing((ROOT / page).read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links(page: Path) -> None:
    for target, anchor in LINK.findall((ROOT / page).read_text()):
        place = (ROOT / page).parent / target if target else ROOT / page
        assert place.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", place.read_text(), re.MULTILINE)
            anchors = [
                re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in headings
            ]
            assert anchor in anchors, f"{target}#{anchor}"


def _attribute(dotted: str) -> object:
    """What a dotted name of ours stands for."""
    top, *names = dotted.split(".")
    found: object = importlib.import_module(top)
    for number, name in enumerate(names, 1):
        if not hasattr(found, name):
            importlib.import_module(".".join([top, *names[:number]]))
        found = getattr(found, name)
    return found


@pytest.mark.parametrize("page", OWN_PAGES, ids=str)
def test_python_names(page: Path) -> None:
    names = {n for n in NAME.findall((ROOT / page).read_text()) if not n.endswith(".X")}
    if any(name.startswith("pallasite.jax") for name in names):
        pytest.importorskip("jax")
    for name in names:
        assert _attribute(name) is not None


def test_docstrings_and_comments() -> None:
    missing = {str(file): absent for file in SOURCES if (absent := _missing(_prose(file)))}
    assert missing == {}


def _uncited(text: str) -> list[str]:
    """Sections that `text` cites and that the notes have not."""
    absent: list[str] = []
    for name, numbers in CITED.findall(" ".join(text.split())):
        headings = HEADING.findall((ROOT / NOTES / f"{name}.md").read_text())
        absent += [f"{name} {n}" for n in re.findall(NUMBER, numbers) if n not in headings]
    return absent


def test_cited_sections() -> None:
    absent = {str(file): found for file in SOURCES if (found := _uncited(_prose(file)))}
    assert absent == {}


@pytest.mark.parametrize(
    "mentioned, absent",
    [
        ("see `layouts/move.py` and `planner/search.py`, `strategies/*.py`", []),
        ("a file of yours: `FILE.py`, examples/NAME.py", []),
        ("layouts/flat_*.py, planner_away.py", ["layouts/flat_*.py", "planner_away.py"]),
        ("lowering/windows_to_dma, lowering/windows_away", ["lowering/windows_away"]),
    ],
)  # fmt: skip
def test_what_is_found(mentioned: str, absent: list[str]) -> None:
    assert _missing(mentioned) == absent


def test_what_is_cited() -> None:
    text = "spec/tpu_dialect.md sections 3.2,\n9.9 and 2; spec/vreg_lowering.md 10.4 to 10.77"
    assert _uncited(text) == ["tpu_dialect 9.9", "vreg_lowering 10.77"]
