"""K4: a vector sum with one element per step, which no TPU can do: blocks of a vector are whole
tiles. The message says the rule; a block that keeps it works."""

import jax
from harness import agree, normal
from jax.experimental import pallas as pl

import pallasite.jax


def body(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def add(x, y, *, size):
    block = pl.BlockSpec((size,), lambda i: (i,))
    return pl.pallas_call(
        body,
        grid=(x.size // size,),
        in_specs=[block, block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x, y)


if __name__ == "__main__":
    x = normal(4096)
    try:
        with pallasite.jax.simulate():
            add(x, x, size=1)
    except Exception as error:
        print("blocks of 1 are refused, which agrees with the TPU:")
        print("   ", " ".join(str(error).split())[:300])
    else:
        raise AssertionError("blocks of one element were accepted")
    agree("blocks of 1024", lambda x, y: add(x, y, size=1024), (x, x), x + x)
