"""`simulate` switches a JAX program over to the modelled TPU; `trace` shows what it would run."""

from __future__ import annotations

import atexit
import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from pallasite import arguments
from pallasite.diagnostics import Note, Unsupported, UsageError
from pallasite.jax.versions import check_version
from pallasite.targets import DEFAULT_TARGET, get_target

# Before anything is imported that imports what this JAX may not have.
check_version()

from pallasite.jax import hooks  # noqa: E402
from pallasite.jax.interpreted import TALLY, Met  # noqa: E402
from pallasite.jax.settings import PRODUCTS, Collector, Settings, settings_of  # noqa: E402

P = ParamSpec("P")
R = TypeVar("R")


class simulate:
    """Context manager and decorator under which TPU kernels run on the modelled TPU.

    Everything that JAX traces inside runs `pl.pallas_call`, `pl.kernel` and `pl.core_map` on the
    model, on a machine without TPU; calls with `interpret=` stay what they are. Belongs to the
    thread that enters it, may be entered again, and leaves nothing behind.
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        form: str = "tiles",
        checks: Iterable[str] = (),
        *,
        seed: int = 0,
        max_steps: int | None = None,
        max_memory: int | None = None,
        unordered: bool = False,
        passes: Iterable[ModulePass] = (),
        allow_beyond_reference: bool = False,
        products: str | None = None,
    ) -> None:
        """`target` is v4, v5e, v5p, v6e or v7x, `form` what is executed: pallas, mosaic, dma, tiles
        or vreg. `checks`, `seed` and `unordered` are those of `pallasite.run`, as are `max_steps`
        and `max_memory`, which limit each call of a kernel (docs/jax.md). `passes` run on every
        kernel before what is missing to `form`, and `allow_beyond_reference` admits kernels that
        only the reference compiler refuses.

        With `products="tpu"` XLA's float32 products outside of kernels round their operands to
        bfloat16, as a TPU's do at default precision; the default are those of the simulation
        around this one, else `"cpu"`."""
        if products is None:
            around = hooks.current()
            products = PRODUCTS[0] if around is None else around.products
        self.settings = settings_of(
            target, form, checks, seed=seed, max_steps=max_steps, max_memory=max_memory,
            unordered=unordered, passes=passes, allow_beyond_reference=allow_beyond_reference,
            products=products,
        )  # fmt: skip
        self._entered = threading.local()

    def __enter__(self) -> simulate:
        hooks.install()
        scope = hooks.scope(self.settings)
        scope.__enter__()
        self._scopes().append((scope, TALLY.met))
        hooks.entered.add(scope)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        scope, met = self._scopes().pop()
        hooks.entered.discard(scope)
        scope.__exit__(kind, error, traceback)
        if kind is None:
            TALLY.warn_since(met)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """`function`, run inside this simulation."""

        @functools.wraps(function)
        def simulated(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return simulated

    def _scopes(self) -> list[Any]:
        if not hasattr(self._entered, "scopes"):
            self._entered.scopes = []
        return self._entered.scopes


def simulate_process(
    target: str = DEFAULT_TARGET,
    form: str = "tiles",
    checks: Iterable[str] = (),
    *,
    products: str = "tpu",
) -> None:
    """Switches every thread of this process over, for good: it runs as on a TPU, XLA's products
    of float32 included."""
    hooks.install()
    atexit.register(TALLY.warn_since, Met())
    hooks.set_default(settings_of(target, form, checks, products=products))


def kernels(
    f: Callable[..., Any], *args: Any, target: str = DEFAULT_TARGET, form: str = "pallas"
) -> list[ModuleOp]:
    """The kernels of `f` for arguments like `args`, in the order in which JAX lowers them.

    Nothing is executed; `args` may be `jax.ShapeDtypeStruct`s. The modules record their calls. They
    are in form `pallas`, traced from the kernels' jaxprs, or in form `mosaic`, as JAX itself hands
    them to the TPU compiler. What no kernel can do is a `Diagnostic` at its Python line.
    """
    import jax

    if form not in ("pallas", "mosaic"):
        raise UsageError("unknown-form", f"expected form 'pallas' or 'mosaic', got {form!r}")
    get_target(target)
    for argument in jax.tree.leaves(args):
        _check_shape(getattr(argument, "shape", ()))
    hooks.install()
    collector = Collector()
    settings = Settings(target, form, (), collector=collector)
    try:
        with hooks.scope(settings):
            jax.jit(functools.partial(f)).trace(*args).lower()
        return list(collector.modules)
    finally:
        # JAX keeps its traces of what kernels call, with the settings that they were traced in.
        collector.modules.clear()
        settings.kernels.clear()


def _check_shape(shape: Sequence[Any]) -> None:
    if not all(isinstance(size, int | np.integer) for size in shape):
        raise Unsupported(
            "symbolic-shape",
            f"kernels are traced for known shapes, got {tuple(shape)}",
            notes=[Note("give numbers; jax.export of a program for TPUs keeps symbolic shapes")],
        )


def trace(
    f: Callable[..., Any],
    *args: Any,
    target: str = DEFAULT_TARGET,
    call: int = 0,
    form: str = "pallas",
) -> ModuleOp:
    """Kernel number `call` of `f` for arguments like `args`: see `kernels`."""
    call = arguments.whole_number(call, "the call")
    modules = kernels(f, *args, target=target, form=form)
    if not modules:
        raise UsageError(
            "no-kernel",
            "the function calls no kernel for the TPU",
            notes=[Note("a kernel is called by pl.pallas_call, pl.kernel or pl.core_map, without "
                        "interpret=")],
        )  # fmt: skip
    if not 0 <= call < len(modules):
        raise UsageError(
            "no-such-call",
            f"expected the number of one of the {len(modules)} kernels of the function, got {call}",
        )
    return modules[call]
