"""Loops that count as unsigned numbers do, past the greatest signed one."""

from __future__ import annotations

import numpy as np
import pytest

import pallasite

from .memory_kernels import kernel

GREATEST = 2**31 - 1


@pytest.mark.parametrize("known", [(), (0,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize(
    ("first", "end", "step"),
    [(GREATEST - 1, -GREATEST + 1, 1), (GREATEST - 3, -GREATEST + 2, 3), (0, -1, 2**30 + 5),
     (-3, -1, 1), (0, 3, 1)],
)  # fmt: skip
def test_signs_of_the_counter(first: int, end: int, step: int, known: tuple[int, ...]) -> None:
    words, masks = "vector<8x128xi32>", "vector<8x128xi1>"
    bounds = "\n".join(
        f"%n{i} = arith.constant {n} : i32"
        if i in known
        else f"%n{i} = vector.extract %x[0, {i}] : i32 from {words}"
        for i, n in enumerate((first, end, step))
    )
    module = kernel(
        ["8x128xi32", "8x128xi32"],
        f"""%x = vector.load %a[%z, %z] : A, {words}
        {bounds}
        %zero = arith.constant dense<0> : {words}
        %three = arith.constant dense<3> : {words}
        %r = scf.for unsigned %i = %n0 to %n1 step %n2 iter_args(%t = %zero) -> ({words}) : i32 {{
          %w = vector.broadcast %i : i32 to {words}
          %m = arith.cmpi slt, %w, %zero : {words}
          %k = arith.select %m, %three, %w : {masks}, {words}
          %s = arith.addi %t, %k : {words}
          scf.yield %s : {words}
        }}
        tpu.vector_store %b[%z, %z], %r {{strides = array<i32>}} : B, {words},""",
    )
    given = np.zeros((8, 128), np.int32)
    given[0, :3] = first, end, step
    counted = np.arange(first % 2**32, end % 2**32, step)
    expected = np.where(counted > GREATEST, 3, counted).sum().astype(np.int32)
    for form in ("mosaic", "dma", "tiles", "vreg"):
        (found,) = pallasite.run(module, [given], form=form, target="v5e")
        assert (np.asarray(found) == expected).all(), form
