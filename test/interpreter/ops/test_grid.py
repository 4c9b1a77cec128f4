import numpy as np
import pytest

SEED = np.random.default_rng(0)
X = SEED.standard_normal((4, 3, 8, 128)).astype(np.float32)
V = "vector<4x3x8x128xf32>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"grid.slice %a [1, 0] [2, 2] [2, 1] : {V} -> vector<2x2x8x128xf32>", X[1:4:2, :2]),
        (f"grid.reshape %a : {V} -> vector<2x6x8x128xf32>", X.reshape(2, 6, 8, 128)),
        (f"grid.transpose %a [1, 0] : {V} -> vector<3x4x8x128xf32>", X.swapaxes(0, 1)),
        (f"grid.broadcast %a : {V} -> vector<2x4x3x8x128xf32>", np.stack([X, X])),
        (f"grid.take %a [11, 0] : {V} -> vector<2x8x128xf32>", X.reshape(12, 8, 128)[[11, 0]]),
        (
            f"grid.concat %a, %a dim 1 : {V}, {V} -> vector<4x6x8x128xf32>",
            np.concatenate([X, X], 1),
        ),
    ],
)
def test_renaming(meaning, text, expected):
    operands = (X, X) if "concat" in text else (X,)
    np.testing.assert_array_equal(meaning("%r = " + text, a=V)(*operands), expected)


def test_take_fills_with_poison(meaning):
    text = f"%r = grid.take %a [-1, 5] : {V} -> vector<2x8x128xf32>"
    nan = meaning(text, 0, a=V)(X)
    assert np.isnan(nan[0]).all() and (nan[1] == X[1, 2]).all()
    assert (meaning(text, 1, a=V)(X)[0] < -1e13).all()


@pytest.mark.parametrize(("dim", "places"), [(0, "1x3"), (1, "4x1")])
@pytest.mark.parametrize(("kind", "find"), [("maximumf", np.argmax), ("minimumf", np.argmin)])
def test_places_of_first_extrema(meaning, dim, places, kind, find):
    """Of NaN, infinities, zeros of both signs and ties."""
    text = f'%v, %p = grid.first_extremum %a dim {dim} step 128 kind "arith.{kind}" : {V}'
    text += f" -> vector<{places}x8x128xf32>, vector<{places}x8x128xi32>"
    numbers = np.array([0, -0.0, 1, -1, np.nan, np.inf, -np.inf], np.float32)
    x = SEED.choice(numbers, X.shape, p=[0.2, 0.2, 0.2, 0.2, 0.1, 0.05, 0.05])
    value, place = meaning(text, a=V)(x)
    np.testing.assert_array_equal(place, 128 * find(x, dim, keepdims=True))
    taken = np.take_along_axis(x, place // 128, dim)
    np.testing.assert_array_equal(value, taken)


@pytest.mark.parametrize("element", ["f32", "i32", "i1"])
def test_poison_patterns_differ(meaning, element):
    first, second = (meaning(f"%r = grid.poison : vector<2x8x128x{element}>", p)() for p in (0, 1))
    assert first.shape == (2, 8, 128) and (first != second).all()


def test_position(meaning):
    result = meaning("%r = grid.position dim 0 step 8 : vector<4x2x8x128xi32>")()
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result[:, 1, 3, 77], [0, 8, 16, 24])


def test_reduce_is_a_left_fold_that_rounds_every_step(meaning):
    x = np.ones((300, 8, 128, 2), np.float32)
    v, r = "vector<300x8x128x2xbf16>", "vector<1x8x128x2xbf16>"
    result = meaning(f'%r = grid.reduce %a dim 0 kind "arith.addf" : {v} -> {r}', a=v)(x)
    assert result.shape == (1, 8, 128, 2) and (result == 256).all()


@pytest.mark.parametrize("kind", ["addf", "mulf", "maximumf", "minimumf"])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (1, 0, 2, 3)])
def test_reduce_has_the_bits_of_a_left_fold(meaning, kind, dim, order):
    shape = (5, 9, 8, 128)
    bits = SEED.integers(0, 1 << 32, shape, np.uint32)
    bits[SEED.random(shape) < 0.2] |= 0x7F800000  # NaNs that differ, and infinities
    memory = np.ascontiguousarray(bits.view(np.float32).transpose(order))
    x = memory.transpose([order.index(d) for d in range(4)])
    v = "vector<5x9x8x128xf32>"
    r = "vector<1x9x8x128xf32>" if dim == 0 else "vector<5x1x8x128xf32>"
    result = meaning(f'%r = grid.reduce %a dim {dim} kind "arith.{kind}" : {v} -> {r}', a=v)(x)
    step = {"addf": np.add, "mulf": np.multiply, "maximumf": np.maximum, "minimumf": np.minimum}
    with np.errstate(all="ignore"):
        total = x.take([0], dim)
        for i in range(1, shape[dim]):
            total = step[kind](total, x.take([i], dim))
    np.testing.assert_array_equal(result.view(np.uint32), total.view(np.uint32))


@pytest.mark.parametrize("kind", ["maximumf", "minimumf"])
def test_first_extremum_finds_nan_before_any_number(meaning, kind):
    x = SEED.integers(-3, 3, (9, 8, 128)).astype(np.float32)
    x[SEED.random(x.shape) < 0.02] = np.nan
    v, best, place = (f"vector<{n}x8x128x{t}>" for n, t in ((9, "f32"), (1, "f32"), (1, "i32")))
    types = f"{v} -> {best}, {place}"
    text = f'%r, %p = grid.first_extremum %a dim 0 step 4 kind "arith.{kind}" : {types}'
    value, found = meaning(text, a=v)(x)
    expected = (np.argmax if kind == "maximumf" else np.argmin)(x, 0)[None]
    np.testing.assert_array_equal(found, expected * 4)
    np.testing.assert_array_equal(value, np.take_along_axis(x, expected, 0))


@pytest.mark.parametrize(("element", "p"), [("f32", 1), ("bf16", 2), ("i8", 4)])
@pytest.mark.parametrize("blocks", [(2, 1), (1, 2)])
def test_transpose_blocks(meaning, element, p, blocks):
    side = 16 // p
    rows, columns = blocks[0] * side, blocks[1]
    dtype = np.int8 if element == "i8" else np.float32
    matrix = SEED.integers(-99, 99, (rows * 8 * p, columns * 128)).astype(dtype)
    packed = "" if p == 1 else f"{p}x"

    def grid(m):
        r, c = m.shape[0] // (8 * p), m.shape[1] // 128
        split = m.reshape(r, 8, p, c, 128).transpose(0, 3, 1, 4, 2)
        return split[..., 0] if p == 1 else split

    a = f"vector<{rows}x{columns}x8x128x{packed}{element}>"
    b = f"vector<{columns * side}x{blocks[0]}x8x128x{packed}{element}>"
    result = meaning(f"%r = grid.transpose_blocks %a : {a} -> {b}", a=a)(grid(matrix))
    np.testing.assert_array_equal(result, grid(matrix.T))


def test_transpose_blocks_of_a_part_of_a_block(meaning):
    matrix = SEED.standard_normal((24, 128)).astype(np.float32)
    a, b = "vector<3x1x8x128xf32>", "vector<16x1x8x128xf32>"
    tiles = matrix.reshape(3, 1, 8, 128)
    result = meaning(f"%r = grid.transpose_blocks %a : {a} -> {b}", a=a)(tiles)
    np.testing.assert_array_equal(result.reshape(128, 128)[:, :24], matrix.T)
    assert np.isnan(result.reshape(128, 128)[:, 24:]).all()
