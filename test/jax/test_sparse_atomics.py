"""`fetch_and_add` under the race check: additions do not race, a plain access of the word does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402
from jax.experimental.pallas import tpu_sc as plsc  # noqa: E402

from pallasite.api import simulate  # noqa: E402
from pallasite.jax import kernels  # noqa: E402

from .sparse_kernels import LANES, TARGET, check, typed, vector_kernel  # noqa: E402

pytestmark = [pytest.mark.jax, pytest.mark.feature("Y08")]

i32 = jnp.int32


def counted(body: Callable[..., None]) -> Callable[..., Any]:
    """`body(number, words)` on the subcores of a core, each of which writes what it returns."""

    def whole(o: Any, words: Any, row: Any) -> None:
        number = jax.lax.axis_index("s")
        row[...] = jnp.full((LANES,), body(number, words), i32)
        pltpu.sync_copy(row, o.at[number])

    scratch = [pltpu.SMEM((2,), i32), pltpu.VMEM((LANES,), i32)]
    return vector_kernel(whole, typed(16, LANES, dtype=i32), scratch, cores=1)


def findings(body: Callable[..., Any], *checks: str) -> list[Any]:
    (module,) = kernels(counted(body), target=TARGET, form="mosaic")
    return list(simulate(module, [], form="mosaic", target=TARGET, checks=checks).findings)


def test_a_sum_over_all_subcores() -> None:
    """Each adds its own number, and asks for the sum by adding nothing."""

    def body(number: Any, words: Any) -> Any:
        words[0] = jnp.int32(0)
        plsc.subcore_barrier()
        plsc.fetch_and_add(words.at[0], number, subcore_id=0)
        plsc.subcore_barrier()
        return plsc.fetch_and_add(words.at[0], 0, subcore_id=0)

    check(counted(body), want=np.full((16, LANES), sum(range(16))))


def test_asking_for_a_sum_before_all_have_added() -> None:
    """The sum is whatever has come, so the question has to be ordered with the additions."""

    def body(number: Any, words: Any) -> Any:
        words[0] = jnp.int32(0)
        plsc.subcore_barrier()
        plsc.fetch_and_add(words.at[0], number, subcore_id=0)
        return plsc.fetch_and_add(words.at[0], 0, subcore_id=0)

    for seed in range(3):
        (module,) = kernels(counted(body), target=TARGET, form="mosaic")
        outcome = simulate(module, [], form="mosaic", target=TARGET, checks=("race",), seed=seed)
        assert {f.code for f in outcome.findings} == {"data-race"}
        missing = [note.message for note in outcome.findings[0].notes]
        assert any("missing: plsc.subcore_barrier() between the two" in note for note in missing)


def test_each_waits_for_the_additions_of_others() -> None:
    """Words that are asked for again and again need no other order among additions."""

    def body(number: Any, words: Any) -> Any:
        words[0] = jnp.int32(0)
        plsc.subcore_barrier()
        plsc.fetch_and_add(words.at[0], 1, subcore_id=3)

        def asks(seen: Any) -> Any:
            return plsc.fetch_and_add(words.at[0], 0, subcore_id=3)

        return jax.lax.while_loop(lambda seen: seen < 16, asks, jnp.int32(0))

    check(counted(body), want=np.full((16, LANES), 16))


@pytest.mark.parametrize("access", ["load", "store"])
@pytest.mark.parametrize("word", [0, 1])
def test_a_plain_access_of_the_word_races(access: str, word: int) -> None:
    def body(number: Any, words: Any) -> Any:
        words[0] = words[1] = jnp.int32(0)
        plsc.subcore_barrier()
        plsc.fetch_and_add(words.at[0], 1, subcore_id=(number + 1) % 16)
        if access == "load":
            return words[word]
        words[word] = jnp.int32(7)
        return number

    found = findings(body, "race")
    assert {f.code for f in found} == ({"data-race"} if word == 0 else set()), found
    if found:
        told = f"{found[0]} " + " ".join(note.message for note in found[0].notes)
        assert f"a {access} by subcore" in told and "an atomic addition by subcore" in told
        assert "adds to" in told


def test_setting_the_word_has_to_come_before() -> None:
    def body(number: Any, words: Any) -> Any:
        words[0] = jnp.int32(0)
        return plsc.fetch_and_add(words.at[0], 1, subcore_id=(number + 1) % 16)

    assert "data-race" in {f.code for f in findings(body, "race")}


def test_a_word_that_nobody_has_set() -> None:
    def body(number: Any, words: Any) -> Any:
        return plsc.fetch_and_add(words.at[0], 1, subcore_id=0)

    (found,) = findings(body, "init")
    assert found.code == "uninitialised-read" and found.location is not None


def test_an_addition_orders_nothing_else() -> None:
    """The neighbour's row has to be waited for by a barrier or a semaphore."""

    def whole(x: Any, o: Any, table: Any, row: Any, words: Any) -> None:
        number = jax.lax.axis_index("s")
        words[0] = jnp.int32(0)
        plsc.subcore_barrier()
        pltpu.sync_copy(x.at[number], table.at[number])
        plsc.fetch_and_add(words.at[0], 1, subcore_id=0)

        @pl.when(number == 0)
        def _() -> None:
            def asks(seen: Any) -> Any:
                return plsc.fetch_and_add(words.at[0], 0, subcore_id=0)

            jax.lax.while_loop(lambda seen: seen < 16, asks, jnp.int32(0))
            pltpu.sync_copy(table.at[5], row)
            pltpu.sync_copy(row, o)

    scratch = [
        pltpu.VMEM_SHARED((16, LANES), i32), pltpu.VMEM((LANES,), i32), pltpu.SMEM((1,), i32)
    ]  # fmt: skip
    call = vector_kernel(whole, typed(LANES, dtype=i32), scratch, cores=1)
    x = np.zeros((16, LANES), np.int32)
    (module,) = kernels(call, x, target=TARGET, form="mosaic")
    outcome = simulate(module, [x], form="mosaic", target=TARGET, checks=("race",))
    assert {f.code for f in outcome.findings} == {"data-race"}
