"""Operations that the compiled driver takes to give new arrays never give an operand back."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pallasite.dialects import arith, tpu
from pallasite.interpreter.compiled.brief import FRESH

WIDE = ("f32", np.float32), ("bf16", ml_dtypes.bfloat16)
WHOLE = ("i32", np.int32), ("i16", np.int16), ("i8", np.int8)
PREDICATES = {arith.CmpfOp: "olt, ", arith.CmpiOp: "slt, "}
BINARY_MATH = {"math.atan2", "math.copysign", "math.powf"}


@pytest.mark.parametrize("cls", sorted(FRESH, key=lambda c: c.name), ids=lambda c: c.name)
def test_result_is_new(meaning, cls):
    mnemonic = cls.name
    is_whole = mnemonic.startswith("arith.") and mnemonic.endswith(("i", "si", "ui"))
    two = (mnemonic.startswith("arith.") and cls is not arith.NegfOp) or mnemonic in BINARY_MATH
    for element, dtype in WHOLE if is_whole else WIDE:
        vector = f"vector<8x128x{element}>"
        text = f"%r = {mnemonic} {PREDICATES.get(cls, '')}%a{', %b' if two else ''} : {vector}"
        if mnemonic.startswith("tpu."):
            text += f" -> {vector}"
        if cls is tpu.ReciprocalOp and element != "f32":
            continue
        call = meaning(text, **dict.fromkeys("ab" if two else "a", vector))
        for number in (0, 1, 2):
            x = np.full((8, 128), 3, dtype)
            operands = (x, np.full((8, 128), number, dtype))[: 2 if two else 1]
            result = call(*operands)
            assert not any(np.shares_memory(result, operand) for operand in operands)
