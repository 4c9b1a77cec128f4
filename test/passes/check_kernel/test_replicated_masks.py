"""Masks that are the same in all rows, for packed values whose rows were regrouped."""

from __future__ import annotations

import pytest

from ..checking import beyond, check, kernel, load, memref


def chosen(old: str, new: str, element: str = "bf16", dim: int | None = None) -> str:
    """A choice between rows of shape `old` in shape `new`, and zeros, by numbers along `dim`."""
    kind = f"vector<{new}x{element}>"
    zero = "0" if element.startswith("i") else "0.0"
    body = (
        load("x", "a", f"{old}x{element}")
        + f"""
      %r = vector.shape_cast %x : vector<{old}x{element}> to {kind}
      %z = arith.constant dense<{zero}> : {kind}
      %n = tpu.iota {{dimensions = array<i32: {new.count("x") if dim is None else dim}>}}
        : vector<{new}xi32>
      %k = arith.constant dense<2> : vector<{new}xi32>
      %m = arith.cmpi sgt, %n, %k : vector<{new}xi32>
      %s = arith.select %m, %r, %z : vector<{new}xi1>, {kind}"""
    )
    return kernel(f"%a: {memref(f'{old}x{element}')}", body)


@pytest.mark.parametrize(
    ("old", "new"),
    [("40x256", "2x20x256"), ("40x128", "2x20x128"), ("2x20x256", "40x256"), ("5x256", "5x1x256"),
     ("12x256", "2x6x256"), ("24x256", "2x12x256"), ("9x256", "3x3x256")],
)  # fmt: skip
def test_rows_that_are_regrouped_within_sublanes(old: str, new: str) -> None:
    for target in ("v5e", "v6e", "v7x"):
        beyond(chosen(old, new), "mask-row", target)
    beyond(chosen(old, new, "i16"), "mask-row", "v6e")
    beyond(chosen(old, new, "i8"), "mask-row", "v6e")
    check(chosen(old, new, dim=new.count("x") - 1), "v6e")


@pytest.mark.parametrize(
    ("old", "new"), [("48x256", "2x24x256"), ("40x256", "5x8x256"), ("5x8x256", "40x256")]
)
def test_rows_that_are_regrouped_by_whole_sublanes(old: str, new: str) -> None:
    check(chosen(old, new), "v6e")
    check(chosen(old, new, "i8"), "v6e")
