"""Kernels for `check-kernel`, and what it must say of them."""

from __future__ import annotations

import warnings

import pytest

from pallasite import lower
from pallasite.diagnostics import Diagnostic, KernelWarning, Unsupported
from pallasite.frontend import read
from pallasite.passes.check_kernel import check_kernel
from pallasite.targets import get_target

VMEM, SMEM, ANY = (f"#tpu.memory_space<{s}>" for s in ("vmem", "smem", "any"))


def memref(shape: str, space: str = VMEM) -> str:
    return f"memref<{shape}, {space}>"


def told_of(text: str, form: str = "tiles") -> list[Diagnostic]:
    """The warnings of a kernel in form `pallas` that is lowered."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        lower(read(text), form=form)
    return [w.message.diagnostic for w in told if isinstance(w.message, KernelWarning)]


def kernel(arguments: str, body: str, scratch: int = 0) -> str:
    return f"""
    func.func @kernel({arguments}) attributes {{dimension_semantics = [],
        scalar_prefetch = 0 : i64, scratch_operands = {scratch} : i64,
        tpu.core_type = #tpu.core_type<tc>}} {{
      %c0 = arith.constant 0 : index
      {body}
      return
    }}"""


def load(name: str, base: str, shape: str, index: str = "") -> str:
    rank = shape.count("x")
    indices = index or ", ".join(["%c0"] * rank)
    return f"%{name} = vector.load %{base}[{indices}] : {memref(shape)}, vector<{shape}>\n"


def check(text: str, target: str = "v5e") -> None:
    check_kernel(read(text), get_target(target))


def refused(text: str, code: str, target: str = "v5e") -> None:
    with pytest.raises(Unsupported) as caught:
        check(text, target)
    assert caught.value.code == code and caught.value.location is not None
    assert caught.value.notes


def matmul(element: str, accumulator: str = "f32", right: str | None = None) -> str:
    shape, other = f"128x128x{element}", f"128x128x{right or element}"
    numbers = "#tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>"
    result = f"vector<128x128x{accumulator}>"
    zero = "0" if accumulator[0] == "i" else "0.0"
    body = load("x", "a", shape) + load("y", "b", other)
    body += f"%k = arith.constant dense<{zero}> : {result}\n"
    body += (
        f"%z = tpu.matmul %x, %y, %k {{dimension_numbers = {numbers}, transpose_lhs_hint = false}}"
        f" : vector<{shape}>, vector<{other}>, {result} -> {result}"
    )
    return kernel(f"%a: {memref(shape)}, %b: {memref(other)}", body)


def beyond(text: str, code: str, target: str = "v5e") -> None:
    """Only the reference refuses it; `allow_beyond_reference` lets it pass."""
    refused(text, code, target)
    check_kernel(read(text), get_target(target), allow_beyond_reference=True)


def judged(text: str, fits: bool) -> None:
    """A slice that the TPU compiler takes, or refuses."""
    if fits:
        check(text)
    else:
        beyond(text, "unaligned-slice")


def part(shape: str, *offsets_and_sizes: tuple[int | str, int], space: str = ANY) -> str:
    """A slice of a ref; an offset of `"d8"` is known at run time, and a multiple of 8."""
    *_, element = shape.split("x")
    lines, indices, sizes = ["%i = memref.load %t[%c0] : memref<4xi32, " + SMEM + ">"], [], []
    for n, (offset, size) in enumerate(offsets_and_sizes):
        if isinstance(offset, str):
            lines.append(f"%o{n} = tpu.assume_multiple %i, {offset[1:]} : i32")
        else:
            lines.append(f"%o{n} = arith.constant {offset} : i32")
        indices.append(f"%o{n}")
        sizes.append(str(size))
    result = memref("x".join([*sizes, element]), space)
    lines.append(
        f"%w = tpu.memref_slice %x[{', '.join(indices)}] : {memref(shape, space)} -> {result}"
    )
    return kernel(f"%t: {memref('4xi32', SMEM)}, %x: {memref(shape, space)}", "\n".join(lines))
