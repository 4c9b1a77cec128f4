"""`func`, whose calls know their rule but do not look for their callee.

Upstream's verifier finds every callee by a walk over the whole module, so that a module of
thousands of functions takes minutes; `pallasite.dialects.verification` does it with one table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import FlatSymbolRefAttrConstr, SymbolRefAttr
from xdsl.dialects.func import Func as UpstreamFunc
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import SymbolOpInterface

from pallasite.dialects.constraints import broken_visibility
from pallasite.dialects.derive import derive

__all__ = ["CallOp", "Func", "FuncOp", "ReturnOp", "broken_function_rule", "symbols_in"]


@irdl_op_definition
class CallOp(IRDLOperation):
    """Calls a function of the module: `%r = func.call @f(%x) : (i32) -> i32`."""

    name = "func.call"
    arguments = var_operand_def()
    callee = prop_def(FlatSymbolRefAttrConstr)
    res = var_result_def()

    assembly_format = "$callee `(` $arguments `)` attr-dict `:` functional-type($arguments, $res)"

    def __init__(
        self,
        callee: str | SymbolRefAttr,
        arguments: Sequence[SSAValue | Operation],
        return_types: Sequence[Attribute],
    ):
        if isinstance(callee, str):
            callee = SymbolRefAttr(callee)
        super().__init__(
            operands=[arguments], result_types=[return_types], properties={"callee": callee}
        )

    def broken_rule(self, symbols: Mapping[str, Operation]) -> str | None:
        """What is wrong with a call where names mean `symbols`; None if nothing is."""
        callee = symbols.get(self.callee.root_reference.data)
        if callee is None:
            return f"'{self.callee}' could not be found in symbol table"
        if not isinstance(callee, FuncOp):
            return f"'{self.callee}' does not reference a valid function"
        type = callee.function_type
        for kind, declared, given in (
            ("operand", type.inputs.data, self.arguments.types),
            ("result", type.outputs.data, self.res.types),
        ):
            if len(declared) != len(given):
                return f"incorrect number of {kind}s for callee"
            for number, (expected, got) in enumerate(zip(declared, given, strict=True)):
                if expected != got:
                    return (
                        f"{kind} type mismatch: expected {kind} type {expected}, but provided "
                        f"{got} for {kind} number {number}"
                    )
        return None


def broken_function_rule(func: FuncOp) -> str | None:
    """What is wrong with the attributes of a function that MLIR checks and upstream does not;
    None if nothing is."""
    type = func.function_type
    for what, attributes, values in (
        ("argument", func.arg_attrs, type.inputs.data),
        ("result", func.res_attrs, type.outputs.data),
    ):
        if attributes is None:
            continue
        if len(attributes) != len(values):
            return f"expected a dictionary per {what}, {len(values)}, got {len(attributes)}"
        for name in (name for dictionary in attributes for name in dictionary.data):
            if "." not in name:
                return f"expected the name of a dialect before an attribute's, got {name}"
    return broken_visibility(func.sym_visibility)


def symbols_in(table: Operation) -> dict[str, Operation]:
    """The operations that a symbol table holds, by name."""
    found: dict[str, Operation] = {}
    for op in table.regions[0].block.ops:
        interface = op.get_trait(SymbolOpInterface)
        name = None if interface is None else interface.get_sym_attr_name(op)
        if name is not None:
            found.setdefault(name.data, op)
    return found


Func = derive(UpstreamFunc, [CallOp])
