"""Verification with the place and the operation in the message, with SSA dominance and callees.

xDSL's `verify` prints the whole module around the culprit, accepts an operation that uses a value
before it is defined, and looks for every callee anew. `verify` here reports one diagnostic at the
user's source line, at a cost that grows with the size of the module and no faster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from xdsl.dialects.builtin import (
    FunctionType,
    IndexType,
    IntegerType,
    MemRefType,
    ModuleOp,
    Signedness,
    VectorType,
    i64,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl.dominance import DominanceInfo
from xdsl.parser import ForwardDeclaredValue
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import VerifyException

from pallasite.diagnostics import Diagnostic, Note, VerifyError
from pallasite.dialects.alike import keeps_rules
from pallasite.dialects.arithmetic import is_arithmetic
from pallasite.dialects.func import CallOp, FuncOp, broken_function_rule, symbols_in
from pallasite.dialects.locations import nearest_location, source_location
from pallasite.dialects.memref import AllocaOp, GlobalOp
from pallasite.dialects.tpu.attrs import TiledLayoutAttr
from pallasite.dialects.types import element_type, is_float
from pallasite.dialects.walking import of_kind, operations

INVALID = "invalid-operation"
"""The code of a broken rule that has none of its own."""
_SCOPES = ("func.func", "scf.for", "memref.alloca_scope", "pallas.kernel")
"""What gives back at its end what is allocated in it."""
_UNEXPECTED = re.compile(r"Unexpected attribute (?=\S)")
_PYTHON_CLASS = re.compile(r"'<class '(?:\w+\.)*(\w+)'>'")
"""How some of upstream's constraints name the kind of an attribute."""


def verify(module: ModuleOp) -> None:
    """Raises `VerifyError` for the first rule that `module` breaks."""
    try:
        if not keeps_rules(module):
            module.verify()
    except Exception as error:
        # Some of upstream's verifiers assert or index where they should refuse.
        raise _located(module, error) from error
    _check_types(module)
    _check_symbols(module)
    _check_allocations(module)
    _check_calls(module)
    _check_region(module.body, set())


def verify_after(module: ModuleOp, name: str) -> None:
    """`verify(module)`, which the pass called `name` has left: it is named."""
    try:
        verify(module)
    except Diagnostic as error:
        error.notes.append(Note(f"after pass {name}"))
        raise


def _check_types(module: ModuleOp) -> None:
    """The types of values keep the rules that concern several of their parts."""
    # By identity: hashing a type takes longer than looking at it, and few types are made anew.
    seen: set[int] = set()
    signed = False
    for op in operations(module):
        values = [*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)]
        for value in values:
            if id(value.type) in seen:
                continue
            seen.add(id(value.type))
            rule = broken_type_rule(value.type)
            if rule is not None:
                raise _broken(op, rule)
            signed = signed or _is_signed(value.type)
    if signed:
        _check_signless(module)


def _is_signed(type: Attribute) -> bool:
    element = element_type(type)
    return isinstance(element, IntegerType) and element.signedness.data is not Signedness.SIGNLESS


def _check_signless(module: ModuleOp) -> None:
    """What computes does so on integers that are neither signed nor unsigned, as MLIR's do."""
    for op in module.walk():
        if not is_arithmetic(op):
            continue
        for type in (*op.operand_types, *op.result_types):
            if _is_signed(type):
                raise _broken(op, f"expected signless integers, got {type}")


def broken_type_rule(type: Attribute) -> str | None:
    """What is wrong with a shaped type, None if nothing is."""
    if isinstance(type, VectorType):
        vector = cast("VectorType[Attribute]", type)
        if any(size < 1 for size in vector.get_shape()):
            return f"vectors have positive sizes, got {vector}"
        element = vector.element_type
        if not isinstance(element, IntegerType | IndexType) and not is_float(element):
            return f"vectors have elements that are numbers, got {vector}"
    if isinstance(type, MemRefType):
        memref = cast("MemRefType[Attribute]", type)
        if isinstance(memref.layout, TiledLayoutAttr):
            tiling = memref.layout.tiling
            if len(tiling.strides) != memref.get_num_dims():
                return (
                    f"a layout has one stride per dimension, expected {memref.get_num_dims()} "
                    f"strides in {memref}, got {len(tiling.strides)}"
                )
            if any(len(tile) > len(tiling.strides) for tile in tiling.tiles[:1]):
                return f"a tile has at most as many dimensions as the memref, got {memref}"
            if any(size < 1 for tile in tiling.tiles for size in tile):
                return f"tiles have positive sizes, got {memref}"
            if not tiling.nested:
                return f"tiles consist of whole smaller ones, got {memref}"
    return None


def _check_symbols(module: ModuleOp) -> None:
    """Functions and globals are where names are looked up; functions have fitting attributes."""
    for op in (*of_kind(module, FuncOp), *of_kind(module, GlobalOp)):
        home = op.parent_op()
        if home is not None and not home.has_trait(SymbolTable):
            raise _broken(op, f"symbols belong to a module, not to {home.name}")
        rule = broken_function_rule(op) if isinstance(op, FuncOp) else None
        if rule is not None:
            raise _broken(op, rule)


def _check_allocations(module: ModuleOp) -> None:
    """Memory is taken inside what gives it back at its end."""
    for op in of_kind(module, AllocaOp):
        home = op.parent_op()
        while home is not None and home.name not in _SCOPES:
            home = home.parent_op()
        if home is None:
            raise _broken(op, "memory is allocated inside a function")
        if op.alignment is not None and op.alignment.type != i64:
            raise _broken(op, f"expected an alignment of type i64, got {op.alignment}")


def _check_calls(module: ModuleOp) -> None:
    """Each call names a function of the nearest symbol table, and has its types."""
    tables: dict[Operation, dict[str, Operation]] = {}
    for op in of_kind(module, CallOp):
        home = op.parent_op()
        while home is not None and not home.has_trait(SymbolTable):
            home = home.parent_op()
        if home is not None and home not in tables:
            tables[home] = symbols_in(home)
        rule = op.broken_rule(tables[home] if home is not None else {})
        if rule is not None:
            raise _broken(op, rule)


def _located(module: ModuleOp, error: Exception) -> VerifyError:
    clearer = _undefined(module) or _without_type(module) or _broken_types(module, error)
    if clearer is not None:
        return clearer
    culprit = _named_culprit(error) or _culprit(module)
    rule = _rule(error)
    if culprit is None:
        return VerifyError("invalid-module", rule, source_location(module))
    broken = next(_broken_rules(error), None)
    if broken is None:
        return _broken(culprit, rule)
    return _broken(culprit, rule, broken.advice, broken.code)


def _undefined(module: ModuleOp) -> VerifyError | None:
    """A name that the text uses and defines out of its sight only, on which verifiers stumble."""
    for op in module.walk():
        for number, operand in enumerate(op.operands):
            if isinstance(operand, ForwardDeclaredValue):
                return _unseen(op, number)
    return None


def _without_type(module: ModuleOp) -> VerifyError | None:
    """A function whose type is none, on which the verifier of its return stumbles."""
    for op in module.walk():
        if isinstance(op, FuncOp) and not isinstance(
            kind := op.properties.get("function_type"), FunctionType
        ):
            return _broken(op, f"expected a function type as function_type, got {kind}")
    return None


def _broken_types(module: ModuleOp, error: Exception) -> VerifyError | None:
    """A type that breaks a rule, where a verifier stumbled instead of refusing."""
    if isinstance(error, VerifyException):
        return None
    try:
        _check_types(module)
    except VerifyError as clearer:
        return clearer
    return None


def _unseen(op: Operation, number: int) -> VerifyError:
    return VerifyError(
        "use-before-definition",
        f"'{op.name}': operand {number} is used before it is defined",
        source_location(op),
    )


def _broken(
    op: Operation, rule: str, advice: Sequence[str] = (), code: str = INVALID
) -> VerifyError:
    return VerifyError(
        code,
        f"'{op.name}': {rule}",
        nearest_location(op),
        [Note(text) for text in advice],
    )


class BrokenRule(VerifyException):
    """A rule that an operation's verifier finds broken.

    By `culprit`, if that is an operation inside it; `advice` says what to write instead. The `code`
    is that of the same fault where another form finds it.
    """

    def __init__(
        self,
        message: str,
        culprit: Operation | None = None,
        advice: Iterable[str] = (),
        code: str = INVALID,
    ):
        super().__init__(message)
        self.culprit = culprit
        self.advice = tuple(advice)
        self.code = code


def _broken_rules(error: BaseException | None) -> Iterator[BrokenRule]:
    """The broken rules that led to `error`."""
    while error is not None:
        if isinstance(error, BrokenRule):
            yield error
        error = error.__cause__ or error.__context__


def _named_culprit(error: BaseException | None) -> Operation | None:
    return next((rule.culprit for rule in _broken_rules(error) if rule.culprit), None)


def _culprit(module: ModuleOp) -> Operation | None:
    """The first operation that does not verify by itself."""
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except Exception as error:  # as in `verify`
            return _named_culprit(error) or op
    return None


def rule_of(error: Exception) -> str:
    """What `error` says; of constraints that refuse an attribute, that it is refused."""
    return _PYTHON_CLASS.sub(r"\1", _UNEXPECTED.sub("it does not take ", str(error)))


def _rule(error: Exception) -> str:
    lines = [line.strip() for line in rule_of(error).splitlines() if line.strip()]
    if isinstance(error, VerifyException) or type(error) is Exception:
        # Some of upstream's verifiers raise their sentences so.
        return " ".join(lines) or "the operation is not valid"
    return f"the operation is not valid ({type(error).__name__}: {' '.join(lines)})"


def _check_region(region: Region, visible: set[SSAValue]) -> None:
    """Each operand in `region` is `visible` from outside or defined earlier on every path."""
    blocks = tuple(region.blocks)
    dominance = DominanceInfo(region) if len(blocks) > 1 else None
    parent = region.parent_op()
    # The order of operations in a module itself means nothing.
    graph = isinstance(parent, ModuleOp)
    defined = {
        block: [*block.args, *(r for op in block.ops for r in op.results)] for block in blocks
    }
    for block in blocks:
        added = list[SSAValue](block.args)
        if dominance is not None:
            for other in blocks:
                if dominance.strictly_dominates(other, block):
                    added += defined[other]
        if graph:
            added += defined[block]
        added = [v for v in added if v not in visible]
        visible.update(added)
        for op in block.ops:
            for number, operand in enumerate(op.operands):
                if operand not in visible:
                    raise _unseen(op, number)
            for inner in op.regions:
                _check_region(inner, visible)
            visible.update(op.results)
            added += op.results
        visible.difference_update(added)
