import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SEED = np.random.default_rng(0)
X = SEED.standard_normal((8, 128)).astype(np.float32)
R = "vector<8x128xf32>"
GRID = SEED.standard_normal((3, 2, 8, 128)).astype(np.float32)
G = "vector<3x2x8x128xf32>"


def test_dynamic_rotate(meaning):
    @settings(max_examples=20, deadline=None)
    @given(st.integers(-300, 300), st.integers(0, 1))
    def check(amount, dim):
        rotate = meaning(
            f"%r = tpu.dynamic_rotate %a by %n dim {dim} : {R}, i32 -> {R}", a=R, n="i32"
        )
        np.testing.assert_array_equal(rotate(X, amount), np.roll(X, amount, dim))
        undone = rotate(rotate(X, amount), -amount)
        np.testing.assert_array_equal(undone, X)

    check()


@pytest.mark.parametrize(("dim", "along"), [(1, 0), (0, 1)])
def test_strided_rotate_turns_each_slice_further(meaning, dim, along):
    attributes = f"{{stride = 3 : si32, stride_dimension = {along} : si32}}"
    text = f"%r = tpu.dynamic_rotate %a by %n dim {dim} {attributes} : {R}, i32 -> {R}"
    result = meaning(text, a=R, n="i32")(X, 5)
    for k in range(X.shape[along]):
        part = np.take(X, k, along)
        np.testing.assert_array_equal(np.take(result, k, along), np.roll(part, 5 + 3 * k))


def test_rotate_of_a_grid_counts_dimensions_of_the_whole_type(meaning):
    text = f"%r = tpu.dynamic_rotate %a by %n dim 3 : {G}, i32 -> {G}"
    np.testing.assert_array_equal(meaning(text, a=G, n="i32")(GRID, 7), np.roll(GRID, 7, 3))
    static = meaning(f"%r = tpu.rotate %a by 2 dim 2 : {G}", a=G)
    np.testing.assert_array_equal(static(GRID), np.roll(GRID, 2, 2))


def test_static_gather(meaning):
    text = f"%r = tpu.gather %a[[3, 3, 0, 7, 1, 1, 2, 6]] in 0 : {R} -> {R}"
    np.testing.assert_array_equal(meaning(text, a=R)(X), X[[3, 3, 0, 7, 1, 1, 2, 6]])


@pytest.mark.parametrize("shape, dim", [((8, 100), 1), ((5, 128), 0), ((12, 128), 0)])
def test_dynamic_gather_finds_nothing_behind_a_dimension(meaning, shape, dim):
    """Registers hold more there, of which nothing is known."""
    kind = "x".join(map(str, shape))
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    index = SEED.integers(-200, 200, shape, dtype=np.int32)
    text = f"%r = tpu.dynamic_gather %a[%i] in [{dim}] : vector<{kind}xf32>, vector<{kind}xi32> -> "
    result = meaning(text + f"vector<{kind}xf32>", a=f"vector<{kind}xf32>", i=f"vector<{kind}xi32>")
    size = shape[dim]
    inside = (index >= 0) & (index < size)
    expected = np.take_along_axis(x, np.clip(index, 0, size - 1), dim)
    found = result(x, index)
    np.testing.assert_array_equal(found[inside], expected[inside])
    assert not np.isin(found[~inside], x).any()


@pytest.mark.parametrize("dim", [0, 1])
def test_dynamic_gather_wraps_indices(meaning, dim):
    index = SEED.integers(-200, 200, (8, 128), dtype=np.int32)
    text = f"%r = tpu.dynamic_gather %a[%i] in [{dim}] : {R}, vector<8x128xi32> -> {R}"
    result = meaning(text, a=R, i="vector<8x128xi32>")(X, index)
    expected = np.empty_like(X)
    for place in np.ndindex(8, 128):
        where = list(place)
        where[dim] = index[place] % X.shape[dim]
        expected[place] = X[tuple(where)]
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("kind", ["uniform", "mixed"])
def test_dynamic_gather_by_an_index_that_comes_again(meaning, dim, kind):
    text = f"%r = tpu.dynamic_gather %a[%i] in [{dim}] : {R}, vector<8x128xi32> -> {R}"
    gather = meaning(text, a=R, i="vector<8x128xi32>")
    index = SEED.integers(-200, 200, (8, 128), dtype=np.int32)
    if kind == "uniform":
        index = np.broadcast_to(np.int32(-3), (8, 128))
    others = [X, X + 1, X * 2, X]
    fresh = [gather(x, index.copy()) for x in others]
    for x, expected in zip(others, fresh, strict=True):
        np.testing.assert_array_equal(gather(x, index), expected)


def test_dynamic_gather_by_an_index_that_changes(meaning):
    """What scripts read in memory is one object, whatever memory holds."""
    text = f"%r = tpu.dynamic_gather %a[%i] in [1] : {R}, vector<8x128xi32> -> {R}"
    gather, index = meaning(text, a=R, i="vector<8x128xi32>"), np.zeros((8, 128), np.int32)
    for _ in range(4):
        index[...] = SEED.integers(0, 128, (8, 128))
        np.testing.assert_array_equal(gather(X, index), np.take_along_axis(X, index, 1))


def test_dynamic_gather_along_no_dimension_reads_no_index(meaning):
    text = f"%r = tpu.dynamic_gather %a[%i] in [] : {R}, vector<8x128xi32> -> {R}"
    index = SEED.integers(-200, 200, (8, 128), dtype=np.int32)
    np.testing.assert_array_equal(meaning(text, a=R, i="vector<8x128xi32>")(X, index), X)


def test_dynamic_gather_along_two_dimensions_counts_row_major(meaning):
    x = SEED.integers(0, 99, (4, 5, 6)).astype(np.int32)
    index = SEED.integers(0, 24, (4, 5, 6)).astype(np.int32)
    v = "vector<4x5x6xi32>"
    result = meaning(f"%r = tpu.dynamic_gather %a[%i] in [2, 0] : {v}, {v} -> {v}", a=v, i=v)(
        x, index
    )
    for p in np.ndindex(4, 5, 6):
        minor, major = index[p] % 4, index[p] // 4
        assert result[p] == x[minor, p[1], major]


@pytest.mark.parametrize(
    "pattern",
    [(7, 6, 5, 4, 11, 10, 9, 8), (1, 2, 3, 4, 5, 6, 7, 8), (3,) * 8, (9, 8, 8, 8, 8, 8, 8, 15)],
)
@pytest.mark.parametrize("shape", [(8, 128), (3, 8, 128), (3, 8, 128, 2)])
def test_sublane_shuffle(meaning, pattern, shape):
    element = "bf16" if len(shape) == 4 else "f32"
    v = "vector<" + "x".join(map(str, shape)) + f"x{element}>"
    a, b = (SEED.integers(0, 99, shape).astype(np.float32) for _ in range(2))
    text = f"%r = tpu.sublane_shuffle %a, %b, {list(pattern)} : {v}, {v} -> {v}"
    result = meaning(text, a=v, b=v)(a, b)
    dim = 0 if shape[0] == 8 else 1
    np.testing.assert_array_equal(result, np.concatenate([a, b], dim).take(pattern, dim))


def test_broadcast_in_sublanes(meaning):
    result = meaning(f"%r = tpu.broadcast_in_sublanes %a, 5 : {R} -> {R}", a=R)(X)
    for s in range(8):
        assert (result[s] == X[s, 5 + s]).all()
    edge = meaning(f"%r = tpu.broadcast_in_sublanes %a, 125 : {R} -> {R}", a=R)(X)
    assert (edge[2] == X[2, 127]).all() and np.isnan(edge[3:]).all()
    packed = SEED.integers(0, 99, (8, 128, 2)).astype(np.int16)
    v = "vector<8x128x2xi16>"
    rows = meaning(f"%r = tpu.broadcast_in_sublanes %a, 1 : {v} -> {v}", a=v)(packed)
    for s, e in np.ndindex(8, 2):
        assert (rows[s, :, e] == packed[s, 1 + 2 * s + e, e]).all()


def test_iota(meaning):
    flat = meaning("%r = tpu.iota {dimensions = array<i32: 0, 1>} : vector<8x128xi32>")()
    assert flat.dtype == np.int32
    np.testing.assert_array_equal(flat, np.arange(1024).reshape(8, 128))
    column = meaning("%r = tpu.iota {dimensions = array<i32: 1, 0>} : vector<8x128xi32>")()
    np.testing.assert_array_equal(column, np.arange(1024).reshape(128, 8).T)
    rows = meaning("%r = tpu.iota {dimensions = array<i32: 0, 2>} : vector<8x128x2xi16>")()
    assert rows[3, 9, 1] == 7


def test_create_mask(meaning):
    index = {n: "index" for n in "abcd"}
    mask = meaning("%r = tpu.create_mask[%a, %b] [%c, %d] : vector<8x128xi1>", **index)
    expected = np.zeros((8, 128), bool)
    expected[1:5, 3:100] = True
    np.testing.assert_array_equal(mask(1, 3, 5, 100), expected)
    assert not mask(0, 0, -1, 128).any() and mask(-4, -4, 99, 999).all()
    packed = meaning("%r = tpu.create_mask[%a, %b] [%c, %d] : vector<8x128x2xi1>", **index)
    np.testing.assert_array_equal(packed(1, 3, 5, 100), np.repeat(expected[..., None], 2, -1))
    grid = meaning("%r = tpu.create_mask[%a, %b] [%c, %d] : vector<3x8x128xi1>", **index)
    np.testing.assert_array_equal(grid(1, 3, 5, 100), np.broadcast_to(expected, (3, 8, 128)))


@pytest.mark.parametrize(("low", "high"), [(3, 9), (9, 3), (0, 16), (5, 5)])
def test_create_subelement_mask(meaning, low, high):
    mask = meaning(f"%r = tpu.create_subelement_mask {low}, {high} : vector<8x128x2xi1>")()
    for s, e in np.ndindex(8, 2):
        row = 2 * s + e
        inside = low <= row < high if low <= high else not high <= row < low
        assert (mask[s, :, e] == inside).all()


def test_mask_cast(meaning):
    m = SEED.random((8, 128)) < 0.5
    wide = meaning(
        "%r = tpu.mask_cast %a : vector<8x128xi1> -> vector<8x128x4xi1>", a="vector<8x128xi1>"
    )
    narrow = meaning("%r = tpu.mask_cast %a : vector<8x128x4xi1> -> vector<8x128xi1>",
                     a="vector<8x128x4xi1>")  # fmt: skip
    np.testing.assert_array_equal(wide(m), np.repeat(m[..., None], 4, -1))
    np.testing.assert_array_equal(narrow(wide(m)), m)


def test_pack_vmsk_concatenates_rows(meaning):
    a, b = (SEED.random((8, 128)) < 0.5 for _ in range(2))
    v = "vector<8x128xi1>"
    text = '%r = "tpu.pack_vmsk"(%a, %b) <{positions = array<i32: 0, 1>}>'
    result = meaning(f"{text} : ({v}, {v}) -> vector<8x128x2xi1>", a=v, b=v)(a, b)
    rows = np.concatenate([a, b])
    for s, e in np.ndindex(8, 2):
        np.testing.assert_array_equal(result[s, :, e], rows[2 * s + e])


@pytest.mark.parametrize(
    ("element", "dtype", "p"), [("f32", np.float32, 1), ("bf16", np.float32, 2), ("i8", np.int8, 4)]
)
def test_roll_and_unroll_registers(meaning, element, dtype, p):
    matrix = SEED.integers(-99, 99, (16 * p, 384)).astype(dtype)
    register = f"vector<8x128x{'' if p == 1 else f'{p}x'}{element}>"
    whole = f"vector<{16 * p}x384x{element}>"
    results = ", ".join(f"%r{k}" for k in range(6))
    types = ", ".join([register] * 6)
    tiles = meaning(f"{results} = tpu.unroll_vectors %a : {whole} -> {types}", a=whole)(matrix)
    assert len(tiles) == 6
    for k, tile in enumerate(tiles):
        r, c = divmod(k, 3)
        block = matrix[8 * p * r : 8 * p * (r + 1), 128 * c : 128 * (c + 1)]
        for s, e in np.ndindex(8, p):
            np.testing.assert_array_equal(tile[s] if p == 1 else tile[s, :, e], block[s * p + e])
    names = ", ".join(f"%a{k}" for k in range(6))
    roll = meaning(f"%r = tpu.roll_vectors {names} : {types} -> {whole}",
                   **{f"a{k}": register for k in range(6)})  # fmt: skip
    np.testing.assert_array_equal(roll(*tiles), matrix)
