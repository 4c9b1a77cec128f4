"""Files changed at random places end soon, in a result or a diagnostic, and not in a defect."""

from __future__ import annotations

import os
import random
import re
import time
from functools import cache
from pathlib import Path

import pytest

import pallasite
from pallasite.api import random_inputs
from pallasite.diagnostics import Diagnostic
from pallasite.frontend.bytecode_writer import write_bytecode
from pallasite.frontend.versions import serialize

DATA = Path(__file__).parent.parent / "data"
FILES = ("bool_output.stablehlo.mlir", "cf_while.stablehlo.mlir", "io_alias.stablehlo.mlir")
COUNT = 60 * int(os.environ.get("PALLASITE_EXAMPLES", "1"))
SECONDS = 30
NUMBER = re.compile(rb"(?<![\w.])-?\d+(?![\w.])")
WORD = re.compile(rb"[%#!@]?[\w.$]+|[^\w\s]")
SHAPED = re.compile(rb"(?:vector|memref|tensor)<[\dx]+x\w+")
ELEMENTS = (b"f32", b"bf16", b"i32", b"i8", b"i1", b"i64", b"index", b"i2147483648")
NUMBERS = (b"0", b"-1", b"3", b"129", b"1000000", b"2147483648", b"9" * 30, b"1e400", b"true")


@cache
def sources() -> list[bytes]:
    """Programs, their kernels as text of several forms, and as bytecode."""
    found: list[bytes] = []
    for name in FILES:
        module = pallasite.parse((DATA / name).read_bytes(), name=name)
        found += [(DATA / name).read_bytes(), write_bytecode(serialize(module))]
        found += [
            str(pallasite.lower(module, form)).encode()
            for form in ("mosaic", "dma", "tiles", "vreg")
        ]
    return found


def mutated(data: bytes, rng: random.Random) -> bytes:
    """`data` with one to three bytes, words, numbers, types or lines changed, or cut off."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(data) or 1)
        kind = rng.randrange(9)
        numbers, words = list(NUMBER.finditer(data)), list(WORD.finditer(data))
        if kind < 2 and numbers:
            place = rng.choice(numbers).span()
            data = data[: place[0]] + rng.choice(NUMBERS) + data[place[1] :]
        elif kind < 4 and words:
            place = rng.choice(words).span()
            data = data[: place[0]] + rng.choice(words).group() + data[place[1] :]
        elif kind == 4:
            data = data[:at]
        elif kind > 6 and (shaped := SHAPED.findall(data)):
            # Everywhere, so that the text may still be a kernel.
            old = rng.choice(shaped)
            sizes, element = old.rsplit(b"x", 1)
            if kind == 7:
                element = rng.choice(ELEMENTS)
            else:
                sizes = re.sub(rb"\d+$", rng.choice((b"0", b"1", b"3", b"8", b"129")), sizes)
            data = data.replace(old, sizes + b"x" + element)
        elif kind == 5:
            data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        else:
            lines = data.split(b"\n")
            del lines[rng.randrange(len(lines))]
            data = b"\n".join(lines)
    return data


@pytest.mark.parametrize("seed", range(4))
def test_mutated_files(seed: int) -> None:
    rng, kept = random.Random(seed), sources()
    for _ in range(COUNT // 4):
        data = mutated(rng.choice(kept), rng)
        form = rng.choice(("mosaic", "dma", "tiles", "vreg"))
        begin = time.process_time()
        try:
            module = pallasite.parse(data)
            lowered = pallasite.lower(module, form, rng.choice(("v4", "v5e", "v6e", "v7x")))
            inputs = random_inputs(lowered)
            pallasite.run(lowered, inputs, form=form, max_steps=100_000)
        except Diagnostic as refusal:
            assert refusal.code != "internal-error", f"{refusal}\n{data!r}"
        assert time.process_time() - begin < SECONDS, data


NAMED = ("tpu.call", "stable_mosaic.", "bytecode version", "format version")
"""Parts of a module that have no line in the program, and no bytes that are theirs alone."""


def test_what_is_said_of_bytecode_names_the_place() -> None:
    rng = random.Random(5)
    kept = [data for data in sources() if data.startswith(b"ML\xefR")]
    refused = 0
    for _ in range(4 * COUNT):
        try:
            pallasite.parse(mutated(rng.choice(kept), rng))
        except Diagnostic as refusal:
            refused += 1
            line = refusal.location is not None and refusal.location.line
            named = any(part in refusal.message for part in NAMED)
            assert line or named or re.search(r" at byte \d+", refusal.message), str(refusal)
    assert refused > COUNT
