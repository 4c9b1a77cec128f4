"""What to write instead of primitives that no TPU kernel has."""

from __future__ import annotations

_REFS = "keep the array in a ref and read a part of it: ref[pl.ds(start, size)]"
_OUTSIDE = "compute it outside of the kernel"
EXACTLY = "with precision=lax.Precision.HIGHEST, else float32 is rounded to bfloat16"
_SCAN = (
    "unroll it with lax.fori_loop over rows, or multiply with a triangular matrix of ones, "
    + EXACTLY
)
REVERSING = (
    "multiply with a permutation matrix, " + EXACTLY,
    "up to 128 lanes or 8 rows: jnp.take_along_axis(x, indices, axis, mode='promise_in_bounds')",
    "along a dimension before the last two: jnp.stack([x[n - 1 - i] for i in range(n)])",
)
_EXTREMES = "go through the rows with lax.fori_loop and {}"
_SUMS_OF_SHIFTS = "write it as a sum of parts of a ref, shifted and each times its weight"
_WINDOWS = "write it as shifted slices of a ref"
INDEXED_REFS = (
    "read the rows one by one, ref[pl.ds(i, 1), :], with i read from SMEM, of types of 32 bits",
    "or load the ref and use jnp.take_along_axis(x, indices, axis, mode='promise_in_bounds'), with "
    "indices of the shape of the result",
)
COMBINED = (
    "combine slices: functools.reduce(operator.{}, [x[:, i : i + 1] for i in range(x.shape[1])]), "
    "of many first halves: x[:, : n // 2] and x[:, n // 2 :]"
)
_CHOSEN = "or choose: jnp.where(lax.broadcasted_iota(jnp.int32, x.shape, axis) == index, value, x)"
_LARGE = "above 1e18, whose square is infinite, use jnp.log({0}) + jnp.log(2.0)"
_SOLVERS = (
    "cholesky", "eig", "eigh", "householder_product", "linear_solve", "lu", "qr", "schur", "svd",
    "triangular_solve", "tridiagonal_solve",
)  # fmt: skip
_SPECIAL_FUNCTIONS = (
    "lgamma", "digamma", "polygamma", "zeta", "igamma", "igammac", "igamma_grad_a",
    "random_gamma_grad", "regularized_incomplete_beta", "bessel_i0e", "bessel_i1e",
)  # fmt: skip

ON_SUBCORES: dict[str, str] = {
    "custom_jvp_call": "write what it computes: jnp.maximum(x, 0) for jax.nn.relu(x)",
    "dynamic_slice": _REFS,
    "integer_pow": "write the product: x * x",
    "square": "write the product: x * x",
}
"""What to write instead of what JAX does not lower for subcores of SparseCores."""

ADVICE: dict[str, tuple[str, ...]] = {
    "dynamic_slice": (_REFS,),
    "dynamic_update_slice": ("store to a part of a ref: ref[pl.ds(start, size)] = x",),
    "scatter": ("store to a part of a ref: ref[pl.ds(start, size)] = x", _CHOSEN),
    "scatter-add": (
        "store to a part of a ref: ref[pl.ds(start, size)] += x",
        "sums by index are products: jnp.dot((rows == indices).astype(x.dtype), x), " + EXACTLY,
    ),
    "remat2": ("leave jax.checkpoint out: values of a kernel are not kept for derivatives",),
    "rev": REVERSING,
    "sort": (_OUTSIDE, "sorting networks can be written with pltpu.roll and jnp.where"),
    "top_k": (_OUTSIDE, "take maxima one by one with jnp.max and jnp.argmax"),
    "cumsum": (_SCAN, "jnp.piecewise and jnp.nonzero sum so: nest jnp.where"),
    "cumprod": ("go through the rows with lax.fori_loop",),
    "cummax": (_EXTREMES.format("jnp.maximum"),),
    "cummin": (_EXTREMES.format("jnp.minimum"),),
    "cumlogsumexp": (_EXTREMES.format("jnp.logaddexp"),),
    "reduce_prod": (
        COMBINED.format("mul"),
        "or, of positive numbers, jnp.exp(jnp.sum(jnp.log(x), axis))",
    ),
    "reduce_xor": (COMBINED.format("xor"),),
    "reduce": ("use jnp.sum, jnp.max, jnp.min, jnp.any or jnp.all",),
    "fft": (_OUTSIDE, "small transforms are products with a DFT matrix, " + EXACTLY),
    "real": ("keep real and imaginary parts in arrays of their own",),
    "imag": ("keep real and imaginary parts in arrays of their own",),
    "complex": ("keep real and imaginary parts in arrays of their own",),
    "conv_general_dilated": ("write it as a sum of shifted products with jnp.dot",),
    **dict.fromkeys(
        ("reduce_window", "reduce_window_max", "reduce_window_min", "reduce_window_sum"),
        (_WINDOWS,),
    ),
    "expm1": (
        "use jnp.exp(x) - 1, for jax.nn.elu jnp.where(x > 0, x, jnp.exp(x) - 1)",
        "that keeps few digits of small x: where jnp.abs(x) < 0.5 choose 2 * t / (1 - t) with "
        "t = jnp.tanh(x / 2)",
    ),
    "cbrt": ("use jnp.sign(x) * jnp.abs(x) ** (1 / 3)",),
    "asin": ("use jnp.arctan2(x, jnp.sqrt((1 - x) * (1 + x)))",),
    "acos": ("use jnp.arctan2(jnp.sqrt((1 - x) * (1 + x)), x)",),
    "atan": ("use jnp.arctan2(x, 1.0)",),
    "sinh": (
        "use (jnp.exp(x) - jnp.exp(-x)) / 2",
        "that keeps few digits of small x: where jnp.abs(x) < 0.5 choose 2 * t / (1 - t * t) with "
        "t = jnp.tanh(x / 2)",
    ),
    "cosh": ("use (jnp.exp(x) + jnp.exp(-x)) / 2",),
    "asinh": (
        "use jnp.sign(x) * jnp.log1p(a + a * a / (1 + jnp.sqrt(a * a + 1))) with a = jnp.abs(x)",
        _LARGE.format("a"),
    ),
    "acosh": ("use jnp.log1p(t + jnp.sqrt(t * (t + 2))) with t = x - 1", _LARGE.format("x")),
    "atanh": ("use (jnp.log1p(x) - jnp.log1p(-x)) / 2",),
    **dict.fromkeys(_SPECIAL_FUNCTIONS, (_OUTSIDE, "or sum the terms of its series")),
    "erfc": (
        "use 1 - lax.erf(x), which is 0 for x above 4 and keeps few digits before",
        "for jax.nn.gelu(x, approximate=False) 0.5 * x * (1 + lax.erf(x * 0.5**0.5))",
    ),
    "reduce_precision": ("cast to the narrow type and back",),
    "broadcast_to": (
        "JAX broadcasts arrays that index a ref; " + INDEXED_REFS[0],
        *INDEXED_REFS[1:],
        "of values, use jnp.broadcast_to",
    ),
    "get_global": ("take it from scratch_shapes= of the call, or from pl.run_scoped",),
    "addupdate": ("write ref[...] = ref[...] + x",),
    "psum": ("reduce between devices outside of the kernel, or copy with remote DMAs",),
    "ppermute": ("copy with pltpu.make_async_remote_copy",),
    "all_gather": ("copy with pltpu.make_async_remote_copy",),
    "pallas_call": ("use pltpu.emit_pipeline for a grid inside a kernel",),
    "pure_callback": ("use pl.debug_print to print",),
    "io_callback": ("use pl.debug_print to print",),
    "random_split": ("make keys one by one: jax.random.fold_in(key, i)",),
    "random_gamma": ("draw outside of the kernel, and pass the numbers",),
    **dict.fromkeys(_SOLVERS, (_OUTSIDE,)),
}

ADVICE_OF_FUNCTIONS: dict[str, tuple[str, ...]] = {
    "_roll_dynamic": ("use pltpu.roll(x, shift, axis), where shift is not below zero",),
    "convolve": (_SUMS_OF_SHIFTS,),
    "correlate": (_SUMS_OF_SHIFTS,),
    "searchsorted": (
        "count the entries below, the table in SMEM: lax.fori_loop(0, n, lambda i, count: "
        "count + (table[i] < x).astype(jnp.int32), jnp.zeros(x.shape, jnp.int32))",
    ),
    "_interp": (_OUTSIDE,),
    "_randint": (
        "take whole numbers of uniform ones: (n * jax.random.uniform(key, shape))"
        ".astype(jnp.int32)",
    ),
    "_shuffle": ("permute outside of the kernel",),
    "unique": (_OUTSIDE,),
    "_unique_sorted_mask": (_OUTSIDE,),
}
"""By the name of a function of JAX that the kernel calls: more to the point than what is said of
the primitives that JAX makes of it."""
