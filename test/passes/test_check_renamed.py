"""Branches whose results are registers of what was there before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

import pallasite  # noqa: E402
from pallasite.diagnostics import Unsupported  # noqa: E402
from pallasite.frontend.aot import compile_ahead_of_time  # noqa: E402
from pallasite.jax import trace  # noqa: E402
from pallasite.targets import get_target  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.aot]
Way = Callable[[Any], Any]


def rolled(rows: int) -> Way:
    return lambda x: jnp.concatenate([x[rows:], x[:rows]], 0)


def kept(x: Any) -> Any:
    return x


REFUSED: dict[str, tuple[Way, Way, tuple[int, ...], Any]] = {
    "rows": (rolled(8), kept, (64, 128), np.float32),
    "few lanes": (rolled(8), kept, (16, 100), np.float32),
    "planes": (rolled(1), kept, (4, 8, 128), np.int32),
    "bytes": (rolled(32), kept, (64, 128), np.int8),
    "lanes": (lambda x: jnp.concatenate([x[:, 128:], x[:, :128]], 1), kept, (16, 256), np.float32),
    "some": (lambda x: jnp.concatenate([x[8:], x[:8] * 2], 0), kept, (16, 128), np.float32),
    "copies": (lambda x: jnp.concatenate([x[:8]] * 2, 0), kept, (16, 128), np.float32),
    "parts": (lambda x: x[8:16], lambda x: x[:8], (16, 128), np.float32),
}
TAKEN: dict[str, tuple[Way, Way, tuple[int, ...], Any]] = {
    "computed": (lambda x: rolled(8)(x + 1), kept, (16, 128), np.float32),
    "in one way": (rolled(8), lambda x: x * 2, (16, 128), np.float32),
    "equal": (rolled(8), rolled(8), (16, 128), np.float32),
    "rest": (lambda x: jnp.concatenate([x[:8], x[8:] * 2], 0), kept, (16, 128), np.float32),
    "within registers": (rolled(4), kept, (16, 128), np.float32),
    "half words": (rolled(16), kept, (32, 128), jnp.bfloat16),
}  # fmt: skip


def module_of(first: Way, second: Way, shape: tuple[int, ...], element: Any) -> tuple[Any, Any]:
    def body(way: Any, x: Any, o: Any) -> None:
        o[...] = lax.cond(way[0] > 0, first, second, x[...])

    x = np.arange(np.prod(shape)).reshape(shape).astype(element)
    call = pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(jax.eval_shape(first, x).shape, element),
        in_specs=[
            pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM),
        ],
    )  # fmt: skip
    return trace(call, jnp.array([1]), jnp.asarray(x), target="v5e"), x


def accepted(module: Any, compiler: Any, *, layout_passes: bool) -> bool:
    topology = get_target("v5e").topology
    return compile_ahead_of_time(
        module, topology=topology, layout_passes=layout_passes, compiler=compiler
    ).accepted


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, compiler: Any) -> None:
    module, x = module_of(*REFUSED[case])
    with pytest.raises(Unsupported) as caught:
        pallasite.lower(module, "mosaic", "v5e")
    assert caught.value.code == "renamed-registers"
    beyond = pallasite.lower(module, "vreg", "v5e", allow_beyond_reference=True)
    (result,) = pallasite.run(beyond, [np.array([1], np.int32), x], form="vreg", target="v5e")
    np.testing.assert_array_equal(result, REFUSED[case][0](jnp.asarray(x)))
    mosaic = pallasite.lower(module, "mosaic", "v5e", allow_beyond_reference=True)
    assert not accepted(mosaic, compiler, layout_passes=True)


@pytest.mark.parametrize("case", TAKEN)
def test_taken(case: str, compiler: Any) -> None:
    module, _ = module_of(*TAKEN[case])
    assert accepted(pallasite.lower(module, "mosaic", "v5e"), compiler, layout_passes=True)
    assert accepted(pallasite.lower(module, "vreg", "v5e"), compiler, layout_passes=False)
