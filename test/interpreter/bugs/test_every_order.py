"""A race needs no luck: whatever the order of transfers and cores, every run finds it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from .bug import Bug
from .cases import BUGS
from .luck import ring
from .test_bugs import findings

SEEDS = range(5)
RACES = [bug for bug in BUGS if bug.code == "data-race"]

pytestmark = pytest.mark.filterwarnings("ignore:.*unwritten-output")


@pytest.mark.parametrize("bug", RACES, ids=lambda bug: bug.name)
def test_found_in_every_order(bug: Bug) -> None:
    for seed in SEEDS:
        assert bug.code in {finding.code for finding in findings(bug, bug.forms[0], seed)}


SOUND = {
    "waits for both neighbours": ("await %r by 2", 3, ""),
    "waits for one, then for the other": ("await %r by 1\nawait %r by 1", 3, ""),
    "a barrier is used twice by neighbours of each other": ("await %r by 2", 3, "again"),
}


@pytest.mark.parametrize("name", SOUND)
def test_no_finding_where_all_is_waited_for(name: str) -> None:
    """Every device tells both neighbours that its buffer may be written, then writes one's."""
    waits, devices, again = SOUND[name]
    tells = "signal %r by 1 device %left\nsignal %r by 1 device %right\n" + waits
    lines = f"""store %a[0, 0] 32x128
{tells}
dma %x -> %a on %s send %t device %right
wait %t for %a
wait %s for %a
load %a[0, 0] 32x128
"""
    if again:
        lines += f"{tells}\n{lines}".replace("load %a[0, 0] 32x128\n", "")
    bug = Bug(name, "data-race", 0, None, (), ring(devices) + lines, devices=devices)
    for seed in SEEDS:
        assert not findings(bug, "mosaic", seed)


@pytest.mark.parametrize("first", ["scope", "wait"])
def test_no_finding_where_the_scope_is_known_to_have_begun(first: str) -> None:
    """Because it comes before everything else, or the receiver says so."""
    bug = next(bug for bug in BUGS if bug.name == "a-scope-that-may-not-have-begun")
    lines = bug.lines.strip("\n").split("\n")
    copied = lines[5:7]
    if first == "scope":
        lines[5:11] = [*lines[7:11], *copied]
    else:
        lines[11:11] = ["signal %r by 1 device %peer", "await %r by 1"]
    for seed in SEEDS:
        assert not findings(replace(bug, lines="\n".join(lines)), "mosaic", seed)
