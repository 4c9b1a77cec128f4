"""What a simulation is asked to be; equal settings share JAX's compiled programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from pallasite import arguments
from pallasite.diagnostics import Note, UsageError
from pallasite.interpreter.machine.spare import Spare
from pallasite.interpreter.options import Options
from pallasite.jax.known_kernels import Kernels, kernels
from pallasite.targets import get_target

PRODUCTS = ("cpu", "tpu")

# Settings live as long as what JAX compiled for them: the limit of what is kept is the process's.
_SPARE = Spare()
_KERNELS = kernels()


@dataclass
class Collector:
    """Receives every kernel that is lowered; equal to nothing but itself."""

    modules: list[ModuleOp] = field(default_factory=list[ModuleOp])

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


@dataclass(frozen=True)
class Settings:
    """Target, form, sanitizers, seed and limits of simulated kernels."""

    target: str
    form: str
    checks: tuple[str, ...]
    seed: int = 0
    max_steps: int | None = None
    """Steps that one call of a kernel may take; None is the default of a run."""
    max_memory: int | None = None
    """Bytes that the memories and vectors of one call may take."""
    unordered: bool = False
    """Transfers between the same two cores may overtake each other."""
    passes: tuple[ModulePass, ...] = ()
    """Passes of the user's, to run before what is missing to the form."""
    allow_beyond_reference: bool = False
    """Kernels run that the TPU compiler refuses and the lowering could do."""
    products: str = PRODUCTS[0]
    """Whose precision XLA's products outside of kernels have: one of `PRODUCTS`."""
    collector: Collector | None = None
    program: Callable[[], Any] | None = None
    """Of kernels in a rule of `custom_partitioning`: gives what their program reserved for them."""
    kernels: Kernels = field(default_factory=kernels, compare=False, repr=False)
    """Kernels that were lowered: those of all simulations, without passes of the user's."""
    spare: Spare = field(default=_SPARE, compare=False, repr=False)
    """Memory that one call of a kernel leaves to the next, of any simulation."""

    @cached_property
    def options(self) -> Options:
        """Those of every run of a kernel."""
        return Options.of(
            checks=self.checks, seed=self.seed, unordered=self.unordered,
            max_steps=self.max_steps, max_memory=self.max_memory,
        )  # fmt: skip

    @property
    def traces(self) -> bool:
        """Whether kernels are traced from their jaxprs, and not lowered by JAX."""
        return self.form == "pallas"


@dataclass(frozen=True)
class Simulated:
    """Stands where a kernel call says `interpret=False` if it was traced inside a simulation.

    It is false, so that JAX goes on treating the call as one for the TPU, and it travels with the
    call through every transformation.
    """

    settings: Settings

    def __bool__(self) -> bool:
        return False


def settings_of(
    target: str,
    form: str,
    checks: Iterable[str],
    *,
    seed: int = 0,
    max_steps: int | None = None,
    max_memory: int | None = None,
    unordered: bool = False,
    passes: Iterable[ModulePass] = (),
    allow_beyond_reference: bool = False,
    products: str = PRODUCTS[0],
) -> Settings:
    """The settings that these arguments name; a `UsageError` for names that nobody knows."""
    if callable(target):
        raise UsageError(
            "unknown-target",
            "simulate is a decorator when it is called",
            notes=[Note("write @simulate(), or @simulate(target) with one of its targets")],
        )
    get_target(target)
    if products not in PRODUCTS:
        raise UsageError(
            "unknown-products", f"expected products of {' or '.join(PRODUCTS)}, got {products!r}"
        )
    arguments.form(form)
    chosen = arguments.passes(passes)
    try:
        # Programs that JAX has compiled are found again by their settings.
        hash(chosen)
    except TypeError as error:
        raise UsageError("unhashable-pass", f"expected hashable passes: {error}") from error
    return Settings(
        target,
        form,
        arguments.checks(checks),
        seed=arguments.seed(seed),
        max_steps=arguments.limit(max_steps, "max_steps"),
        max_memory=arguments.limit(max_memory, "max_memory"),
        unordered=arguments.flag(unordered, "unordered"),
        passes=chosen,
        allow_beyond_reference=arguments.flag(allow_beyond_reference, "allow_beyond_reference"),
        products=products,
        kernels=kernels() if chosen else _KERNELS,
    )
