"""Kernels of any block size, as text: a matmul, a softmax, an elementwise and a slice kernel."""

from __future__ import annotations

from collections.abc import Sequence

MATMUL = """
    %n = arith.constant dense<0.0> : vector<{n}x{n}xf32>
    %a = vector.load %x[%c0, %c0] : {ref}, {vector}
    %b = vector.load %y[%c0, %c0] : {ref}, {vector}
    %r = tpu.matmul %a, %b, %n {{dimension_numbers =
        #tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>,
        transpose_lhs_hint = false}} : {vector}, {vector}, {vector} -> {vector}
"""
SOFTMAX = """
    %a = vector.load %x[%c0, %c0] : {ref}, {vector}
    %low = arith.constant dense<0xFF800000> : {row}
    %m = vector.multi_reduction <maximumf>, %a, %low [1] : {vector} to {row}
    %m1 = vector.shape_cast %m : {row} to {column}
    %mb = vector.broadcast %m1 : {column} to {vector}
    %d = arith.subf %a, %mb : {vector}
    %e = math.exp %d : {vector}
    %zero = arith.constant dense<0.0> : {row}
    %s = vector.multi_reduction <add>, %e, %zero [1] : {vector} to {row}
    %s1 = vector.shape_cast %s : {row} to {column}
    %sb = vector.broadcast %s1 : {column} to {vector}
    %r = arith.divf %e, %sb : {vector}
"""
ELEMENTWISE = """
    %a = vector.load %x[%c0, %c0] : {ref}, {vector}
    %b = vector.load %y[%c0, %c0] : {ref}, {vector}
    %c = arith.mulf %a, %b : {vector}
    %d = math.tanh %c : {vector}
    %r = arith.addf %d, %a : {vector}
"""
SLICE = """
    %a = vector.load %x[%c0, %c0] : {ref}, {vector}
    %b = vector.extract_strided_slice %a {{offsets = [3, 5], sizes = [{m}, {m}], strides = [1, 1]}}
        : {vector} to {part}
    %z = arith.constant dense<0.0> : {bottom}
    %c = tpu.concatenate %b, %z in 0 : {part}, {bottom} -> {tall}
    %y1 = arith.constant dense<0.0> : {side}
    %r = tpu.concatenate %c, %y1 in 1 : {tall}, {side} -> {vector}
"""
TEMPLATES = {"matmul": MATMUL, "softmax": SOFTMAX, "elementwise": ELEMENTWISE, "slice": SLICE}


def square(template: str, n: int) -> str:
    """A module whose kernel works on one n x n block of f32."""

    def vector(*shape: int) -> str:
        return f"vector<{''.join(f'{s}x' for s in shape)}f32>"

    ref = f"memref<{n}x{n}xf32, #tpu.memory_space<vmem>>"
    names: Sequence[str] = ("x", "y", "o")
    body = TEMPLATES[template].format(
        n=n, m=n - 8, ref=ref, vector=vector(n, n), row=vector(n), column=vector(n, 1),
        part=vector(n - 8, n - 8), bottom=vector(8, n - 8), tall=vector(n, n - 8),
        side=vector(n, 8),
    )  # fmt: skip
    array = f"tensor<{n}x{n}xf32>"
    return f"""module attributes {{tpu.call = {{operands = [{array}, {array}], results = [{array}],
    aliases = array<i64>, settings = "{{}}"}}}} {{
  func.func @kernel({", ".join(f"%{name}: {ref}" for name in names)}) attributes {{
      dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
      tpu.core_type = #tpu.core_type<tc>}} {{
    %c0 = arith.constant 0 : index
{body}
    tpu.vector_store %o[%c0, %c0], %r {{strides = array<i32>}} : {ref}, {vector(n, n)},
    return
  }}
}}
"""
