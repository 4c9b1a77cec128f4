"""`pallasite.parse`, `lower` and `run`: what goes in and out, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pallasite
from pallasite import api, arguments
from pallasite.diagnostics import Diagnostic, ReadError, Unsupported, UsageError, VerifyError
from pallasite.dialects.kernel_call import call_of

DATA = Path(__file__).parent / "data"
VMEM = "#tpu.memory_space<vmem>"


def kernel_text(element: str, op: str = "arith.addf", shape: str = "16x256") -> str:
    memref, vector = f"memref<{shape}x{element}, {VMEM}>", f"vector<{shape}x{element}>"
    return f"""
    func.func @add(%x: {memref}, %y: {memref}, %o: {memref}) attributes {{
        dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
        tpu.core_type = #tpu.core_type<tc>}} {{
      %c0 = arith.constant 0 : index
      %a = vector.load %x[%c0, %c0] : {memref}, {vector}
      %b = vector.load %y[%c0, %c0] : {memref}, {vector}
      %s = {op} %a, %b : {vector}
      tpu.vector_store %o[%c0, %c0], %s {{strides = array<i32>}} : {memref}, {vector},
      return
    }}"""


def bare(element: str = "f32", **options: Any) -> Any:
    return pallasite.parse(kernel_text(element, **options))


def noise(dtype: Any, shape: tuple[int, ...] = (16, 256)) -> Any:
    return np.random.default_rng(1).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("form", ["mosaic", "dma", "tiles", "vreg"])
def test_run_gives_the_same_answer_in_every_form(form: str) -> None:
    x, y = noise(np.float32), noise(np.float32) * 2
    (out,) = pallasite.run(bare(), [x, y], form=form, results=[((16, 256), "float32")])
    np.testing.assert_array_equal(out, x + y)


@pytest.mark.filterwarnings("error::pallasite.diagnostics.KernelWarning")
@pytest.mark.parametrize("form", ["mosaic", "dma", "tiles", "vreg"])
@pytest.mark.parametrize("shapes", [[], [(16, 128)], [(32, 256)], [(16, 256), (16, 256)]])
def test_a_call_of_another_kernel_is_refused(shapes: Any, form: str) -> None:
    """And nothing is told of outputs that this kernel does not have."""
    results = [(shape, "float32") for shape in shapes]
    with pytest.raises(UsageError) as caught:
        pallasite.run(bare(), [noise(np.float32)] * 2, form=form, results=results)
    assert caught.value.code == "call-mismatch"


def test_bfloat16_arrays_and_raw_bytes() -> None:
    x = noise(ml_dtypes.bfloat16)
    results = [((16, 256), "bfloat16")]
    (out,) = pallasite.run(bare("bf16"), [x, x], results=results, form="mosaic")
    assert out.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(out, x + x)
    (raw,) = pallasite.run(bare("bf16"), [x.view("V2")] * 2, results=results, form="mosaic")
    np.testing.assert_array_equal(raw, out)


def test_unsigned_arrays_travel_as_signless() -> None:
    x = np.full((16, 256), 0xFFFFFFF0, np.uint32)
    module = bare("i32", op="arith.addi")
    (out,) = pallasite.run(module, [x, x], results=[((16, 256), "uint32")], form="mosaic")
    assert out.dtype == np.uint32
    np.testing.assert_array_equal(out, x + x)


def test_results_of_a_gridless_kernel_need_no_description() -> None:
    x = noise(np.float32)
    (out,) = pallasite.run(bare(), [x, x], form="mosaic")
    np.testing.assert_array_equal(out, x + x)


def test_aliases_share_the_buffer() -> None:
    x = noise(np.float32)
    (out,) = pallasite.run(
        bare(), [x, x], results=[((16, 256), "float32")], aliases={0: 0}, form="mosaic"
    )
    np.testing.assert_array_equal(out, x + x)


def test_devices_take_and_give_a_list_each() -> None:
    x, y = noise(np.float32), noise(np.float32) + 1
    outs = pallasite.run(bare(), [[x, y], [y, y]], devices=2, form="mosaic")
    np.testing.assert_array_equal(outs[0][0], x + y)
    np.testing.assert_array_equal(outs[1][0], y + y)


def test_parse_records_the_call_of_a_program() -> None:
    module = pallasite.parse((DATA / "io_alias.stablehlo.mlir").read_text())
    call = call_of(module)
    assert call is not None and call.aliases == ((0, 0),)
    a, b = (np.full((16, 128), v, np.float32) for v in (1, 2))
    assert len(pallasite.run(module, [a, b], form="mosaic")) == 1


def test_lower_leaves_its_argument_alone() -> None:
    module = pallasite.parse((DATA / "io_alias.stablehlo.mlir").read_text())
    before = str(module)
    lowered = pallasite.lower(module, form="vreg")
    assert str(module) == before
    assert "tpu.load" in str(lowered) and "vector.load" not in str(lowered)


def test_outputs_do_not_alias_inputs() -> None:
    x = noise(np.float32)
    kept = x.copy()
    pallasite.run(bare(), [x, x], form="mosaic", aliases={0: 0})
    np.testing.assert_array_equal(x, kept)


# Refusals


def refused(kind: type[Diagnostic], pattern: str, module: Any, inputs: Any, **options: Any) -> None:
    with pytest.raises(kind, match=pattern):
        pallasite.run(module, inputs, **{"form": "mosaic", **options})


def test_wrong_inputs_say_what_was_expected() -> None:
    module = pallasite.parse((DATA / "io_alias.stablehlo.mlir").read_text())
    good = np.zeros((16, 128), np.float32)
    refused(UsageError, "expected 2 inputs, got 1", module, [good])
    refused(UsageError, r"expected float32\[16, 128\] for input 1, got float32\[8, 128\]",
            module, [good, good[:8]])  # fmt: skip
    refused(UsageError, "got int32", module, [good, good.astype(np.int32)])
    refused(UsageError, "got float64", module, [good, good.astype(np.float64)])
    with pytest.raises(UsageError, match="expected 2 inputs, got 16") as caught:
        pallasite.run(module, good)
    assert caught.value.notes[-1].message == "an array is no list of inputs: write [x]"


def test_what_a_module_records_is_not_said_again() -> None:
    module = pallasite.parse((DATA / "io_alias.stablehlo.mlir").read_text())
    x = np.zeros((16, 128), np.float32)
    refused(UsageError, "do not record them", module, [x, x], aliases={0: 0})
    kernel = """
        pallas.kernel @k
          input %x: tensor<16x128xf32> in vmem
          output %o: tensor<16x128xf32> in vmem
        {
          %v = pallas.load %x[...] : memref<16x128xf32, #tpu.memory_space<vmem>>
          pallas.store %v, %o[...] : memref<16x128xf32, #tpu.memory_space<vmem>>
        }"""
    for said in ({"aliases": {0: 0}}, {"results": [((16, 128), "float32")]}):
        refused(UsageError, "do not record them", pallasite.parse(kernel), [x], **said)


X = np.zeros((16, 256), np.float32)


class NoArray:
    """What cannot become an array although it says it could."""

    def __array__(self, *how: Any) -> Any:
        raise RuntimeError("cannot")


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("expected a module, as pallasite.parse gives, got 'text'", {"module": "text"}),
        ("expected a module, as pallasite.parse gives, got None", {"module": None}),
        ("expected a list of inputs, got None", {"inputs": None}),
        ("expected a list of inputs, got ", {"inputs": (x for x in [X] * 1000)}),
        ("expected an array for an input", {"inputs": [[[1], [1, 2]], X]}),
        ("expected an array for an input: cannot", {"inputs": [X, NoArray()]}),
        ("an input, got a masked one", {"inputs": [X, np.ma.masked_array(X, X > 0)]}),
        ("expected a list of inputs for each device, got 3", {"inputs": 3, "devices": 2}),
        ("expected a list of inputs, got None", {"inputs": [[X, X], None], "devices": 2}),
        ("expected checks of race, init, bounds, sync, all, got 3", {"checks": 3}),
        ("expected a target of v4, v5e, v5p, v6e, v7x, got ['v5e']", {"target": ["v5e"]}),
        ("expected a whole number for a seed, got 1.5", {"seed": 1.5}),
        ("expected a whole number for devices, got '2'", {"devices": "2"}),
        ("expected max_steps of at least 1, got 0", {"max_steps": 0}),
        ("expected a whole number for max_memory, got 'all'", {"max_memory": "all"}),
        ("expected a list of passes, got 'lower-to-dma'", {"passes": "lower-to-dma"}),
        ("expected passes, which are objects and not names", {"passes": ["lower-to-dma"]}),
        (
            "expected True or False for allow_beyond_reference, got 'no'",
            {"allow_beyond_reference": "no"},
        ),
        ("expected True or False for unordered, got None", {"unordered": None}),
        ("expected results as a list of (shape, dtype), got 3", {"results": 3}),
        ("expected results as a list of (shape, dtype), got ((16,", {"results": [(X.shape,)]}),
        ("expected a shape, got 256", {"results": [(256, "float32")]}),
        ("expected a whole number for a size, got 2.5", {"results": [((2.5, 2), "float32")]}),
        ("expected a size of at least 0, got -1", {"results": [((-1, 2), "float32")]}),
        ("expected aliases as a dict from operands to results, got 3", {"aliases": 3}),
        ("expected a whole number for an aliased operand, got 'a'", {"aliases": {"a": 0}}),
        ("expected aliases from 2 operands to 1 results, none twice", {"aliases": {7: 0}}),
        ("expected aliases from 2 operands to 1 results, none twice", {"aliases": {0: -1}}),
        ("none twice, got {0: 0, 1: 0}", {"aliases": {0: 0, 1: 0}}),
    ],
)  # fmt: skip
def test_wrong_arguments_say_what_was_expected(message: str, options: dict[str, Any]) -> None:
    given: dict[str, Any] = {"module": bare(), "inputs": [X, X], **options}
    with pytest.raises(UsageError, match=re.escape(message)):
        pallasite.run(**given)


def test_sources_are_text_or_bytes() -> None:
    data = (DATA / "io_alias.stablehlo.mlir").read_bytes()
    assert str(pallasite.parse(bytearray(data))) == str(pallasite.parse(data))
    path = str(DATA / "io_alias.stablehlo.mlir")
    for source in (None, 3, DATA, path, path.encode()):
        with pytest.raises(UsageError, match="expected the text or bytes of a module"):
            pallasite.parse(source)
    with pytest.raises(UsageError, match="expected a whole number for the call"):
        pallasite.parse(data, call="first")
    with pytest.raises(UsageError, match="expected a name of the source, got 3"):
        pallasite.parse(data, name=3)
    with pytest.raises(ReadError, match=r"kernels/one\.mlir:1:1"):
        pallasite.parse("", name=Path("kernels/one.mlir"))


def test_numbers_of_numpy_are_whole_numbers() -> None:
    y = X[:, :128]
    module = pallasite.parse((DATA / "io_alias.stablehlo.mlir").read_text())
    here = pallasite.run(module, [y, y], seed=3)
    there = pallasite.run(
        module, [y, y], seed=np.int64(3), devices=np.int32(1), max_steps=np.int64(10**6)
    )
    np.testing.assert_array_equal(here, there)


def test_byte_order_of_inputs_is_not_the_kernels_business() -> None:
    module = pallasite.parse((DATA / "io_alias.stablehlo.mlir").read_text())
    x = np.arange(2048, dtype=np.float32).reshape(16, 128)
    (here,) = pallasite.run(module, [x, x])
    (there,) = pallasite.run(module, [x.astype(">f4"), x])
    np.testing.assert_array_equal(here, there)


def test_seeds_are_not_negative() -> None:
    module = pallasite.parse((DATA / "io_alias.stablehlo.mlir").read_text())
    refused(UsageError, "expected a seed of at least 0, got -1", module, [], seed=-1)
    with pytest.raises(UsageError, match="at least 0"):
        api.random_inputs(module, -1)


def test_random_booleans_of_a_kernel_are_zero_and_one() -> None:
    """Its call has them as i32, of which later forms see every bit."""
    text = """
    pallas.kernel @copy
      input %m: tensor<8x128xi1> in vmem
      output %o: tensor<8x128xi1> in vmem
    {
      %x = pallas.load %m[...] : memref<8x128xi1, #tpu.memory_space<vmem>>
      pallas.store %x, %o[...] : memref<8x128xi1, #tpu.memory_space<vmem>>
    }"""
    module = pallasite.parse(text)
    for form in ("pallas", "mosaic"):
        (mask,) = api.random_inputs(api.lower(module, form))
        assert set(np.unique(mask)) == {0, 1}


def test_wrong_names_say_what_there_is() -> None:
    x = noise(np.float32)
    refused(UsageError, "expected a target of v4, .* got 'v9'", bare(), [x, x], target="v9")
    refused(UsageError, "expected a form of pallas", bare(), [x, x], form="llvm")
    refused(UsageError, "expected checks of race", bare(), [x, x], checks=("fun",))
    refused(UsageError, "expected compiled or reference", bare(), [x, x], driver="fast")
    refused(UsageError, "expected inputs for 2 devices, got 1", bare(), [[x, x]], devices=2)
    refused(UsageError, "unknown element type 'float99'", bare(), [x, x],
            results=[((16, 256), "float99")])  # fmt: skip


def test_a_form_that_has_passed_is_refused() -> None:
    x = noise(np.float32)
    module = pallasite.parse((DATA / "io_alias.stablehlo.mlir").read_text())
    lowered = pallasite.lower(module, form="tiles")
    refused(UsageError, "module is in form tiles, which is below form mosaic", lowered, [x, x])


def test_a_form_that_does_not_exist_is_refused() -> None:
    module = api.parse('module attributes {tpu.form = "registers"} {}')
    with pytest.raises(VerifyError, match="records that it is in form 'registers'"):
        api.lower(module, "vreg")


def test_text_that_is_no_kernel_is_refused() -> None:
    with pytest.raises(ReadError):
        pallasite.parse("func.func @f( {")
    with pytest.raises(Diagnostic, match="no kernel function"):
        pallasite.run(pallasite.parse("module {}"), [], form="mosaic")


def test_bare_gridded_kernels_need_their_results() -> None:
    text = kernel_text("f32").replace(
        "dimension_semantics = []",
        "iteration_bounds = array<i64: 1>, window_params = [{}, {}, {}], "
        "dimension_semantics = [#tpu.dimension_semantics<arbitrary>]",
    )
    text = text.replace("@add(", "@add(%i: i32, ")
    x = noise(np.float32)
    refused(UsageError, "does not record the types of its results", pallasite.parse(text), [x, x])


def test_unsupported_kernels_are_refused_at_their_line() -> None:
    x = noise(np.float16)
    refused(Unsupported, "vectors of f16 are not supported", bare("f16"), [x, x])


def test_checks_by_name() -> None:
    assert arguments.checks("all") == arguments.CHECKS
    assert arguments.checks("race, init") == ("race", "init")
    assert arguments.checks(()) == ()


def test_random_inputs_depend_on_the_seed_only() -> None:
    module = pallasite.parse((DATA / "io_alias.stablehlo.mlir").read_text())
    first, again, other = (api.random_inputs(module, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first[0], again[0])
    assert not np.array_equal(first[0], other[0])


def test_random_inputs_fit_into_the_memory_of_a_run() -> None:
    module = pallasite.parse((DATA / "io_alias.stablehlo.mlir").read_text())
    with pytest.raises(Diagnostic, match=r"the arrays of the call take .* bytes, more than"):
        api.random_inputs(module, devices=1000, max_memory=1 << 20)


@pytest.mark.parametrize("form", ["mosaic", "tiles"])
@pytest.mark.parametrize("part", ["operands", "results"])
def test_arrays_of_unknown_size_are_refused(part: str, form: str) -> None:
    module = pallasite.parse((DATA / "io_alias.stablehlo.mlir").read_text())
    inputs = api.random_inputs(module)
    text = re.sub(rf"({part} = \[tensor<)\d+", r"\1?", str(module))
    for ask in (
        api.random_inputs,
        lambda m: pallasite.run(m, inputs, form=form),
    ):
        with pytest.raises(Diagnostic, match=r"an array of type tensor<\?x.*not known") as caught:
            ask(pallasite.parse(text))
        assert caught.value.code == "unknown-size" and caught.value.location is not None


@pytest.mark.parametrize("form", ["mosaic", "dma"])
def test_arrays_that_no_index_spans_are_refused(form: str) -> None:
    module = pallasite.parse((DATA / "io_alias.stablehlo.mlir").read_text())
    text = re.sub(r"(operands = \[tensor<)\d+", rf"\g<1>{1 << 31}", str(module))
    for ask in (
        api.random_inputs,
        lambda m: pallasite.run(m, api.random_inputs(module), form=form),
    ):
        with pytest.raises(Unsupported, match="2147483648 elements: indices have 32 bits"):
            ask(pallasite.parse(text))


def test_defects_of_passes_come_out_as_diagnostics(monkeypatch: pytest.MonkeyPatch) -> None:
    from pallasite.passes import check_kernel

    def broken(*_: object, **__: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(check_kernel, "check_kernel", broken)
    with pytest.raises(Diagnostic, match="check-kernel: internal error: KeyError") as caught:
        pallasite.lower(bare(), "mosaic")
    assert caught.value.code == "internal-error"


def test_broken_signatures_are_refused() -> None:
    text = kernel_text("f32").replace("scratch_operands = 0", "scratch_operands = 9")
    with pytest.raises(Diagnostic, match="fewer than its 0 grid indices"):
        pallasite.run(pallasite.parse(text), [noise(np.float32)] * 2, form="mosaic")
