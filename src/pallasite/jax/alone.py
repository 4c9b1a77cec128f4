"""Programs that are nothing but one kernel run without XLA.

`jax.jit` of a kernel, and a kernel that is called outside of `jax.jit`, become a program that hands
its arguments to the kernel and returns what that returns. XLA would copy the arrays, and have
another thread call back: several times the time of a small kernel. So the kernel is called at once,
on the caller's arrays. Whatever is not plain about a program or its arguments goes XLA's way.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax._src import config, dispatch
from jax._src.interpreters import pxla
from jax.sharding import SingleDeviceSharding
from numpy.typing import NDArray

from pallasite.jax.calls import KernelCall

Array = NDArray[Any]


@dataclass(frozen=True)
class Alone:
    """How a program hands on what one kernel takes and returns."""

    call: KernelCall
    inputs: tuple[int, ...]
    """For each operand of the kernel the number of the program's argument."""
    results: tuple[int, ...]
    """For each result of the program the number of the kernel's."""

    @staticmethod
    def of(hlo: Any, keepalive: Iterable[Any], out_avals: Sequence[Any]) -> Alone | None:
        """Of the program `hlo`, which keeps `keepalive` and returns arrays of `out_avals`, if there
        is nothing else in it."""
        calls = [item for item in keepalive if isinstance(item, KernelCall)]
        functions = list(hlo.body.operations)
        if len(calls) != 1 or calls[0].devices > 1 or len(functions) != 1:
            return None
        wiring = _wiring(functions[0])
        if wiring is None:
            return None
        found = Alone(calls[0], *wiring)
        returned = [calls[0].results[number] for number in found.results]
        return found if returned == [(aval.shape, aval.dtype) for aval in out_avals] else None

    def run(self, executable: Any, args: Sequence[Any]) -> list[Any] | None:
        """The results of the program, of which `executable` is an `ExecuteReplicated`, for `args`;
        None if that is for XLA to find."""
        if not _is_plain(executable):
            return None
        kept = [x for number, x in enumerate(args) if number in executable.kept_var_idx]
        arrays = [_as_array(kept[number]) for number in self.inputs]
        if [a if a is None else (a.shape, a.dtype) for a in arrays] != self.call.operands:
            return None
        found = self.call(0, [array for array in arrays if array is not None])
        (device,) = executable._local_devices
        sharding = SingleDeviceSharding(device)
        handler = executable.out_handler
        outputs: list[Any] = []
        for number, aval, finish in zip(
            self.results, handler.out_avals, handler.handlers, strict=True
        ):
            array = pxla.batched_device_put(aval, sharding, [found[number]], [device], False)
            outputs.append(finish([array]))
        return outputs


def _wiring(main: Any) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The `inputs` and `results` of a function that only calls back to Python."""
    if "arg_attrs" in main.attributes and any(len(said) for said in main.attributes["arg_attrs"]):
        return None  # It says what becomes of its arguments, or where they are.
    (block,) = main.regions[0].blocks
    *ops, end = block.operations
    calls = [op.operation for op in ops if op.operation.name == "stablehlo.custom_call"]
    if len(calls) != 1 or any(
        op.operation.name not in ("stablehlo.custom_call", "stablehlo.constant") for op in ops
    ):
        return None
    given, made = list(block.arguments), list(calls[0].results)
    # Of a program on one device, the first operand is its constant number.
    taken, returned = list(calls[0].operands)[1:], list(end.operands)
    if any(value not in given for value in taken) or any(value not in made for value in returned):
        return None
    return tuple(map(given.index, taken)), tuple(map(made.index, returned))


def _is_plain(executable: Any) -> bool:
    """Whether JAX does nothing before and after this run of a program but to run it."""
    return not (
        executable.mut is not None
        or executable.ordered_effects
        or config.no_execution.value
        or dispatch.needs_check_special()
    )


def _as_array(x: Any) -> Array | None:
    """The elements of an argument, where they are."""
    if type(x) is np.ndarray:
        return x
    # Arrays of keys have no elements.
    if isinstance(x, jax.Array) and not jax.dtypes.issubdtype(x.dtype, jax.dtypes.extended):
        return np.asarray(x)
    return None


def kept_with(compile: Callable[..., Any]) -> Callable[..., Any]:
    """`compile` keeps an `Alone` with each program that is one."""

    def keeping(name: str, hlo: Any, **rest: Any) -> Any:
        kept = rest["keepalive"] or ()
        alone = Alone.of(hlo, kept, rest["global_out_avals"])
        if alone is not None:
            rest["keepalive"] = [*kept, alone]
        return compile(name, hlo, **rest)

    return keeping
