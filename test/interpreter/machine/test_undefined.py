"""Reads behind the end of SMEM: harmless if nothing comes of them, else a diagnostic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import i16, i32

from pallasite import Diagnostic, api
from pallasite.interpreter import compiled, reference, values
from pallasite.interpreter.driver import Budget
from pallasite.interpreter.machine.machine import Machine
from pallasite.interpreter.meanings import Facts
from pallasite.interpreter.values import quiet

from ...passes.checking import SMEM, kernel, memref
from .. import driving

KERNEL = kernel(
    f"%table: {memref('2x3xi32', SMEM)}, %out: {memref('3xi32', SMEM)}",
    f"""%one = arith.constant 1 : index
      %three = arith.constant 3 : index
      %seven = arith.constant 7 : i32
      %eight = arith.constant 8 : i32
      %first = memref.load %table[%c0, %c0] : {memref("2x3xi32", SMEM)}
      %no = arith.cmpi eq, %first, %seven : i32
      %got = memref.load %table[%one, %three] : {memref("2x3xi32", SMEM)}
      USE""",
)
STORE = f"memref.store %used, %out[%c0] : {memref('3xi32', SMEM)}"
USES = {
    "stored": f"memref.store %got, %out[%c0] : {memref('3xi32', SMEM)}",
    "sum": f"%used = arith.addi %seven, %got : i32\n{STORE}",
    "quotient": f"%used = arith.divsi %got, %seven : i32\n{STORE}",
    "compared": f"%is = arith.cmpi eq, %got, %seven : i32\n"
    f"%used = arith.select %is, %seven, %eight : i32\n{STORE}",
    "chosen": f"%used = arith.select %no, %seven, %got : i32\n{STORE}",
    "index": f"%i = arith.index_cast %got : i32 to index\n"
    f"memref.store %seven, %out[%i] : {memref('3xi32', SMEM)}",
}
INPUT = np.arange(6, dtype=np.int32).reshape(2, 3)
DRIVERS: Any = ("compiled", "reference")


def run(use: str, **options: Any) -> Any:
    module = api.parse(KERNEL.replace("USE", use))
    return api.run(module, [INPUT], results=[((3,), np.int32)], **options)


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("form", ["mosaic", "vreg"])
def test_what_is_not_chosen_is_harmless(form: str, driver: Any) -> None:
    use = f"%used = arith.select %no, %got, %seven : i32\n{STORE}"
    (out,) = run(use, form=form, driver=driver)
    assert out[0] == 7


UNKNOWN = {
    "sum": "%x = arith.addi %got, %seven : i32\n%u = arith.subi %eight, %x : i32",
    "product": "%x = arith.muli %seven, %got : i32\n%u = arith.addi %x, %x : i32",
    "bits": "%x = arith.xori %got, %seven : i32\n%y = arith.ori %x, %eight : i32\n"
    "%u = arith.shli %y, %seven : i32",
    "compared": "%is = arith.cmpi slt, %got, %seven : i32\n%both = arith.andi %no, %is : i1\n"
    "%u = arith.select %both, %eight, %seven : i32",
    "masked": "%none = arith.subi %seven, %seven : i32\n%x = arith.addi %got, %eight : i32\n"
    "%y = arith.andi %x, %none : i32\n%u = arith.addi %y, %seven : i32",
}
"""What is computed of it, and not chosen."""


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("form", ["mosaic", "vreg"])
@pytest.mark.parametrize("what", UNKNOWN)
def test_what_is_computed_of_it_and_not_chosen_is_harmless(
    what: str, form: str, driver: Any
) -> None:
    use = f"{UNKNOWN[what]}\n%used = arith.select %no, %u, %seven : i32\n{STORE}"
    (out,) = run(use, form=form, driver=driver)
    assert out[0] == 7


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("what", ["compared", "masked"])
def test_what_does_not_depend_on_it_is_known(what: str, driver: Any) -> None:
    """Nothing of it is in `false & it` nor in `0 & it`."""
    (out,) = run(f"{UNKNOWN[what]}\n{STORE}".replace("%used", "%u"), driver=driver)
    assert out[0] == 7


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("use", USES)
def test_every_other_use_is_a_diagnostic(use: str, driver: Any) -> None:
    with pytest.raises(Diagnostic, match="is outside memref of shape") as error:
        run(USES[use], driver=driver)
    assert error.value.code == "out-of-bounds"
    assert "the kernel uses it" in str(error.value)


def test_the_bounds_check_reports_the_read_itself() -> None:
    use = f"%used = arith.select %no, %got, %seven : i32\n{STORE}"
    with pytest.raises(Diagnostic, match="is outside memref of shape"):
        run(use, checks=("bounds",))


@pytest.mark.parametrize("driver", [compiled, reference])
@pytest.mark.parametrize("poison", [0, 1])
@pytest.mark.parametrize("checks", [(), ("init",)])
@pytest.mark.parametrize("bits", [32, 16])
@pytest.mark.parametrize("masked", [False, True])
def test_rows_of_a_register_that_lie_outside_are_poison(
    driver: Any, poison: int, checks: tuple[str, ...], bits: int, masked: bool
) -> None:
    """Of a kernel that may read there; sublanes that are masked off are poison, too."""
    rows = {32: 8, 16: 16}[bits]
    some = [not masked or n % 3 != 1 for n in range(8)]
    register = f"vector<8x128xi{bits}>" if bits == 32 else "vector<8x128x2xi16>"
    array = f"memref<40x128xi{bits}, #tpu.memory_space<vmem>>"
    lines = ["%c0 = arith.constant 0 : index", f"%at = arith.constant {40 - rows // 2} : index"]
    flags = ", ".join(str(flag).lower() for flag in some)
    lines.append(
        f"%x = tpu.load %a[%at, %c0] sublanes [{flags}] sublane_stride 1 : {array}, {register}"
    )
    lines.append(f"tpu.store %b[%c0, %c0], %x {driving.SUBLANES} : {array}, {register},")
    module = driving.parse(
        f"func.func @main(%a: {array}, %b: {array}) {{\n" + "\n".join(lines) + "\nreturn\n}"
    )
    machine = Machine(driving.V5E, checks=checks, poison=poison)
    machine.reads_outside = True
    core, main = machine.cores[0], module.body.block.first_op
    refs = [core.allocate(argument.type) for argument in main.body.block.args]
    data = np.arange(40 * 128).reshape(40, 128).astype(f"int{bits}")
    for ref in refs:
        ref.write(data)
    program = driver.Program(module, Facts(driving.V5E, poison), Budget(10**6))
    with quiet():
        machine.run([(core, program.function("main")(core, *refs))])
    got = refs[1].read()
    expected = values.poison(i32 if bits == 32 else i16, (rows, 128), poison)
    kept = np.repeat(some, rows // 8) & (np.arange(rows) < rows // 2)
    expected = np.where(kept[:, None], np.roll(data, -(40 - rows // 2), 0)[:rows], expected)
    np.testing.assert_array_equal(got[:rows], expected)
    np.testing.assert_array_equal(got[rows:], data[rows:])
    assert machine.findings == []
