"""Values of which much is computed, or which are used twice at every step, are looked at once."""

from __future__ import annotations

import pytest

from pallasite.dialects import make_context
from pallasite.frontend import read
from pallasite.passes.canonicalize_mosaic import CanonicalizeMosaicPass
from pallasite.passes.check_kernel import check_kernel
from pallasite.targets import get_target

from ..checking import check, kernel, load, memref


@pytest.mark.parametrize("length, line", [
    (3000, "%a{0} = arith.addf %a{1}, %row : {2}"),
    (40, "%b{0} = arith.addf %a{1}, %row : {2}\n%a{0} = arith.mulf %b{0}, %a{1} : {2}"),
])  # fmt: skip
def test_long_chains_and_values_used_twice_have_one_place(length: int, line: str) -> None:
    kind = "vector<256xf32>"
    lines = "\n".join(line.format(n + 1, n, kind) for n in range(length))
    body = (
        load("m", "x", "8x256xf32")
        + f"""%k = arith.constant dense<0.0> : {kind}
    %row = vector.multi_reduction <maximumf>, %m, %k [0] : vector<8x256xf32> to {kind}
    %c1 = arith.constant 1 : index
    %c9 = arith.constant 9 : index
    %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%a0 = %row) -> ({kind}) {{
      {lines}
      scf.yield %a{length} : {kind}
    }}"""
    )
    check(kernel(f"%x: {memref('8x256xf32')}", body))


def test_masks_made_of_masks_are_looked_at_once() -> None:
    kind, steps = "vector<8x128xi1>", 60
    lines = "\n".join(
        f"%o{n} = arith.ori %m{n}, %m0 : {kind}\n%m{n + 1} = arith.andi %o{n}, %m{n} : {kind}"
        for n in range(steps)
    )
    body = (
        load("v", "x", "8x128xi16")
        + f"""%z = arith.constant dense<0> : vector<8x128xi16>
    %m0 = arith.cmpi sgt, %v, %z : vector<8x128xi16>
    {lines}
    %s = arith.select %m{steps}, %v, %z : {kind}, vector<8x128xi16>"""
    )
    for target in ("v5e", "v6e"):
        module = read(kernel(f"%x: {memref('8x128xi16')}", body))
        check_kernel(module, get_target(target))
        CanonicalizeMosaicPass(target=target).apply(make_context(), module)
        module.verify()
