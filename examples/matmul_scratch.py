"""K10: a matrix product with a float32 accumulator in scratch and a bfloat16 result; the right
operand may be stored transposed, and int8 operands accumulate in int32."""

import functools

import jax
import jax.numpy as jnp
from harness import agree, integers
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

BLOCK = 128


def body(x_ref, y_ref, o_ref, total_ref, *, contract):
    step = pl.program_id(2)

    @pl.when(step == 0)
    def _():
        total_ref[...] = jnp.zeros_like(total_ref)

    total_ref[...] += lax.dot_general(
        x_ref[...], y_ref[...], (((1,), (contract,)), ((), ())),
        preferred_element_type=total_ref.dtype,
    )  # fmt: skip

    @pl.when(step == pl.num_programs(2) - 1)
    def _():
        o_ref[...] = total_ref[...].astype(o_ref.dtype)


def matmul(x, y, *, transposed, total, result):
    (rows, depth), columns = x.shape, y.shape[0 if transposed else 1]
    right = (lambda i, j, k: (j, k)) if transposed else (lambda i, j, k: (k, j))
    return pl.pallas_call(
        functools.partial(body, contract=1 if transposed else 0),
        grid=(rows // BLOCK, columns // BLOCK, depth // BLOCK),
        in_specs=[
            pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, k)),
            pl.BlockSpec((BLOCK, BLOCK), right),
        ],
        out_specs=pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((rows, columns), result),
        scratch_shapes=[pltpu.VMEM((BLOCK, BLOCK), total)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")
        ),
    )(x, y)


if __name__ == "__main__":
    for transposed in (False, True):
        x, y = (integers(256, 256, dtype=jnp.bfloat16, seed=seed) for seed in (0, 1))
        exact = x.astype(jnp.float32) @ (y.T if transposed else y).astype(jnp.float32)
        program = functools.partial(
            matmul, transposed=transposed, total=jnp.float32, result=jnp.bfloat16
        )
        name = "bfloat16 matmul" + (", right operand transposed" if transposed else "")
        agree(name, program, (x, y), exact.astype(jnp.bfloat16))
    x, y = (integers(256, 256, dtype=jnp.int8, seed=seed) for seed in (0, 1))
    program = functools.partial(matmul, transposed=False, total=jnp.int32, result=jnp.int32)
    agree("int8 matmul", program, (x, y), x.astype(jnp.int32) @ y.astype(jnp.int32))
