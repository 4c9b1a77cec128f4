"""Between the operations we know and the stable form in which JAX ships them.

A serialized module (spec/tpu_dialect.md section 4.5) names every operation `stable_mosaic.NAME`
and says in `stable_mosaic.version` which version of the format it keeps to; JAX 0.10.2 writes
version 11 when it exports, and 15 is the newest. The version stays on the module, because the
compiler takes its defaults from it (single buffering of revisited blocks changed with version 9).
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnregisteredOp, i64
from xdsl.ir import Operation

from pallasite.diagnostics import ReadError, UsageError
from pallasite.dialects import make_context
from pallasite.dialects.arith_denormal import DenormalMode, DenormalModeAttr
from pallasite.dialects.locations import source_location
from pallasite.dialects.walking import inner_first
from pallasite.frontend.downgrades import DOWNGRADES, PREFIX
from pallasite.frontend.serialized import malformed, name_of, register, rename, unregister
from pallasite.frontend.upgrades import UPGRADES

NEWEST = 15
VERSION = "stable_mosaic.version"


def is_serialized(module: ModuleOp) -> bool:
    """Whether the operations of `module` carry the prefix of the stable form."""
    first = module.body.block.first_op
    return first is not None and name_of(first).startswith(PREFIX)


def upgrade(module: ModuleOp) -> None:
    """Makes registered operations of the newest version of all operations of `module`, in place.

    Operations without the prefix are taken to be of the newest version. Raises `ReadError` for
    unknown versions and operations, and for operands and attributes that no version allows.
    """
    context = make_context()
    operations = inner_first(module)
    if is_serialized(module):
        version = _version(module)
        for op in operations:
            name = name_of(op)
            if not name.startswith(PREFIX):
                raise ReadError(
                    "not-serialized",
                    f"expected a name that starts with {PREFIX}, got {name}",
                    source_location(op),
                )
            rename(op, name.removeprefix(PREFIX))
        for op in operations:
            _bring_up(op, version)
            _drop_denormal_mode(op)
        operations = inner_first(module)
    for op in operations:
        if isinstance(op, UnregisteredOp):
            register(op, context)


def _bring_up(op: Operation, version: int) -> None:
    """Applies the rules of later versions in their order; one may rename the operation."""
    while True:
        later = (rule for rule in UPGRADES.get(name_of(op), ()) if rule[0] > version)
        found = next(later, None)
        if found is None:
            return
        version, rule = found
        rule(op)


def _drop_denormal_mode(op: Operation) -> None:
    """Float operations of JAX 0.4.36, at any version, say that denormal numbers are kept."""
    if name_of(op).startswith("arith.") and "denormal" in op.attributes:
        mode = op.attributes.pop("denormal")
        if mode != DenormalModeAttr(DenormalMode.ieee):
            raise malformed(op, f"expected denormal numbers to be kept (ieee), got {mode}")


def serialize(module: ModuleOp, version: int = NEWEST) -> ModuleOp:
    """A copy of `module` in the stable form of `version`.

    Raises `Unsupported` where the module says something that `version` cannot express.
    """
    if not 1 <= version <= NEWEST:
        raise UsageError(
            "unknown-version", f"expected a format version from 1 to {NEWEST}, got {version}"
        )
    serialized = module.clone()
    for op in inner_first(serialized):
        name = name_of(op)
        unregister(op, PREFIX + name)
        for introduced, rule in DOWNGRADES.get(name, ()):
            if introduced > version:
                rule(op)
    serialized.attributes[VERSION] = IntegerAttr(version, i64)
    return serialized


def _version(module: ModuleOp) -> int:
    attribute = module.attributes.get(VERSION)
    if not isinstance(attribute, IntegerAttr):
        raise ReadError(
            "unknown-version",
            f"expected an integer attribute {VERSION} on a serialized module",
            source_location(module),
        )
    version = attribute.value.data
    if not 1 <= version <= NEWEST:
        raise ReadError(
            "unknown-version",
            f"expected a format version from 1 to {NEWEST}, got {version}",
            source_location(module),
        )
    return version
