"""Random kernels that move, repeat, count and add up matrices of few rows."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

import pallasite
from pallasite.frontend.aot import compile_ahead_of_time
from pallasite.targets import get_target

from .memory_kernels import kernel

Array = NDArray[Any]
MORE = int(os.environ.get("PALLASITE_EXAMPLES", "1"))
TYPES: dict[str, Any] = {
    "f32": np.float32, "bf16": ml_dtypes.bfloat16, "i32": np.int32, "i16": np.int16, "i8": np.int8,
}  # fmt: skip


class Chain:
    """A kernel, written step by step, and the array that it gives."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.element = self.draw.choice(["f32", "bf16", "bf16", "i32", "i16", "i8"])
        rows = self.draw.choice([1, 2, 3, 4, 8, 8, 16, 20])
        self.matrix = (rows, self.draw.choice([128, 183, 200, 256, 256, 384, 512]))
        outer = tuple(self.draw.randint(1, 4) for _ in range(self.draw.randint(1, 2)))
        shape = (*outer, *self.matrix)
        count = np.arange(prod(shape)).reshape(shape)
        self.input = (count * 7 % 5 - 2).astype(TYPES[self.element])
        self.value, self.name = self.input, "%v0"
        self.body = [f"%v0 = vector.load %a[{self.zeros()}] : A, {self.type()}"]
        for _ in range(self.draw.randint(1, 4)):
            self.draw.choice(self.steps())()
        self.body.append(
            f"tpu.vector_store %b[{self.zeros()}], {self.name} {{strides = array<i32>}} : B, "
            f"{self.type()},"
        )

    def module(self) -> ModuleOp:
        shapes = (self.input.shape, self.value.shape)
        return kernel([self.plain(shape) for shape in shapes], "\n    ".join(self.body))

    def plain(self, shape: tuple[int, ...], element: str = "") -> str:
        return "x".join(map(str, shape)) + "x" + (element or self.element)

    def type(self, shape: tuple[int, ...] | None = None, element: str = "") -> str:
        return f"vector<{self.plain(self.value.shape if shape is None else shape, element)}>"

    def zeros(self) -> str:
        return ", ".join(["%z"] * self.value.ndim)

    def becomes(self, text: str, value: Array) -> None:
        """Adds a line whose result is `value`; `V` stands for what there was before."""
        name = f"%v{len(self.body)}"
        self.body.append(f"{name} = {text.replace('V', self.name)}")
        self.name, self.value = name, value.astype(TYPES[self.element])

    def steps(self) -> list[Callable[[], None]]:
        steps = [self.doubles, self.takes, self.stacks, self.repeats, self.casts]
        if self.value.ndim > 3:
            steps += [self.turns]
        if self.element in ("f32", "i32"):
            steps += [self.sums, self.counts] if self.value.ndim > 2 else [self.counts]
        if self.element in ("f32", "i32", "bf16"):
            steps += [self.loops, self.loops]
        return steps

    @property
    def add(self) -> str:
        return "arith.addi" if self.element.startswith("i") else "arith.addf"

    def doubles(self) -> None:
        if self.element not in ("i8",):
            self.becomes(f"{self.add} V, V : {self.type()}", self.value + self.value)

    def takes(self) -> None:
        axis = self.draw.randrange(self.value.ndim - 2) if self.value.ndim > 2 else None
        if axis is None:
            return
        size = self.draw.randint(1, self.value.shape[axis])
        begin = self.draw.randint(0, self.value.shape[axis] - size)
        starts, sizes = [0] * self.value.ndim, list(self.value.shape)
        starts[axis], sizes[axis] = begin, size
        taken = np.take(self.value, range(begin, begin + size), axis)
        self.becomes(
            f"vector.extract_strided_slice V {{offsets = {starts}, sizes = {sizes}, "
            f"strides = {[1] * len(sizes)}}} : {self.type()} to {self.type(taken.shape)}",
            taken,
        )

    def stacks(self) -> None:
        if self.value.ndim < 3:
            return
        axis = self.draw.randrange(self.value.ndim - 2)
        both = np.concatenate([self.value] * 2, axis)
        self.becomes(
            f"tpu.concatenate V, V in {axis} : {self.type()}, {self.type()} -> "
            f"{self.type(both.shape)}",
            both,
        )

    def repeats(self) -> None:
        shape = (self.draw.randint(1, 3), *self.value.shape)
        if len(shape) < 5:
            self.becomes(
                f"vector.broadcast V : {self.type()} to {self.type(shape)}",
                np.broadcast_to(self.value, shape),
            )

    def casts(self) -> None:
        shape = (prod(self.value.shape[:-2]), *self.matrix)
        if self.value.ndim > 3:
            self.becomes(
                f"vector.shape_cast V : {self.type()} to {self.type(shape)}",
                self.value.reshape(shape),
            )

    def turns(self) -> None:
        order = [1, 0, *range(2, self.value.ndim)]
        turned = self.value.transpose(order)
        self.becomes(
            f"tpu.transpose V, {order} : {self.type()} -> {self.type(turned.shape)}", turned
        )

    def sums(self) -> None:
        shape = self.value.shape[1:]
        zero = f"%zero{len(self.body)}"
        number = "0" if self.element == "i32" else "0.0"
        self.body.append(f"{zero} = arith.constant dense<{number}> : {self.type(shape)}")
        self.becomes(
            f"vector.multi_reduction <add>, V, {zero} [0] : {self.type()} to {self.type(shape)}",
            self.value.sum(0),
        )

    def counts(self) -> None:
        if self.value.ndim < 3 or self.element != "i32":
            return
        number = f"%n{len(self.body)}"
        self.body.append(f"{number} = tpu.iota {{dimensions = array<i32: 0>}} : {self.type()}")
        numbers = np.arange(len(self.value)).reshape(-1, *[1] * (self.value.ndim - 1))
        self.becomes(f"arith.addi V, {number} : {self.type()}", self.value + numbers)

    def loops(self) -> None:
        k, old = len(self.body), self.name
        self.body += [
            f"%l{k} = arith.constant 0 : i32",
            f"%h{k} = arith.constant 3 : i32",
            f"%s{k} = arith.constant 1 : i32",
        ]
        self.becomes(
            f"scf.for %i{k} = %l{k} to %h{k} step %s{k} iter_args(%c{k} = {old}) -> "
            f"({self.type()}) : i32 {{ %t{k} = {self.add} %c{k}, {old} : {self.type()}\n"
            f"    scf.yield %t{k} : {self.type()} }}",
            self.value + self.value + self.value + self.value,
        )


def checked(seed: int, target: str) -> Any:
    chain = Chain(seed)
    module = chain.module()
    lowered = pallasite.lower(module, form="vreg", target=target, allow_beyond_reference=True)
    (actual,) = pallasite.run(lowered, [chain.input], form="vreg", target=target)
    assert np.array_equal(actual, chain.value)
    return module, lowered


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("seed", range(60 * MORE))
def test_matrices_are_where_they_belong(seed: int, target: str) -> None:
    checked(seed, target)


@pytest.mark.aot
@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("seed", range(1000, 1000 + 12 * MORE))
def test_the_compiler_takes_rows_of_matrices(seed: int, target: str, compiler: Any) -> None:
    module, lowered = checked(seed, target)
    for form, given in (("mosaic", module), ("vreg", lowered)):
        verdict = compile_ahead_of_time(
            given,
            topology=get_target(target).topology,
            layout_passes=form == "mosaic",
            compiler=compiler,
        )
        assert verdict.accepted, verdict.message


def test_a_loop_may_carry_one_number_on() -> None:
    kind = "vector<3x8x256xbf16>"
    text = f"""%v = vector.load %a[%z, %z, %z] : A, {kind}
    %l = arith.constant 0 : i32
    %h = arith.constant 2 : i32
    %s = arith.constant 1 : i32
    %c = arith.constant dense<3.0> : {kind}
    %r = scf.for %i = %l to %h step %s iter_args(%k = %v) -> ({kind}) : i32 {{
      scf.yield %c : {kind}
    }}
    %w = scf.for %i = %l to %h step %s iter_args(%k = %c) -> ({kind}) : i32 {{
      %n = arith.addf %k, %v : {kind}
      scf.yield %n : {kind}
    }}
    %t = arith.addf %r, %w : {kind}
    tpu.vector_store %b[%z, %z, %z], %t {{strides = array<i32>}} : B, {kind},"""
    module = kernel(["3x8x256xbf16"] * 2, text)
    given = np.full((3, 8, 256), 2, ml_dtypes.bfloat16)
    for target in ("v5e", "v6e"):
        (actual,) = pallasite.run(module, [given], form="vreg", target=target)
        assert np.array_equal(actual, np.full((3, 8, 256), 3 + 3 + 2 + 2))


@pytest.mark.parametrize("size", ["3x8x256", "8x256", "3x8x128"])
def test_a_loop_may_carry_other_values(size: str) -> None:
    kind, shape = f"vector<{size}xbf16>", tuple(map(int, size.split("x")))
    start = ", ".join(["%z"] * len(shape))
    text = f"""%v = vector.load %a[{start}] : A, {kind}
    %l = arith.constant 0 : i32
    %h = arith.constant 2 : i32
    %s = arith.constant 1 : i32
    %one = arith.constant dense<1.0> : {kind}
    %zero = arith.constant dense<0.0> : vector<16x128xf32>
    %n = arith.constant dense<0.0> : {kind}
    %r, %t, %m = scf.for %i = %l to %h step %s iter_args(%k = %v, %p = %zero, %q = %n)
        -> ({kind}, vector<16x128xf32>, {kind}) : i32 {{
      %e = arith.addf %k, %one : {kind}
      %w = tpu.rotate %p by 1 dim 1 : vector<16x128xf32>
      %x = tpu.rotate %q by 1 dim {len(shape) - 1} : {kind}
      scf.yield %e, %w, %x : {kind}, vector<16x128xf32>, {kind}
    }}
    tpu.vector_store %b[%z, %z], %t {{strides = array<i32>}} : B, vector<16x128xf32>,
    %y = tpu.rotate %m by 1 dim {len(shape) - 1} : {kind}
    tpu.vector_store %c[{start}], %y {{strides = array<i32>}} : C, {kind},
    tpu.vector_store %d[{start}], %r {{strides = array<i32>}} : D, {kind},"""
    array = f"{size}xbf16"
    module = kernel([array, "16x128xf32", array, array], text)
    given = np.full(shape, 2, ml_dtypes.bfloat16)
    inputs = [given, np.zeros((16, 128), np.float32), given]
    (actual,) = pallasite.run(module, inputs, form="vreg", target="v6e")
    assert np.array_equal(actual, np.full(shape, 4))


@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
@pytest.mark.parametrize("first, columns", [(0, 246), (128, 150), (128, 256), (256, 50), (384, 22)])
@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("constant", [False, True])
def test_columns_behind_a_store_stay(
    rows: int, first: int, columns: int, constant: bool, element: str
) -> None:
    """A store that ends within a tile of a wider array leaves the rest of the tile alone."""
    part, whole = f"{rows}x{columns}x{element}", f"{rows}x406x{element}"
    number = "1" if element == "i8" else "1.0"
    value = f"arith.constant dense<{number}> : vector<{part}>"
    text = f"""%o = vector.load %b[%z, %z] : B, vector<{whole}>
    tpu.vector_store %c[%z, %z], %o {{strides = array<i32>}} : C, vector<{whole}>,
    %f = arith.constant {first} : index
    %v = {value if constant else f"vector.load %a[%z, %z] : A, vector<{part}>"}
    tpu.vector_store %c[%z, %f], %v {{strides = array<i32>}} : C, vector<{part}>,"""
    module = kernel([part, whole, whole], text)
    draw = np.random.default_rng(0)
    new, old = (draw.integers(2, 9, (rows, n)).astype(TYPES[element]) for n in (columns, 406))
    expected = old.copy()
    expected[:, first : first + columns] = 1 if constant else new
    for target in ("v4", "v6e"):
        for form in ("mosaic", "tiles", "vreg"):
            (actual,) = pallasite.run(module, [new, old], form=form, target=target)
            assert np.array_equal(actual, expected), (form, target)


def loads(text: str) -> int:
    """How many registers a kernel loads on v5e."""
    shapes = ["5x8x256xbf16", "5x8x256xbf16"]
    lowered = pallasite.lower(kernel(shapes, text), form="vreg", target="v5e")
    return sum(op.name == "tpu.load" for op in lowered.walk())


def test_registers_are_full() -> None:
    whole = "vector<5x8x256xbf16>"
    parts = [f"{{offsets = [{at}], sizes = [{n}], strides = [1]}}" for at, n in ((3, 2), (0, 3))]
    tail, head = (f"vector<{n}x8x256xbf16>" for n in (2, 3))
    rolled = f"""%v = vector.load %a[%z, %z, %z] : A, {whole}
    %t = vector.extract_strided_slice %v {parts[0]} : {whole} to {tail}
    %h = vector.extract_strided_slice %v {parts[1]} : {whole} to {head}
    %r = tpu.concatenate %t, %h in 0 : {tail}, {head} -> {whole}
    tpu.vector_store %b[%z, %z, %z], %r {{strides = array<i32>}} : B, {whole},"""
    assert loads(rolled) == 5


@pytest.mark.parametrize("target", ["v5e", "v6e"])
@pytest.mark.parametrize("size", ["8x3x8x256", "2x8x200", "8x256", "8x200", "3x8x128"])
def test_stores_of_one_number_fill_registers(size: str, target: str) -> None:
    shape = tuple(map(int, size.split("x")))
    start = ", ".join(["%z"] * len(shape))
    text = f"""%c = arith.constant dense<3.0> : vector<{size}xbf16>
    tpu.vector_store %b[{start}], %c {{strides = array<i32>}} : B, vector<{size}xbf16>,"""
    lowered = pallasite.lower(kernel(["8x128xf32", f"{size}xbf16"], text), "vreg", target)
    given = np.zeros((8, 128), np.float32)
    (actual,) = pallasite.run(lowered, [given], form="vreg", target=target)
    assert np.array_equal(actual, np.full(shape, 3))
    stores = sum(op.name == "tpu.store" for op in lowered.walk())
    assert stores == -(-prod((*shape[:-1], -(-shape[-1] // 128))) // 16)


def test_a_part_of_a_matrix_keeps_its_neighbours() -> None:
    text = """%v = vector.load %a[%z, %z] : A, vector<8x256xbf16>
    tpu.vector_store %b[%z, %z], %v {strides = array<i32>} : B, vector<8x256xbf16>,
    %c = arith.constant dense<3.0> : vector<4x256xbf16>
    tpu.vector_store %b[%z, %z], %c {strides = array<i32>} : B, vector<4x256xbf16>,"""
    given = np.ones((8, 256), ml_dtypes.bfloat16)
    module = kernel(["8x256xbf16", "8x256xbf16"], text)
    (actual,) = pallasite.run(module, [given], form="vreg", target="v5e")
    assert np.array_equal(actual, np.where(np.arange(8)[:, None] < 4, 3, 1) + 0 * given)
