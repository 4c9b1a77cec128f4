"""Stores of single rows become one store where nothing comes between them, and stay right."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import pallasite

from .memory_kernels import kernel

Array = NDArray[np.float32]


def row(number: int, to: int, change: str = "", source: str = "a", kind: str = "A") -> str:
    """Row `to` of the result is row `number` of a source, after `change` of `%r` to `%c`."""
    width = 128
    n = f"{to}_{number}"
    middle = change.replace("%r", f"%r{n}").replace("%c", f"%c{n}") if change else ""
    value = f"%c{n}" if change else f"%r{n}"
    return f"""%f{n} = arith.constant {number} : index
        %t{n} = arith.constant {to} : index
        %l{n} = vector.load %{source}[%f{n}, %z] : {kind}, vector<1x{width}xf32>
        %r{n} = vector.shape_cast %l{n} : vector<1x{width}xf32> to vector<{width}xf32>
        {middle}
        %s{n} = vector.shape_cast {value} : vector<{width}xf32> to vector<1x{width}xf32>
        tpu.vector_store %b[%t{n}, %z], %s{n} {{strides = array<i32>}} : B, vector<1x{width}xf32>,
        """


def accesses(rows: list[tuple[int, int]], body: str, size: int, result: int) -> tuple[int, int]:
    """Loads and stores of registers in the kernel, whose answer is checked."""
    module = kernel([f"{size}x128xf32", f"{result}x128xf32"], body)
    value = np.random.default_rng(0).integers(-9, 9, (size, 128)).astype(np.float32)
    expected = np.zeros((result, 128), np.float32)
    for source, to in rows:
        expected[to] = value[source]
    lowered = pallasite.lower(module, form="vreg", target="v5e")
    (actual,) = pallasite.run(lowered, [value], form="vreg", target="v5e")
    written = [to for _, to in rows]
    assert np.array_equal(np.asarray(actual)[written], expected[written])
    text = str(lowered)
    return text.count("tpu.load") + text.count("tpu.shuffled_load"), text.count("tpu.store")


@pytest.mark.parametrize(
    ("rows", "size", "loads", "stores"),
    [
        ([(7 - i, i) for i in range(8)], 8, 1, 1),
        ([(i, i) for i in range(16)], 16, 2, 2),
        ([(15 - i, i) for i in range(16)], 16, 2, 2),
        ([(i, i + 3) for i in (2, 0, 1)], 8, 1, 1),
        ([(3, 0), (3, 1), (1, 2), (5, 7)], 8, 2, 2),
        ([(i % 3, i) for i in range(4)], 3, 1, 1),
        ([(0, 0), (9, 1), (2, 2), (20, 3)], 24, 4, 4),
    ],
)
def test_rows_of_one_memory(
    rows: list[tuple[int, int]], size: int, loads: int, stores: int
) -> None:
    body = "".join(row(source, to) for source, to in rows)
    count = max(to for _, to in rows) + 1
    assert accesses(rows, body, size, count) == (loads, stores)


def test_rows_that_read_what_was_written_stay() -> None:
    body = row(0, 0) + row(0, 1, source="b", kind="B") + row(2, 2)
    assert accesses([(0, 0), (0, 1), (2, 2)], body, 8, 8)[1] == 3


def test_rows_written_twice_stay() -> None:
    body = row(0, 0) + row(1, 1) + row(2, 0)
    assert accesses([(2, 0), (1, 1)], body, 8, 8)[1] == 3


def test_rows_that_are_computed() -> None:
    change = """%k{n} = arith.constant 3.0 : f32
        %w{n} = vector.broadcast %k{n} : f32 to vector<128xf32>
        %c = arith.mulf %r, %w{n} : vector<128xf32>"""
    body = "".join(row(i ^ 1, i, change.replace("{n}", str(i))) for i in range(8))
    module = kernel(["8x128xf32", "8x128xf32"], body)
    value = np.random.default_rng(0).normal(size=(8, 128)).astype(np.float32)
    lowered = pallasite.lower(module, form="vreg", target="v5e")
    (actual,) = pallasite.run(lowered, [value], form="vreg", target="v5e")
    assert np.array_equal(actual, value[[1, 0, 3, 2, 5, 4, 7, 6]] * np.float32(3))
    assert str(lowered).count("arith.mulf") == 1


def test_rows_that_differ_in_what_is_computed_stay() -> None:
    body = row(0, 0, "%c = math.absf %r : vector<128xf32>") + row(1, 1)
    module = kernel(["8x128xf32", "2x128xf32"], body)
    value = np.random.default_rng(0).normal(size=(8, 128)).astype(np.float32)
    (actual,) = pallasite.run(module, [value], form="vreg", target="v5e")
    assert np.array_equal(actual, np.stack([abs(value[0]), value[1]]))


def answer(operands: list[str], body: str, *inputs: Array) -> tuple[Array, str]:
    """What the kernel gives, and its text in form `vreg`."""
    lowered = pallasite.lower(kernel(operands, body), form="vreg", target="v5e")
    (actual,) = pallasite.run(lowered, list(inputs), form="vreg", target="v5e")
    return np.asarray(actual, np.float32), str(lowered)


def numbers(*shape: int) -> Array:
    return np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)


def test_rows_around_the_edge_of_a_register_stay() -> None:
    assert accesses([(8, 0), (7, 1)], row(8, 0) + row(7, 1), 16, 8)[1] == 2


@pytest.mark.parametrize("order", [range(8), [7, 6, 5, 4, 3, 2, 1, 0]], ids=["same", "reversed"])
def test_rows_of_one_matrix_of_several(order: list[int]) -> None:
    kind = "vector<1x1x128xf32>"
    lines = [
        f"""%f{to} = arith.constant {source} : index
        %t{to} = arith.constant {to} : index
        %l{to} = vector.load %a[%one, %f{to}, %z] : A, {kind}
        %r{to} = math.absf %l{to} : {kind}
        tpu.vector_store %b[%z, %t{to}, %z], %r{to} {{strides = array<i32>}} : B, {kind},"""
        for to, source in enumerate(order)
    ]
    body = "\n".join(["%one = arith.constant 1 : index", *lines])
    value = numbers(2, 8, 128)
    actual, text = answer(["2x8x128xf32", "1x8x128xf32"], body, value)
    assert np.array_equal(actual[0], abs(value[1, list(order)]))
    assert text.count("tpu.store") == 1


@pytest.mark.parametrize("nested", [False, True], ids=["behind", "within"])
def test_rows_loaded_before_a_loop_that_changes_them_stay(nested: bool) -> None:
    """They were loaded in front of the loop: behind it, and in it, memory holds something else."""
    stores = """tpu.vector_store %b[%z, %z], %y {strides = array<i32>} : B, vector<1x128xf32>,
        tpu.vector_store %b[%one, %z], %x {strides = array<i32>} : B, vector<1x128xf32>,"""
    body = f"""%one = arith.constant 1 : index
        %x = vector.load %a[%z, %z] : A, vector<1x128xf32>
        %y = vector.load %a[%one, %z] : A, vector<1x128xf32>
        {LOOP.replace("%one = arith.constant 1 : index", "")}
          %v = vector.load %a[%i, %z] : A, vector<1x128xf32>
          %w = arith.negf %v : vector<1x128xf32>
          tpu.vector_store %a[%i, %z], %w {{strides = array<i32>}} : A, vector<1x128xf32>,
          tpu.delay %s
          {stores if nested else ""}
        }}
        {"" if nested else stores}"""
    value = numbers(2, 128)
    actual, _ = answer(["2x128xf32"] * 2, body, value)
    assert np.array_equal(actual, value[[1, 0]])


def test_stores_of_two_rows_that_overlap_stay() -> None:
    body = """%one = arith.constant 1 : index
        %k = arith.constant dense<3.0> : vector<2x128xf32>
        tpu.vector_store %b[%z, %z], %k {strides = array<i32>} : B, vector<2x128xf32>,
        tpu.vector_store %b[%one, %z], %k {strides = array<i32>} : B, vector<2x128xf32>,"""
    actual, _ = answer(["8x128xf32", "3x128xf32"], body, numbers(8, 128))
    assert np.array_equal(actual, np.full((3, 128), 3, np.float32))


LOOP = """%l = arith.constant 0 : i32
        %h = arith.constant 2 : i32
        %s = arith.constant 1 : i32
        %one = arith.constant 1 : index
        scf.for %k = %l to %h step %s : i32 {
          %m = arith.addi %s, %k : i32
          %i = arith.index_cast %k : i32 to index
          %j = arith.index_cast %m : i32 to index"""


def test_rows_of_different_matrices_stay() -> None:
    """Matrices `i` and `i + 1` are known when the kernel runs."""
    body = f"""{LOOP}
          %x = vector.load %a[%i, %z, %z] : A, vector<1x1x128xf32>
          %y = vector.load %a[%j, %one, %z] : A, vector<1x1x128xf32>
          tpu.vector_store %b[%i, %z, %z], %x {{strides = array<i32>}} : B, vector<1x1x128xf32>,
          tpu.vector_store %b[%j, %one, %z], %y {{strides = array<i32>}} : B, vector<1x1x128xf32>,
        }}"""
    value = numbers(3, 2, 128)
    actual, _ = answer(["3x2x128xf32"] * 2, body, value)
    assert np.array_equal(actual[:2, 0], value[:2, 0])
    assert np.array_equal(actual[1:, 1], value[1:, 1])


def test_a_row_that_nobody_knows_stays() -> None:
    """Row `i` is stored before row 0, which it may be."""
    body = f"""{LOOP}
          %x = vector.load %a[%i, %z] : A, vector<1x128xf32>
          %y = vector.load %a[%one, %z] : A, vector<1x128xf32>
          tpu.vector_store %b[%i, %z], %x {{strides = array<i32>}} : B, vector<1x128xf32>,
          tpu.vector_store %b[%z, %z], %y {{strides = array<i32>}} : B, vector<1x128xf32>,
        }}"""
    value = numbers(2, 128)
    actual, _ = answer(["2x128xf32"] * 2, body, value)
    assert np.array_equal(actual, value[[1, 1]])


def test_rows_that_somebody_else_uses_are_computed_once() -> None:
    """Together they would be computed once more."""
    lines = [
        f"""%n{i} = arith.constant {i} : index
        %l{i} = vector.load %a[%n{i}, %z] : A, vector<1x128xf32>
        %s{i} = math.sqrt %l{i} : vector<1x128xf32>
        tpu.vector_store %b[%n{i}, %z], %s{i} {{strides = array<i32>}} : B, vector<1x128xf32>,"""
        for i in (0, 1)
    ]
    body = "\n".join([
        *lines, "%four = arith.constant 4 : index",
        "%sum = arith.addf %s0, %s1 : vector<1x128xf32>",
        "tpu.vector_store %b[%four, %z], %sum {strides = array<i32>} : B, vector<1x128xf32>,",
    ])  # fmt: skip
    value = abs(numbers(2, 128))
    actual, text = answer(["2x128xf32", "5x128xf32"], body, value)
    root = np.sqrt(value)
    assert np.array_equal(actual[[0, 1, 4]], [root[0], root[1], root[0] + root[1]])
    assert text.count("math.sqrt") == 2


def stored(values: list[str], made: str) -> Array:
    """Rows 2, 3, ... of the result are these vectors, which `made` computes of row `%l2`, ..."""
    kind = "vector<1x200xf32>"
    loads = "".join(
        f"%f{n} = arith.constant {n + 1} : index\n%l{n} = vector.load %a[%f{n}, %z] : A, {kind}\n"
        for n in range(2, 6)
    )
    stores = "".join(
        f"%p{n} = arith.constant {n} : index\ntpu.vector_store %b[%p{n}, %z], {value} "
        f"{{strides = array<i32>}} : B, {kind},\n"
        for n, value in enumerate(values, 2)
    )
    module = kernel(["24x200xf32", "24x200xf32"], loads + made + stores)
    lowered = pallasite.lower(module, form="vreg", target="v5e")
    assert str(lowered).count("tpu.store") == 2  # one for each register of the rows
    value = np.arange(24 * 200, dtype=np.float32).reshape(24, 200)
    (actual,) = pallasite.run(lowered, [value], form="vreg", target="v5e")
    return np.asarray(actual)[2:6]


def test_rows_of_one_constant_are_one_constant() -> None:
    made = """%c = arith.constant dense<3.0> : vector<1x200xf32>
        %d = arith.constant dense<3.0> : vector<1x200xf32>\n"""
    assert np.array_equal(stored(["%c", "%d", "%c", "%d"], made), np.full((4, 200), 3, np.float32))


def test_rows_chosen_by_one_number() -> None:
    made = """%q = vector.load %a[%z, %z] : A, vector<8x128xf32>
        %n = vector.extract %q[0, 7] : f32 from vector<8x128xf32>
        %w = arith.constant 0.0 : f32
        %t = arith.cmpf ogt, %n, %w : f32
        %k = arith.constant dense<3.0> : vector<1x200xf32>\n""" + "".join(
        f"%m{n} = arith.select %t, %l{n}, %k : vector<1x200xf32>\n" for n in range(2, 6)
    )
    expected = np.arange(24 * 200, dtype=np.float32).reshape(24, 200)[3:7]
    assert np.array_equal(stored(["%m2", "%m3", "%m4", "%m5"], made), expected)


@pytest.mark.parametrize(
    "view",
    [
        "tpu.erase_memref_layout %m : B -> memref<8x128xf32, #tpu.memory_space<vmem>>",
        "memref.memory_space_cast %m : B to memref<8x128xf32, #tpu.memory_space<vmem>>",
        "memref.cast %m : B to memref<8x128xf32, #tpu.memory_space<vmem>>",
    ],
)
def test_a_load_between_the_stores_by_any_view(view: str) -> None:
    """It sees the first row, and not the second one."""
    kind, row = "vector<8x128xf32>", "vector<1x128xf32>"
    body = f""""tpu.region"() ({{
        %n = memref.alloca() : memref<8x128xf32, #tpu.memory_space<vmem>>
        %m = memref.alloca() : memref<8x128xf32, #tpu.memory_space<vmem>>
        %v = {view}
        %one = arith.constant 1 : index
        %x = vector.load %a[%z, %z] : A, {kind}
        %zero = arith.constant dense<0.0> : {kind}
        tpu.vector_store %n[%z, %z], %x {{strides = array<i32>}} : A, {kind},
        tpu.vector_store %m[%z, %z], %zero {{strides = array<i32>}} : A, {kind},
        %d = arith.constant 1 : i32
        tpu.delay %d
        %p = vector.load %n[%z, %z] : A, {row}
        %q = vector.load %n[%one, %z] : A, {row}
        tpu.vector_store %m[%z, %z], %p {{strides = array<i32>}} : A, {row},
        %seen = vector.load %v[%z, %z] : A, {kind}
        tpu.vector_store %m[%one, %z], %q {{strides = array<i32>}} : A, {row},
        tpu.vector_store %b[%z, %z], %seen {{strides = array<i32>}} : B, {kind},
        "tpu.yield"() : () -> ()
    }}) : () -> ()"""
    value = numbers(8, 128)
    actual, _ = answer(["8x128xf32", "8x128xf32"], body, value)
    assert np.array_equal(actual[:1], value[:1])
    assert not actual[1:].any()
