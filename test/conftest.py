"""What all tests share: the scoreboard, and jaxlib as the judge of what we read, print and write.

Tests that prove a row of the feature list say so with `@pytest.mark.feature("C01", ...)`;
`pytest --scoreboard=docs/scoreboard.md` writes the page of what is proven from their results."""

from __future__ import annotations

import csv
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from .jaxlib_context import mosaic_context

FEATURES = Path(__file__).parent / "scoreboard" / "features.csv"
TIER_ONE = "1"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--scoreboard", help="write the page of proven features to this file")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "feature(*ids): proves these rows of the feature list")
    # The same examples in every run, unless others are asked for by a seed.
    chosen = config.getoption("--hypothesis-seed", None)
    settings.register_profile("fixed", derandomize=chosen is None, database=None)
    settings.load_profile("fixed")
    path = config.getoption("--scoreboard")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Scoreboard(Path(path)))


PARTLY_WRITTEN = (
    "ignore:.*written nowhere in the kernel", "ignore:.*the steps of the grid come to",
    "ignore:.*under a condition of pl.program_id only",
)  # fmt: skip
"""Kernels of tests are short: some write an output nowhere, or not all of its blocks, and are
warned of it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.filterwarnings(*PARTLY_WRITTEN))
    known = {row["id"] for row in features()}
    for item in items:
        for marker in item.iter_markers("feature"):
            unknown = set(marker.args) - known
            assert not unknown, f"{item.nodeid}: no such features: {sorted(unknown)}"
            item.user_properties.extend(("feature", name) for name in marker.args)


def pytest_collection_finish() -> None:
    """What was imported and collected stays: it is not looked through again and again for what
    may go, as what tests make is."""
    gc.freeze()


def features() -> list[dict[str, str]]:
    """The rows of the feature list: id, tier, section, feature."""
    with FEATURES.open(newline="") as file:
        return list(csv.DictReader(file))


class Scoreboard:
    """Collects what tests say of features and writes the page when all have run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outcomes: dict[str, dict[str, list[str]]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.outcome == "passed":
            return
        test = report.nodeid.split("[")[0]
        for key, name in report.user_properties:
            if key == "feature":
                self.outcomes.setdefault(str(name), {}).setdefault(test, []).append(report.outcome)

    def pytest_sessionfinish(self) -> None:
        rows = features()
        first = [row for row in rows if row["tier"] == TIER_ONE]
        proven = [row for row in first if self._passed(row["id"])]
        missing = [row for row in rows if not self._passed(row["id"])]
        lines = [
            "# Scoreboard",
            "",
            "The features of Pallas on TPUs that Pallasite should have, each with the tests that",
            "prove it. A feature counts as proven if all of its tests pass. The second tier has",
            "error messages, and features that are rarely used or that overlap with others. The",
            "list of features, with their ids, is `test/scoreboard/features.csv`.",
            "",
            "Written by `pytest --scoreboard=docs/scoreboard.md`.",
            "",
            f"**{len(proven)} of {len(first)}** features of the first tier are proven, and "
            f"{len(rows) - len(missing) - len(proven)} of {len(rows) - len(first)} of the second.",
        ]
        for section in dict.fromkeys(row["section"] for row in rows):
            lines += [
                "",
                f"## {section}",
                "",
                "| id | feature | proven by |",
                "| --- | --- | --- |",
            ]
            lines += [
                f"| {row['id']} | {_cell(row['feature'])} | {self._tests(row['id'])} |"
                for row in rows
                if row["section"] == section and self._passed(row["id"])
            ]
        lines += ["", "## Open", "", "| id | tier | feature |", "| --- | --- | --- |"]
        lines += [f"| {row['id']} | {row['tier']} | {_cell(row['feature'])} |" for row in missing]
        self.path.write_text("\n".join(lines) + "\n")

    def _passed(self, name: str) -> bool:
        tests = self.outcomes.get(name, {})
        return bool(tests) and all(set(o) == {"passed"} for o in tests.values())

    def _tests(self, name: str) -> str:
        return "<br>".join(f"`{test}`" for test in sorted(self.outcomes[name]))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


class Jaxlib:
    """MLIR with the dialects of jaxlib."""

    def __init__(self) -> None:
        from jaxlib.mlir import ir

        self.context = mosaic_context(unregistered=True)
        self._ir = ir

    def parse(self, source: bytes | str) -> Any:
        with self.context:
            return self._ir.Module.parse(source)

    def run(self, module: Any, pipeline: str) -> Any:
        from jaxlib.mlir.passmanager import PassManager

        with self.context:
            PassManager.parse(f"builtin.module({pipeline})").run(module.operation)
        return module

    def deserialize(self, source: bytes | str) -> Any:
        options = "serialize=false keep-version-attr=false"
        return self.run(self.parse(source), f"mosaic-serde{{{options}}}")

    def serialize(self, module: Any, version: int) -> Any:
        return self.run(module, f"mosaic-serde{{serialize=true target-version={version}}}")

    @staticmethod
    def generic(module: Any, *, locations: bool = False) -> str:
        return module.operation.get_asm(print_generic_op_form=True, enable_debug_info=locations)


@pytest.fixture(scope="session")
def jaxlib() -> Jaxlib:
    pytest.importorskip("jaxlib.mosaic.python.tpu")
    return Jaxlib()


@pytest.fixture(scope="session")
def compiler() -> Iterator[Any]:
    """A process of the TPU compiler, for all tests that ask it."""
    pytest.importorskip("jax")
    pytest.importorskip("libtpu")
    from pallasite.frontend.aot import Compiler

    with Compiler() as process:
        yield process
