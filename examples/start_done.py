"""K32: a copy that one kernel starts and another waits for: the first returns the semaphore, so
that other work fits in between."""

import jax
from harness import agree, normal
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ANY = pl.BlockSpec(memory_space=pl.ANY)
FLIGHT = pl.BlockSpec(memory_space=pltpu.SEMAPHORE)


def start(x):
    """The copy of x, not yet complete, and the semaphore that says when it is."""

    def body(x_ref, o_ref, done):
        pltpu.make_async_copy(x_ref, o_ref, done).start()

    return pl.pallas_call(
        body,
        out_shape=(jax.ShapeDtypeStruct(x.shape, x.dtype), pltpu.SemaphoreType.DMA(())),
        in_specs=[ANY],
        out_specs=(ANY, FLIGHT),
    )(x)


def finish(x, copy, done):
    """The copy, complete."""

    def body(x_ref, copy_ref, done, o_ref):
        del o_ref  # the same memory as the copy
        pltpu.make_async_copy(x_ref, copy_ref, done).wait()

    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[ANY, ANY, FLIGHT],
        out_specs=ANY,
        input_output_aliases={1: 0},
    )(x, copy, done)


def copied(x):
    copy, done = start(x)
    square = x * x  # meanwhile
    return finish(x, copy, done), square


if __name__ == "__main__":
    x = normal(64, 256)
    agree("a copy in two kernels", copied, (x,), (x, x * x), checks=("race", "init"))
