"""Every module can be the first that a program imports: no two need each other to be loaded; and
what packages say of their modules is about modules that there are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from os import walk
from pathlib import Path

from pallasite.dialects.kernel import FORMS

SOURCES = Path(__file__).parents[1] / "src"


def _modules() -> dict[str, Path]:
    """All modules of the library, by name."""
    found: dict[str, Path] = {}
    for folder, _, files in walk(SOURCES / "pallasite", followlinks=True):
        for file in (Path(folder, name) for name in files if name.endswith(".py")):
            parts = file.relative_to(SOURCES).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def _loaded(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that are executed when a module is."""
    for statement in body:
        match statement:
            case ast.Import() | ast.ImportFrom():
                yield statement
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from _loaded(statement.orelse)
            case ast.If() | ast.Try():
                yield from _loaded([*statement.body, *statement.orelse])
            case _:
                pass


def _names(statement: ast.Import | ast.ImportFrom) -> Iterator[str]:
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            yield alias.name
        else:
            yield f"{statement.module}.{alias.name}"


def _needed(name: str, file: Path, modules: dict[str, Path]) -> set[str]:
    """The modules that are loaded for `name`, with the packages around them but not its own."""
    needed: set[str] = set()
    for statement in _loaded(ast.parse(file.read_text()).body):
        for imported in _names(statement):
            parts = imported.split(".")
            needed |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    around = {name[:end] for end, char in enumerate(name) if char == "."} | {name}
    return needed & modules.keys() - around


def test_no_modules_need_each_other() -> None:
    modules = _modules()
    graph = {name: _needed(name, file, modules) for name, file in modules.items()}
    assert len(graph) > 400
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle = " -> ".join(error.args[1])
        raise AssertionError(f"modules that import each other: {cycle}") from error


def test_packages_name_modules_that_there_are() -> None:
    modules = _modules()
    known = {name.rpartition(".")[2] for name in modules} | set(FORMS)
    for name, file in modules.items():
        if file.name == "__init__.py":
            text = ast.get_docstring(ast.parse(file.read_text())) or ""
            named = set(re.findall(r"`([a-z_]+)/?`", text))
            assert named <= known, (name, named - known)
