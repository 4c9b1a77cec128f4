"""Names that Pallas used to have, which public tutorials still use (spec/pallas_semantics.md 1.10).

Inside a simulation they work, with a `DeprecationWarning` that says what to write today; outside,
JAX answers as ever.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallasite.diagnostics import warn_outside
from pallasite.jax.captured import replace_function


# Programs also pass these by name: the names of the parameters are those of old.
def _load(x_ref_or_view: Any, idx: Any, *, mask: Any = None, other: Any = None, **_: Any) -> Any:
    ref = x_ref_or_view
    values = pltpu.load(ref.at[idx], mask=mask) if mask is not None else ref[idx]
    return values if mask is None or other is None else jnp.where(mask, values, other)


def _store(x_ref_or_view: Any, idx: Any, val: Any, *, mask: Any = None, **_: Any) -> None:
    if mask is None:
        x_ref_or_view[idx] = val
    else:
        pltpu.store(x_ref_or_view.at[idx], val, mask=mask)


def _repeat(x: Any, repeats: int, axis: int) -> Any:
    return jnp.concatenate([x] * repeats, axis)


def _swap(x_ref_or_view: Any, idx: Any, val: Any, **_: Any) -> Any:
    old = x_ref_or_view[idx]
    x_ref_or_view[idx] = val
    return old


@dataclasses.dataclass(frozen=True)
class _Unblocked:
    """Index maps give elements, not blocks; `padding` is (before, behind) of each dimension."""

    padding: Sequence[tuple[int, int]] | None = None

    def block(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        """The block of `shape` as it is written today."""
        padding = self.padding or ((0, 0),) * len(shape)
        return tuple(
            size if size is None else pl.Element(size, (low, high))
            for size, (low, high) in zip(shape, padding, strict=True)
        )


def _memory_spaces() -> Any:
    spaces = {space.name: space for space in pltpu.MemorySpace}
    return SimpleNamespace(**{**spaces, "ANY": pl.ANY})


Spellings = dict[str, tuple[str, Callable[[], Any]]]
_TPU: Spellings = {
    "TPUCompilerParams": ("pltpu.CompilerParams", lambda: pltpu.CompilerParams),
    "TPUInterpretParams": ("pltpu.InterpretParams", lambda: pltpu.InterpretParams),
    "TPUMemorySpace": ("pltpu.MemorySpace and pl.ANY", _memory_spaces),
    "ANY": ("pl.ANY", lambda: pl.ANY),
    "delay": ("pl.delay", lambda: pl.delay),
    "reciprocal": ("pl.reciprocal", lambda: pl.reciprocal),
    "repeat": ("jnp.concatenate or jnp.tile", lambda: _repeat),
    "run_scoped": ("pl.run_scoped", lambda: pl.run_scoped),
}
_PALLAS: Spellings = {
    "load": ("ref[...] or pltpu.load", lambda: _load),
    "store": ("ref[...] = value or pltpu.store", lambda: _store),
    "swap": ("ref[...] and ref[...] = value", lambda: _swap),
    "Unblocked": ("pl.Element for the dimensions of the block", lambda: _Unblocked),
    "unblocked": ("pl.Element for the dimensions of the block", lambda: _Unblocked()),
}
_KERNEL = {"out_shape": "out_type", "scratch_shapes": "scratch_types"}


def accept_old_spellings(simulating: Callable[[], bool]) -> None:
    """Makes the old names known where `simulating` says so."""
    _extend(pltpu, "pltpu", _TPU, simulating)
    _extend(pl, "pl", _PALLAS, simulating)
    replace_function(pl.kernel, lambda kernel: with_names(kernel, simulating))
    replace_function(pl.pallas_call, lambda call: _with_parameters(call, simulating))
    _accept_old_blocks(simulating)


def with_names(kernel: Any, simulating: Callable[[], bool]) -> Any:
    """`pl.kernel` that takes the old names of those parameters that this JAX calls by new ones."""
    known = inspect.signature(kernel).parameters
    names = {old: new for old, new in _KERNEL.items() if new in known and old not in known}

    @functools.wraps(kernel)
    def renamed(*args: Any, **options: Any) -> Any:
        if simulating():
            for old, new in names.items():
                if old in options:
                    _warn(f"{old}= of pl.kernel", f"{new}=")
                    options[new] = options.pop(old)
        return kernel(*args, **options)

    return renamed


def _with_parameters(call: Any, simulating: Callable[[], bool]) -> Any:
    """`pl.pallas_call` that takes `compiler_params=dict(mosaic=dict(...))`."""

    @functools.wraps(call)
    def renamed(*args: Any, **options: Any) -> Any:
        given = options.get("compiler_params")
        if isinstance(given, dict) and simulating():
            _warn("a dict as compiler_params=", "pltpu.CompilerParams(...)")
            own = cast(dict[str, Any], given).get("mosaic")
            options["compiler_params"] = (
                pltpu.CompilerParams(**cast(dict[str, Any], own)) if isinstance(own, dict) else own
            )
        return call(*args, **options)

    return renamed


def _accept_old_blocks(simulating: Callable[[], bool]) -> None:
    """Makes `pl.BlockSpec` take the index map first, and `indexing_mode=`."""
    init: Any = pl.BlockSpec.__init__

    @functools.wraps(init)
    def renamed(self: Any, *args: Any, **options: Any) -> None:
        if simulating():
            first = args[0] if args else None
            if callable(first):
                _warn("the index map before the block", "pl.BlockSpec(block_shape, index_map)")
                args = (args[1] if len(args) > 1 else None, first, *args[2:])
            if "indexing_mode" in options:
                _warn("indexing_mode= of pl.BlockSpec", "pl.Element for its dimensions")
                mode = options.pop("indexing_mode")
                if isinstance(mode, _Unblocked):
                    shape = args[0] if args else options.pop("block_shape")
                    args = (mode.block(shape), *args[1:])
        init(self, *args, **options)

    cast(Any, pl.BlockSpec).__init__ = renamed


def _extend(
    module: ModuleType, title: str, spellings: Spellings, simulating: Callable[[], bool]
) -> None:
    original: Callable[[str], Any] | None = module.__dict__.get("__getattr__")

    def lookup(name: str) -> Any:
        if name in spellings and simulating():
            new, value = spellings[name]
            _warn(f"{title}.{name}", new)
            return value()
        if original is not None:
            return original(name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    module.__dict__["__getattr__"] = lookup


def _warn(old: str, new: str) -> None:
    warn_outside(DeprecationWarning(f"{old} is an old spelling, write {new}"))
