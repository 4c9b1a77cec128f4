"""The attributes of kernel functions: what is no description of a kernel is refused by its name."""

from __future__ import annotations

import numpy as np
import pytest

import pallasite
from pallasite.diagnostics import Unsupported, VerifyError
from pallasite.dialects.kernel import describe_kernel, kernel_function

BLOCK = "memref<8x128xf32, #tpu.memory_space<vmem>>"
WINDOW = "{transform_indices = @transform_0, window_bounds = array<i64: 8, 128>}"
ATTRIBUTES = {
    "dimension_semantics": "[#tpu.dimension_semantics<arbitrary>]",
    "iteration_bounds": "array<i64: 4>",
    "scalar_prefetch": "0 : i64",
    "scratch_operands": "0 : i64",
    "tpu.core_type": "#tpu.core_type<tc>",
    "window_params": f"[{WINDOW}, {WINDOW}]",
}


def kernel_text(**changed: str) -> str:
    attributes = ", ".join(f"{name} = {text}" for name, text in {**ATTRIBUTES, **changed}.items())
    return f"""
      func.func @main(%i: i32, %x: {BLOCK}, %o: {BLOCK}) attributes {{{attributes}}} {{
        return
      }}
      func.func @transform_0(%i: i32) -> (i32, i32) {{
        %z = arith.constant 0 : i32
        return %i, %z : i32, i32
      }}
    """


def window(old: str, new: str) -> str:
    """The attribute `window_params` of which one window is another."""
    assert old in WINDOW
    return f"[{WINDOW}, {WINDOW.replace(old, new)}]"


BAD = {
    "bounds-no-list": ("iteration_bounds", "4 : i64"),
    "bounds-other-list": ("iteration_bounds", "[4]"),
    "bounds-floats": ("iteration_bounds", "array<f32: 4.0>"),
    "semantics-no-list": ("dimension_semantics", "#tpu.dimension_semantics<arbitrary>"),
    "semantics-number": ("dimension_semantics", "[0 : i32]"),
    "semantics-string": ("dimension_semantics", '["parallel"]'),
    "prefetch-text": ("scalar_prefetch", '"1"'),
    "prefetch-negative": ("scalar_prefetch", "-1 : i64"),
    "scratch-negative": ("scratch_operands", "-1 : i64"),
    "windows-no-list": ("window_params", "4 : i64"),
    "window-number": ("window_params", "[1, 2]"),
    "index-map": ("window_params", window("@transform_0", "0 : i64")),
    "block-other-list": ("window_params", window("array<i64: 8, 128>", "[8, 128]")),
    "window-kind": ("window_params", window("}", ", window_kind = 0 : i64}")),
    "pipeline-mode": ("window_params", window("}", ", pipeline_mode = 2 : i64}")),
    "revisit-mode": ("window_params", window("}", ', revisit_mode = "any"}')),
    "other-mode": ("window_params", window("}", ", pipeline_mode = #tpu.revisit_mode<any>}")),
}


@pytest.mark.parametrize("attribute, text", BAD.values(), ids=list(BAD))
def test_attribute_of_another_kind_is_refused_by_its_name(attribute: str, text: str) -> None:
    module = pallasite.parse(kernel_text(**{attribute: text}))
    with pytest.raises(VerifyError) as caught:
        pallasite.lower(module, "vreg")
    assert caught.value.code == "kernel-signature" and caught.value.location is not None
    named = (attribute, "pipeline_mode", "revisit_mode")
    assert any(name in caught.value.message for name in named) and "got" in caught.value.message


def test_window_takes_its_modes_from_its_attributes() -> None:
    mode, revisits = "#tpu.pipeline_mode<synchronous>", "#tpu.revisit_mode<any>"
    windows = window("}", f", pipeline_mode = {mode}, revisit_mode = {revisits}}}")
    func = kernel_function(pallasite.parse(kernel_text(window_params=windows)))
    assert func is not None
    plain, other = describe_kernel(func).windows
    assert (plain.buffers, plain.revisits) == (None, False)
    assert (other.buffers, other.revisits) == (1, True)


@pytest.mark.parametrize(
    ("sizes", "message", "advice"),
    [
        ("4, -3", "grid axis 1: expected a size from 0 to 2147483646, got -3", "pl.cdiv(n, block)"),
        ("2147483647", "grid axis 0: expected a size from 0 to 2147483646", "take larger blocks"),
        ("65536, 65536", "expected a grid of at most 2147483646 steps", "take larger blocks"),
    ],
)
def test_sizes_of_a_grid(sizes: str, message: str, advice: str) -> None:
    module = pallasite.parse(kernel_text(iteration_bounds=f"array<i64: {sizes}>"))
    func = kernel_function(module)
    assert func is not None
    with pytest.raises(VerifyError) as refused:
        describe_kernel(func)
    assert refused.value.message.startswith(message)
    assert advice in refused.value.notes[0].message


BRANCHES = """
        %b = arith.constant true
        cf.cond_br %b, ^a, ^c
      ^a: return
      ^c: return"""
KERNELS = {
    "kernel": (BRANCHES, "return"),
    "function": ("func.call @f() : () -> ()\n return", BRANCHES),
}


@pytest.mark.parametrize("bodies", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("form", ["mosaic", "dma", "tiles", "vreg"])
def test_functions_of_several_blocks_are_refused(bodies: tuple[str, str], form: str) -> None:
    module = pallasite.parse(f"""
      func.func @kernel(%x: {BLOCK}, %o: {BLOCK}) attributes {{dimension_semantics = [],
          scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
          tpu.core_type = #tpu.core_type<tc>}} {{
        {bodies[0]}
      }}
      func.func @f() {{
        {bodies[1]}
      }}""")
    result = ((8, 128), "float32")
    with pytest.raises(Unsupported, match=r"expected one block in function @\w+, got 3") as caught:
        pallasite.run(module, [np.zeros((8, 128), np.float32)], results=[result], form=form)
    assert caught.value.location is not None
