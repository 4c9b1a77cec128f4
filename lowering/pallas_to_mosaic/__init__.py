"""`lower-to-mosaic`: from the `pallas` form to what JAX itself hands to the TPU compiler.

Needs form `pallas`; leaves form `mosaic`, and the call recorded in `tpu.call`. `kernel` and `maps`
make the function and its index maps, `driver` walks the body. Each operation of the `pallas`
dialect has one rule, in one file per family (`rules` lists them); all other operations are the same
in both forms. Raises `Unsupported` for what has no counterpart in Mosaic.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from pallasite.dialects.in_words import in_words
from pallasite.dialects.locations import refusal
from pallasite.targets import DEFAULT_TARGET, get_target


@dataclass(frozen=True)
class LowerToMosaicPass(ModulePass):
    """Replaces the operations of the `pallas` dialect by Mosaic's."""

    name = "lower-to-mosaic"

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        get_target(self.target)  # refuses names that nobody knows; the rules are the same for all
        from pallasite.dialects.kernel import form_of, set_form

        if form_of(op) != "pallas":
            return
        from pallasite.dialects import pallas
        from pallasite.lowering.pallas_to_mosaic import rules
        from pallasite.lowering.pallas_to_mosaic.kernel import lower_kernel

        rules.load()
        for kernel in list(op.body.block.ops):
            if isinstance(kernel, pallas.KernelOp):
                lower_kernel(op, kernel)
        for left in op.walk():
            if left.dialect_name() == "pallas":
                raise refusal(
                    left,
                    "no-lowering",
                    f"{in_words(left)} has no counterpart in the mosaic form here",
                )
        set_form(op, "mosaic")
