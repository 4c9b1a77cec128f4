"""What long kernels without loops cost grows as they do: counted in calls of Python functions, not
in time, from the text of a kernel to Python that runs it."""

from __future__ import annotations

from cProfile import Profile

import pytest

import pallasite
from pallasite.interpreter.run import prepare
from pallasite.targets import get_target

SIZES = (10, 30, 50)
"""Statements, at equal distances."""

SLICES = """
    %a{n} = pallas.load %x[ds({row}, 8), :] : memref<1024x128xf32, #tpu.memory_space<vmem>>
    %n{n} = arith.constant {n}.0 : f32
    %b{n} = vector.broadcast %n{n} : f32 to vector<8x128xf32>
    %c{n} = arith.mulf %a{n}, %b{n} : vector<8x128xf32>
    pallas.store %c{n}, %o[ds({row}, 8), :] : memref<1024x128xf32, #tpu.memory_space<vmem>>"""
BRANCHES = """
    %p{n} = pallas.load %s[{n}] : memref<128xi32, #tpu.memory_space<smem>>
    %n{n} = arith.constant {n} : i32
    %f{n} = arith.constant {n}.0 : f32
    %i{n} = arith.cmpi sgt, %p{n}, %n{n} : i32
    %v{next} = scf.if %i{n} -> (vector<8x128xf32>) {{
      %b{n} = vector.broadcast %f{n} : f32 to vector<8x128xf32>
      %y{n} = arith.addf %v{n}, %b{n} : vector<8x128xf32>
      scf.yield %y{n} : vector<8x128xf32>
    }} else {{
      %b{n} = vector.broadcast %f{n} : f32 to vector<8x128xf32>
      %y{n} = arith.mulf %v{n}, %b{n} : vector<8x128xf32>
      scf.yield %y{n} : vector<8x128xf32>
    }}"""
READS = """
    %a{n} = pallas.load %x[ds({again}, 8), :] : memref<1024x128xf32, #tpu.memory_space<vmem>>
    %v{next} = arith.addf %v{n}, %a{n} : vector<8x128xf32>"""
SCALARS = """
    %a{n} = pallas.load %s[{n}] : memref<128xi32, #tpu.memory_space<smem>>
    %b{n} = pallas.load %s[0] : memref<128xi32, #tpu.memory_space<smem>>
    %i{n} = arith.cmpi sgt, %a{n}, %b{n} : i32
    %c{n} = arith.select %i{n}, %a{n}, %b{n} : i32
    pallas.store %c{n}, %t[{n}] : memref<128xi32, #tpu.memory_space<smem>>"""


def _kernel(statement: str, number: int) -> str:
    lines = [statement.format(n=n, next=n + 1, row=8 * n, again=8 * (n % 4)) for n in range(number)]
    last = f"%v{number}" if "%v{next}" in statement else "%v0"
    return f"""pallas.kernel @straight
      input %x: tensor<1024x128xf32> in vmem
      input %s: tensor<128xi32> in smem
      output %o: tensor<1024x128xf32> in vmem
      output %t: tensor<128xi32> in smem
    {{
    %v0 = pallas.load %x[ds(0, 8), :] : memref<1024x128xf32, #tpu.memory_space<vmem>>
    {"".join(lines)}
    pallas.store {last}, %o[ds(0, 8), :] : memref<1024x128xf32, #tpu.memory_space<vmem>>
    }}"""


def _calls(text: str) -> int:
    """Calls of functions from text to Python."""
    with Profile() as profile:
        module = pallasite.parse(text)
        for form in ("tiles", "vreg"):
            module = pallasite.lower(module, form, "v5e")
            program = prepare(module, target=get_target("v5e")).program
            for name in program.functions:
                program.function(name)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize(
    "statement", (SLICES, BRANCHES, READS, SCALARS), ids=("slices", "branches", "reads", "scalars")
)
def test_cost_grows_with_the_number_of_statements(statement: str) -> None:
    _calls(_kernel(statement, SIZES[0]))  # plans and types that are kept
    few, more, most = (_calls(_kernel(statement, size)) for size in SIZES)
    assert most - more < 1.05 * (more - few)
