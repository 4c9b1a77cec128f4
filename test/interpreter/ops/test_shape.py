import numpy as np
import pytest

from pallasite.diagnostics import ExecutionError
from pallasite.interpreter.ops.shape import stretch

X = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
V = "vector<2x3x4xf32>"


def test_broadcast(meaning):
    splat = meaning("%r = vector.broadcast %a : f32 to vector<2x3xf32>", a="f32")
    assert splat(np.float32(2)).tolist() == [[2, 2, 2]] * 2
    truth = meaning("%r = vector.broadcast %a : i1 to vector<2xi1>", a="i1")(True)
    assert truth.dtype == np.bool_ and truth.all()
    row = np.arange(4, dtype=np.float32)
    rows = meaning("%r = vector.broadcast %a : vector<1x4xf32> to vector<2x3x4xf32>",
                   a="vector<1x4xf32>")  # fmt: skip
    np.testing.assert_array_equal(rows(row[None]), np.broadcast_to(row, (2, 3, 4)))


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_])
def test_arrays_are_repeated_wherever_their_elements_lie(dtype):
    row = np.arange(1, 5).astype(dtype)
    for array in (
        row,
        row[None],
        row[::2],
        np.broadcast_to(row[:1], 4),
        np.broadcast_to(dtype(1), (3, 4)),
        np.broadcast_to(row[:1], (3, 1)),
        np.broadcast_to(row, (3, 4)),
        np.broadcast_to(row[:3, None], (3, 4)),
        X.astype(dtype)[0].T.copy().T,
        np.broadcast_to(dtype(1), (0, 4)),
        np.broadcast_to(np.ones((3, 1), dtype), (3, 4)),
        np.broadcast_to(np.arange(6).astype(dtype).reshape(3, 2).T[:, None], (2, 4, 3)),
    ):
        for shape in ((2, *array.shape), tuple([5 if n == 1 else n for n in array.shape])):
            found = stretch(array.shape, shape)(array)
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, np.broadcast_to(array, shape))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"vector.shape_cast %a : {V} to vector<6x4xf32>", X.reshape(6, 4)),
        (f"tpu.reshape %a : {V} -> vector<24x1xf32>", X.reshape(24, 1)),
        (f"vector.transpose %a, [2, 0, 1] : {V} to vector<4x2x3xf32>", X.transpose(2, 0, 1)),
        (f"tpu.transpose %a, [1, 2, 0] : {V} -> vector<3x4x2xf32>", X.transpose(1, 2, 0)),
        (
            f"vector.extract_strided_slice %a {{offsets = [0, 1, 1], sizes = [2, 2, 2], "
            f"strides = [1, 1, 2]}} : {V} to vector<2x2x2xf32>",
            X[:, 1:3, 1:4:2],
        ),
        (f"tpu.repeat %a, 1 x 2 : {V} -> vector<2x6x4xf32>", np.concatenate([X, X], 1)),
        (f"vector.extract %a[1] : vector<3x4xf32> from {V}", X[1]),
    ],
)
def test_moves(meaning, text, expected):
    np.testing.assert_array_equal(meaning("%r = " + text, a=V)(X), expected)


def test_extract_gives_a_scalar_carrier(meaning):
    assert type(meaning(f"%r = vector.extract %a[1, 2, 3] : f32 from {V}", a=V)(X)) is np.float32
    i = meaning("%r = vector.extract %a[0] : i32 from vector<1xi32>", a="vector<1xi32>")
    assert type(i(np.array([7], np.int32))) is int
    b = meaning("%r = vector.extract %a[0] : i1 from vector<1xi1>", a="vector<1xi1>")
    assert b(np.array([True])) is True
    dynamic = meaning(f"%r = vector.extract %a[1, %i, 3] : f32 from {V}", a=V, i="index")
    assert dynamic(X, 2) == X[1, 2, 3]
    for outside in (-1, 3):
        with pytest.raises(ExecutionError, match="is outside a vector of shape"):
            dynamic(X, outside)


def test_insert_leaves_its_operand_alone(meaning):
    text = "%r = vector.insert_strided_slice %a, %b {offsets = [0, 1, 2], strides = [1, 1]} : "
    small = np.ones((2, 2), np.float32)
    result = meaning(text + f"vector<2x2xf32> into {V}", a="vector<2x2xf32>", b=V)(small, X)
    expected = X.copy()
    expected[0, 1:3, 2:4] = 1
    np.testing.assert_array_equal(result, expected)
    assert X[0, 1, 2] == 6
    one = meaning(f"%r = vector.insert %a, %b[1, 0, 0] : f32 into {V}", a="f32", b=V)
    assert one(np.float32(99), X)[1, 0, 0] == 99 and X[1, 0, 0] == 12


def test_concatenate(meaning):
    text = f"%r = tpu.concatenate %a, %b in 1 : {V}, vector<2x1x4xf32> -> vector<2x4x4xf32>"
    extra = np.zeros((2, 1, 4), np.float32)
    result = meaning(text, a=V, b="vector<2x1x4xf32>")(X, extra)
    np.testing.assert_array_equal(result, np.concatenate([X, extra], 1))


def test_vector_bitcast_splits_the_last_dimension(meaning):
    x = np.array([[0x04030201, 0x08070605]], np.int32)
    split = meaning(
        "%r = vector.bitcast %a : vector<1x2xi32> to vector<1x8xi8>", a="vector<1x2xi32>"
    )
    assert split(x).tolist() == [[1, 2, 3, 4, 5, 6, 7, 8]]
    join = meaning("%r = vector.bitcast %a : vector<1x8xi8> to vector<1x4xi16>", a="vector<1x8xi8>")
    assert join(split(x)).tolist() == [[0x0201, 0x0403, 0x0605, 0x0807]]


def test_constants(meaning):
    splat = meaning("%r = arith.constant dense<1.1> : vector<2x3xbf16>")()
    assert (
        splat.dtype == np.float32 and splat.shape == (2, 3) and splat[0, 0] == np.float32(1.1015625)
    )
    ints = meaning("%r = arith.constant dense<[1, -1]> : vector<2xi8>")()
    assert ints.dtype == np.int8 and ints.tolist() == [1, -1]
    assert meaning("%r = arith.constant dense<true> : vector<2xi1>")().dtype == np.bool_
    number = meaning("%r = arith.constant 2.5 : f32")()
    assert type(number) is np.float32 and number == 2.5
    assert meaning("%r = arith.constant true")() is True
    assert meaning("%r = arith.constant -7 : i32")() == -7
    assert np.isneginf(meaning("%r = arith.constant 0xFF800000 : f32")())


def test_identities(meaning):
    assert meaning("%r = tpu.assume_multiple %a, 8 : i32", a="i32")(16) == 16
    assert meaning(f"%r = tpu.assume_layout %a : {V} -> {V}", a=V)(X) is X


@pytest.mark.parametrize(
    ("element", "dtype", "kind"),
    [("i4", np.int8, int), ("i1", np.bool_, bool), ("bf16", np.float32, np.float32)],
)
def test_elements_are_taken_apart_and_put_together(meaning, element, dtype, kind):
    v = f"vector<4x{element}>"
    a, b = (np.array(x, dtype) for x in ([1, 0, 1, 0], [0, 0, 1, 1]))
    text = f"%r = vector.interleave %a, %b : {v} -> vector<8x{element}>"
    both = meaning(text, a=v, b=v)(a, b)
    assert both.dtype == dtype and both.tolist() == np.stack([a, b], 1).reshape(-1).tolist()
    text = f"%r, %s = vector.deinterleave %a : vector<8x{element}> -> {v}"
    for part, whole in zip(meaning(text, a=f"vector<8x{element}>")(both), (a, b), strict=True):
        np.testing.assert_array_equal(part, whole)
    scalars = meaning(f"%r:4 = vector.to_elements %a : {v}", a=v)(a)
    assert [type(x) for x in scalars] == [kind] * 4
    text = f"%r = vector.from_elements %a, %b : vector<2x1x{element}>"
    made = meaning(text, a=element, b=element)(*scalars[:2])
    assert made.dtype == dtype and made.tolist() == [[a[0]], [a[1]]]
    chosen = meaning(f"%r = vector.shuffle %a, %b [6, 0, 3] : {v}, {v}", a=v, b=v)(a, b)
    np.testing.assert_array_equal(chosen, [b[2], a[0], a[3]])


def test_a_shuffle_leaves_rows_undefined(meaning):
    v = "vector<2x4xf32>"
    rows = np.arange(8, dtype=np.float32).reshape(2, 4)
    found = meaning(f"%r = vector.shuffle %a, %a [1, -1, 2] : {v}, {v}", a=v)(rows, rows)
    assert np.isnan(found[1]).all() and rows[1].tolist() == [4, 5, 6, 7]
    np.testing.assert_array_equal(found[[0, 2]], rows[[1, 0]])


def test_masks_of_boxes_and_steps(meaning):
    made = meaning("%r = vector.create_mask %a, %b : vector<3x4xi1>", a="index", b="index")
    for sizes in ((2, 3), (0, 4), (-1, 2), (5, 9)):
        rows, columns = (np.arange(n) < size for n, size in zip((3, 4), sizes, strict=True))
        np.testing.assert_array_equal(made(*sizes), rows[:, None] & columns)
    constant = meaning("%r = vector.constant_mask [2, 1] : vector<3x4xi1>")()
    assert constant.sum() == 2 and constant[:2, 0].all()
    assert meaning("%r = vector.step : vector<5xindex>")().tolist() == [0, 1, 2, 3, 4]
