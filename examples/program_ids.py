"""K2: every step of the grid writes its number. A single element is a scalar, and vector memory
takes no scalars, so the output lives in SMEM; left in VMEM, the kernel is refused."""

import jax
import jax.numpy as jnp
from harness import agree
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import pallasite.jax

STEPS = 8


def body(o_ref):
    step = pl.program_id(0)
    o_ref[step] = step


def program_ids(space):
    return pl.pallas_call(
        body,
        grid=(STEPS,),
        out_shape=jax.ShapeDtypeStruct((STEPS,), jnp.int32),
        out_specs=pl.BlockSpec(memory_space=space),
    )()


if __name__ == "__main__":
    agree("numbers of steps", lambda: program_ids(pltpu.SMEM), (), range(STEPS))
    try:
        with pallasite.jax.simulate():
            program_ids(pltpu.VMEM)
    except Exception as error:
        print("in VMEM it is refused, which agrees with the TPU:", str(error).splitlines()[0])
    else:
        raise AssertionError("a scalar store to VMEM was accepted")
