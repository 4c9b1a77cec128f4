"""Operations in serialized form: unregistered, with every inherent attribute in the dictionary.

That is how `stable_mosaic` bytecode and text hold them (spec/tpu_dialect.md section 4.5), and what
the rules of `upgrades` and `downgrades` change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, UnregisteredOp, i32
from xdsl.dialects.builtin import StringAttr as String
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, OptPropertyDef, PropertyDef
from xdsl.irdl.constraints import VerificationContext
from xdsl.utils.exceptions import VerifyException

from pallasite.diagnostics import ReadError
from pallasite.dialects.locations import nearest_location

SEGMENTS = "operandSegmentSizes"
_SEGMENT_PROPERTIES = (SEGMENTS, "resultSegmentSizes")
NAME = "op_name__"
"""Where xDSL keeps the name of an unregistered operation."""


@lru_cache(maxsize=4096)
def unregistered(name: str) -> type[Operation]:
    """The unregistered operation class called `name`. A pure function, so its results are kept."""
    return UnregisteredOp.with_name(name)


def name_of(op: Operation) -> str:
    """The name that `op` prints, also if it is unregistered."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def rename(op: Operation, name: str) -> None:
    """Calls the unregistered `op` by another name."""
    op.attributes[NAME] = _text(name)


@lru_cache(maxsize=4096)
def _text(name: str) -> String:
    """One attribute for all operations of that name. A pure function, so its results are kept."""
    return String(name)


def become(op: Operation, kind: type[Operation], properties: dict[str, Attribute],
           attributes: dict[str, Attribute]) -> None:  # fmt: skip
    """Makes `op` an operation of class `kind` where it stands, with its operands and regions.

    Another operation in its place would cost as much as reading it.
    """
    op.__class__ = kind
    op.properties, op.attributes = properties, attributes
    op.__post_init__()


def register(op: Operation, context: Context) -> None:
    """Makes the unregistered `op` the operation that it names, inherent attributes as
    properties."""
    name = name_of(op)
    kind = context.get_optional_op(name)
    if kind is None or not issubclass(kind, IRDLOperation):
        raise ReadError("unknown-operation", f"unknown operation {name}", nearest_location(op))
    inherent = kind.get_irdl_definition().properties
    _check_inherent(op, inherent)
    properties: dict[str, Attribute] = {}
    attributes: dict[str, Attribute] = {}
    for key, value in op.attributes.items():
        if key in inherent or key in _SEGMENT_PROPERTIES:
            properties[key] = value
        elif key != NAME:
            attributes[key] = value
    become(op, kind, properties, attributes)


def _check_inherent(op: Operation, inherent: Mapping[str, PropertyDef]) -> None:
    """Required attributes must be there, and on operations that hold others be of the right kind.

    The verifier cannot be left to say so: it looks at inner operations first, and those may ask
    the operation around them for its attributes.
    """
    for name, definition in inherent.items():
        value = op.attributes.get(name)
        if value is None:
            if definition.default_value is None and not isinstance(definition, OptPropertyDef):
                raise malformed(op, f"missing attribute {name}")
        elif op.regions:
            try:
                definition.constr.verify(value, VerificationContext())
            except VerifyException as error:
                raise malformed(op, f"attribute {name} is {value}: {error}") from error


def unregister(op: Operation, name: str) -> None:
    """Makes `op` an unregistered operation called `name`."""
    attributes = {**op.properties, **op.attributes, NAME: String(name)}
    become(op, unregistered(name), {}, attributes)


def segments(op: Operation, count: int) -> tuple[int, ...]:
    """The operand segment sizes of `op`, which must be `count` that account for its operands."""
    attribute = op.attributes.get(SEGMENTS)
    sizes: tuple[int, ...] = ()
    if isinstance(attribute, DenseArrayBase) and attribute.elt_type == i32:
        sizes = cast(DenseArrayBase[IntegerType], attribute).get_values()
    if len(sizes) != count or sum(sizes) != len(op.operands) or min(sizes, default=0) < 0:
        raise malformed(
            op, f"expected {count} operand segments for {len(op.operands)} operands, got {sizes}"
        )
    return sizes


def set_segments(op: Operation, sizes: Sequence[int]) -> None:
    """Sets the operand segment sizes of `op`."""
    op.attributes[SEGMENTS] = DenseArrayBase.from_list(i32, list(sizes))


def operand_of(op: Operation, sizes: Sequence[int], segment: int) -> SSAValue | None:
    """The single operand of a segment, None if it is empty."""
    return op.operands[sum(sizes[:segment])] if sizes[segment] else None


def inserted(
    op: Operation, name: str, operands: Sequence[SSAValue], attributes: dict[str, Attribute]
) -> SSAValue:
    """The i32 result of a new serialized operation called `name` before `op`."""
    new = unregistered(name).create(
        operands=operands, result_types=[i32], attributes=attributes, location=op.location
    )
    if op.parent is None:
        raise malformed(op, "expected a block around the operation")
    op.parent.insert_op_before(new, op)
    return new.results[0]


def is_true(attribute: Attribute | None) -> bool:
    """Whether a boolean attribute is set; a missing one has its default, false."""
    return isinstance(attribute, IntegerAttr) and attribute.value.data != 0


def malformed(op: Operation, message: str) -> ReadError:
    """A diagnostic for an operation that no version of the format allows."""
    return ReadError("malformed-operation", f"{name_of(op)}: {message}", nearest_location(op))
