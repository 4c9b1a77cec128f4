"""Telling files apart by content, and taking kernels out of programs."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pallasite import frontend
from pallasite.diagnostics import ReadError, UsageError
from pallasite.dialects.kernel_call import call_of
from pallasite.frontend import read
from pallasite.frontend.scan import unescape_c

Body = Callable[[str], bytes]

SPELLINGS = [
    "two_calls.stablehlo.mlir",
    "two_calls.debug.stablehlo.mlir",
    "two_calls.generic.stablehlo.mlir",
    "two_calls.hlo",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("encoded", [False, True])
def test_first_call(spelling: str, encoded: bool, data: Path) -> None:
    text = (data / spelling).read_text()
    module = read(text.encode() if encoded else text, spelling)
    module.verify()
    call = call_of(module)
    assert call is not None
    assert [str(t) for t in call.operands] == ["tensor<16x128xf32>"] * 2
    assert [str(t) for t in call.results] == ["tensor<16x128xf32>"]
    assert call.aliases == ((0, 0),)
    assert call.settings["custom_call_config"] == {
        "serialization_format": 1,
        "needs_layout_passes": True,
    }
    assert call.settings["scoped_memory_configs"] == [
        {"memory_space": 1, "offset": 0, "size": 1048576}
    ]
    assert call.settings.get("kernel_name") == (None if "hlo" == spelling[-3:] else "add_alias")


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_second_call(spelling: str, data: Path) -> None:
    module = read((data / spelling).read_text(), spelling, call=1)
    call = call_of(module)
    assert call is not None
    assert [str(t) for t in call.operands] == ["tensor<16x128xf32>"] * 2
    assert [str(t) for t in call.results] == ["tensor<16x128xf32>", "tensor<16x128xi32>"]
    assert call.aliases == ((1, 0),)
    assert call.settings["custom_call_config"]["cost_estimate"]["flops"] == 1


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_holds_the_same_kernels(spelling: str, data: Path) -> None:
    for call in (0, 1):
        kernel = read((data / spelling).read_text(), spelling, call)
        expected = read((data / SPELLINGS[0]).read_text(), SPELLINGS[0], call)
        del kernel.attributes["tpu.call"], expected.attributes["tpu.call"]
        assert kernel.is_structurally_equivalent(expected)


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("call", [2, -1])
def test_no_such_call(spelling: str, call: int, data: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read((data / spelling).read_text(), spelling, call)
    assert caught.value.code == "no-such-call"
    assert caught.value.message == f"expected the number of one of 2 custom calls, got {call}"
    assert all(str(note.location).startswith(f"{spelling}:") for note in caught.value.notes)
    assert len(caught.value.notes) == 2


def test_kernel_program_equals_its_text(kernel: str, data: Path) -> None:
    module = read((data / f"{kernel}.stablehlo.mlir").read_bytes())
    del module.attributes["tpu.call"]
    assert module.is_structurally_equivalent(read((data / f"{kernel}.mosaic.mlir").read_bytes()))


def _call(config: str, types: str = "(tensor<8xf32>) -> tensor<8xf32>", more: str = "") -> str:
    quoted = config.replace("\\", "\\\\").replace('"', "\\22")
    return f"""module @m {{
  func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {{
    // stablehlo.custom_call @tpu_custom_call in a comment ( is no call
    %s = stablehlo.constant dense<1.0> : tensor<8xf32>
    %0 = stablehlo.custom_call @Sharding(%arg0) {{note = "@tpu_custom_call({{"}} :
      (tensor<8xf32>) -> tensor<8xf32>
    %1 = stablehlo.custom_call @tpu_custom_call(%0) {{backend_config = "{quoted}"{more}}} : {types}
    return %1 : tensor<8xf32>
  }}
}}
"""


KERNEL = """
module attributes {stable_mosaic.version = 11 : i64} {
  func.func @main(%a: memref<8xf32, #tpu.memory_space<vmem>>) {
    return
  }
}
"""


def _config(body: str | bytes, **more: object) -> str:
    text = base64.b64encode(body).decode() if isinstance(body, bytes) else body
    return json.dumps({"custom_call_config": {"body": text}, **more})


def test_kernel_as_text_in_base64() -> None:
    module = read(_call(_config(KERNEL.encode())))
    assert "func.func" in str(module) and call_of(module) is not None


def test_kernel_as_plain_text() -> None:
    assert "func.func" in str(read(_call(_config(KERNEL))))


@pytest.mark.parametrize(
    "spelled, printed",
    [
        ("tensor<8xui8>", "tensor<8xui8>"),
        ("tensor<8xi1>", "tensor<8xi1>"),
        ("tensor<2x4xbf16>", "tensor<2x4xbf16>"),
        ("tensor<f8E4M3FN>", "tensor<f8E4M3FN>"),
        ("tensor<8x16xi4>", "tensor<8x16xi4>"),
        ("tensor<8xi64>", "tensor<8xi64>"),
        ("tensor<4xcomplex<f32>>", "tensor<4xcomplex<f32>>"),
        ("tensor<?x3xf32>", "tensor<?x3xf32>"),
    ],
)
def test_types_of_the_call(spelled: str, printed: str) -> None:
    types = f"({spelled}, {spelled}) -> ({spelled}, tensor<f32>)"
    call = call_of(read(_call(_config(KERNEL), types)))
    assert call is not None
    assert [str(t) for t in call.operands] == [printed] * 2
    assert [str(t) for t in call.results] == [printed, "tensor<f32>"]


def test_results_in_a_tuple() -> None:
    types = "(tensor<8xf32>) -> tuple<tensor<8xf32>, tensor<8xi32>>"
    call = call_of(read(_call(_config(KERNEL), types)))
    assert call is not None and [str(t) for t in call.results] == ["tensor<8xf32>", "tensor<8xi32>"]


LONG = "9" * 5000
ALIAS = (
    "#stablehlo.output_operand_alias<output_tuple_indices = [{}], operand_index = {}, "
    "operand_tuple_indices = []>"
)


def test_aliases_may_be_named() -> None:
    text = _call(_config(KERNEL), more=", output_operand_aliases = [#alias]")
    text = f"#alias = {ALIAS.format('', 0)}\n{text}"
    call = call_of(read(text))
    assert call is not None and call.aliases == ((0, 0),)


ZERO = """%c = stablehlo.constant dense<0> : tensor<i32>
    %z = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<8xi32>
    """
UNEQUAL = (
    "%b = stablehlo.compare NE, %1, %z, SIGNED : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>"
)
OTHER = "func.func private @other(%1: tensor<8xi32>) -> tensor<8xi1>"


@pytest.mark.parametrize(
    "after, elsewhere, expected",
    [
        (ZERO + UNEQUAL, "", [0]),
        (ZERO + UNEQUAL.replace("NE", "EQ"), "", None),
        (ZERO.replace("dense<0>", "dense<1>") + UNEQUAL, "", None),
        (ZERO.replace("in_dim %c", "in_dim %z") + UNEQUAL, "", None),  # made of itself
        # What else uses the result wants its numbers.
        (f"{ZERO}{UNEQUAL}\n    %n = stablehlo.negate %1 : tensor<8xi32>", "", None),
        # Other functions have values of their own, whatever their names.
        ("", f"{OTHER} {{ {ZERO}{UNEQUAL} return %b : tensor<8xi1> }}", None),
        (ZERO + UNEQUAL, f"{OTHER} {{ {ZERO.replace('<0>', '<1>')}{UNEQUAL} return %b }}", [0]),
    ],
)
@pytest.mark.parametrize("first", [False, True])
def test_results_that_are_booleans(
    after: str, elsewhere: str, expected: list[int] | None, first: bool
) -> None:
    text = _call(_config(KERNEL), "(tensor<8xf32>) -> tensor<8xi32>")
    end = "return %1 : tensor<8xf32>"
    assert text.count(end) == 1
    text = text.replace(
        end, after + ("\n    return %b : tensor<8xi1>" if after else f"\n    {end}")
    )
    start = text.index("func.func") if first else text.rindex("}")
    call = call_of(read(f"{text[:start]}{elsewhere}\n  {text[start:]}"))
    assert call is not None and call.settings.get("boolean_results") == expected


def test_side_effect_and_name_are_settings() -> None:
    more = (
        ', has_side_effect = true, kernel_name = "attention", mhlo.frontend_attributes = '
        r'{kernel_metadata = "{\0A\22block\22: 8}"}'
    )
    call = call_of(read(_call(_config(KERNEL, device_type="x"), more=more)))
    assert call is not None
    assert call.settings == {
        "custom_call_config": {},
        "device_type": "x",
        "has_side_effect": True,
        "kernel_name": "attention",
        "metadata": {"block": 8},
    }


def test_settings_may_lack_quotes_as_in_protocol_buffers() -> None:
    quoted = _config(KERNEL, flag="a, b: 1", flags=[{"type": "F", "value": {"on": True}}])
    for name in ("flags", "value", "custom_call_config"):
        assert call_of(read(_call(quoted.replace(f'"{name}"', name)))) == call_of(
            read(_call(quoted))
        )


@pytest.mark.parametrize(
    "text, code, message, line",
    [
        (_call("{"), "bad-configuration", "expected JSON as configuration of the call", 7),
        (_call("[]"), "bad-configuration", "expected a string 'custom_call_config.body'", 7),
        (_call('{"custom_call_config": 1}'), "bad-configuration", "expected a string", 7),
        (_call(_config("@@@@")), "bad-base64", "expected a body in base64", 7),
        (_call(_config("AAAA"), "(tensor<8xf32>) -> (8)"), "syntax", "expected a type, got '8'", 7),
        (_call(_config("AAAA"), "(i32) -> i32"), "syntax", "expected a tensor type, got 'i32'", 7),
        (_call(_config(KERNEL), more=f", output_operand_aliases = [{ALIAS.format('', 3)}]"),
         "bad-alias", "alias of operand 3 and result 0 in a call of 1 operands", 7),
        (_call(_config(KERNEL)).replace("@tpu_custom_call(%0)", "@other(%0)"),
         "no-kernel", "expected a custom call of @tpu_custom_call, found none", 0),
        (_call(_config(KERNEL))[:-120], "syntax", "", 7),
        (_call(_config(KERNEL), more=", output_operand_aliases = #alias"),
         "syntax", "undefined alias #alias", 7),
        (_call(_config(KERNEL), more=", output_operand_aliases = [#a<operand_index = 0>]"),
         "syntax", "expected output_tuple_indices and operand_index", 7),
        (_call(_config(KERNEL), more=f", output_operand_aliases = [{ALIAS.format('', 'x')}]"),
         "syntax", "expected a number, got 'x'", 7),
        (_call(_config(KERNEL), more=f", output_operand_aliases = [{ALIAS.format('', LONG)}]"),
         "syntax", "expected a number, got '9999", 7),
        (_call(_config("AAAA")).rpartition("->")[0] + "->", "syntax", "expected a type, got ''", 7),
        (_call(_config(KERNEL)).replace("backend_config", "config"),
         "bad-configuration", "expected an attribute backend_config", 7),
        (_call(_config(KERNEL)).replace("(%0) {", "(%0) else {"),
         "syntax", "expected the attributes or the type of the custom call", 7),
        (_call(_config(KERNEL), more=", kernel_name = 8"), "syntax", "expected string, got '8'", 7),
        ('module { %0 = "stablehlo.add', "syntax", "expected a string that ends", 1),
        ("HloModule m\n\nENTRY e {\n  ROOT p = f32[8] parameter(0)\n}\n",
         "no-kernel", "expected a custom call of @tpu_custom_call, found none", 0),
        ('HloModule m\nx = f32[8] custom-call(y), custom_call_target="tpu_custom_call", '
         "backend_config={}\n", "syntax", "undefined instruction y", 2),
        (f'HloModule m\nx = f32[{LONG}] parameter(0)\n'
         'y = f32[8] custom-call(x), custom_call_target="tpu_custom_call"\n',
         "syntax", "expected a number", 2),
        ('HloModule m\nx = f32[8] custom-call(), custom_call_target="tpu_custom_call", '
         f"output_to_operand_aliasing={{{{}}: ({LONG}, {{}})}}, backend_config={{}}\n",
         "syntax", "expected a number", 2),
        ('HloModule m\nx = f32[8] custom-call(y z), custom_call_target="tpu_custom_call", '
         "backend_config={}\n", "syntax", "expected a shape and a name, got 'y z'", 2),
        ('HloModule m\nx = f32[8] custom-call(), custom_call_target="tpu_custom_call"\n',
         "bad-configuration", "expected an attribute backend_config", 2),
    ],
)  # fmt: skip
def test_broken_programs(text: str, code: str, message: str, line: int) -> None:
    with pytest.raises(ReadError) as caught:
        read(text, "program.mlir")
    assert (caught.value.code, message in caught.value.message) == (code, True), caught.value
    assert caught.value.location is not None
    assert (caught.value.location.file, caught.value.location.line) == ("program.mlir", line)


@pytest.mark.parametrize(
    "text",
    [
        "HloModule m\nx = f32[8] parameter(0)\n",
        "module { %0 = stablehlo.add %a, %a : tensor<8xf32> }",
    ],
)
def test_programs_without_calls_are_refused_unread(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long they are: only what tells their kind is read."""
    monkeypatch.setattr(frontend, "Tokens", None)
    with pytest.raises(ReadError) as caught:
        read(text, "program.mlir")
    assert caught.value.code == "no-kernel"


def test_target_with_escaped_letters(data: Path) -> None:
    text = (data / "two_calls.generic.stablehlo.mlir").read_text()
    escaped = text.replace('"tpu_custom_call"', '"tpu\\5Fcustom\\5Fcall"')
    assert "tpu_custom_call" not in escaped
    assert call_of(read(escaped)) is not None


@pytest.mark.parametrize("text", ["", "\n \n", "<html>", '{"a": 1}', "; ModuleID\n", " define i32"])
def test_text_that_is_no_kernel(text: str) -> None:
    with pytest.raises(ReadError) as caught:
        read(text, "kernel.mlir")
    kinds, how = caught.value.notes
    assert "MLIR text or Mosaic bytecode, or a StableHLO" in kinds.message
    assert 'lower(lowering_platforms=("tpu",)).as_text()' in how.message


@pytest.mark.parametrize("text", ["import jax\n", '"""Softmax."""\nimport jax\n'])
def test_a_program_in_python(text: str) -> None:
    with pytest.raises(ReadError, match=r"registered|the name of an operation") as caught:
        read(text, "program.py")
    assert "python -m pallasite.jax FILE.py" in caught.value.notes[-1].message


def test_hlo_without_kernels() -> None:
    """As JAX 0.8 prints it."""
    call = 'x = f32[8] custom-call(), custom_call_target="tpu_custom_call"'
    with pytest.raises(ReadError, match="take as_text"):
        read(f"HloModule m\n{call}\n", "program.hlo")


def test_errors_behind_the_first_word_do_not_ask_what_the_file_is() -> None:
    with pytest.raises(ReadError) as caught:
        read("func.func @f(", "kernel.mlir")
    assert not caught.value.notes


def test_errors_in_the_kernel_name_the_call() -> None:
    with pytest.raises(ReadError) as caught:
        read(_call(_config(b"ML\xefR\x0d")), "program.mlir")
    note = caught.value.notes[-1]
    assert note.message == "in the kernel of custom call 0"
    assert str(note.location) == "program.mlir:7:10"


def test_hlo_spellings(data: Path) -> None:
    text = (data / "two_calls.hlo").read_text()
    text = re.sub(r"\b(x|y|pallas_call)\.(\d)", r"%\1.\2", text)
    text = text.replace("custom-call(%x.1, %y.1)", "custom-call(f32[16,128]{1,0:T(8,128)} %x.1, "
                        "/*index=1*/f32[16,128]{1,0:T(8,128)S(1)} %y.1)")  # fmt: skip
    quoted = re.sub(
        r"backend_config=(\{.*\})$",
        lambda m: "backend_config=" + json.dumps(m[1]) + ', metadata={op_name="f" source_line=3}',
        text,
        count=1,
        flags=re.M,
    )
    assert quoted != text
    for call in (0, 1):
        kernel = call_of(read(quoted, "f.hlo", call))
        assert kernel == call_of(read((data / "two_calls.hlo").read_text(), "f.hlo", call))


def test_hlo_element_types() -> None:
    body = json.dumps({"custom_call_config": {"body": KERNEL}})
    types = {"pred": "i1", "s8": "i8", "u8": "ui8", "bf16": "bf16", "f8e4m3fn": "f8E4M3FN",
             "f8e5m2": "f8E5M2", "s4": "i4", "u32": "ui32", "c64": "complex<f32>"}  # fmt: skip
    for spelled, printed in types.items():
        text = (
            f"HloModule m\nENTRY e {{\n  p = {spelled}[2,3] parameter(0)\n"
            f"  s = {spelled}[] constant(0)\n  c = ({spelled}[2,3], f32[]) custom-call(p, s), "
            f'custom_call_target="tpu_custom_call", '
            f"output_to_operand_aliasing={{{{0}}: (0, {{}}), {{1}}: (1, {{}})}}, "
            f"backend_config={body}\n}}\n"
        )
        call = call_of(read(text))
        assert call is not None
        assert [str(t) for t in call.operands] == [f"tensor<2x3x{printed}>", f"tensor<{printed}>"]
        assert [str(t) for t in call.results] == [f"tensor<2x3x{printed}>", "tensor<f32>"]
        assert call.aliases == ((0, 0), (1, 1))


def test_other_bytes_are_refused() -> None:
    with pytest.raises(ReadError, match="expected Mosaic bytecode"):
        read(b"\x7fELF\x00\xff", "x.bin")


def test_bare_kernels_have_no_calls(body: Body) -> None:
    assert call_of(read(body("cf_while"))) is None
    for bare in (body("cf_while"), KERNEL):
        with pytest.raises(UsageError, match="expected call 0 of a file that holds a kernel"):
            read(bare, call=1)


def test_byte_order_mark_is_no_text(data: Path) -> None:
    text = (data / "two_calls.hlo").read_bytes()
    assert call_of(read(b"\xef\xbb\xbf" + text)) == call_of(read(text))


@pytest.mark.parametrize("spelt, text", [(r"\101\x42\n\"\\", 'AB\n"\\'), ("\u00e4", "\u00e4")])
def test_literals_of_hlo_have_escapes_of_c(spelt: str, text: str) -> None:
    assert unescape_c(f'"{spelt}"') == text
