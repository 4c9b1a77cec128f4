"""What all examples share: run a program in every form, compare, and say what was checked.

`python examples/NAME.py [--target v6e] [--form tiles --form vreg]` picks target and forms; without
`--form` the kernel runs in every form. Nothing here is needed to use Pallasite: a program only has
to run inside `pallasite.jax.simulate`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import pallasite.jax
from pallasite.targets import TARGETS

FORMS = ("pallas", "mosaic", "dma", "tiles", "vreg")


def arguments() -> argparse.Namespace:
    """Target and forms of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", choices=tuple(TARGETS), help="the modelled TPU")
    parser.add_argument("--form", action="append", choices=FORMS, help="may be repeated")
    return parser.parse_args()


def agree(
    what: str,
    program: Callable[..., Any],
    inputs: Sequence[Any],
    expected: Any,
    *,
    tolerance: float = 0.0,
    target: str = "v5e",
    forms: Sequence[str] = FORMS,
    checks: Sequence[str] = ("all",),
) -> None:
    """Asserts that `program(*inputs)` is `expected` (NumPy arrays, in the program's structure) in
    every form, without a finding of the sanitizers `checks`, and prints so.

    `tolerance` is relative to the largest expected value; 0 asks for equality.
    """
    chosen = arguments()
    target = chosen.target or target
    forms = chosen.form or forms
    wanted = [np.asarray(x, np.float64) for x in jax.tree.leaves(expected)]
    worst = 0.0
    for form in forms:
        with pallasite.jax.simulate(target=target, form=form, checks=checks):
            results = jax.tree.leaves(jax.jit(program)(*inputs))
        assert len(results) == len(wanted)
        for result, value in zip(results, wanted, strict=True):
            assert result.shape == value.shape, (result.shape, value.shape)
            scale = max(1.0, float(np.abs(value).max(initial=0.0)))
            error = np.abs(np.asarray(result, np.float64) - value) / scale
            worst = max(worst, float(error.max(initial=0.0)))
            assert worst <= tolerance, f"{what}, form {form}: relative error {worst:.1e}"
    told = "equal to" if worst == 0 else f"within {worst:.0e} of"
    print(f"{what}: agrees, {told} the expected values in forms {', '.join(forms)} on {target}")


def mesh(devices: int) -> jax.sharding.Mesh:
    """A ring of that many devices, axis `x`; must be asked for before JAX is used."""
    jax.config.update("jax_num_cpu_devices", devices)
    return jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("x",))


def normal(*shape: int, dtype: Any = jnp.float32, seed: int = 0) -> jax.Array:
    """Seeded normal noise."""
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def integers(*shape: int, dtype: Any = jnp.float32, seed: int = 0) -> jax.Array:
    """Seeded small whole numbers: sums of their products are exact in float32."""
    return jnp.asarray(np.random.default_rng(seed).integers(-3, 4, shape), dtype)
