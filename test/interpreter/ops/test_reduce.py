import ml_dtypes
import numpy as np
import pytest

SEED = np.random.default_rng(0)
KINDS = {
    "add": (np.add, 0),
    "maximumf": (np.maximum, -np.inf),
    "minimumf": (np.minimum, np.inf),
    "mul": (np.multiply, 1),
}


def vector(shape, element="f32"):
    return "vector<" + "".join(f"{n}x" for n in shape) + f"{element}>"


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_multi_reduction(meaning, kind, dims):
    shape = (3, 20, 200)
    ufunc, neutral = KINDS[kind]
    x = SEED.uniform(0.9, 1.1, shape).astype(np.float32)
    kept = tuple(n for d, n in enumerate(shape) if d not in dims)
    result = vector(kept) if kept else "f32"
    text = (
        f"%r = vector.multi_reduction <{kind}>, %a, %b {list(dims)} : {vector(shape)} to {result}"
    )
    acc = np.full(kept, neutral, np.float32) if kept else np.float32(neutral)
    out = meaning(text, a=vector(shape), b=result)(x, acc)
    expected = ufunc.reduce(x.astype(np.float64), axis=dims)
    np.testing.assert_allclose(out, expected, rtol=2e-5)
    assert out.dtype == np.float32 and np.shape(out) == kept


def test_the_accumulator_takes_part(meaning):
    text = "%r = vector.multi_reduction <add>, %a, %b [1] : vector<2x3xf32> to vector<2xf32>"
    result = meaning(text, a="vector<2x3xf32>", b="vector<2xf32>")(
        np.ones((2, 3), np.float32), np.array([10, 20], np.float32)
    )
    assert result.tolist() == [13, 23]


@pytest.mark.parametrize(
    ("kind", "function"),
    [("add", np.add), ("maxsi", np.maximum), ("minsi", np.minimum), ("and", np.bitwise_and),
     ("or", np.bitwise_or), ("xor", np.bitwise_xor), ("mul", np.multiply)],
)  # fmt: skip
def test_integer_reductions_wrap_and_keep_their_type(meaning, kind, function):
    x = SEED.integers(-(1 << 31), (1 << 31) - 1, (4, 9), dtype=np.int32)
    text = f"%r = vector.multi_reduction <{kind}>, %a, %b [1] : vector<4x9xi32> to vector<4xi32>"
    neutral = {"maxsi": -(1 << 31), "minsi": (1 << 31) - 1, "and": -1, "mul": 1}.get(kind, 0)
    acc = np.full(4, neutral, np.int32)
    result = meaning(text, a="vector<4x9xi32>", b="vector<4xi32>")(x, acc)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, function.reduce(x, axis=1, dtype=np.int32))


def test_unsigned_maximum(meaning):
    text = "%r = vector.multi_reduction <maxui>, %a, %b [0] : vector<3xi32> to i32"
    result = meaning(text, a="vector<3xi32>", b="i32")(np.array([1, -2, 5], np.int32), 0)
    assert result == -2 and type(result) is int


def test_narrow_floats_round_once(meaning):
    x = np.full((1, 512), 1.0, np.float32)
    x[0, 0] = 256
    text = "%r = vector.multi_reduction <add>, %a, %b [1] : vector<1x512xbf16> to vector<1xbf16>"
    result = meaning(text, a="vector<1x512xbf16>", b="vector<1xbf16>")(x, np.zeros(1, np.float32))
    assert result[0] == np.float32(ml_dtypes.bfloat16(767))


def test_narrow_sums_round_once_with_their_accumulator(meaning):
    """256.75 + 0.5 rounds to 258, where 256 + 0.5 is 256."""
    text = "%r = vector.multi_reduction <add>, %a, %b [1] : vector<1x2xbf16> to vector<1xbf16>"
    given = np.float32([[256, 0.75]]), np.float32([0.5])
    assert meaning(text, a="vector<1x2xbf16>", b="vector<1xbf16>")(*given)[0] == 258


def test_maximum_propagates_nan(meaning):
    x = np.array([[1, np.nan, 3]], np.float32)
    text = "%r = vector.multi_reduction <maximumf>, %a, %b [1] : vector<1x3xf32> to vector<1xf32>"
    result = meaning(text, a="vector<1x3xf32>", b="vector<1xf32>")(
        x, np.full(1, -np.inf, np.float32)
    )
    assert np.isnan(result[0])


@pytest.mark.parametrize("dim", [2, 3])
def test_the_greatest_of_several_nans_is_the_same_wherever_they_lie(meaning, dim):
    """Scripts see an array where memory has it, and runs a copy of it."""
    v = vector((2, 3, 8, 128))
    x = SEED.standard_normal((2, 3, 8, 128)).astype(np.float32)
    nans = SEED.integers(0, 1 << 22, x.shape).astype(np.uint32) | 0x7FC00000
    x = np.where(SEED.random(x.shape) < 0.3, nans.view(np.float32), x)
    attributes = f"{{dim = {dim} : i64, kind = #tpu.reduction_kind<max>}}"
    greatest = meaning(f"%r = tpu.all_reduce %a {attributes} : {v} -> {v}", a=v)
    for order in ((0, 2, 1, 3), (3, 2, 1, 0), (0, 1, 3, 2)):
        other = x.transpose(order).copy().transpose(np.argsort(order))
        assert greatest(other).tobytes() == greatest(x).tobytes()


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_all_reduce_puts_the_result_everywhere(meaning, kind, dim):
    x = SEED.standard_normal((8, 128)).astype(np.float32)
    v = vector((8, 128))
    attributes = f"{{dim = {dim} : i64, kind = #tpu.reduction_kind<{kind}>}}"
    result = meaning(f"%r = tpu.all_reduce %a {attributes} : {v} -> {v}", a=v)(x)
    ufunc = {"sum": np.add, "max": np.maximum, "min": np.minimum}[kind]
    expected = np.broadcast_to(ufunc.reduce(x.astype(np.float64), dim, keepdims=True), (8, 128))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(40, 384), (37, 300)])
def test_the_register_form_sums_in_the_same_order(meaning, axis, shape):
    """multi_reduction, against grid.reduce then all_reduce on zero-padded native tiles."""
    x = SEED.standard_normal(shape).astype(np.float32)
    kept = shape[1 - axis]
    text = (
        f"%r = vector.multi_reduction <add>, %a, %b [{axis}] : {vector(shape)} to {vector([kept])}"
    )
    whole = meaning(text, a=vector(shape), b=vector([kept]))(x, np.zeros(kept, np.float32))
    padded = np.zeros((40, 384), np.float32)
    padded[: shape[0], : shape[1]] = x
    tiles = padded.reshape(5, 8, 3, 128).swapaxes(1, 2)
    g, s = vector((5, 3, 8, 128)), vector((1, 3, 8, 128) if axis == 0 else (5, 1, 8, 128))
    folded = meaning(f'%r = grid.reduce %a dim {axis} kind "arith.addf" : {g} -> {s}', a=g)(tiles)
    attributes = f"{{dim = {2 + axis} : i64, kind = #tpu.reduction_kind<sum>}}"
    summed = meaning(f"%r = tpu.all_reduce %a {attributes} : {s} -> {s}", a=s)(folded)
    rows = summed[0, :, 0, :] if axis == 0 else summed[:, 0, :, 0]
    np.testing.assert_array_equal(rows.reshape(-1)[:kept], whole)


def test_the_order_does_not_depend_on_the_memory_layout(meaning):
    x = SEED.standard_normal((4, 8, 128)).astype(np.float32)
    v = vector((4, 8, 128))
    for dim in (1, 2):
        attributes = f"{{dim = {dim} : i64, kind = #tpu.reduction_kind<sum>}}"
        reduce = meaning(f"%r = tpu.all_reduce %a {attributes} : {v} -> {v}", a=v)
        plain = reduce(x)
        for order in ((2, 1, 0), (1, 0, 2), (0, 2, 1)):
            view = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
            np.testing.assert_array_equal(reduce(view), plain)
        np.testing.assert_array_equal(reduce(x[2:3].copy().repeat(4, 0))[0], plain[2])


def test_mask_reductions(meaning):
    m = SEED.random(16) < 0.4
    m[:3] = False, False, True
    i, o = "vector<16xi1>", "vector<16xi32>"
    for kind, expected in (("sum", m.sum()), ("find_first_set", 2)):
        attributes = f"{{dim = 0 : i64, kind = #tpu.reduction_kind<{kind}>}}"
        result = meaning(f"%r = tpu.all_reduce %a {attributes} : {i} -> {o}", a=i)
        assert result(m).tolist() == [expected] * 16
    assert result(np.zeros(16, bool)).tolist() == [16] * 16


@pytest.mark.parametrize("kind", ["arg_max", "arg_min"])
@pytest.mark.parametrize("axis", [0, 1])
def test_index_reductions_take_the_first(meaning, kind, axis):
    x = SEED.integers(0, 5, (8, 128)).astype(np.float32)
    find = np.argmax if kind == "arg_max" else np.argmin
    expected = find(x, axis)
    v, r = vector((8, 128)), vector((x.shape[1 - axis],), "i32")
    text = f"%r = tpu.reduce_index %a {{axis = {axis} : i32, kind = #tpu.reduction_kind<{kind}>}}"
    result = meaning(f"{text} : {v} -> {r}", a=v)(x)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, expected)
    attributes = f"{{dim = {axis} : i64, kind = #tpu.reduction_kind<{kind}>}}"
    o = vector((8, 128), "i32")
    spread = meaning(f"%r = tpu.all_reduce %a {attributes} : {v} -> {o}", a=v)(x)
    np.testing.assert_array_equal(spread, np.broadcast_to(np.expand_dims(expected, axis), (8, 128)))


def test_vector_reduction(meaning):
    x = np.arange(5, dtype=np.float32)
    result = meaning("%r = vector.reduction <add>, %a : vector<5xf32> into f32", a="vector<5xf32>")(
        x
    )
    assert result == 10 and type(result) is np.float32


@pytest.mark.parametrize(("bits", "dtype"), [(2, np.int8), (4, np.int8), (8, np.int8)])
@pytest.mark.parametrize("kind", ["add", "mul"])
def test_sums_and_products_of_narrow_integers_wrap(meaning, kind, bits, dtype):
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    x = np.array([[low, high]] * 3 + [[high, high]], dtype)
    start = np.array([1, high], dtype)

    def wrapped(values):
        return (np.asarray(values) - low) % (1 << bits) + low

    of = np.add if kind == "add" else np.multiply
    steps = of.accumulate(np.concatenate([start[None], x]).astype(np.int64), 0)
    s, v = f"vector<4x2xi{bits}>", f"vector<2xi{bits}>"
    text = f"%r = vector.multi_reduction <{kind}>, %a, %b [0] : {s} to {v}"
    assert meaning(text, a=s, b=v)(x, start).tolist() == wrapped(steps[-1]).tolist()
    text = f"%r = vector.reduction <{kind}>, %a : {v} into i{bits}"
    assert meaning(text, a=v)(x[0]) == wrapped(of(low, high))
    own = of.accumulate(x.astype(np.int64), 0)
    for inclusive, rows in (("true", own), ("false", steps[:-1])):
        attributes = f"{{inclusive = {inclusive}, reduction_dim = 0 : i64}}"
        text = f"%r, %s = vector.scan <{kind}>, %a, %b {attributes} : {s}, {v}"
        running, last = meaning(text, a=s, b=v)(x, start)
        assert running.tolist() == wrapped(rows).tolist()
        assert last.tolist() == wrapped(rows[-1]).tolist()


def test_scans_of_floats_round_at_every_step(meaning):
    x = np.array([[1], [2.0**-8], [2.0**-8]], np.float32)
    s, v = "vector<3x1xbf16>", "vector<1xbf16>"
    attributes = "{inclusive = true, reduction_dim = 0 : i64}"
    scan = meaning(f"%r, %s = vector.scan <add>, %a, %b {attributes} : {s}, {v}", a=s, b=v)
    running, last = scan(x, np.zeros(1, np.float32))
    assert running.tolist() == [[1], [1], [1]] and last.tolist() == [1]


def test_scans_of_unsigned_extrema(meaning):
    attributes = "{inclusive = true, reduction_dim = 0 : i64}"
    s, v = "vector<3x1xi8>", "vector<1xi8>"
    scan = meaning(f"%r, %s = vector.scan <maxui>, %a, %b {attributes} : {s}, {v}", a=s, b=v)
    running, _ = scan(np.array([[5], [-1], [7]], np.int8), np.array([6], np.int8))
    assert running.tolist() == [[5], [-1], [-1]]
