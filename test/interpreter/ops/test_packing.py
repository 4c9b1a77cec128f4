import ml_dtypes
import numpy as np
import pytest

SEED = np.random.default_rng(0)
FORMATS = ("compressed", "interleaved")
BITS = {"i4": 4, "i8": 8, "i16": 16, "bf16": 16, "f8E5M2": 8, "f32": 32, "i32": 32}
DTYPES = {"i4": np.int8, "i8": np.int8, "i16": np.int16, "i32": np.int32}


def register(element, lead=()):
    p = 32 // BITS[element]
    shape = (*lead, 8, 128) + ((p,) if p > 1 else ())
    return "vector<" + "x".join(map(str, shape)) + f"x{element}>", shape


def random_values(element, shape):
    if element in DTYPES:
        half = 1 << (BITS[element] - 1)
        return SEED.integers(-half, half, shape).astype(DTYPES[element])
    storage = {"bf16": ml_dtypes.bfloat16, "f8E5M2": ml_dtypes.float8_e5m2}.get(element)
    x = SEED.standard_normal(shape).astype(np.float32)
    return x if storage is None else x.astype(storage).astype(np.float32)


PAIRS = [("bf16", "f32"), ("i16", "i32"), ("i8", "i32"), ("i8", "i16"), ("i4", "i8"), ("i4", "i32"),
         ("f8E5M2", "bf16"), ("f8E5M2", "f32")]  # fmt: skip


@pytest.mark.parametrize("pack_format", FORMATS)
@pytest.mark.parametrize(("narrow", "wide"), PAIRS)
@pytest.mark.parametrize("lead", [(), (3,)])
def test_pack_inverts_unpack(meaning, narrow, wide, pack_format, lead):
    (n, shape), (w, _) = register(narrow, lead), register(wide, lead)
    x = random_values(narrow, shape)
    parts = BITS[wide] // BITS[narrow]
    form = f"pack_format = #tpu.pack_format<{pack_format}>"
    sources = [
        meaning(f"%r = tpu.unpack_subelements %a, {i} {{{form}}} : {n} -> {w}", a=n)(x)
        for i in range(parts)
    ]
    positions = ", ".join(map(str, reversed(range(parts))))
    names = ", ".join(f"%a{i}" for i in range(parts))
    text = f"%r = tpu.pack_subelements {names} {{{form}, positions = array<i32: {positions}>}}"
    types = {f"a{i}": w for i in range(parts)}
    pack = meaning(f"{text} : {', '.join(types.values())} -> {n}", **types)
    np.testing.assert_array_equal(pack(*reversed(sources)), x)


def test_interleaved_unpack_takes_every_other_element(meaning):
    x = random_values("i8", (8, 128, 4))
    text = "%r = tpu.unpack_subelements %a, 1 {pack_format = #tpu.pack_format<interleaved>}"
    result = meaning(f"{text} : vector<8x128x4xi8> -> vector<8x128x2xi16>", a="vector<8x128x4xi8>")
    np.testing.assert_array_equal(result(x), x[..., 1::2])


def test_compressed_unpack_takes_a_run_of_rows(meaning):
    x = random_values("bf16", (8, 128, 2))
    text = "%r = tpu.unpack_subelements %a, 1 {pack_format = #tpu.pack_format<compressed>}"
    result = meaning(
        f"{text} : vector<8x128x2xbf16> -> vector<8x128xf32>", a="vector<8x128x2xbf16>"
    )(x)
    for s in range(8):
        np.testing.assert_array_equal(result[s], x[4 + s // 2, :, s % 2])


def test_unsigned_unpack_extends_with_zeros(meaning):
    x = np.full((8, 128, 4), -1, np.int8)
    form = "pack_format = #tpu.pack_format<compressed>, unsigned_integers = true"
    text = f"%r = tpu.unpack_subelements %a, 0 {{{form}}} : vector<8x128x4xi8> -> vector<8x128xi32>"
    assert (meaning(text, a="vector<8x128x4xi8>")(x) == 255).all()


@pytest.mark.parametrize("poison", [0, 1])
def test_missing_positions_are_poison(meaning, poison):
    x = random_values("f32", (8, 128))
    form = "pack_format = #tpu.pack_format<interleaved>, positions = array<i32: 1>"
    text = f"%r = tpu.pack_subelements %a {{{form}}} : vector<8x128xf32> -> vector<8x128x2xbf16>"
    result = meaning(text, poison, a="vector<8x128xf32>")(x)
    rounded = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(result[..., 1], rounded)
    assert np.isnan(result[..., 0]).all() if poison == 0 else (result[..., 0] < -1e13).all()


def test_pack_elementwise(meaning):
    v, w = "vector<8x128xf32>", "vector<8x128xi32>"
    a, b = random_values("f32", (8, 128)), random_values("f32", (8, 128))
    pack = meaning(
        f"%r = tpu.pack_elementwise %a, %b {{target_type = bf16}} : {v}, {v} -> {w}", a=v, b=v
    )
    words = pack(a, b)
    assert words.dtype == np.int32
    low, high = (x.astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.uint32) for x in (a, b))
    np.testing.assert_array_equal(words.view(np.uint32), low | high << 16)
    for index, x in enumerate((a, b)):
        text = f"%r = tpu.unpack_elementwise %a, {index} {{source_type = bf16}} : {w} -> {v}"
        result = meaning(text, a=w)(words)
        np.testing.assert_array_equal(result, x.astype(ml_dtypes.bfloat16).astype(np.float32))


def test_pack_elementwise_truncates_integers_and_unpack_extends(meaning):
    w = "vector<8x128xi32>"
    parts = [SEED.integers(-200, 200, (8, 128), dtype=np.int32) for _ in range(4)]
    names = {f"a{k}": w for k in range(4)}
    text = "%r = tpu.pack_elementwise %a0, %a1, %a2, %a3 {target_type = i8}"
    words = meaning(f"{text} : {w}, {w}, {w}, {w} -> {w}", **names)(*parts)
    for index, part in enumerate(parts):
        text = f"%r = tpu.unpack_elementwise %a, {index} {{source_type = i8}} : {w} -> {w}"
        np.testing.assert_array_equal(
            meaning(text, a=w)(words), part.astype(np.int8).astype(np.int32)
        )


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("f32", "i32"),
        ("bf16", "i16"),
        ("i16", "i32"),
        ("i32", "i8"),
        ("bf16", "f32"),
        ("i4", "i16"),
    ],
)
def test_bitcast_vreg_keeps_the_words(meaning, source, result):
    (a, shape), (b, other) = register(source, (2,)), register(result, (2,))
    x = random_values(source, shape)
    there = meaning(f"%r = tpu.bitcast_vreg %a : {a} -> {b}", a=a)(x)
    assert there.shape == other
    back = meaning(f"%r = tpu.bitcast_vreg %a : {b} -> {a}", a=b)(there)
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("lead", [(), (3,), (3, 2)])
@pytest.mark.parametrize("narrow", ["bf16", "f8E5M2"])
def test_columns_are_rounded_once(meaning, narrow, lead):
    (n, shape), (w, wide) = register(narrow, lead), register("f32", lead)
    parts = 32 // BITS[narrow]
    names = ", ".join(f"%a{i}" for i in range(parts))
    form = "pack_format = #tpu.pack_format<compressed>"
    positions = ", ".join(map(str, range(parts)))
    text = f"%r = tpu.pack_subelements {names} {{{form}, positions = array<i32: {positions}>}}"
    types = {f"a{i}": w for i in range(parts)}
    pack = meaning(f"{text} : {', '.join(types.values())} -> {n}", **types)
    columns = [random_values("f32", (*wide[:-1], 1)) for _ in range(parts)]
    columns[0][..., 0, 0], columns[1][..., 1, 0] = np.nan, -np.inf
    found = pack(*(np.broadcast_to(x, wide) for x in columns))
    whole = pack(*(np.broadcast_to(x, wide).copy() for x in columns))
    assert found.shape == shape and found.strides[-2] == 0
    np.testing.assert_array_equal(np.array(found).view(np.uint32), np.array(whole).view(np.uint32))
