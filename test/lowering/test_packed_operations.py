"""What registers of packed elements do as they are on a chip is what its target says of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, ModuleOp, i1, i32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from pallasite import api
from pallasite.dialects import arith, tpu
from pallasite.dialects.tpu.base import si32
from pallasite.dialects.tpu.keywords import PackFormat
from pallasite.dialects.types import AnyVector, vector_of
from pallasite.frontend.aot import compile_ahead_of_time
from pallasite.layouts.registers import packing, register_shape
from pallasite.targets import TARGETS, Target, get_target

from ..passes.checking import kernel, memref

Made = list[Operation]
Maker = Callable[[SSAValue, int], Made]
WIDTHS = (16, 8, 4)
COPIED = kernel(
    f"%x: {memref('8x128xi32')}, %o: {memref('8x128xi32')}",
    f"""%v = vector.load %x[%c0, %c0] : {memref("8x128xi32")}, vector<8x128xi32>
    tpu.vector_store %o[%c0, %c0], %v {{strides = array<i32>}}
        : {memref("8x128xi32")}, vector<8x128xi32>,""",
)


def rotated(dim: int) -> Maker:
    def made(value: SSAValue, bits: int) -> Made:
        amount = arith.ConstantOp(IntegerAttr(3, i32))
        turned = tpu.DynamicRotateOp(
            operands=[value, amount.result],
            result_types=[value.type],
            properties={"dimension": IntegerAttr(dim, si32)},
        )
        return [amount, turned]

    return made


def shuffled(value: SSAValue, bits: int) -> Made:
    pattern = DenseArrayBase.from_list(i32, [5, 5, 5, 5, 2, 3, 2, 3])
    return [
        tpu.SublaneShuffleOp(
            operands=[value, value], result_types=[value.type], properties={"pattern": pattern}
        )
    ]


def chosen(value: SSAValue, bits: int) -> Made:
    masks = vector_of(i1, cast(AnyVector, value.type).get_shape())
    mask = tpu.CreateSubelementMaskOp.create(
        result_types=[masks],
        properties={"from": IntegerAttr(1, i32), "to": IntegerAttr(5, i32)},
    )
    other = shuffled(value, bits)
    return [mask, *other, arith.SelectOp(mask.results[0], value, other[0].results[0])]


def repacked(value: SSAValue, bits: int) -> Made:
    words = vector_of(i32, register_shape(32))
    form = tpu.PackFormatAttr(PackFormat.COMPRESSED)
    parts = [
        tpu.UnpackSubelementsOp(
            operands=[value],
            result_types=[words],
            properties={"pack_format": form, "index": IntegerAttr(index, i32)},
        )
        for index in reversed(range(packing(bits)))
    ]
    packed = tpu.PackSubelementsOp(
        operands=[[part.results[0] for part in parts]],
        result_types=[value.type],
        properties={
            "pack_format": form,
            "positions": DenseArrayBase.from_list(i32, list(range(len(parts)))),
        },
    )
    return [*parts, packed]


def module(target: str, make: Maker, bits: int) -> ModuleOp:
    """One register of words goes through what `make` does with it as packed elements."""
    given = np.zeros((8, 128), np.int32)
    called = api.with_call(api.parse(COPIED), [given], [((8, 128), "int32")])
    lowered = api.lower(called, "vreg", target)
    (store,) = (op for op in lowered.walk() if isinstance(op, tpu.StoreOp))
    words = store.value
    packed = vector_of(IntegerType(bits), register_shape(bits))
    held = tpu.BitcastVregOp(operands=[words], result_types=[packed])
    made = make(held.results[0], bits)
    back = tpu.BitcastVregOp(operands=[made[-1].results[0]], result_types=[words.type])
    Rewriter().insert_op([held, *made, back], InsertPoint.before(store))
    store.operands[list(store.operands).index(words)] = back.results[0]
    lowered.verify()
    return lowered


def known(target: Target, name: str, bits: int) -> bool:
    """What the target says of it; of what it says nothing, every chip has it."""
    if name == "rotated-lanes":
        return bits in target.rotate_bits
    return name != "chosen" or packing(bits) <= target.max_mask_subelements


MAKERS: dict[str, Maker] = {
    "rotated-lanes": rotated(1), "rotated-sublanes": rotated(0), "shuffled": shuffled,
    "chosen": chosen, "repacked": repacked,
}  # fmt: skip


@pytest.mark.aot
@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("target", TARGETS)
def test_targets_say_what_registers_do(target: str, name: str, bits: int, compiler: Any) -> None:
    verdict = compile_ahead_of_time(
        module(target, MAKERS[name], bits),
        topology=get_target(target).topology, layout_passes=False, compiler=compiler,
    )  # fmt: skip
    assert verdict.accepted == known(get_target(target), name, bits), verdict.message
