"""How a program calls its kernel: the types of whole operands and results, aliases, settings.

The kernel's module itself does not say it. It travels in our discardable module attribute
`tpu.call`, which readers of StableHLO set and which every pass keeps:

    module attributes {tpu.call = {operands = [tensor<8x128xf32>], results = [tensor<8x128xf32>],
                                   aliases = array<i64: 0, 0>, settings = "{...}"}}

`aliases` is a flat list of (operand index, result index) pairs; `settings` is the JSON text of the
call's configuration.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute

from pallasite.diagnostics import Note, SourceLocation, Unsupported, VerifyError
from pallasite.dialects.integers import greatest
from pallasite.dialects.locations import source_location

CALL = "tpu.call"
"""Attribute of a module: the record of its call."""
CONFIG = "custom_call_config"
"""Setting: what the compiler is told about the kernel."""
BOOLEANS = "boolean_results"
"""Setting: the results that the program turns into bools, which are i32 in the call."""
BOOLEAN_OPERANDS = "boolean_operands"
"""Setting: the operands that are bools in the program, and 0 or 1 of i32 in the call."""
EFFECTS = "has_side_effect"
"""Setting: whether the call does more than its results show."""
NAME = "kernel_name"
"""Setting: what the kernel's author calls it."""
SCOPED_MEMORY = "scoped_memory_configs"
"""Setting: how much of each memory the kernel may use."""
VMEM_NUMBER = 1
"""What settings number VMEM with, as a memory of the kernel or of an array of the program."""


@dataclass(frozen=True)
class Call:
    """How the surrounding program calls the kernel: full array types, aliases, settings."""

    operands: tuple[TensorType[Attribute], ...]
    results: tuple[TensorType[Attribute], ...]
    aliases: tuple[tuple[int, int], ...] = ()
    settings: dict[str, Any] = field(default_factory=dict[str, Any], hash=False)

    @property
    def effects(self) -> bool:
        """Whether the program keeps the call even if nobody uses its results."""
        return bool(self.settings.get(EFFECTS, False))

    @property
    def config(self) -> dict[str, Any]:
        """What the compiler is told about the kernel; empty if that is nothing, or no object."""
        config = self.settings.get(CONFIG)
        return cast("dict[str, Any]", config) if isinstance(config, dict) else {}

    @property
    def unchecked(self) -> bool:
        """Whether vectors may be read outside of their refs (`disable_bounds_checks`)."""
        return bool(self.config.get("disable_bounds_checks", False))

    @property
    def results_in_vmem(self) -> frozenset[int]:
        """The results that the program keeps in VMEM, where later kernels find them."""
        in_vmem = _with(self.config.get("output_memory_space_colors"), "color", VMEM_NUMBER)
        results = (_numbers(color.get("shape_index", [0]), self.results) for color in in_vmem)
        return frozenset(itertools.chain.from_iterable(results))

    @property
    def vmem_limit(self) -> int | None:
        """The bytes of VMEM that the program grants the kernel; None for the target's default."""
        granted = _with(self.settings.get(SCOPED_MEMORY), "memory_space", VMEM_NUMBER)
        sizes = (memory.get("size") for memory in granted)
        return next((size for size in sizes if isinstance(size, int)), None)

    @property
    def boolean_results(self) -> tuple[int, ...]:
        """The results that are bools in the program."""
        return _numbers(self.settings.get(BOOLEANS), self.results)

    @property
    def boolean_operands(self) -> tuple[int, ...]:
        """The operands that are bools in the program."""
        return _numbers(self.settings.get(BOOLEAN_OPERANDS), self.operands)


def _with(value: object, key: str, number: int) -> list[dict[str, Any]]:
    """The objects of a list, as JSON has it, that have `number` under `key`; whoever wrote the
    settings may have put anything in its place."""
    found = cast("list[object]", value) if isinstance(value, list) else []
    objects = (cast("dict[str, Any]", entry) for entry in found if isinstance(entry, dict))
    return [entry for entry in objects if entry.get(key) == number]


def _numbers(value: object, arrays: Sequence[object]) -> tuple[int, ...]:
    """The whole numbers of a list, as JSON has it, that count `arrays`."""
    found = cast("list[object]", value) if isinstance(value, list) else []
    return tuple(n for n in found if type(n) is int and 0 <= n < len(arrays))


def vmem_setting(size: int) -> dict[str, Any]:
    """The setting that grants the kernel `size` bytes of VMEM (`Call.vmem_limit`)."""
    return {SCOPED_MEMORY: [{"memory_space": VMEM_NUMBER, "offset": 0, "size": size}]}


def call_of(module: ModuleOp) -> Call | None:
    """The call recorded on `module`, or that its `pallas.kernel` tells; None for a bare module.

    Raises `VerifyError` for a record that is not one.
    """
    entry = module.attributes.get(CALL)
    if not isinstance(entry, DictionaryAttr):
        return _told_call(module)
    operands, results = (_tensors(module, entry, part) for part in ("operands", "results"))
    flat = entry.data.get("aliases")
    if not isinstance(flat, DenseArrayBase) or len(flat) % 2:
        raise _no_call(module, "aliases are pairs of an operand's and a result's number", flat)
    numbers = [int(n) for n in cast("DenseArrayBase[Any]", flat).get_values()]
    aliases = tuple(zip(numbers[::2], numbers[1::2], strict=True))
    if not all(0 <= i < len(operands) and 0 <= o < len(results) for i, o in aliases):
        raise _no_call(
            module, f"aliases are of {len(operands)} operands and {len(results)} results", flat
        )
    if any(len(set(side)) < len(aliases) for side in zip(*aliases, strict=True)):
        raise _no_call(module, "no operand and no result is aliased twice", flat)
    text = entry.data.get("settings")
    try:
        settings = json.loads(text.data) if isinstance(text, StringAttr) else None
    except (ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise _no_call(module, "settings are the text of a JSON object", text)
    return Call(operands, results, aliases, cast("dict[str, Any]", settings))


def _tensors(
    module: ModuleOp, entry: DictionaryAttr, part: str
) -> tuple[TensorType[Attribute], ...]:
    types = entry.data.get(part)
    found = tuple(types) if isinstance(types, ArrayAttr) else (types,)
    if not all(isinstance(type, TensorType) for type in found):
        raise _no_call(module, f"{part} are tensor types", types)
    return cast("tuple[TensorType[Attribute], ...]", found)


def _no_call(module: ModuleOp, rule: str, got: object) -> VerifyError:
    return VerifyError("bad-call", f"{CALL}: {rule}; got {got}", source_location(module))


def _told_call(module: ModuleOp) -> Call | None:
    if not any(op.name == "pallas.kernel" for op in module.body.block.ops):
        return None
    # The `pallas` dialect is built on these conventions.
    from pallasite.dialects.pallas.calls import call_for
    from pallasite.dialects.pallas.kernel import KernelOp

    first, *others = (op for op in module.body.block.ops if isinstance(op, KernelOp))
    call = call_for(first)
    for other in others:
        told = call_for(other)
        if replace(told, settings=told.settings | {NAME: call.settings[NAME]}) != call:
            raise VerifyError(
                "bad-call",
                "the kernels of one call have the same operands, results, aliases and parameters, "
                f"@{other.sym_name.data} has others than @{first.sym_name.data}",
                source_location(other),
            )
    return call


def check_sizes(call: Call, location: SourceLocation | None) -> None:
    """Raises `VerifyError` for arrays of which the program does not say how large they are, and
    `Unsupported` for those that no index reaches the end of."""
    for type in (*call.operands, *call.results):
        if not type.has_static_shape():
            raise VerifyError(
                "unknown-size",
                f"the call has an array of type {type}, whose size is not known",
                location,
                [Note("export or lower the program for arrays of known shapes")],
            )
        if (extent := max(type.get_shape(), default=0)) > greatest(32):
            raise Unsupported(
                "array-size",
                f"the call has an array of type {type}, of whose dimensions one has {extent} "
                "elements: indices have 32 bits",
                location,
            )


def missing_operands(missing: int, bounds: int) -> list[Note]:
    """What to say of a call that passes `missing` operands less than its kernel has, of which
    `bounds` are sizes of the grid.

    JAX 0.10.2 drops these where `vmap` maps what is prefetched, which it does by a loop.
    """
    if not 0 < missing == bounds:
        return []
    return [
        Note("the sizes of the grid that are known at run time only are missing: jax.vmap over a "
             "scalar-prefetch operand loses them"),
        Note("loop over the calls, jax.lax.map(lambda x: call(size, *x), operands), or let the "
             "size of the grid be known"),
    ]  # fmt: skip


def set_call(module: ModuleOp, call: Call) -> None:
    """Records `call` on `module`."""
    flat = [index for pair in call.aliases for index in pair]
    module.attributes[CALL] = DictionaryAttr(
        {
            "operands": ArrayAttr(call.operands),
            "results": ArrayAttr(call.results),
            "aliases": DenseArrayBase.from_list(i64, flat),
            "settings": StringAttr(json.dumps(call.settings)),
        }
    )
