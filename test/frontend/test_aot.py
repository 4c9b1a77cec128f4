"""Asking the TPU compiler: what it is sent, and (with the `aot` extra) what it answers."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import IntegerAttr, TensorType, UnregisteredOp, f32, i32, i64
from xdsl.ir import Attribute

from pallasite.diagnostics import Diagnostic, UsageError
from pallasite.dialects.kernel_call import Call, call_of, set_call
from pallasite.frontend import aot, read
from pallasite.frontend.bytecode_reader import read_bytecode
from pallasite.frontend.versions import upgrade

REFERENCE = "memref<16x256xf32, #tpu.tiled<(8,128),[2,1]>, #tpu.memory_space<vmem>>"
REGISTER = "vector<8x128xf32>"
SUBLANES = f"sublanes [{', '.join(['true'] * 8)}]"


def _register_kernel(body: str, version: str = "") -> str:
    """A module in register form: loads a register, does `body` to it, stores the result."""
    return f"""
module attributes {{tpu.form = "vreg"{version}}} {{
  func.func @main(%a: {REFERENCE}, %o: {REFERENCE}) attributes {{tpu.core_type = #tpu.core_type<tc>,
      dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64}} {{
    %c0 = arith.constant 0 : index
    %v = tpu.load %a[%c0, %c0] {SUBLANES} : {REFERENCE}, {REGISTER}
    {body}
    tpu.store %o[%c0, %c0], %w {SUBLANES} : {REFERENCE}, {REGISTER},
    return
  }}
}}
"""


def _reduce(kind: str) -> str:
    return (
        f"%w = tpu.all_reduce %v {{dim = 1 : i64, kind = #tpu.reduction_kind<{kind}>}} : "
        f"{REGISTER} -> {REGISTER}"
    )


def _with_call(text: str, **settings: Any) -> Any:
    module = read(text)
    array: TensorType[Attribute] = TensorType(f32, [16, 256])
    set_call(module, Call((array,), (array,), (), settings))
    return module


@pytest.fixture
def request_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What `compile_ahead_of_time` would send to the compiler's process."""

    def capture(module: Any, **options: Any) -> dict[str, Any]:
        sent: list[dict[str, Any]] = []

        def ask(request: dict[str, Any], timeout: float) -> aot.Verdict:
            sent.append(request)
            return aot.Verdict(True, "", 0.0, 0)

        monkeypatch.setattr(aot, "_ask", ask)
        aot.compile_ahead_of_time(module, topology="v5e:2x2", layout_passes=False, **options)
        return sent[0]

    return capture


def test_settings_of_the_call_are_forwarded(data: Path, request_of: Any) -> None:
    module = read((data / "two_calls.stablehlo.mlir").read_text(), call=1)
    config = json.loads(request_of(module)["config"])
    own = config["custom_call_config"]
    assert own["cost_estimate"]["flops"] == 1
    assert (own["serialization_format"], own["needs_layout_passes"]) == (1, False)
    assert request_of(module)["aliases"] == [(1, 0)]
    first = read((data / "two_calls.stablehlo.mlir").read_text())
    config = json.loads(request_of(first)["config"])
    assert config["scoped_memory_configs"][0]["size"] == 1048576
    assert "kernel_name" not in config


def test_the_memory_of_operands(request_of: Any) -> None:
    """The compiler aborts where a kernel takes host memory and its operand is in the device's."""
    arrays = ", ".join(
        f"%{name}: memref<16x256xf32, #tpu.memory_space<{space}>>"
        for name, space in (("a", "any"), ("b", "host"), ("o", "any"))
    )
    module = read(f"""
    func.func @main({arrays}) attributes {{tpu.core_type = #tpu.core_type<tc>,
        dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64}} {{
      return
    }}""")
    array: TensorType[Attribute] = TensorType(f32, [16, 256])
    set_call(module, Call((array, array), (array,), (), {}))
    assert request_of(module)["memories"] == [None, "pinned_host"]
    assert request_of(_with_call(_register_kernel(_reduce("sum"))))["memories"] == [None]


def test_our_own_settings_stay_here(data: Path, request_of: Any) -> None:
    module = read((data / "bool_output.stablehlo.mlir").read_text())
    call = call_of(module)
    assert call is not None and "boolean_results" in call.settings
    assert "boolean_results" not in request_of(module)["config"]


def test_communication_and_checks_are_forwarded(request_of: Any) -> None:
    own = {"has_communication": True, "collective_id": 3, "disable_bounds_checks": True}
    module = _with_call(_register_kernel(_reduce("sum")), custom_call_config=own)
    sent = json.loads(request_of(module)["config"])["custom_call_config"]
    assert own.items() <= sent.items()


def test_window_settings_need_windows(data: Path, request_of: Any) -> None:
    fusion = {"allow_input_fusion": [True]}
    bare = _with_call(_register_kernel(_reduce("sum")), custom_call_config=fusion)
    assert "allow_input_fusion" not in request_of(bare)["config"]
    gridded = read((data / "flash_bf16.stablehlo.mlir").read_text())
    call = call_of(gridded)
    assert call is not None
    set_call(gridded, Call(call.operands, call.results, (), {"custom_call_config": fusion}))
    assert "allow_input_fusion" in request_of(gridded)["config"]


def test_body_is_the_module_in_stable_form(request_of: Any) -> None:
    module = _with_call(_register_kernel(_reduce("max")))
    before = str(module)
    config = json.loads(request_of(module)["config"])["custom_call_config"]
    sent = read_bytecode(base64.b64decode(config["body"]))
    assert sent.attributes == {"stable_mosaic.version": IntegerAttr(15, i64)}
    assert all(op is sent or isinstance(op, UnregisteredOp) for op in sent.walk())
    upgrade(sent)
    assert "#tpu.reduction_kind<maxf>" in str(sent)
    assert str(module) == before


@pytest.mark.parametrize("recorded, sent", [(2, 8), (8, 8), (11, 15)])
def test_old_gridded_modules_keep_their_buffering(data: Path, recorded: int, sent: int) -> None:
    """The newest version that means what theirs does: version 2 cannot say all that is upgraded."""
    module = read((data / "flash_bf16.stablehlo.mlir").read_text())
    key = "stable_mosaic.version"
    module.attributes[key] = IntegerAttr(recorded, i64)
    assert read_bytecode(aot.kernel_bytecode(module)).attributes[key] == IntegerAttr(sent, i64)


@pytest.mark.parametrize("kind, element, name", [
    ("max", "f32", "maxf"), ("min", "f32", "minf"), ("max", "i32", "maxsi"),
    ("min", "i32", "minsi"), ("sum", "f32", "sum"), ("arg_max", "f32", "arg_max"),
])  # fmt: skip
def test_reductions_are_named_by_type(kind: str, element: str, name: str) -> None:
    vector = f"vector<8x128x{element}>"
    result = "vector<8x128xi32>" if kind.startswith("arg") else vector
    module = read(f"""
      func.func @main(%v: {vector}) {{
        %w = tpu.all_reduce %v {{dim = 1 : i64, kind = #tpu.reduction_kind<{kind}>}} :
          {vector} -> {result}
        return
      }}""")
    aot.rename_reductions(module)
    assert f"#tpu.reduction_kind<{name}>" in str(module)


@pytest.mark.parametrize("spelled, name", [
    ("i1", "bool"), ("ui8", "uint8"), ("i4", "int4"), ("i64", "int64"), ("bf16", "bfloat16"),
    ("f16", "float16"), ("f32", "float32"), ("f8E4M3FN", "float8_e4m3fn"),
    ("f8E5M2", "float8_e5m2"), ("f8E4M3B11FNUZ", "float8_e4m3b11fnuz"),
    ("f4E2M1FN", "float4_e2m1fn"), ("complex<f32>", "complex64"),
])  # fmt: skip
def test_element_types_are_named_as_in_numpy(spelled: str, name: str, request_of: Any) -> None:
    import ml_dtypes
    import numpy as np

    module = _with_call(_register_kernel(_reduce("sum")))
    text = f"module attributes {{t = tensor<2x{spelled}>}} {{}}"
    array = read(text).attributes["t"]
    set_call(module, Call((array,), ()))
    request = request_of(module)
    assert request["operands"] == [([2], name)] and request["side_effect"]
    np.dtype(getattr(ml_dtypes, name, name))


def test_a_bare_module_is_refused() -> None:
    module = read(_register_kernel(_reduce("sum")))
    with pytest.raises(UsageError, match="does not record the types of its operands"):
        aot.compile_ahead_of_time(module, topology="v5e:2x2", layout_passes=False)


def test_a_kernel_of_several_is_not_asked_about(request_of: Any) -> None:
    """A semaphore that another kernel gets is nothing that the compiler takes from outside."""
    space = "#tpu.memory_space<semaphore_mem>"
    module = read(f"""
    func.func @main(%a: {REFERENCE}, %done: memref<!tpu.dma_semaphore, {space}>) attributes {{
        tpu.core_type = #tpu.core_type<tc>, dimension_semantics = [], scalar_prefetch = 0 : i64,
        scratch_operands = 0 : i64}} {{
      return
    }}""")
    array: TensorType[Attribute] = TensorType(f32, [16, 256])
    set_call(module, Call((array,), (TensorType(i32, []),), (), {}))
    with pytest.raises(UsageError, match="operand 1 of the kernel is a semaphore"):
        request_of(module)


def _child(code: str, monkeypatch: pytest.MonkeyPatch, timeout: float = 600.0) -> aot.Verdict:
    """Asks a child process that runs `code` in place of the compiler."""
    start = subprocess.Popen

    def instead(command: list[str], **options: Any) -> Any:
        return start([sys.executable, "-c", code], **options)

    monkeypatch.setattr(aot.subprocess, "Popen", instead)
    return aot.compile_ahead_of_time(
        _with_call(_register_kernel(_reduce("sum"))),
        topology="v5e:2x2",
        layout_passes=False,
        timeout=timeout,
    )


def test_an_abort_is_a_rejection(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import os, sys; print('F1120 12:00 lower.cc:7] no bf16 here', file=sys.stderr);"
        "print('*** stack', file=sys.stderr, flush=True); os.abort()"
    )
    verdict = _child(code, monkeypatch)
    assert not verdict.accepted
    assert verdict.message == "the compiler aborted (SIGABRT): F1120 12:00 lower.cc:7] no bf16 here"


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys; sys.modules['libtpu'] = None\n"
        "from pallasite.frontend.aot_child import main; main()"
    )
    with pytest.raises(UsageError, match=r"install pallasite\[aot\]"):
        _child(code, monkeypatch)


def test_a_failing_child_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Diagnostic, match="the TPU compiler did not run: ValueError: no"):
        _child("raise ValueError('no')", monkeypatch)


def test_a_silent_child_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Diagnostic, match=r"gave no answer within 0\.2 seconds"):
        _child("import time; time.sleep(9)", monkeypatch, timeout=0.2)


@pytest.mark.aot
def test_the_compiler_accepts_and_rejects(compiler: aot.Compiler) -> None:
    def ask(module: Any, topology: str = "v5e:2x2") -> aot.Verdict:
        return aot.compile_ahead_of_time(
            module, topology=topology, layout_passes=False, compiler=compiler
        )

    good = _with_call(_register_kernel(_reduce("max")))
    verdict = ask(good)
    assert verdict.accepted and verdict.message == "" and verdict.seconds > 0
    assert verdict.code_bytes is not None and verdict.code_bytes > 0
    bad = _with_call(_register_kernel(_reduce("find_first_set")))
    verdict = ask(bad)
    assert not verdict.accepted and "find_first_set" in verdict.message
    with pytest.raises(UsageError, match="does not know topology 'v5e:9x9x9'"):
        ask(good, "v5e:9x9x9")
