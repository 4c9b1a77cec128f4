"""A lowering rule of one's own: words times a power of two are shifted.

    import shifts                                   # before a kernel is lowered
    pallasite.run(module, inputs, form="vreg")

docs/extending.md goes through it.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i32

from pallasite.dialects import arith
from pallasite.dialects.types import element_of, splat, splat_value
from pallasite.lowering.vectors_to_tiles import rules
from pallasite.lowering.vectors_to_tiles.converter import Converter, rule
from pallasite.lowering.vectors_to_tiles.elementwise import lower_elementwise

rules.load()  # ours first: the rule that is registered last counts


@rule(arith.MuliOp)
def lower_product(op: arith.MuliOp, c: Converter) -> None:
    """`x * 4` is `x << 2`, in the layout that `x` has; ours lowers all other products."""
    constant = op.rhs.owner
    factor = splat_value(constant.value) if isinstance(constant, arith.ConstantOp) else None
    if not isinstance(factor, int) or factor <= 0 or element_of(op.lhs) != i32:
        factor = 0
    if factor.bit_count() != 1:
        lower_elementwise(op, c)
        return
    layout = c.tiled(op.lhs).layout
    x = c.in_layout(op.lhs, layout)
    amount = c.emit(arith.ConstantOp(splat(x.type, factor.bit_length() - 1)))
    c.define(op.result, c.emit(arith.ShLIOp(x, amount)), layout)
    c.retire(op)
