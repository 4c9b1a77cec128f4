"""What verifiers accept and refuse; with the jax extra, that jaxlib's verifiers agree."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from pallasite.dialects import make_context

from ...jaxlib_context import is_taken
from . import cases_machine, cases_vectors
from .cases import Case

CASES = [*cases_vectors.CASES, *cases_machine.CASES]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ours(case: Case) -> None:
    if case.error is None:
        Parser(make_context(), case.module()).parse_module().verify()
        return
    with pytest.raises(VerifyException) as caught:
        Parser(make_context(), case.module()).parse_module().verify()
    assert case.error in str(caught.value)


@pytest.mark.jax
@pytest.mark.parametrize("case", CASES, ids=str)
def test_jaxlib_agrees(case: Case) -> None:
    if case.differs == "crashes":
        pytest.skip("jaxlib ends the process here")
    assert is_taken(case.module()) == ((case.error is None) != (case.differs is not None))
