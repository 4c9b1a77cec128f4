"""K33: sums of embeddings on the SparseCores. Every vector subcore gathers the rows of a table that
its tokens name, and adds each to the sum of the token's sentence, in memory that the subcores of a
core share; each core writes its own sums, and XLA adds the two."""

import jax
import jax.numpy as jnp
import numpy as np
from harness import agree, normal
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import tpu_sc as plsc


def sums_of_sentences(table, tokens, sentences, count):
    mesh = plsc.VectorSubcoreMesh(core_axis_name="core", subcore_axis_name="subcore")
    share = tokens.size // mesh.size

    def body(table, tokens, sentences, zeros, o, token, sentence, rows, sums):
        core, subcore = jax.lax.axis_index("core"), jax.lax.axis_index("subcore")
        mine = pl.ds((core * mesh.num_subcores + subcore) * share, share)

        @pl.when(subcore == 0)
        def _():
            pltpu.sync_copy(zeros, sums)

        pltpu.sync_copy(tokens.at[mine], token)
        pltpu.sync_copy(sentences.at[mine], sentence)
        pltpu.sync_copy(table.at[token], rows)
        plsc.subcore_barrier()  # the sums are zero
        pltpu.sync_copy(rows, sums.at[sentence], add=True)
        plsc.subcore_barrier()  # everybody has added

        @pl.when(subcore == 0)
        def _():
            pltpu.sync_copy(sums, o.at[core])

    columns = table.shape[1]
    zeros = jnp.zeros((count, columns), table.dtype)
    parts = pl.kernel(
        body,
        out_type=jax.ShapeDtypeStruct((mesh.num_cores, count, columns), table.dtype),
        mesh=mesh,
        scratch_types=[
            pltpu.VMEM((share,), jnp.int32),
            pltpu.VMEM((share,), jnp.int32),
            pltpu.VMEM((share, columns), table.dtype),
            pltpu.VMEM_SHARED((count, columns), table.dtype),
        ],
    )(table, tokens, sentences, zeros)
    return parts.sum(0)


if __name__ == "__main__":
    table = jnp.round(normal(1000, 128) * 16)  # whole numbers: the order of additions is open
    drawn = np.random.default_rng(0)
    tokens = drawn.integers(0, 1000, 512, dtype=np.int32)
    sentences = np.sort(drawn.integers(0, 16, 512, dtype=np.int32))
    expected = np.zeros((16, 128), np.float32)
    np.add.at(expected, sentences, np.asarray(table)[tokens])
    agree(
        "sums of gathered rows by the subcores of SparseCores",
        lambda *arrays: sums_of_sentences(*arrays, 16),
        (table, tokens, sentences),
        expected,
        target="v7x",
    )
