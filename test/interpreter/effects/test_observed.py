"""Which loads of what a kernel stores to are reads, as the check `init` tells."""

from __future__ import annotations

import pytest

VMEM = "#tpu.memory_space<vmem>"
TABLE = "memref<1xi32, #tpu.memory_space<smem>>"
ARRAY = f"memref<32x128xf32, {VMEM}>"
INDICES = """
      %c0 = arith.constant 0 : index
      %zero = arith.constant 0 : index
      %c4 = arith.constant 4 : index
      %c8 = arith.constant 8 : index
      %n = memref.load %s[%c0] : memref<1xi32, #tpu.memory_space<smem>>
      %i = arith.index_cast %n : i32 to index
      %m = memref.load %s[%zero] : memref<1xi32, #tpu.memory_space<smem>>
      %same = arith.index_cast %m : i32 to index
      %four = arith.constant 4 : i32
      %later = arith.addi %n, %four : i32
      %i4 = arith.index_cast %later : i32 to index
      %too = arith.addi %i, %c4 : index
      %rest = arith.remsi %i, %c8 : index
      %again = arith.remsi %i, %c8 : index"""


def sublanes(first: int, end: int) -> str:
    flags = ", ".join("true" if first <= s < end else "false" for s in range(8))
    return f"sublanes [{flags}]"


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        ("%c0", "%c0", 0),
        ("%c0", "%zero", 0),
        ("%c8", "%c0", 1),
        ("%i", "%i", 0),
        ("%i4", "%i", 1),
        ("%i4", "%too", 0),
        ("%c8", "%i", 1),
        ("%i", "%same", 0),
        ("%i", "%rest", 1),
        ("%rest", "%again", 0),
    ],
)
def test_what_is_stored_elsewhere_was_read(run, source, target, found):
    text = f"""
    func.func @main(%a: {ARRAY}, %s: {TABLE}) {{{INDICES}
      %x = vector.load %a[{source}, %c0] : {ARRAY}, vector<8x128xf32>
      tpu.vector_store %a[{target}, %c0], %x {{strides = array<i32>}}
        : {ARRAY}, vector<8x128xf32>,
      return
    }}"""
    run(text, None, [8], checks=("init",))
    assert [finding.code for finding in run.machine.findings] == ["uninitialised-read"] * found


@pytest.mark.parametrize(
    ("source", "stride", "target", "stored", "found"),
    [
        ("%c0", 1, "%c0", (0, 8), 0),
        ("%c0", 1, "%c8", (0, 8), 1),
        ("%c0", 0, "%c0", (0, 8), 1),
        ("%c0", 0, "%c0", (0, 1), 0),
        ("%c4", 0, "%c0", (4, 5), 0),
        ("%c4", 0, "%c0", (3, 5), 1),
        ("%i", 0, "%i", (1, 2), 1),
    ],
)
def test_sublanes_are_of_the_rows_that_they_came_from(run, source, stride, target, stored, found):
    text = f"""
    func.func @main(%a: {ARRAY}, %s: {TABLE}) {{{INDICES}
      %x = tpu.load %a[{source}, %c0] {sublanes(0, 8)} sublane_stride {stride}
        : {ARRAY}, vector<8x128xf32>
      tpu.store %a[{target}, %c0], %x {sublanes(*stored)} : {ARRAY}, vector<8x128xf32>,
      return
    }}"""
    run(text, None, [8], checks=("init",))
    assert [finding.code for finding in run.machine.findings] == ["uninitialised-read"] * found


@pytest.mark.parametrize(("step", "found"), [(1, 0), (2, 1)])
def test_rows_at_a_distance_are_stored_elsewhere(run, step, found):
    text = f"""
    func.func @main(%a: {ARRAY}, %s: {TABLE}) {{{INDICES}
      %x = tpu.strided_load %a[%c0, %c0] {{strides = array<i32: {step}, 1>}}
        : {ARRAY}, vector<8x128xf32>
      tpu.vector_store %a[%c0, %c0], %x {{strides = array<i32>}}
        : {ARRAY}, vector<8x128xf32>,
      return
    }}"""
    run(text, None, [8], checks=("init",))
    assert [finding.code for finding in run.machine.findings] == ["uninitialised-read"] * found


@pytest.mark.parametrize(("target", "found"), [("%i", 0), ("%i4", 1)])
def test_a_ref_seen_as_another_type_has_the_same_places(run, target, found):
    words = ARRAY.replace("f32", "i32")
    text = f"""
    func.func @main(%a: {ARRAY}, %s: {TABLE}) {{{INDICES}
      %b = tpu.memref_bitcast %a : {ARRAY} -> {words}
      %x = vector.load %b[%i, %c0] : {words}, vector<8x128xi32>
      %y = tpu.bitcast %x : vector<8x128xi32> -> vector<8x128xf32>
      tpu.vector_store %a[{target}, %c0], %y {{strides = array<i32>}}
        : {ARRAY}, vector<8x128xf32>,
      return
    }}"""
    run(text, None, [8], checks=("init",))
    assert [finding.code for finding in run.machine.findings] == ["uninitialised-read"] * found
