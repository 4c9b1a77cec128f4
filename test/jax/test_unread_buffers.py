"""Buffers larger than what a kernel gets, which nothing reads: the TPU compiler leaves them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.frontend import read  # noqa: E402
from pallasite.frontend.aot import compile_ahead_of_time  # noqa: E402
from pallasite.interpreter.run import execute  # noqa: E402
from pallasite.jax import simulate  # noqa: E402
from pallasite.targets import get_target  # noqa: E402

pytestmark = pytest.mark.jax

LARGE = pltpu.VMEM((40 * 512, 512), jnp.float32)
"""40 MiB."""
_DYNAMIC = "pl.ds(pl.multiple_of(x[0, 0].astype(jnp.int32) * 8, 8), 8), 0:128"
_WHEN = "pl.when(x[0, 0] > 0)(lambda: {})"
_SET = "s.__setitem__((slice(0, 8), slice(0, 128)), x[...] * 2)"
_AT = "a = pl.multiple_of(x[0, 0].astype(jnp.int32) * 8, 8); "
_THERE = "pl.ds(a, 8), 0:128"
DROPPED = (
    f"{_AT}s[{_THERE}] = x[...]; o[...] = s[{_THERE}]",
    f"{_AT}s[pl.ds(a, 16), 0:128] = jnp.concatenate([x[...]] * 2); o[...] = s[{_THERE}]",
    f"{_AT}s[0:8, 0:128] = x[...]; s[{_THERE}] = x[...]; o[...] = s[{_THERE}]",
    "pass", "s[0:8, 0:128] = x[...]", f"s[{_DYNAMIC}] = x[...]",
    "s[0:8, 0:128] = x[...]; o[...] = s[0:8, 0:128]",
    "s[8:16, 128:256] = x[...]; o[...] = s.at[8:16].at[:, 128:256][...]",
    "s[0:16, 0:128] = jnp.concatenate([x[...]] * 2); o[...] = s[8:16, 0:128]",
    "s[0:8, 0:128] = x[...]; s[8:16, 0:128] = x[...]; v = s[0:16, 0:128]; o[...] = v[:8] + v[8:]",
    "pltpu.store(s.at[0:8, 0:128], x[...], mask=x[...] > 0)",
    _WHEN.format(_SET),
)  # fmt: skip
HELD = (
    f"{_AT}s[{_THERE}] = x[...]; s[0:8, 0:128] = x[...]; o[...] = s[{_THERE}]",
    f"{_AT}b = pl.multiple_of(a * 2, 8); s[{_THERE}] = x[...]; s[pl.ds(b, 8), 0:128] = x[...]; "
    f"o[...] = s[{_THERE}]",
    "o[...] = s[0:8, 0:128]",
    f"s[0:8, 0:128] = x[...]; s[{_DYNAMIC}] = x[...]; o[...] = s[0:8, 0:128]",
    f"s[0:8, 0:128] = x[...]; {_WHEN.format(_SET)}; o[...] = s[0:8, 0:128]",
    "s[0:16, 0:128] = jnp.concatenate([x[...]] * 2); o[...] = s[4:12, 0:128]",
    "s[0:8, 0:128] = x[...]; s[4:12, 0:128] = x[...]; o[...] = s[0:8, 0:128]",
    "s[0:8, 0:100] = x[:, 0:100]; o[:, 0:100] = s[0:8, 0:100]",
    "s[0:8, 0:128] = x[...]; o[...] = jnp.full((8, 128), s[0, 0])",
    "pltpu.sync_copy(x, s.at[0:8, 0:128]); o[...] = s[0:8, 0:128]",
)


def _module(statements: str, target: str, kind: str = "float32") -> Any:
    names: dict[str, Any] = {"pl": pl, "pltpu": pltpu, "jnp": jnp}
    exec(f"def body(x, o, s):\n  o[...] = x[...]\n  {statements}", names)
    body: Callable[..., None] = names["body"]
    rows = 8 * 4 // jnp.dtype(kind).itemsize
    array = jax.ShapeDtypeStruct((rows, 128), kind)
    large = pltpu.VMEM((LARGE.shape[0] * rows // 8, 512), kind)
    call = pl.pallas_call(body, array, scratch_shapes=[large])
    with simulate(target=target):
        lowered = jax.jit(lambda x: call(x)).trace(array).lower(lowering_platforms=("tpu",))
        return read(lowered.as_text(debug_info=True), "unread")


@pytest.mark.parametrize("statements", DROPPED)
@pytest.mark.parametrize("target", ["v5e", "v6e"])
def test_dropped(statements: str, target: str) -> None:
    lowered = pallasite.lower(_module(statements, target), "vreg", target)
    run = execute(lowered, [[np.ones((8, 128), np.float32)]], target=get_target(target))
    assert (np.asarray(run.outputs[0][0]) == (2 if "v[:8]" in statements else 1)).all()


@pytest.mark.parametrize("statements", HELD)
def test_held(statements: str) -> None:
    with pytest.raises(Unsupported) as caught:
        pallasite.lower(_module(statements, "v5e"), "mosaic", "v5e")
    assert caught.value.code == "vmem-exhausted"


@pytest.mark.aot
@pytest.mark.parametrize("statements", [*DROPPED, *HELD])
def test_verdict(statements: str, compiler: Any) -> None:
    module = _module(statements, "v6e")
    topology = get_target("v6e").topology
    verdict = compile_ahead_of_time(
        module, topology=topology, layout_passes=True, compiler=compiler
    )
    assert verdict.accepted == (statements in DROPPED), verdict.message


@pytest.mark.aot
@pytest.mark.parametrize("target", ["v5e", "v6e", "v7x"])
@pytest.mark.parametrize("kind", ["int16", "int8"])
def test_packed(kind: str, target: str, compiler: Any) -> None:
    """Registers of halves are stored whole on v7x only."""
    rows = 8 * 4 // jnp.dtype(kind).itemsize
    module = _module(f"s[0:{rows}, 0:128] = x[...]; o[...] = s[0:{rows}, 0:128]", target, kind)
    taken = kind == "int8" or target == "v7x"
    if taken:
        pallasite.lower(module, "vreg", target)
    else:
        with pytest.raises(Unsupported) as caught:
            pallasite.lower(module, "mosaic", target)
        assert caught.value.code == "vmem-exhausted"
    verdict = compile_ahead_of_time(
        module, topology=get_target(target).topology, layout_passes=True, compiler=compiler
    )
    assert verdict.accepted == taken, verdict.message
