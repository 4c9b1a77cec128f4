"""Real modules, of JAX 0.10.2 and of the old C++ passes: read, verified, printed, read again.

Nothing in them may be unregistered; custom, generic and located print are the same module, for us
and, where jaxlib's dialect still has the operations, for jaxlib.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp, UnregisteredOp

from pallasite.dialects.verification import verify
from pallasite.frontend.text import read_text

from ..jaxlib_context import mosaic_context
from ..printing import printed

DATA = Path(__file__).parent.parent / "data"
MOSAIC = sorted(DATA.glob("*.mosaic.mlir"))
VREG = sorted(DATA.glob("*.vreg.mlir"))


@pytest.fixture(params=[*MOSAIC, *VREG], ids=lambda path: path.name)
def module(request: pytest.FixtureRequest) -> ModuleOp:
    path: Path = request.param
    return read_text(path.read_text(), path.name)


def test_there_are_modules() -> None:
    assert len(MOSAIC) >= 5 and len(VREG) >= 5


def test_every_operation_is_registered_and_verifies(module: ModuleOp) -> None:
    verify(module)
    assert not any(isinstance(op, UnregisteredOp) for op in module.walk())


@pytest.mark.parametrize("form", [{}, {"generic": True}, {"located": True}], ids=str)
def test_print_reads_back_equal(module: ModuleOp, form: dict[str, bool]) -> None:
    text = printed(module, **form)
    again = read_text(text)
    verify(again)
    assert module.is_structurally_equivalent(again)
    assert printed(again, **form) == text


def test_locations_survive(module: ModuleOp) -> None:
    again = read_text(printed(module, located=True))
    pairs = zip(module.walk(), again.walk(), strict=True)
    assert all(one.location == two.location for one, two in pairs)


@pytest.fixture(scope="module")
def jaxlib() -> Any:
    pytest.importorskip("jaxlib")
    from jaxlib.mlir import ir

    context = mosaic_context(unregistered=True)  # `test.op`

    def generic(text: str) -> str:
        with context:
            return ir.Module.parse(text).operation.get_asm(print_generic_op_form=True)

    return generic


@pytest.mark.jax
@pytest.mark.parametrize("path", MOSAIC, ids=lambda path: path.name)
@pytest.mark.parametrize("generic", [False, True])
def test_jaxlib_reads_our_print_as_the_same_module(path: Path, generic: bool, jaxlib: Any) -> None:
    text = path.read_text()
    assert jaxlib(printed(read_text(text), generic=generic)) == jaxlib(text)


@pytest.mark.jax
@pytest.mark.parametrize("name", ["arith", "memref", "scf", "vector"])
@pytest.mark.parametrize("generic", [False, True])
def test_jaxlib_agrees_about_derived_dialects(name: str, generic: bool, jaxlib: Any) -> None:
    source = (DATA.parent / "dialects" / f"{name}.mlir").read_text()
    for text in source.split("// -----"):
        assert jaxlib(printed(read_text(text), generic=generic)) == jaxlib(text)
