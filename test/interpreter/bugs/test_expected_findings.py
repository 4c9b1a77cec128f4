"""Small mistakes in sound kernels, and what is said of each, with the lines of both sides."""

from __future__ import annotations

import warnings

import pytest

from pallasite.arguments import CHECKS
from pallasite.diagnostics import Diagnostic, KernelWarning, SourceLocation
from pallasite.dialects.locations import source_location
from pallasite.interpreter.options import Options
from pallasite.interpreter.run import execute
from pallasite.targets import get_target

from .mutations import MUTATIONS
from .test_mutants import PASSED_ON, TWO_SLOTS, Sound, written

KERNELS = {
    "two slots": lambda: written(TWO_SLOTS, 1, sems="2 dma"),
    "passed on": lambda: written(PASSED_ON, 3, u="dma"),
}
"""Every line of these is a line of `kernel.py`."""


def told(sound: Sound, mistake: str, line: int) -> list[Diagnostic]:
    """All that a run says of the kernel with a mistake in the first operation of a line that
    allows it."""
    (mutation,) = (one for one in MUTATIONS if one.name == mistake)
    changed = sound.module.clone()
    for op in changed.walk():
        at = source_location(op)
        if at is not None and at.line == line and op.name in mutation.of and mutation.apply(op):
            break
    else:
        raise AssertionError(f"line {line} allows no such mistake")
    changed.verify()
    with warnings.catch_warnings(record=True) as odd:
        warnings.simplefilter("always", KernelWarning)
        try:
            outcome = execute(
                changed, sound.inputs, Options.of(checks=CHECKS), target=get_target(sound.target)
            )
        except Diagnostic as error:
            return [error]
    warned = (one.message for one in odd)
    return outcome.findings + [w.diagnostic for w in warned if isinstance(w, KernelWarning)]


TABLE = """
two slots | shares_its_memory      | 100 | nothing            |
two slots | begins_a_tile_late     | 7   | data-race          | 23 9
two slots | takes_the_next_slot    | 8   | deadlock           | 27 9
two slots | done_twice             | 9   | data-race          | 9 9
two slots | left_out               | 9   | deadlock           | 27
two slots | takes_another_semaphore| 9   | deadlock           | 27 9
two slots | begins_a_tile_late     | 21  | data-race          | 28 23
two slots | is_done_otherwise      | 24  | deadlock           | 27
two slots | is_always_done         | 24  | out-of-bounds      | 20
two slots | ends_a_step_early      | 33  | unawaited-dma      | 23
two slots | takes_the_next_slot    | 26  | data-race          | 28 9
two slots | left_out               | 27  | data-race          | 28 9
two slots | left_out               | 27  | uninitialised-read | 28 9
two slots | comes_last             | 27  | data-race          | 28 23
two slots | waits_for_another_size | 27  | data-race          | 28 9
two slots | goes_a_row_too_far     | 28  | uninitialised-read | 28
two slots | comes_later            | 28  | data-race          | 28 31
two slots | stores_a_row_less      | 28  | unwritten-output   | 100
two slots | left_out               | 32  | data-race          | 28 31
two slots | waits_for_another_size | 32  | semaphore-not-zero | 31 32
passed on | shares_its_memory      | 100 | data-race          | 15 15
passed on | done_twice             | 9   | data-race          | 15 9
passed on | left_out               | 10  | uninitialised-read | 18
passed on | comes_later            | 10  | nothing            |
passed on | comes_later            | 11  | data-race          | 15 11
passed on | goes_to_itself         | 12  | data-race          | 15 11
passed on | goes_to_itself         | 13  | nothing            |
passed on | counts_one_more        | 13  | data-race          | 15 12
passed on | counts_one_less        | 13  | deadlock           | 14
passed on | left_out               | 14  | data-race          | 15 11
passed on | left_out               | 14  | semaphore-not-zero | 13
passed on | counts_one_less        | 14  | data-race          | 15 13
passed on | comes_earlier          | 15  | data-race          | 15 11
passed on | done_twice             | 16  | deadlock           | 16 15
passed on | left_out               | 16  | semaphore-not-zero | 15
passed on | left_out               | 17  | signal-after-end   | 15
passed on | comes_later            | 17  | data-race          | 18 15
passed on | comes_later            | 18  | data-race          | 18 19
passed on | left_out               | 20  | unawaited-dma      | 19
"""
"""The kernel, the mistake and its line; the code that is said of it, where, and a line in the
notes."""


@pytest.mark.parametrize("row", [line for line in TABLE.split("\n") if line])
def test_what_is_said(row: str) -> None:
    name, mistake, line, code, places = (part.strip() for part in row.split("|"))
    found = told(KERNELS[name](), mistake, int(line))
    if code == "nothing":
        assert not found
        return
    at, *others = map(int, places.split())
    lines = [
        [0 if place is None else place.line for place in (one.location, *_noted(one))]
        for one in found
        if one.code == code
    ]
    assert any(one[0] == at and set(others) <= set(one[1:]) for one in lines), found


def _noted(one: Diagnostic) -> list[SourceLocation]:
    return [note.location for note in one.notes if note.location is not None]
