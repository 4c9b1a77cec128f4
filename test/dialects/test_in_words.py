"""Operations as messages call them."""

from __future__ import annotations

import pytest

import pallasite
from pallasite.dialects import make_context
from pallasite.dialects.in_words import WORDS, in_words

CONTEXT = make_context()


@pytest.mark.parametrize("name", [name for names in WORDS.values() for name in names])
def test_words_are_of_operations(name: str) -> None:
    assert CONTEXT.get_optional_op(name) is not None


def test_an_operation_has_its_name_behind_its_words() -> None:
    (constant,) = pallasite.parse("builtin.module { %0 = arith.constant 1 : i32 }").ops
    assert in_words(constant) == "arith.constant"
    text = "builtin.module { %0 = arith.constant 1 : i32 %1 = arith.addi %0, %0 : i32 }"
    *_, added = pallasite.parse(text).ops
    assert in_words(added) == "addition (arith.addi)"
