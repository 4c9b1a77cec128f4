"""Any module is safe to run: whatever it asks for, the answer is a diagnostic, and soon."""

# ruff: noqa: E501 (MLIR)

from __future__ import annotations

import time

import numpy as np
import pytest

import pallasite
from pallasite import Diagnostic
from pallasite.interpreter.driver import DEFAULT_STEPS

VMEM = "#tpu.memory_space<vmem>"
BLOCK = f"memref<8x128xf32, {VMEM}>"
SEMAPHORE = "memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>"
DMA = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"
WINDOW = "{transform_indices = @t, window_bounds = array<i64: 8, 128>}"
MAP = "func.func @t(%i: i32) -> (i32, i32) {\n %z = arith.constant 0 : i32\n return %z, %z : i32, i32\n}"
FOREVER = "scf.while () : () -> () {\n %t = arith.constant true\n scf.condition(%t)\n} do {\n"
END = "\n scf.yield\n}"


def module(body: str, *, grid: str = "", functions: str = "", output: str = BLOCK) -> str:
    steps = grid.count(",") + 1 if grid else 0
    points = "".join(f"%i{d}: i32, " for d in range(steps))
    semantics = ", ".join(["#tpu.dimension_semantics<arbitrary>"] * steps)
    windows = (
        f"iteration_bounds = array<i64: {grid}>, window_params = [{WINDOW}, {WINDOW}],"
        if grid
        else ""
    )
    return f"""module {{
      func.func @kernel({points}%x: {BLOCK}, %o: {output}) attributes {{
          dimension_semantics = [{semantics}], {windows} scalar_prefetch = 0 : i64,
          scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>}} {{
        %c0 = arith.constant 0 : index
        %z = arith.constant 0 : i32
        %one = arith.constant 1 : i32
        {body}
        return
      }}
      {functions}
    }}"""


SQUARE = "vector<1048576x1048576xf32>"
CASES = {
    "huge-grid": (module("", grid="2147483646", functions=MAP), "step-limit"),
    "huge-grid-of-two": (
        module("", grid="32768, 65535", functions=MAP.replace("%i:", "%j: i32, %i:")), "step-limit"),
    "grid-beyond-words": (module("", grid="1099511627776", functions=MAP), "kernel-signature"),
    "grid-of-two-beyond-words": (
        module("", grid="1048576, 1048576", functions=MAP.replace("%i:", "%j: i32, %i:")),
        "kernel-signature"),
    "endless-while": (module(FOREVER + END), "step-limit"),
    "long-loops": (module("""
        %n = arith.constant 2147483647 : i32
        scf.for %i = %z to %n step %one : i32 {
          scf.for %j = %z to %n step %one : i32 {
          }
        }"""), "step-limit"),
    "endless-big-vectors": (module(f"""
        %v = vector.load %x[%c0, %c0] : {BLOCK}, vector<8x128xf32>
        %w = vector.broadcast %v : vector<8x128xf32> to vector<1024x8x8x128xf32>
        {FOREVER} %u = math.exp %w : vector<1024x8x8x128xf32> {END}"""), "step-limit"),
    "endless-log": (module(
        FOREVER + '"tpu.log"(%z) <{tag = "again", formatted = false}> : (i32) -> ()' + END), "step-limit"),
    "self-signal": (module(f"""
        %q = tpu.sem_alloc : {SEMAPHORE}
        {FOREVER} tpu.sem_signal %q, %one : {SEMAPHORE}
        tpu.sem_wait %q, %one : {SEMAPHORE} {END}"""), "step-limit"),
    "poll": (module(f"""
        %q = tpu.sem_alloc : {SEMAPHORE}
        scf.while () : () -> () {{
          %v = tpu.sem_read %q : {SEMAPHORE} -> i32
          %t = arith.cmpi eq, %v, %z : i32
          scf.condition(%t)
        }} do {{
          scf.yield
        }}"""), "step-limit"),
    "calls-that-double": (module("func.call @f0(%z) : (i32) -> ()", functions="\n".join(
        f"func.func @f{k}(%i: i32) {{\n func.call @f{k + 1}(%i) : (i32) -> ()\n"
        f" func.call @f{k + 1}(%i) : (i32) -> ()\n return\n}}" for k in range(40)
    ) + "\nfunc.func @f40(%i: i32) {\n return\n}"), "step-limit"),
    "dma-without-end": (module(f"""
        %a = memref.alloca() : {BLOCK}
        %b = memref.alloca() : {BLOCK}
        %q = tpu.sem_alloc : {DMA}
        {FOREVER} tpu.enqueue_dma source(%a : {BLOCK}) target(%b : {BLOCK}) target_semaphore(%q : {DMA}) {END}
        """), "too-many-dmas"),
    "big-buffer": (module(f"%b = memref.alloca() : memref<1048576x1048576xf32, {VMEM}>"), "vmem-exhausted"),
    "big-hbm-buffer": (module(f"""
        %b = memref.alloca() : memref<2000000x1024xf32, #tpu.memory_space<any>>
        %s = memref.alloca() : {BLOCK}
        %q = tpu.sem_alloc : {DMA}
        %v = tpu.memref_slice %b[%z, %z] : memref<2000000x1024xf32, #tpu.memory_space<any>> -> memref<8x128xf32, #tpu.memory_space<any>>
        tpu.enqueue_dma source(%s : {BLOCK}) target(%v : memref<8x128xf32, #tpu.memory_space<any>>) target_semaphore(%q : {DMA})
        tpu.wait_dma2 semaphore(%q : {DMA}) src(%s : {BLOCK}) dst(%v : memref<8x128xf32, #tpu.memory_space<any>>)
        """), "memory-limit"),
    "big-argument": (module("", output=f"memref<1048576x1048576xf32, {VMEM}>"), "vmem-exhausted"),
    "many-dimensions": (module("%v = arith.constant dense<1.0> : vector<" + "1x" * 100 + "f32>"),
        "too-many-dimensions"),
    "big-vector": (module(f"""
        %v = arith.constant dense<1.0> : {SQUARE}
        %w = arith.addf %v, %v : {SQUARE}"""), "memory-limit"),
    "many-vectors": (module("%v = arith.constant dense<1.0> : vector<8192x8192xf32>\n" + "\n".join(
        f"%w{i} = arith.addf %v, %v : vector<8192x8192xf32>" for i in range(9)
    ) + "\n" + "\n".join(f"%u{i} = arith.addf %w{i}, %w{8 - i} : vector<8192x8192xf32>" for i in range(9))),
        "memory-limit"),
    "semaphores": (module("%q = tpu.sem_alloc : memref<1000000000x!tpu.semaphore, #tpu.memory_space<semaphore_mem>>"),
        "semaphore-mem-exhausted"),
    "negative-size": (module(f"""
        %n = arith.constant -5 : index
        %b = memref.alloca(%n) : memref<?x128xf32, {VMEM}>"""), "negative-size"),
    "dynamic-size": (module(f"""
        %n = arith.constant 1099511627776 : index
        %b = memref.alloca(%n) : memref<?x128xf32, {VMEM}>"""), "vmem-exhausted"),
    "negative-signal": (module(f"""
        %q = tpu.sem_alloc : {SEMAPHORE}
        %m = arith.constant -1 : i32
        tpu.sem_signal %q, %m : {SEMAPHORE}"""), "semaphore-amount"),
    "recursion": (module("func.call @f(%z) : (i32) -> ()",
        functions="func.func @f(%i: i32) {\n func.call @f(%i) : (i32) -> ()\n return\n}"), "recursive-call"),
    "recursion-of-two": (module("func.call @f(%z) : (i32) -> ()",
        functions="func.func @f(%i: i32) {\n func.call @g(%i) : (i32) -> ()\n return\n}\n"
        "func.func @g(%i: i32) {\n func.call @f(%i) : (i32) -> ()\n return\n}"), "recursive-call"),
    "deep-nesting": (module("%t = arith.cmpi eq, %z, %one : i32\n" + "scf.if %t {\n" * 5000 + "}\n" * 5000),
        "nested-too-deeply"),
    "deep-calls": (module("func.call @f0(%z) : (i32) -> ()", functions="\n".join(
        f"func.func @f{k}(%i: i32) {{\n func.call @f{k + 1}(%i) : (i32) -> ()\n return\n}}" for k in range(200)
    ) + "\nfunc.func @f200(%i: i32) {\n return\n}"), "nested-too-deeply"),
    "reduced-dimension": (module(f"""
        %v = vector.load %x[%c0, %c0] : {BLOCK}, vector<8x128xf32>
        %w = tpu.all_reduce %v {{dim = 7 : i64, kind = #tpu.reduction_kind<max>}} : vector<8x128xf32> -> vector<8x128xf32>"""),
        "no-meaning"),
    "cast-of-memory": (module(f"""
        %m = arith.bitcast %x : {BLOCK} to {BLOCK.replace("f32", "i32")}"""), "no-meaning"),
    "map-of-one-index": (module("", grid="2",
        functions="func.func @t(%i: i32) -> (i32) {\n return %i : i32\n}"), "index-map"),
    "map-of-floats": (module("", grid="2",
        functions="func.func @t(%i: i32) -> (f32, f32) {\n %f = arith.constant 1.5 : f32\n return %f, %f : f32, f32\n}"),
        "index-map"),
    "map-of-other-arguments": (module("", grid="2",
        functions="func.func @t(%i: i32, %j: i32) -> (i32, i32) {\n return %i, %j : i32, i32\n}"), "index-map"),
    "no-such-memory": (module("", output="memref<8x128xf32, #tpu.memory_space<vmem_shared>>"), "memory-space"),
    "no-map": (module("", grid="2"), "index-map"),
    "kernel-as-map": (module("", grid="2").replace("@t", "@kernel"), "index-map"),
}  # fmt: skip


@pytest.mark.parametrize("driver", ["compiled", "reference"])
@pytest.mark.parametrize("name", CASES)
def test_ends_in_a_diagnostic(name: str, driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, code = CASES[name]
    # As many steps as here end sooner than the DMAs that may be in flight.
    monkeypatch.setattr("pallasite.interpreter.machine.dma.MOST_IN_FLIGHT", 4096)
    steps = 300_000 if driver == "compiled" else 170_000  # the reference driver is much slower
    began = time.process_time()
    with pytest.raises(Diagnostic) as caught:
        pallasite.run(
            pallasite.parse(text, name="hostile.mlir"), [np.zeros((8, 128), np.float32)], form="mosaic",
            results=[((8, 128), "float32")], driver=driver, max_steps=steps, max_memory=1 << 30,
            allow_beyond_reference=True,
        )  # fmt: skip
    assert caught.value.code == code, str(caught.value)
    assert caught.value.location is not None, str(caught.value)
    assert time.process_time() - began < 10


ALL = "sublanes [true, true, true, true, true, true, true, true]"


@pytest.mark.parametrize("driver", ["compiled", "reference"])
def test_part_of_a_register_is_no_register(driver: str) -> None:
    part = "vector<8x3xf32>"
    text = module(f"""
        %v = tpu.load %x[%c0, %c0] {ALL} : {BLOCK}, {part}
        tpu.store %o[%c0, %c0], %v {ALL} : {BLOCK}, {part},""")
    with pytest.raises(Diagnostic) as caught:
        pallasite.run(
            pallasite.parse(text), [np.zeros((8, 128), np.float32)], form="vreg", driver=driver,
            results=[((8, 128), "float32")],
        )  # fmt: skip
    assert caught.value.code == "not-registers", str(caught.value)


CALL = {"operands": "[tensor<8x128xf32>]", "results": "[tensor<8x128xf32>]", "aliases": "array<i64>",
        "settings": '"{}"'}  # fmt: skip


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("operands", "[f32]"), ("operands", "1 : i32"), ("operands", ""), ("results", "unit"),
        ("aliases", "array<i64: 0>"), ("aliases", "array<i64: 0, 1>"), ("aliases", "array<i64: -1, 0>"), ("aliases", "[]"),
        ("aliases", "array<i64: 0, 0, 0, 0>"),
        ("settings", '"{"'), ("settings", '"[]"'), ("settings", '"\\92"'), ("settings", "1 : i32"),
        ("settings", '"' + "[" * 100_000 + '"'),
    ],
)  # fmt: skip
def test_a_call_that_is_none_is_refused(part: str, text: str) -> None:
    entries = CALL | {part: text}
    call = ", ".join(f"{name} = {value}" for name, value in entries.items() if value)
    kernel = module("").replace("module {", f"module attributes {{tpu.call = {{{call}}}}} {{", 1)
    with pytest.raises(Diagnostic) as caught:
        pallasite.run(pallasite.parse(kernel), [np.zeros((8, 128), np.float32)])
    assert caught.value.code == "bad-call", str(caught.value)


def test_a_call_of_another_kernel_is_refused() -> None:
    call = ", ".join(f"{name} = {value}" for name, value in CALL.items())
    kernel = module("").replace("module {", f"module attributes {{tpu.call = {{{call}}}}} {{", 1)
    parsed = pallasite.parse(kernel.replace("scratch_operands = 0", "scratch_operands = 2"))
    with pytest.raises(Diagnostic) as caught:
        pallasite.lower(parsed, "vreg")
    assert caught.value.code == "call-mismatch" and caught.value.location is not None


ADD = f"""%v = vector.load %x[%c0, %c0] : {BLOCK}, vector<8x128xf32>
    %w = arith.addf %v, %v : vector<8x128xf32>
    tpu.vector_store %o[%c0, %c0], %w {{strides = array<i32>}} : {BLOCK}, vector<8x128xf32>,"""
ENDLESS = {
    "scalars": module(FOREVER + "%a = arith.addi %z, %one : i32" + END),
    "vectors": module(FOREVER + ADD + END),
    "grid": module(ADD, grid="1000000000", functions=MAP),
}


@pytest.mark.parametrize(
    ("name", "form"),
    # Lowering erases a loop of scalar ops that has no effect.
    [("scalars", "mosaic"), *((n, f) for n in ("vectors", "grid") for f in ("mosaic", "tiles", "vreg"))],
)  # fmt: skip
def test_the_default_limit_is_met_soon(name: str, form: str) -> None:
    """A hundredth of the default, for the test; twice the minute that is meant, for slow machines."""
    began = time.process_time()
    with pytest.raises(Diagnostic) as caught:
        pallasite.run(
            pallasite.parse(ENDLESS[name]), [np.zeros((8, 128), np.float32)], form=form,
            results=[((8, 128), "float32")], max_steps=DEFAULT_STEPS // 100,
        )  # fmt: skip
    assert caught.value.code == "step-limit"
    assert time.process_time() - began < 60 / 100 * 2 + 2  # and the time to lower it, at first


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("%r = tpu.unroll_vectors %w : vector<16x128xf32> -> vector<8x128xf32>", "register-count"),
        ("%r:2 = tpu.unroll_vectors %u : vector<12x128xf32> -> vector<8x128xf32>, vector<8x128xf32>", "register-count"),
        ("%r = tpu.roll_vectors %v, %v, %v : vector<8x128xf32>, vector<8x128xf32>, vector<8x128xf32> -> vector<16x128xf32>", "register-count"),
        ("%r = tpu.roll_vectors %v, %w : vector<8x128xf32>, vector<16x128xf32> -> vector<16x128xf32>", "register-count"),
        (f"%r = tpu.create_mask [%c0, %c0] [%c0, %c0] : {BLOCK}", "not-registers"),
        ("%r = tpu.create_mask [%c0, %c0] [%c0, %c0] : vector<128xi1>", "not-registers"),
        ("%r = tpu.unpack_subelements %n, 0 {pack_format = #tpu.pack_format<compressed>} : vector<8x128xbf16> -> vector<8x128xf32>", "not-registers"),
        ("%r = tpu.unpack_subelements %p, 0 {pack_format = #tpu.pack_format<compressed>} : vector<8x128x2xbf16> -> vector<8x8xf32>", "not-registers"),
        ("%r = tpu.unpack_subelements %p, 0 {pack_format = #tpu.pack_format<compressed>} : vector<8x128x2xbf16> -> vector<2x1x8x128xf32>", "register-count"),
        ("%r = tpu.pack_subelements %v, %v {pack_format = #tpu.pack_format<compressed>, positions = array<i32: 0, 1>} : vector<8x128xf32>, vector<8x128xf32> -> vector<2x8x128x2xbf16>", "register-count"),
        ("%r = tpu.all_reduce %g {dim = 0 : i64, kind = #tpu.reduction_kind<sum>} : vector<2x1x8x128xf32> -> vector<2x1x8x128xf32>", "grid-dimension"),
        (f"%r = tpu.load %x[%c0, %c0] sublanes [true] : {BLOCK}, vector<2x1x8x128xf32>", "grid-steps"),
        (f"%r = tpu.load %x[%c0, %c0] sublanes [true] : {BLOCK}, vector<8x128xi32>", "register-elements"),
        (f"%r = tpu.load %x[%c0, %c0] sublanes [true] : {BLOCK}, vector<8x128x2xbf16>", "register-elements"),
        ("%r = tpu.matmul %w, %v, %v {transpose_lhs_hint = false} : vector<16x128xf32>, vector<8x128xf32>, vector<8x128xf32> -> vector<8x128xf32>", "product-shape"),
        ("%r = tpu.matmul %w, %v, %v {transpose_rhs = true, transpose_lhs_hint = false} : vector<16x128xf32>, vector<8x128xf32>, vector<8x128xf32> -> vector<8x128xf32>", "product-shape"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["tiles", "vreg"])
def test_operations_on_no_registers(form: str, body: str, code: str) -> None:
    """The C++ dialect takes them, they have no meaning."""
    vectors = "".join(
        f"%{name} = arith.constant dense<0.0> : vector<{shape}>\n"
        for name, shape in {
            "v": "8x128xf32",
            "w": "16x128xf32",
            "u": "12x128xf32",
            "n": "8x128xbf16",
            "p": "8x128x2xbf16",
            "g": "2x1x8x128xf32",
        }.items()
    )
    parsed = pallasite.parse(
        module(vectors + body).replace(
            "module {", f'module attributes {{tpu.form = "{form}"}} {{', 1
        )
    )
    if code == "grid-steps" and form == "tiles":
        with pytest.raises(Diagnostic) as caught:
            pallasite.lower(parsed, "vreg")
        assert caught.value.code == code and caught.value.location is not None
    x = np.zeros((8, 128), np.float32)
    with pytest.raises(Diagnostic) as caught:
        pallasite.run(parsed, [x], form=form)
    assert caught.value.code == code and caught.value.location is not None
