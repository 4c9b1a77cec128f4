"""Counts of semaphores that are asked for once, of which it is not known what they have counted."""

from __future__ import annotations

import pytest

from .bug import NEIGHBOURS, Bug
from .test_bugs import findings

FORMS = ("mosaic", "dma", "tiles", "vreg")
pytestmark = pytest.mark.filterwarnings("ignore:.*unwritten-output")

DMA = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"
REGULAR = "memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>"
TABLE = "memref<16xi32, #tpu.memory_space<smem>>"


def asked(semaphore: str) -> str:
    """Stores the count of a semaphore: two lines, and one before them."""
    kind = DMA if semaphore == "%s" else REGULAR
    return f"""%at = arith.constant 0 : index
%n = tpu.sem_read {semaphore} : {kind} -> i32
memref.store %n, %table[%at] : {TABLE}
"""


def polled(semaphore: str) -> str:
    """Asks for the count of a semaphore until it is above 0."""
    return f"""%z = arith.constant 0 : i32
%last = scf.while (%seen = %z) : (i32) -> i32 {{
%more = arith.cmpi eq, %seen, %z : i32
scf.condition(%more) %seen : i32
}} do {{
^bb0(%old: i32): %new = tpu.sem_read {semaphore} : {DMA if semaphore == "%s" else REGULAR} -> i32
scf.yield %new : i32
}}
"""


RACES = {
    "a copy in flight": Bug("", "data-race", 3, 1, (), "dma %x -> %a on %s\n" + asked("%s")
                            + "wait %s for %a"),
    "another device's signal": Bug(
        "", "data-race", 8, 6, (),
        NEIGHBOURS.lstrip("\n") + "signal %r by 1 device %peer\n" + asked("%r") + "await %r by 1",
        devices=2),
}  # fmt: skip
SOUND = {
    "a copy that was waited for": Bug(
        "", "", 0, None, (), "dma %x -> %a on %s\nwait %s for %a\n" + asked("%s")),
    "signals of one's own": Bug(
        "", "", 0, None, (), "signal %r by 2\n" + asked("%r") + "await %r by 2"),
    "asked until it has come": Bug(
        "", "", 0, None, (), "dma %x -> %a on %s\n" + polled("%s") + "wait %s for %a"),
    "other devices' signals, waited for": Bug(
        "", "", 0, None, (),
        NEIGHBOURS.lstrip("\n") + "signal %r by 1 device %peer\nawait %r by 1\n" + asked("%r"),
        devices=2),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", RACES)
def test_what_may_have_been_counted(name: str, form: str) -> None:
    bug = RACES[name]
    for seed in range(3):
        found = [f for f in findings(bug, form, seed) if "reads the count of" in f.message]
        assert found and {f.code for f in found} == {"data-race"}
        for finding in found:
            assert str(finding.location) == f"kernel.py:{bug.at}:5"
            assert str(finding.notes[0].location) == f"kernel.py:{bug.other}:5"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SOUND)
def test_what_is_known(name: str, form: str) -> None:
    for seed in range(3):
        assert not findings(SOUND[name], form, seed)
