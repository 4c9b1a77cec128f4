"""Kernels written as the few lines of their body, for tests of loads and stores."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

import pallasite


def kernel(operands: list[str], body: str) -> ModuleOp:
    """A kernel of `%a`, `%b`, ...; the last of the types `operands` (`8x128xf32`) is its result.

    In `body`, `A`, `B`, ... stand for the memref types.
    """
    names = [chr(ord("a") + i) for i in range(len(operands))]
    memrefs = {
        n: f"memref<{t}, #tpu.memory_space<vmem>>" for n, t in zip(names, operands, strict=True)
    }
    for name, kind in memrefs.items():
        body = body.replace(f": {name.upper()}", f": {kind}")
    return module_of(names, operands, body)


def module_of(
    names: list[str], operands: list[str], body: str, aliases: tuple[int, ...] = ()
) -> ModuleOp:
    """A kernel with the `body` over refs in VMEM, called `names`, of the types `operands`; the last
    is its result.

    `aliases` are a pair: the operand and the result that share their memory.
    """
    arguments = ", ".join(
        f"%{n}: memref<{t}, #tpu.memory_space<vmem>>" for n, t in zip(names, operands, strict=True)
    )
    tensors = [f"tensor<{t}>" for t in operands]
    pairs = f": {', '.join(map(str, aliases))}" if aliases else ""
    return pallasite.parse(f"""
module attributes {{tpu.call = {{operands = [{", ".join(tensors[:-1])}],
    results = [{tensors[-1]}], aliases = array<i64{pairs}>, settings = "{{}}"}}}} {{
  func.func @kernel({arguments}) attributes {{dimension_semantics = [],
      scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>}} {{
    %z = arith.constant 0 : index
    {body}
    func.return
  }}
}}""")
